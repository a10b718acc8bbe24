//! Names that live as long as the process.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The names so far. There are as many as the user declares types of layers.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Returns a name that lives as long as the process; the same one for equal texts.
pub(crate) fn intern(name: &str) -> &'static str {
    // A lock is poisoned only by a panic of its holder, which leaves the set as it was.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let new: &'static str = Box::leak(name.into());
    names.insert(new);
    new
}
