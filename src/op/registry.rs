//! The operators by name.

use std::sync::OnceLock;

use hashbrown::HashMap;

use super::{Call, Op};
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

/// The operators by name: those of ONNX's own domain, to which most nodes belong, and those of others.
#[derive(Default)]
struct Registry {
    own: Vec<&'static Op>,
    /// Indices into `own`.
    own_by_name: HashMap<&'static str, usize>,
    others: HashMap<(&'static str, &'static str), &'static Op>,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Registers the operators that nodes may call. The first call alone counts: the table of operators is fixed, and lies above this
/// module so that the graph and its passes do not depend on any operator.
pub(crate) fn register(ops: impl Iterator<Item = &'static Op>) {
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::default();
        for op in ops {
            if op.domain.is_empty() {
                registry.own_by_name.insert(op.name, registry.own.len());
                registry.own.push(op);
            } else {
                registry.others.insert((op.domain, op.name), op);
            }
        }
        registry
    });
}

/// The operator that a node calls, if it is registered.
pub(crate) fn find(node: &Node) -> Option<&'static Op> {
    let registry = REGISTRY.get()?;
    if node.domain.is_empty() {
        let index = node.op_type.index_in(|name| registry.own_by_name.get(name).copied())?;
        return registry.own.get(index).copied();
    }
    // The keys are 'static; the borrow of the map shortens them to the lifetime of the look-up.
    let others: &HashMap<(&str, &str), &'static Op> = &registry.others;
    others.get(&(node.domain.as_str(), node.op_type.as_str())).copied()
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
