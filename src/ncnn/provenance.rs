//! The provenance of layers.

use crate::common::index::{RawIndex, SmallList};

/// The indices of the nodes whose work a layer does, sorted.
#[derive(Clone, Debug, Default)]
pub struct Provenance(SmallList<RawIndex>);

impl Provenance {
    /// Returns every index once.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|index| index.get())
    }

    /// Adds an index.
    pub(crate) fn insert(&mut self, index: usize) {
        let index = RawIndex::of(index);
        if let Err(position) = self.0.binary_search(&index) {
            self.0.insert(position, index);
        }
    }
}

impl Extend<usize> for Provenance {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, indices: I) {
        indices.into_iter().for_each(|index| self.insert(index));
    }
}

impl FromIterator<usize> for Provenance {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Provenance {
        let mut provenance = Provenance::default();
        provenance.extend(indices);
        provenance
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn indices_are_unique() {
        let provenance: Provenance = [7, 3, 7, 0, 3].into_iter().collect();
        assert_eq!(provenance.iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 3, 7]));
        assert_eq!(provenance.iter().count(), 3);
        assert_eq!(Provenance::default().iter().count(), 0);
    }
}
