//! Name resolution: in a graph, in the enclosing graphs, in the body of a function.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::common::index::Interner;
use crate::common::limits;
use crate::error::{Error, Result, invalid};
use crate::graph::{AttributeMap, ValueId};

/// The context of all nodes of a model or of a function's body.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The imported version of ONNX's operator set.
    onnx_version: Option<i64>,
    /// The versions of other domains.
    other_versions: BTreeMap<String, i64>,
    /// In a function: the attributes of its call, and its defaults.
    pub arguments: Option<AttributeMap>,
    /// The prefix of the names of nodes and values; empty in the model itself.
    pub prefix: String,
}

impl Frame {
    /// Creates a frame with these operator sets.
    pub fn new(mut versions: BTreeMap<String, i64>) -> Frame {
        let onnx_version = versions.remove("");
        Frame { onnx_version, other_versions: versions, ..Frame::default() }
    }

    /// Returns the imported version of a domain's operator set.
    pub fn version(&self, domain: &str) -> Option<i64> {
        if domain.is_empty() { self.onnx_version } else { self.other_versions.get(domain).copied() }
    }

    /// Returns the name in the inlined graph.
    pub fn full_name(&self, name: &str) -> String {
        if self.prefix.is_empty() || name.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.prefix)
        }
    }
}

/// Refuses an excessively long name.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > limits::NAME_BYTES {
        return Err(Error::limit(format!("a name has {} bytes", name.len())));
    }
    Ok(())
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A value.
    Value(ValueId),
    /// An input of a function that its call omits.
    Omitted,
}

/// The names of one graph or function.
#[derive(Debug)]
pub(super) struct Scope<'m, 's> {
    pub frame: &'s Frame,
    /// The names, as bytes of the file.
    names: Interner<&'m [u8]>,
    /// The meaning of each name.
    slots: Vec<Slot>,
    /// The index of the last name found, other than by definition.
    found: Cell<usize>,
    /// The names of the enclosing graph; `None` in the main graph, and in a function, which sees only its
    /// inputs.
    around: Option<&'s Scope<'m, 's>>,
}

impl<'m, 's> Scope<'m, 's> {
    pub fn new(frame: &'s Frame, around: Option<&'s Scope<'m, 's>>) -> Self {
        Scope { frame, names: Interner::default(), slots: Vec::new(), found: Cell::new(0), around }
    }

    /// Reserves room for names.
    pub fn expect(&mut self, names: usize) {
        self.names.reserve(names);
        self.slots.reserve(names);
    }

    /// Defines a name, once.
    pub fn define(&mut self, name: &'m [u8], slot: Slot) -> Result<()> {
        if name.is_empty() {
            invalid!("a value has no name");
        }
        check_name(name)?;
        if self.names.add(name).is_err() {
            invalid!("\"{}\" is defined twice", String::from_utf8_lossy(name));
        }
        self.slots.push(slot);
        Ok(())
    }

    /// Returns the meaning of a name that is defined here.
    pub fn local(&self, name: &str) -> Option<Slot> {
        let name = name.as_bytes();
        // Models list definitions in the order of use: most lookups find the last definition, or the
        // successor of the last one found.
        let is_here = |number: usize| self.names.get(number) == Some(&name);
        let (newest, next) = (self.slots.len().wrapping_sub(1), self.found.get() + 1);
        if is_here(newest) {
            return self.slots.last().copied();
        }
        let number = if is_here(next) { next } else { self.names.find(&name)? };
        self.found.set(number);
        self.slots.get(number).copied()
    }

    /// Returns the value of a name that is defined here.
    pub fn local_value(&self, name: &str) -> Option<ValueId> {
        match self.local(name) {
            Some(Slot::Value(id)) => Some(id),
            Some(Slot::Omitted) | None => None,
        }
    }

    /// Returns the meaning of a name in the enclosing graphs, the nearest first. The value belongs to that
    /// graph.
    pub fn of_around(&self, name: &str) -> Option<Slot> {
        let mut scope = self.around;
        while let Some(outer) = scope {
            match outer.local(name) {
                None => scope = outer.around,
                found => return found,
            }
        }
        None
    }
}
