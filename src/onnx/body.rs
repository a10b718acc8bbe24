//! `GraphProto` to [`Graph`]: resolves names to values, in the main graph and in the bodies of control-flow
//! nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use super::attribute::has_bodies;
use super::external::ExternalFiles;
use super::function::{Budget, Functions};
use super::opset::domain_of;
use super::parts::Parts;
use super::proto::{FunctionProto, GraphProto, ModelProto, NodeProto};
use super::scope::{Frame, Scope, Slot, check_name};
use super::tensor::Tensors;
use super::types::{Declared, Types, name_of};
use crate::common::limits;
use crate::error::{Error, NodeAt, Result, invalid};
use crate::graph::custom::{CUSTOM_DOMAIN, CUSTOM_OPERATOR};
use crate::graph::{Capture, CustomLayers, Graph, Ids, Node, Symbols, Value, ValueId};
use crate::tensor::{Dim, SourceBytes};

/// The domain that need not be imported: onnxruntime accepts such models.
const UNIMPORTED: &str = "com.microsoft";

/// The values of nodes, node after node: the inputs, as far as they were defined when the node was read, then
/// the outputs. A second lookup of the names would take longer than reading the node.
pub(super) type Met = Ids;

/// The state that all graphs of one model share during reading.
pub(super) struct Reader<'m> {
    pub tensors: Tensors,
    pub budget: Budget,
    /// The functions that are being inlined, outermost first.
    pub calls: Vec<&'m FunctionProto>,
    /// The number of inlined calls.
    pub inlined: usize,
    types: Types,
    functions: Functions<'m>,
    layers: CustomLayers,
    opsets: &'m BTreeMap<String, i64>,
    pub words: Symbols,
    depth: usize,
}

/// A graph during reading.
#[derive(Default)]
pub(super) struct Body {
    pub graph: Graph,
    /// Constants that are also inputs.
    pub defaulted_inputs: Vec<ValueId>,
    /// Names of the enclosing graphs, and the corresponding values of this graph.
    captured: BTreeMap<String, ValueId>,
}

impl Body {
    /// Returns the value of a name, and captures it if an enclosing graph defines it. `None` if no graph
    /// does.
    fn resolve(&mut self, name: &str, scope: &Scope) -> Option<Slot> {
        if let Some(slot) = scope.local(name) {
            return Some(slot);
        }
        match scope.of_around(name)? {
            Slot::Omitted => Some(Slot::Omitted),
            Slot::Value(_) => Some(Slot::Value(match self.captured.get(name) {
                Some(id) => *id,
                None => {
                    let id = self.graph.add_value(Value { name: name.to_owned(), ..Value::default() });
                    self.captured.insert(name.to_owned(), id);
                    id
                }
            })),
        }
    }

    /// Returns the input of a node with this name.
    fn read_input(&mut self, name: &str, scope: &Scope) -> Result<Option<ValueId>> {
        if name.is_empty() {
            return Ok(None);
        }
        match self.resolve(name, scope) {
            Some(Slot::Value(id)) => Ok(Some(id)),
            Some(Slot::Omitted) => Ok(None),
            None => invalid!("it reads \"{name}\", which is not defined"),
        }
    }
}

impl<'m> Reader<'m> {
    /// Creates a reader of `model`, which was decoded from `source`.
    pub fn new(
        source: &Arc<SourceBytes>,
        external: ExternalFiles,
        model: &'m ModelProto,
        opsets: &'m BTreeMap<String, i64>,
        layers: &CustomLayers,
    ) -> Result<Self> {
        Ok(Reader {
            tensors: Tensors::new(source, external),
            budget: Budget::default(),
            calls: Vec::new(),
            inlined: 0,
            types: Types::default(),
            functions: Functions::new(&model.functions, layers)?,
            layers: layers.clone(),
            opsets,
            words: Symbols::default(),
            depth: 0,
        })
    }

    /// Reads the main graph.
    pub fn read_main(&mut self, parts: &Parts) -> Result<Body> {
        let frame = Frame::new(self.opsets.clone());
        let mut main = self.read_graph(parts, Scope::new(&frame, None))?;
        describe_captures(&mut main.graph)?;
        Ok(main)
    }

    /// Reads the body of a control-flow node in the graph `around`.
    pub(super) fn read_body<'n>(
        &mut self,
        proto: &'n GraphProto,
        around: &mut Body,
        scope: &Scope<'n, '_>,
    ) -> Result<Graph> {
        let infos = proto.input.iter().chain(&proto.output).chain(&proto.value_info);
        self.take(infos.count() + proto.initializer.len() + proto.sparse_initializer.len())?;
        let parts = Parts::of_body(proto);
        let mut body =
            self.nested(|reader| reader.read_graph(&parts, Scope::new(scope.frame, Some(scope))))?;
        for (name, inner) in std::mem::take(&mut body.captured) {
            if let Some(Slot::Value(outer)) = around.resolve(&name, scope) {
                body.graph.captures.push(Capture { outer, inner });
            }
        }
        Ok(body.graph)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= limits::NESTING {
            return Err(Error::limit(format!(
                "bodies and functions are nested deeper than {}",
                limits::NESTING
            )));
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    /// Reads a graph; `scope` has no names yet.
    fn read_graph<'n>(&mut self, parts: &Parts<'n>, mut scope: Scope<'n, '_>) -> Result<Body> {
        let proto = parts.proto;
        let mut body = Body::default();
        body.graph.name = proto.name.clone().unwrap_or_default();
        body.graph.opsets = self.opsets.clone();
        let values = parts.initializers.len() + proto.input.len() + parts.nodes.len();
        scope.expect(values);
        body.graph.expect(values, parts.nodes.len());
        self.read_initializers(parts, &mut body, &mut scope)?;
        self.read_inputs(proto, &mut body, &mut scope)?;
        let mut hints = self.read_hints(proto);
        // From the first node on that may depend on a later one, all names are defined before any node is
        // read.
        let mut later = Vec::new();
        for (index, message) in parts.nodes.with_outputs().enumerate() {
            let (node, outputs) = message?;
            let mut met: Met = node.input.iter().map(|name| scope.local_value(name)).collect();
            let ready = later.is_empty() && self.is_independent(&node, &met);
            for (name, key) in node.output.iter().zip(outputs) {
                let defined = self.define_output(name, key, &mut hints, &mut body, &mut scope);
                met.push(defined.map_err(|e| at_node(e, &node, index, &scope))?);
            }
            if ready {
                self.read_node(&node, index, &mut body, &scope, &mut met.into_iter())
                    .map_err(|e| at_node(e, &node, index, &scope))?;
            } else {
                later.push((index, node, met));
            }
        }
        for (index, node, met) in later {
            self.read_node(&node, index, &mut body, &scope, &mut met.into_iter())
                .map_err(|e| at_node(e, &node, index, &scope))?;
        }
        for info in &proto.output {
            let name = name_of(info);
            match body.resolve(name, &scope) {
                Some(Slot::Value(id)) => body.graph.outputs.push(id),
                _ => invalid!("the graph output \"{name}\" is not computed"),
            }
        }
        body.graph.sort_nodes()?;
        Ok(body)
    }

    fn read_initializers<'n>(
        &mut self,
        parts: &Parts<'n>,
        body: &mut Body,
        scope: &mut Scope<'n, '_>,
    ) -> Result<()> {
        for message in parts.initializers.with_names() {
            let (tensor, key) = message?;
            let name = tensor.name.as_deref().unwrap_or_default();
            let id = body.graph.add_constant(name, self.tensors.read(&tensor)?);
            scope.define(key, Slot::Value(id))?;
        }
        for sparse in &parts.proto.sparse_initializer {
            let name = sparse.values.as_ref().and_then(|v| v.name.as_deref()).unwrap_or_default();
            let id = body.graph.add_constant(name, self.tensors.read_sparse(sparse)?);
            scope.define(name.as_bytes(), Slot::Value(id))?;
        }
        Ok(())
    }

    /// Adds the inputs. Those that are also initializers become constants.
    fn read_inputs<'n>(
        &mut self,
        proto: &'n GraphProto,
        body: &mut Body,
        scope: &mut Scope<'n, '_>,
    ) -> Result<()> {
        let mut seen = BTreeSet::new();
        for info in &proto.input {
            let name = name_of(info);
            let here = |e: Error| e.at_part(format!("input \"{name}\""));
            if !seen.insert(name) {
                return Err(here(Error::invalid("it is listed twice")));
            }
            let Declared { dtype, shape, other } = self.types.read(info).map_err(here)?;
            if let Some(Slot::Value(id)) = scope.local(name) {
                let constant = body.graph.value(id);
                if dtype.is_some_and(|dtype| Some(dtype) != constant.dtype)
                    || shape.is_some_and(|shape| !may_be(&shape, constant.shape.as_deref()))
                {
                    return Err(here(Error::invalid("the type or shape of its initializer differs")));
                }
                body.defaulted_inputs.push(id);
                continue;
            }
            let name_and_type =
                Value { name: name.to_owned(), other_type: other.map(Box::new), ..Value::default() };
            let id = body.graph.add_value(Value { dtype, shape, ..name_and_type });
            scope.define(name.as_bytes(), Slot::Value(id))?;
            body.graph.inputs.push(id);
        }
        Ok(())
    }

    /// Returns the declared types and shapes, which are hints until they are inferred.
    fn read_hints<'n>(&mut self, proto: &'n GraphProto) -> HashMap<&'n str, Declared> {
        let mut hints = HashMap::new();
        for info in proto.output.iter().chain(&proto.value_info) {
            if let Ok(declared) = self.types.read(info) {
                hints.entry(name_of(info)).or_insert(declared);
            }
        }
        hints
    }

    /// Returns whether a node can be read before later ones: it depends on none of them, has no bodies that
    /// may, and calls no function, whose values are numbered after those of the graph.
    fn is_independent(&self, node: &NodeProto, met: &Met) -> bool {
        node.input.iter().zip(met).all(|(name, value)| name.is_empty() || value.is_some())
            && !node.attribute.iter().any(has_bodies)
            && self.functions.find(node).is_none()
    }

    /// Adds the value of an output of a node, and defines its name, whose bytes are `key`. An empty name has
    /// none.
    fn define_output<'n>(
        &mut self,
        name: &str,
        key: &'n [u8],
        hints: &mut HashMap<&'n str, Declared>,
        body: &mut Body,
        scope: &mut Scope<'n, '_>,
    ) -> Result<Option<ValueId>> {
        if name.is_empty() {
            return Ok(None);
        }
        let hint = hints.remove(name);
        let declared = hint.is_some();
        let Declared { dtype, shape, other } = hint.unwrap_or_default();
        let full_name = self.full_name(name, scope)?;
        let name_and_type = Value { name: full_name, other_type: other.map(Box::new), ..Value::default() };
        let id = body.graph.add_value(Value { dtype, shape, declared, ..name_and_type });
        scope.define(key, Slot::Value(id))?;
        Ok(Some(id))
    }

    /// Returns the name in the inlined graph.
    pub(super) fn full_name(&mut self, name: &str, scope: &Scope) -> Result<String> {
        let name = scope.frame.full_name(name);
        check_name(name.as_bytes())?;
        self.take(name.len() / 16)?;
        Ok(name)
    }

    /// Adds a node, or the nodes of the function that it calls. Its outputs are defined in `scope` already,
    /// and come next in `met`.
    pub(super) fn read_node<'n>(
        &mut self,
        proto: &'n NodeProto,
        index: usize,
        body: &mut Body,
        scope: &Scope<'n, '_>,
        met: &mut impl Iterator<Item = Option<ValueId>>,
    ) -> Result<()> {
        self.take(1 + proto.input.len() + proto.output.len() + proto.attribute.len())?;
        let mut known = || met.next().flatten();
        let inputs: Result<Ids> = proto
            .input
            .iter()
            .map(|name| known().map_or_else(|| body.read_input(name, scope), |id| Ok(Some(id))))
            .collect();
        let mut node = Node {
            name: self.full_name(proto.name.as_deref().unwrap_or_default(), scope)?,
            index,
            domain: self.words.get(domain_of(&proto.domain)),
            op_type: self.words.get(proto.op_type.as_deref().unwrap_or_default()),
            version: 1,
            inputs: inputs?,
            outputs: proto.output.iter().map(|_| known()).collect(),
            attributes: self.read_attributes(proto, body, scope)?,
            custom: self.layers.find(domain_of(&proto.domain), proto.op_type.as_deref().unwrap_or_default()),
        };
        if node.custom.is_some() {
            // Nothing else is known of the operator, whatever its name is.
            (node.domain, node.op_type) = (self.words.get(CUSTOM_DOMAIN), self.words.get(CUSTOM_OPERATOR));
            body.graph.add_node(node);
            return Ok(());
        }
        if let Some(function) = self.functions.find(proto) {
            return self.nested(|reader| reader.inline(function, node, body));
        }
        match (scope.frame.version(&node.domain), node.domain.as_str()) {
            (Some(version), _) => node.version = version,
            (None, UNIMPORTED) => {}
            (None, domain) => invalid!("no operator set of the domain \"{domain}\" is imported"),
        }
        body.graph.add_node(node);
        Ok(())
    }
}

/// Returns whether a declared shape may be that of a constant.
fn may_be(declared: &[Dim], constant: Option<&[Dim]>) -> bool {
    let same = |(a, b): (&Dim, &Dim)| a.known().is_none() || a == b;
    constant.is_none_or(|shape| declared.len() == shape.len() && declared.iter().zip(shape).all(same))
}

/// Adds the node to an error.
pub(super) fn at_node(error: Error, proto: &NodeProto, index: usize, scope: &Scope) -> Error {
    error.at_node(|| {
        let domain = domain_of(&proto.domain);
        let op_type = proto.op_type.clone().unwrap_or_default();
        NodeAt {
            name: scope.frame.full_name(proto.name.as_deref().unwrap_or_default()),
            index,
            version: scope.frame.version(domain).unwrap_or(1),
            op_type: if domain.is_empty() { op_type } else { format!("{domain}.{op_type}") },
        }
    })
}

/// Copies the facts of captured values to the bodies.
fn describe_captures(graph: &mut Graph) -> Result<()> {
    let with_bodies = graph.nodes().filter(|(_, node)| node.bodies().next().is_some());
    for id in with_bodies.map(|(id, _)| id).collect::<Vec<_>>() {
        let Some(node) = graph.node_mut(id) else { continue };
        let mut attributes = std::mem::take(&mut node.attributes);
        for body in attributes.iter_mut().flat_map(|(_, attribute)| attribute.graphs_mut()) {
            graph.describe_captures(body)?;
            describe_captures(body)?;
        }
        if let Some(node) = graph.node_mut(id) {
            node.attributes = attributes;
        }
    }
    Ok(())
}
