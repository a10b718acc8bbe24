//! Access to the attributes of a node. The reader records which attributes are read: one that is never read
//! is an error.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Op;
use super::input_count::most_inputs;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node};
use crate::tensor::Tensor;

/// The attributes of one node.
pub(crate) struct Attributes<'a> {
    node: &'a Node,
    op: &'a Op,
    read: RefCell<BTreeSet<usize>>,
}

impl<'a> Attributes<'a> {
    /// Creates a reader of `node`, whose operator is `op`.
    pub fn new(node: &'a Node, op: &'a Op) -> Attributes<'a> {
        Attributes { node, op, read: RefCell::default() }
    }

    /// Returns the largest number of inputs that the operator takes.
    pub fn most_inputs(&self) -> usize {
        most_inputs(self.op, self.node.version)
    }

    /// Returns the operator.
    pub fn op_type(&self) -> &'a str {
        &self.node.op_type
    }

    /// Returns the since-version that the node follows.
    pub fn since(&self) -> i64 {
        self.op.since_version(self.node.version).unwrap_or(self.node.version)
    }

    /// Returns the number of outputs, including omitted ones.
    pub fn output_count(&self) -> usize {
        self.node.outputs.len()
    }

    /// Returns whether output `index` is present and named.
    pub fn has_output(&self, index: usize) -> bool {
        self.node.outputs.get(index).is_some_and(Option::is_some)
    }

    fn get(&self, name: &str) -> Option<&'a Attribute> {
        let index = self.node.attributes.find_index(name).ok()?;
        self.read.borrow_mut().insert(index);
        self.node.attributes.get_indexed(index).map(|(_, attribute)| attribute)
    }

    fn read<T>(
        &self,
        name: &str,
        kind: &str,
        take: impl Fn(&'a Attribute) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(attribute) = self.get(name) else { return Ok(None) };
        take(attribute).map(Some).ok_or_else(|| {
            Error::invalid(format!("found {}, expected {kind}", attribute.kind()))
                .at_part(format!("attribute {name}"))
        })
    }

    /// Returns an integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        self.read(name, "INT", |a| if let Attribute::Int(i) = a { Some(*i) } else { None })
    }

    /// Returns an integer, or a default.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// Returns whether an integer is not zero.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name)?.map_or(default, |i| i != 0))
    }

    /// Returns a float32.
    pub fn float(&self, name: &str) -> Result<Option<f32>> {
        self.read(name, "FLOAT", |a| if let Attribute::Float(f) = a { Some(*f) } else { None })
    }

    /// Returns a float32, or a default.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f32> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// Returns a string.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>> {
        self.read(name, "STRING", |a| {
            if let Attribute::String(s) = a { std::str::from_utf8(s).ok() } else { None }
        })
    }

    /// Returns a string, or a default.
    pub fn string_or(&self, name: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.string(name)?.unwrap_or(default))
    }

    /// Returns a list of integers.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.read(name, "INTS", |a| if let Attribute::Ints(i) = a { Some(i.clone()) } else { None })
    }

    /// Returns a list of float32 values.
    pub fn floats(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.read(name, "FLOATS", |a| if let Attribute::Floats(f) = a { Some(f.clone()) } else { None })
    }

    /// Returns a list of strings.
    pub fn strings(&self, name: &str) -> Result<Option<Vec<&'a str>>> {
        self.read(name, "STRINGS", |a| {
            let Attribute::Strings(list) = a else { return None };
            list.iter().map(|s| std::str::from_utf8(s).ok()).collect()
        })
    }

    /// Returns a tensor.
    pub fn tensor(&self, name: &str) -> Result<Option<&'a Tensor>> {
        self.read(name, "TENSOR", |a| if let Attribute::Tensor(t) = a { Some(t) } else { None })
    }

    /// Returns the body of a control-flow operator.
    pub fn body(&self, name: &str) -> Result<Option<&'a Graph>> {
        self.read(name, "GRAPH", |a| if let Attribute::Graph(g) = a { Some(g.as_ref()) } else { None })
    }

    /// Refuses attributes that were not read.
    pub fn check_all_read(&self) -> Result<()> {
        let read = self.read.borrow();
        for (index, name) in self.node.attributes.keys().enumerate() {
            if !read.contains(&index) && !self.op.ignored.contains(&name.as_str()) {
                let message = format!("{}-{} has no such attribute", self.node.op_type, self.since());
                return Err(Error::unsupported(message).at_part(format!("attribute {name}")));
            }
        }
        Ok(())
    }
}

/// Returns an attribute that must be present.
pub(crate) fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value
        .ok_or_else(|| Error::invalid("a required attribute is missing").at_part(format!("attribute {name}")))
}
