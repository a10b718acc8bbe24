//! The words that nodes have in common.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::ops::{self, Op};

/// A domain, the name of an operator or of an attribute. Copies share one piece of memory: whoever compares those of many nodes finds
/// them near.
///
/// The one without letters, which most domains are, is nothing: letters that have no address take 86 ns to compare, others 3, where
/// that is done by AVX-512, which loads no bytes from a page that is not there.
#[derive(Clone, Default)]
pub struct Word(Option<Arc<Letters>>);

struct Letters {
    text: Box<str>,
    /// ONNX's own operator of this name. Passes ask for those of all nodes: it is looked up once for all of them.
    op: Option<&'static Op>,
}

/// The words that were met while a model is read.
#[derive(Debug, Default)]
pub(crate) struct Words(BTreeSet<Word>);

impl Words {
    /// A word, shared with all that are the same.
    pub fn get(&mut self, text: &str) -> Word {
        if text.is_empty() {
            return Word::default();
        }
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let word = Word::from(text);
        self.0.insert(word.clone());
        word
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Word {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Word {
    /// Its letters.
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", |letters| &letters.text)
    }

    /// ONNX's own operator of this name.
    pub(crate) fn op(&self) -> Option<&'static Op> {
        self.0.as_ref()?.op
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        let letters = || Arc::new(Letters { text: text.into(), op: ops::own(text) });
        Word((!text.is_empty()).then(letters))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word::from(text.as_str())
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<Word> for &str {
    fn eq(&self, other: &Word) -> bool {
        *self == other.as_str()
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.text == other.text,
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Word {}

impl PartialOrd for Word {
    fn partial_cmp(&self, other: &Word) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Word {
    fn cmp(&self, other: &Word) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Word {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
