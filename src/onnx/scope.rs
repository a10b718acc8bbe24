//! Which value a name means: in a graph, in the graphs around it, in the body of a function.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::common::index::Interner;
use crate::common::limits;
use crate::error::{Error, Result, invalid};
use crate::graph::{AttributeMap, ValueId};

/// What is the same for all nodes of a model or of a function's body.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The version of ONNX's own operator set, where it is imported.
    own_version: Option<i64>,
    /// Versions of the others, by domain.
    other_versions: BTreeMap<String, i64>,
    /// In a function: the attributes of its call and its defaults.
    pub arguments: Option<AttributeMap>,
    /// Goes before the names of nodes and values; empty in the model itself.
    pub prefix: String,
}

impl Frame {
    /// One where these operator sets are imported.
    pub fn new(mut versions: BTreeMap<String, i64>) -> Frame {
        let own_version = versions.remove("");
        Frame { own_version, other_versions: versions, ..Frame::default() }
    }

    /// The version of a domain's operator set that is imported.
    pub fn version(&self, domain: &str) -> Option<i64> {
        if domain.is_empty() { self.own_version } else { self.other_versions.get(domain).copied() }
    }

    /// A name of this frame, as the inlined graph has it.
    pub fn full_name(&self, name: &str) -> String {
        if self.prefix.is_empty() || name.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.prefix)
        }
    }
}

/// Refuses a name that is longer than any.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > limits::NAME_BYTES {
        return Err(Error::limit(format!("a name of {} bytes", name.len())));
    }
    Ok(())
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A value.
    Value(ValueId),
    /// An input of a function that its call leaves out.
    Omitted,
}

/// The names of one graph or function.
#[derive(Debug)]
pub(super) struct Scope<'m, 's> {
    pub frame: &'s Frame,
    /// By their bytes, which may lie in the file.
    names: Interner<&'m [u8]>,
    /// What each of them means.
    slots: Vec<Slot>,
    /// The number of the name that was found last, those that had just been defined not among them.
    found: Cell<usize>,
    /// The names of the graph around; none in the main graph, and none in a function, which sees its inputs only.
    around: Option<&'s Scope<'m, 's>>,
}

impl<'m, 's> Scope<'m, 's> {
    pub fn new(frame: &'s Frame, around: Option<&'s Scope<'m, 's>>) -> Self {
        Scope { frame, names: Interner::default(), slots: Vec::new(), found: Cell::new(0), around }
    }

    /// Makes room for so many names.
    pub fn expect(&mut self, names: usize) {
        self.names.reserve(names);
        self.slots.reserve(names);
    }

    /// Gives a name its one meaning here.
    pub fn define(&mut self, name: &'m [u8], slot: Slot) -> Result<()> {
        if name.is_empty() {
            invalid!("a value without a name");
        }
        check_name(name)?;
        if self.names.add(name).is_err() {
            invalid!("\"{}\" is defined twice", String::from_utf8_lossy(name));
        }
        self.slots.push(slot);
        Ok(())
    }

    /// What a name means that is defined here.
    pub fn own(&self, name: &str) -> Option<Slot> {
        let name = name.as_bytes();
        // Models list what they have in the order of its use: it is what was defined last, or what stands after what was found last.
        let is_here = |number: usize| self.names.get(number) == Some(&name);
        let (newest, next) = (self.slots.len().wrapping_sub(1), self.found.get() + 1);
        if is_here(newest) {
            return self.slots.last().copied();
        }
        let number = if is_here(next) { next } else { self.names.find(&name)? };
        self.found.set(number);
        self.slots.get(number).copied()
    }

    /// The value of a name that is defined here.
    pub fn own_value(&self, name: &str) -> Option<ValueId> {
        match self.own(name) {
            Some(Slot::Value(id)) => Some(id),
            Some(Slot::Omitted) | None => None,
        }
    }

    /// What a name means in the graphs around, the nearest first. The value is one of that graph.
    pub fn of_around(&self, name: &str) -> Option<Slot> {
        let mut scope = self.around;
        while let Some(outer) = scope {
            match outer.own(name) {
                None => scope = outer.around,
                found => return found,
            }
        }
        None
    }
}
