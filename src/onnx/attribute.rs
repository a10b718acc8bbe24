//! `AttributeProto` to [`Attribute`].

use prost::Message;

use super::body::{Body, Reader};
use super::proto::{AttributeProto, NodeProto, attribute_proto::AttributeType};
use super::scope::Scope;
use crate::error::{Error, Result, invalid};
use crate::graph::{Attribute, AttributeMap};

impl Reader<'_> {
    /// Reads the attributes of a node. A reference to an argument that the function's call omits is dropped.
    pub(super) fn read_attributes<'n>(
        &mut self,
        node: &'n NodeProto,
        body: &mut Body,
        scope: &Scope<'n, '_>,
    ) -> Result<AttributeMap> {
        let mut attributes = AttributeMap::with_capacity(node.attribute.len());
        for proto in &node.attribute {
            let name = proto.name.as_deref().unwrap_or_default();
            let here = |e: Error| match has_bodies(proto) {
                true => e.in_graph(body_name(node, name)),
                false => e.at_part(format!("attribute {name}")),
            };
            let Some(attribute) = self.read_attribute(proto, body, scope).map_err(here)? else { continue };
            self.take(size_of(&attribute))?;
            if attributes.insert(self.words.get(name), attribute).is_some() {
                return Err(here(Error::invalid("it occurs twice")));
            }
        }
        Ok(attributes)
    }

    fn read_attribute<'n>(
        &mut self,
        proto: &'n AttributeProto,
        body: &mut Body,
        scope: &Scope<'n, '_>,
    ) -> Result<Option<Attribute>> {
        if let Some(argument) = proto.ref_attr_name.as_deref().filter(|name| !name.is_empty()) {
            let Some(arguments) = &scope.frame.arguments else {
                invalid!("it refers to an attribute of a function, outside of a function");
            };
            return Ok(arguments.get(argument).cloned());
        }
        let attribute = match kind_of(proto)? {
            AttributeType::Graph => match &proto.g {
                Some(graph) => Attribute::Graph(Box::new(self.read_body(graph, body, scope)?)),
                None => invalid!("the graph is missing"),
            },
            AttributeType::Graphs => {
                let graphs: Result<_> =
                    proto.graphs.iter().map(|graph| self.read_body(graph, body, scope)).collect();
                Attribute::Graphs(graphs?)
            }
            kind => self.read_plain(proto, kind)?,
        };
        Ok(Some(attribute))
    }

    /// Reads an attribute that is not a graph, such as a default of a function.
    pub(super) fn read_default(&mut self, proto: &AttributeProto) -> Result<Attribute> {
        let kind = kind_of(proto)?;
        self.read_plain(proto, kind)
    }

    fn read_plain(&mut self, proto: &AttributeProto, kind: AttributeType) -> Result<Attribute> {
        let other = |name| Attribute::Other(name, proto.encode_to_vec().into());
        // A missing field is zero or empty: writers with proto3 rules omit those.
        Ok(match kind {
            AttributeType::Float => Attribute::Float(proto.f.unwrap_or(0.0)),
            AttributeType::Int => Attribute::Int(proto.i.unwrap_or(0)),
            AttributeType::String => Attribute::String(proto.s.clone().unwrap_or_default()),
            AttributeType::Floats => Attribute::Floats(proto.floats.clone()),
            AttributeType::Ints => Attribute::Ints(proto.ints.clone()),
            AttributeType::Strings => Attribute::Strings(proto.strings.clone()),
            AttributeType::Tensor => match &proto.t {
                Some(tensor) => Attribute::Tensor(self.tensors.read(tensor)?),
                None => invalid!("the tensor is missing"),
            },
            AttributeType::Tensors => {
                Attribute::Tensors(proto.tensors.iter().map(|t| self.tensors.read(t)).collect::<Result<_>>()?)
            }
            AttributeType::SparseTensor => match &proto.sparse_tensor {
                Some(sparse) => Attribute::Tensor(self.tensors.read_sparse(sparse)?),
                None => invalid!("the tensor is missing"),
            },
            AttributeType::SparseTensors => other("SPARSE_TENSORS"),
            AttributeType::TypeProto => other("TYPE_PROTO"),
            AttributeType::TypeProtos => other("TYPE_PROTOS"),
            AttributeType::Graph | AttributeType::Graphs => other("a default of a function is a graph"),
            AttributeType::Undefined => invalid!("its type is missing"),
        })
    }
}

/// Returns whether an attribute is a graph or a list of graphs.
pub(super) fn has_bodies(proto: &AttributeProto) -> bool {
    proto.g.is_some() || !proto.graphs.is_empty()
}

/// Returns the name of a body in messages: its node, if that has a name, and the attribute.
fn body_name(node: &NodeProto, attribute: &str) -> String {
    let name = node.name.as_deref().filter(|name| !name.is_empty());
    let node = name.or(node.op_type.as_deref()).unwrap_or_default();
    format!("{node}.{attribute}")
}

/// Returns the kind of an attribute. The oldest models do not state it: it follows from the field that is
/// set.
fn kind_of(proto: &AttributeProto) -> Result<AttributeType> {
    let code = proto.r#type.unwrap_or(0);
    let Ok(kind) = AttributeType::try_from(code) else { invalid!("unknown attribute type {code}") };
    if kind != AttributeType::Undefined {
        return Ok(kind);
    }
    let fields = [
        (AttributeType::Float, proto.f.is_some()),
        (AttributeType::Int, proto.i.is_some()),
        (AttributeType::String, proto.s.is_some()),
        (AttributeType::Tensor, proto.t.is_some()),
        (AttributeType::Graph, proto.g.is_some()),
        (AttributeType::SparseTensor, proto.sparse_tensor.is_some()),
        (AttributeType::TypeProto, proto.tp.is_some()),
        (AttributeType::Floats, !proto.floats.is_empty()),
        (AttributeType::Ints, !proto.ints.is_empty()),
        (AttributeType::Strings, !proto.strings.is_empty()),
        (AttributeType::Tensors, !proto.tensors.is_empty()),
        (AttributeType::Graphs, !proto.graphs.is_empty()),
        (AttributeType::SparseTensors, !proto.sparse_tensors.is_empty()),
        (AttributeType::TypeProtos, !proto.type_protos.is_empty()),
    ];
    let mut present = fields.into_iter().filter(|(_, present)| *present);
    match (present.next(), present.next()) {
        (Some((kind, _)), None) => Ok(kind),
        _ => invalid!("its type is missing"),
    }
}

/// Returns the cost of an attribute for the budget of inlining; tensors and strings are shared.
fn size_of(attribute: &Attribute) -> usize {
    match attribute {
        Attribute::Floats(list) => list.len(),
        Attribute::Ints(list) => list.len(),
        Attribute::Strings(list) => list.len(),
        Attribute::Tensors(list) => list.len(),
        _ => 1,
    }
}
