//! The operators by name.

use std::sync::OnceLock;

use hashbrown::HashMap;

use super::{Access, Call, Op, Schema};
use crate::error::{Error, ErrorCode, Result};
use crate::graph::{Graph, Node};
use crate::tensor::Shape;

/// The newest version of the operator set of ONNX that is supported. Newer models are refused.
pub(crate) const NEWEST_OPSET: i64 = 28;

/// The domain of operators for which ncnn has a layer and ONNX has no operator. Only fusions create them.
pub(crate) const NCNN_DOMAIN: &str = "ncnn";

/// The domain of onnxruntime's additional operators.
pub(crate) const CONTRIB_DOMAIN: &str = "com.microsoft";

/// The operators in the order of their registration, and their indices by name.
#[derive(Default)]
struct Registry {
    ops: Vec<&'static Op>,
    /// The indices of the domain of ONNX, to which most nodes belong.
    onnx: HashMap<&'static str, usize>,
    others: HashMap<(&'static str, &'static str), usize>,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Registers the operators that nodes may call. Only the first call has an effect: the table of operators is
/// constant. It lies above this module so that the graph and its passes do not depend on any operator.
pub(crate) fn register(ops: impl Iterator<Item = &'static Op>) {
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::default();
        for op in ops {
            let index = registry.ops.len();
            let Schema { domain, name, .. } = op.schema;
            if domain.is_empty() {
                registry.onnx.insert(name, index);
            } else {
                registry.others.insert((domain, name), index);
            }
            registry.ops.push(op);
        }
        registry
    });
}

impl Registry {
    fn index(&self, node: &Node) -> Option<usize> {
        if node.domain.is_empty() {
            return node.op_type.index_in(|name| self.onnx.get(name).copied());
        }
        // The keys are `'static`; the borrow of the map shortens them to the lifetime of the lookup.
        let others: &HashMap<(&str, &str), usize> = &self.others;
        others.get(&(node.domain.as_str(), node.op_type.as_str())).copied()
    }
}

/// Returns the index, in the order of registration, of the operator that a node calls.
pub(crate) fn index(node: &Node) -> Option<usize> {
    REGISTRY.get()?.index(node)
}

/// Returns the operator that a node calls, if it is registered.
pub(crate) fn find(node: &Node) -> Option<&'static Op> {
    let registry = REGISTRY.get()?;
    registry.ops.get(registry.index(node)?).copied()
}

/// Returns the elements on which an element of a node's first output depends.
pub(crate) fn access(node: &Node) -> Access {
    find(node).map_or(Access::Any, |op| op.access)
}

/// Returns the operator that a node calls, in a version that is handled.
pub(crate) fn find_handled(node: &Node) -> Result<&'static Op> {
    let name = || node.qualified_op_type();
    let Some(op) = find(node) else {
        return Err(
            Error::unsupported(format!("unknown operator {}", name())).code_is(ErrorCode::UNKNOWN_OPERATOR)
        );
    };
    if node.domain.is_empty() && node.version > NEWEST_OPSET {
        return Err(Error::unsupported(format!(
            "operator set {} is newer than {NEWEST_OPSET}, the newest supported one",
            node.version
        )));
    }
    if op.since_version(node.version).is_none() {
        let message = format!("{} of operator set {} is not supported", name(), node.version);
        return Err(Error::unsupported(message));
    }
    Ok(op)
}

impl<'a> Call<'a> {
    /// Returns the call of `node` and its operator, in a version that is handled.
    pub fn of(graph: &'a Graph, node: &'a Node) -> Option<(&'static Op, Call<'a>)> {
        let op = find_handled(node).ok()?;
        Some((op, Call::new(graph, node, op)))
    }
}

/// Returns the since-version that a node follows in version `opset` of its operator set.
pub(crate) fn since_version(node: &Node, opset: i64) -> Option<i64> {
    find(node)?.since_version(opset)
}

/// Infers the shape of the first output of a node, which need not be in the graph.
pub(crate) fn infer_shape(graph: &Graph, node: &Node) -> Option<Shape> {
    let op = find_handled(node).ok()?;
    (op.infer)(&Call::new(graph, node, op)).ok()?.into_iter().next()?.shape
}
