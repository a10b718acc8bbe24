//! Interned names: domains, operators, attributes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::common::index::RawIndex;

/// The name of a domain, an operator or an attribute. Clones share one allocation, which keeps the names of
/// many nodes in the cache. The empty name, that of most domains, has no allocation.
#[derive(Clone, Default)]
pub struct Symbol(Option<Arc<Name>>);

struct Name {
    text: Box<str>,
    /// The index in the table of operators, once it has been looked up.
    index: OnceLock<Option<RawIndex>>,
}

/// The symbols of a model that is being read.
#[derive(Debug, Default)]
pub(crate) struct Symbols(BTreeSet<Symbol>);

impl Symbols {
    /// Returns the symbol of `text`, shared with earlier ones of the same text.
    pub fn get(&mut self, text: &str) -> Symbol {
        if text.is_empty() {
            return Symbol::default();
        }
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let symbol = Symbol::from(text);
        self.0.insert(symbol.clone());
        symbol
    }
}

impl Deref for Symbol {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Symbol {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Symbol {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", |name| &name.text)
    }
}

impl Symbol {
    /// Returns the index of the name in a table of names. The first call for a name searches the table with
    /// `find`; passes look up all nodes, and a search for each would take a tenth of the time of a large
    /// graph. The program must have only one such table.
    pub(crate) fn index_in(&self, find: impl FnOnce(&str) -> Option<usize>) -> Option<usize> {
        let name = self.0.as_ref()?;
        name.index.get_or_init(|| find(&name.text).map(RawIndex::of)).map(RawIndex::get)
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Symbol {
        Symbol((!text.is_empty()).then(|| Arc::new(Name { text: text.into(), index: OnceLock::new() })))
    }
}

impl From<String> for Symbol {
    fn from(text: String) -> Symbol {
        Symbol::from(text.as_str())
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<Symbol> for &str {
    fn eq(&self, other: &Symbol) -> bool {
        *self == other.as_str()
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Symbol {
    fn eq(&self, other: &Symbol) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.text == other.text,
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Symbol {}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Symbol) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Symbol) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
