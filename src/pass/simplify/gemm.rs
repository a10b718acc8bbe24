//! The sum after a product of two matrices, and transposes before Gemm, become part of Gemm.

use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, NodeId, ValueId};
use crate::pass::pattern::{Readers, producer};
use crate::tensor::{DType, Dim};

use super::{int, only_output, replace_nodes, replace_patterns};

/// Replaces MatMul of two matrices and the sum with a constant by Gemm.
pub(crate) fn fuse_matmul_add_bias_into_gemm(graph: &mut Graph) -> Result<bool> {
    replace_patterns(graph, gemm_of_sum, |_, gemm| Ok(Some(vec![gemm])))
}

/// The MatMul and the sum with a constant after it, and the Gemm that computes both.
fn gemm_of_sum(graph: &Graph, readers: &Readers, id: NodeId, node: &Node) -> Option<(Vec<NodeId>, Node)> {
    if !node.is("MatMul") || node.version < 7 {
        return None;
    }
    let (a, b, product) = (node.input(0)?, node.input(1)?, only_output(node)?);
    let shape = graph.value(product).shape.as_deref()?;
    // The types of Gemm since version 1.
    let is_supported = matches!(graph.value(product).dtype?, DType::F16 | DType::F32 | DType::F64);
    let are_matrices = [a, b].iter().all(|id| graph.value(*id).shape.as_ref().is_some_and(|s| s.len() == 2));
    let reader = readers.only(product)?;
    let add = graph.node(reader).filter(|node| node.is("Add"))?;
    let (first, second) = (add.input(0)?, add.input(1)?);
    let addend = if first == product { second } else { first };
    let fits = graph.value(addend).constant.is_some()
        && graph.value(only_output(add)?).shape.as_deref() == Some(shape)
        && graph.value(addend).shape.as_ref().is_some_and(|sizes| sizes.len() <= 2);
    (is_supported && are_matrices && fits).then(|| {
        let gemm = Node {
            op_type: "Gemm".into(),
            inputs: [a, b, addend].map(Some).into_iter().collect(),
            outputs: add.outputs.clone(),
            attributes: AttributeMap::new(),
            ..node.clone()
        };
        (vec![id, reader], gemm)
    })
}

/// Replaces transposes of the factors of Gemm by its attributes.
pub(crate) fn fuse_transpose_into_gemm(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, node: &Node| {
        let mut gemm = Some(node).filter(|node| node.is("Gemm"))?.clone();
        for (index, name) in ["transA", "transB"].into_iter().enumerate() {
            let matrix = node.input(index).and_then(|factor| transposed_matrix(graph, factor));
            if let (Some(matrix), Some(slot)) = (matrix, gemm.inputs.get_mut(index)) {
                *slot = Some(matrix);
                let flag = i64::from(int(node, name).unwrap_or(0) == 0);
                gemm.attributes.insert(name.into(), Attribute::Int(flag));
            }
        }
        (gemm.inputs != node.inputs).then_some(gemm)
    };
    replace_nodes(graph, find, |_, _, gemm| Ok(gemm))
}

/// The matrix of which a value is the transpose.
fn transposed_matrix(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let transpose = producer(graph, value, "Transpose")?;
    let matrix = transpose.input(0)?;
    let (sizes, transposed) = (graph.value(matrix).shape.as_deref()?, graph.value(value).shape.as_deref()?);
    let is_transposed = matches!((sizes, transposed), ([a, b], [c, d]) if a == d && b == c);
    // The shape of a square matrix does not show the permutation.
    let moves = match transpose.attributes.get("perm") {
        None => true,
        Some(Attribute::Ints(perm)) => perm.as_slice() == [1, 0],
        Some(_) => false,
    };
    (is_transposed && moves && !sizes.iter().any(|size: &Dim| size.is(0))).then_some(matrix)
}
