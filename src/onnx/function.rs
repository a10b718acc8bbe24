//! Model-local functions: each call is replaced by the function's nodes.

use std::collections::BTreeMap;

use smallvec::smallvec;

use super::body::{Body, Met, Reader, at_node};
use super::opset::{domain_of, read_opsets};
use super::proto::{FunctionProto, NodeProto};
use super::scope::{Frame, Scope, Slot};
use crate::common::limits;
use crate::error::{Error, Result, invalid, unsupported};
use crate::graph::{AttributeMap, CustomLayers, Node, Value, ValueId};

/// Domain, name and overload.
type Key<'m> = (&'m str, &'m str, &'m str);

/// The functions of a model.
pub(super) struct Functions<'m>(BTreeMap<Key<'m>, &'m FunctionProto>);

impl<'m> Functions<'m> {
    /// Lists the functions, without those that layers of the user compute.
    pub fn new(protos: &'m [FunctionProto], layers: &CustomLayers) -> Result<Functions<'m>> {
        let mut functions = BTreeMap::new();
        let name = |function: &FunctionProto| function.name.clone().unwrap_or_default();
        let is_kept =
            |function: &&FunctionProto| layers.find(domain_of(&function.domain), &name(function)).is_some();
        for function in protos.iter().filter(|function| !is_kept(function)) {
            let key = key(&function.domain, &function.name, &function.overload);
            if functions.insert(key, function).is_some() {
                invalid!("the function {}.{} is defined twice", key.0, key.1);
            }
        }
        Ok(Functions(functions))
    }

    /// Returns the function that a node calls. A function of ONNX's domain only describes an operator,
    /// and is not used.
    pub fn find(&self, node: &NodeProto) -> Option<&'m FunctionProto> {
        if domain_of(&node.domain).is_empty() {
            return None;
        }
        self.0.get(&key(&node.domain, &node.op_type, &node.overload)).copied()
    }
}

fn key<'a>(domain: &'a Option<String>, name: &'a Option<String>, overload: &'a Option<String>) -> Key<'a> {
    (domain_of(domain), name.as_deref().unwrap_or_default(), overload.as_deref().unwrap_or_default())
}

/// The remaining budget of inlining.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Budget(limits::INLINING)
    }
}

impl Budget {
    fn take(&mut self, cost: usize) -> Result<()> {
        let left = self.0.checked_sub(cost);
        self.0 = left.ok_or_else(|| Error::limit("the inlined functions of the model are too large"))?;
        Ok(())
    }
}

impl<'m> Reader<'m> {
    /// Takes from the budget while a function is being inlined; other reading is free.
    pub(super) fn take(&mut self, cost: usize) -> Result<()> {
        if self.calls.is_empty() { Ok(()) } else { self.budget.take(cost) }
    }

    /// Adds the nodes of a function instead of its call.
    pub(super) fn inline(&mut self, function: &'m FunctionProto, call: Node, body: &mut Body) -> Result<()> {
        let name = function.name.as_deref().unwrap_or_default();
        if self.calls.iter().any(|open| std::ptr::eq(*open, function)) {
            invalid!("the function {name} calls itself");
        }
        self.calls.push(function);
        self.tensors.again = true;
        let done = self.inline_body(function, &call, body);
        self.calls.pop();
        self.tensors.again = !self.calls.is_empty();
        done.map_err(|e| e.in_graph(format!("function {name}")))
    }

    fn inline_body(&mut self, function: &'m FunctionProto, call: &Node, body: &mut Body) -> Result<()> {
        if call.inputs.len() > function.input.len() || call.outputs.len() > function.output.len() {
            invalid!(
                "the call has {} inputs and {} outputs, the function {} and {}",
                call.inputs.len(),
                call.outputs.len(),
                function.input.len(),
                function.output.len()
            );
        }
        let mut frame = Frame::new(read_opsets(&function.opset_import)?);
        frame.arguments = Some(self.read_arguments(function, call)?);
        frame.prefix = self.call_name(call);
        let mut scope = Scope::new(&frame, None);
        for (i, name) in function.input.iter().enumerate() {
            let argument = call.inputs.get(i).copied().flatten();
            scope.define(name.as_bytes(), argument.map_or(Slot::Omitted, Slot::Value))?;
        }
        let (met, copies) = define_values(function, call, body, &mut scope, &mut self.budget)?;
        let mut met = met.into_iter();
        for node in &function.node {
            self.read_node(node, call.index, body, &scope, &mut met)
                .map_err(|e| at_node(e, node, call.index, &scope))?;
        }
        for (name, output) in copies {
            let Some(Slot::Value(input)) = scope.local(name) else {
                invalid!("the output \"{name}\" of the function is not computed");
            };
            body.graph.add_node(Node {
                name: frame.full_name(name),
                index: call.index,
                op_type: "Identity".into(),
                version: frame.version("").unwrap_or(1),
                inputs: smallvec![Some(input)],
                outputs: smallvec![Some(output)],
                ..Node::default()
            });
        }
        Ok(())
    }

    /// Returns the attributes of a call, and the function's defaults for omitted ones.
    fn read_arguments(&mut self, function: &'m FunctionProto, call: &Node) -> Result<AttributeMap> {
        let mut arguments = call.attributes.clone();
        for proto in &function.attribute_proto {
            let name = proto.name.as_deref().unwrap_or_default();
            if !arguments.contains_key(name) {
                let default = self.read_default(proto).map_err(|e| e.at_part(format!("attribute {name}")))?;
                arguments.insert(name.into(), default);
            }
        }
        if let Some((name, _)) = arguments.iter().find(|(_, attribute)| !attribute.graphs().is_empty()) {
            unsupported!("the argument {name} of a function is a graph");
        }
        Ok(arguments)
    }

    /// Returns a name for the nodes of a call: the name of the call, or of the function with a number.
    fn call_name(&mut self, call: &Node) -> String {
        self.inlined += 1;
        if call.name.is_empty() { format!("{}_{}", call.op_type, self.inlined) } else { call.name.clone() }
    }
}

/// Defines the results of the nodes of a function: outputs of the call, or new values. Returns the outputs
/// that no node computes under a separate name (an input of the function, or an output that is listed twice):
/// they are copied.
fn define_values<'m>(
    function: &'m FunctionProto,
    call: &Node,
    body: &mut Body,
    scope: &mut Scope<'m, '_>,
    budget: &mut Budget,
) -> Result<(Met, Vec<(&'m str, ValueId)>)> {
    let mut computed: BTreeMap<&str, ValueId> = BTreeMap::new();
    let (mut met, mut copies) = (Met::new(), Vec::new());
    for (name, output) in function.output.iter().zip(&call.outputs) {
        let Some(output) = output else { continue };
        if scope.local(name).is_some() || computed.contains_key(name.as_str()) {
            copies.push((name.as_str(), *output));
        } else {
            computed.insert(name, *output);
        }
    }
    for node in &function.node {
        met.extend(node.input.iter().map(|name| scope.local_value(name)));
        for name in &node.output {
            if name.is_empty() {
                met.push(None);
                continue;
            }
            let id = match computed.remove(name.as_str()) {
                Some(output) => output,
                None => {
                    let name = scope.frame.full_name(name);
                    budget.take(1 + name.len() / 64)?;
                    body.graph.add_value(Value { name, ..Value::default() })
                }
            };
            scope
                .define(name.as_bytes(), Slot::Value(id))
                .map_err(|e| at_node(e, node, call.index, scope))?;
            met.push(Some(id));
        }
    }
    match computed.keys().next() {
        Some(name) => invalid!("the output \"{name}\" of the function is not computed"),
        None => Ok((met, copies)),
    }
}
