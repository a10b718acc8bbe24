//! The words that nodes have in common.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A domain, or the name of an operator. Copies share one piece of memory: whoever compares those of many nodes finds them near.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(Arc<str>);

/// The words that were met while a model is read.
#[derive(Debug, Default)]
pub(crate) struct Words(BTreeSet<Word>);

impl Words {
    /// A word, shared with all that are the same.
    pub fn get(&mut self, text: &str) -> Word {
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
        &self.0
    }
}

impl Borrow<str> for Word {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Word {
    /// Its letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word(text.into())
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word(text.into())
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<Word> for &str {
    fn eq(&self, other: &Word) -> bool {
        **self == *other.0
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}
