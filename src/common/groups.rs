//! Groups of items that are joined in pairs: a union-find structure.

use crate::common::index::{Index, IndexMap};

/// Disjoint groups; an item that was not joined is a separate group.
#[derive(Debug)]
pub(crate) struct Groups<T> {
    /// An earlier item of the same group.
    before: IndexMap<T, T>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups { before: IndexMap::default() }
    }
}

impl<T: Index + Ord> Groups<T> {
    /// Returns the first item of the group.
    pub fn root(&mut self, item: T) -> T {
        let mut at = item;
        // Path halving.
        while let Some(next) = self.before.get(at).copied() {
            let beyond = self.before.get(next).copied().unwrap_or(next);
            self.before.insert(at, beyond);
            at = beyond;
        }
        at
    }

    /// Joins the groups of two items.
    pub fn join(&mut self, a: T, b: T) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.before.insert(a.max(b), a.min(b));
        }
    }
}
