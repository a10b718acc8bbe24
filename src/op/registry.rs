//! The operators by name.

use std::sync::OnceLock;

use hashbrown::HashMap;

use super::{Access, Call, Op};
use crate::error::{Error, Result};
use crate::graph::{Graph, Node};
use crate::tensor::Shape;

/// The newest version of ONNX's own operator set that the operators were read against. Newer models are refused.
pub(crate) const NEWEST_OPSET: i64 = 28;

/// The domain of operators that ncnn has a layer for and ONNX has not. Fusions alone make them.
pub(crate) const OWN_DOMAIN: &str = "ncnn";

/// The domain of operators that onnxruntime has beside ONNX's own.
pub(crate) const CONTRIB_DOMAIN: &str = "com.microsoft";

/// The advice for operators that cannot be expressed in ncnn.
pub(crate) const CUT: &str = "cut the graph before it with --outputs";

/// The operators in the order of their registration, and their indices by name.
#[derive(Default)]
struct Registry {
    ops: Vec<&'static Op>,
    /// Those of ONNX's own domain, to which most nodes belong.
    own: HashMap<&'static str, usize>,
    others: HashMap<(&'static str, &'static str), usize>,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Registers the operators that nodes may call. Only the first call has an effect: the table of operators is fixed, and lies above this
/// module so that the graph and its passes do not depend on any operator.
pub(crate) fn register(ops: impl Iterator<Item = &'static Op>) {
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::default();
        for op in ops {
            let index = registry.ops.len();
            if op.domain.is_empty() {
                registry.own.insert(op.name, index);
            } else {
                registry.others.insert((op.domain, op.name), index);
            }
            registry.ops.push(op);
        }
        registry
    });
}

impl Registry {
    fn index(&self, node: &Node) -> Option<usize> {
        if node.domain.is_empty() {
            return node.op_type.index_in(|name| self.own.get(name).copied());
        }
        // The keys are 'static; the borrow of the map shortens them to the lifetime of the look-up.
        let others: &HashMap<(&str, &str), usize> = &self.others;
        others.get(&(node.domain.as_str(), node.op_type.as_str())).copied()
    }
}

/// The index, in the order of registration, of the operator that a node calls.
pub(crate) fn index(node: &Node) -> Option<usize> {
    REGISTRY.get()?.index(node)
}

/// The operator that a node calls, if it is registered.
pub(crate) fn find(node: &Node) -> Option<&'static Op> {
    let registry = REGISTRY.get()?;
    registry.ops.get(registry.index(node)?).copied()
}

/// The elements on which an element of a node's first output depends.
pub(crate) fn access(node: &Node) -> Access {
    find(node).map_or(Access::Any, |op| op.access)
}

/// The operator that a node calls, in a version that is handled.
pub(crate) fn find_handled(node: &Node) -> Result<&'static Op> {
    let name = || node.qualified_op_type();
    let Some(op) = find(node) else {
        return Err(Error::unsupported(format!("the operator {} is not known", name())).help(CUT));
    };
    if node.domain.is_empty() && node.version > NEWEST_OPSET {
        return Err(Error::unsupported(format!(
            "operator set {} is newer than {NEWEST_OPSET}, the newest that is known",
            node.version
        )));
    }
    if op.since_version(node.version).is_none() {
        let message = format!("{} of operator set {} is not handled", name(), node.version);
        return Err(Error::unsupported(message));
    }
    Ok(op)
}

/// The since-version that a node follows in version `opset` of its operator set.
pub(crate) fn since_version(node: &Node, opset: i64) -> Option<i64> {
    find(node)?.since_version(opset)
}

/// The shape of the first output of a node that need not be in the graph, where it can be inferred.
pub(crate) fn infer_shape(graph: &Graph, node: &Node) -> Option<Shape> {
    let op = find_handled(node).ok()?;
    (op.infer)(&Call::new(graph, node, op)).ok()?.into_iter().next()?.shape
}
