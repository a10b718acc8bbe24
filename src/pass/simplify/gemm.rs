//! The sum after a product of two matrices, and transposes before Gemm, become part of Gemm.

use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, ValueId};
use crate::pass::pattern::{Readers, perm_of, producer};
use crate::tensor::DType;

use super::{int, only_output};

/// Replaces MatMul of two matrices and the sum with a constant by Gemm.
pub(crate) fn fuse_matmul_add_bias_into_gemm(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |graph: &Graph, add: &Node| gemm_of_sum(graph, &readers, add);
    graph.replace_nodes(find, |_, _, gemm| Ok(Some(vec![gemm])))
}

/// The Gemm that computes the sum with a constant, and the MatMul before it.
fn gemm_of_sum(graph: &Graph, readers: &Readers, add: &Node) -> Option<Node> {
    let (first, second) = (add.input(0).filter(|_| add.is("Add"))?, add.input(1)?);
    [(first, second), (second, first)].into_iter().find_map(|(product, addend)| {
        readers.only(product)?;
        let matmul = producer(graph, product, "MatMul").filter(|node| node.version >= 7)?;
        let (a, b, _) = (matmul.input(0)?, matmul.input(1)?, only_output(matmul)?);
        let shape = graph.value(product).shape.as_deref()?;
        // The types of Gemm since version 1.
        let is_supported = matches!(graph.value(product).dtype?, DType::F16 | DType::F32 | DType::F64);
        let is_matrix = |id: &ValueId| graph.value(*id).shape.as_ref().is_some_and(|sizes| sizes.len() == 2);
        let fits = graph.value(addend).constant.is_some()
            && graph.value(only_output(add)?).shape.as_deref() == Some(shape)
            && graph.value(addend).shape.as_ref().is_some_and(|sizes| sizes.len() <= 2);
        (is_supported && [a, b].iter().all(is_matrix) && fits).then(|| Node {
            op_type: "Gemm".into(),
            inputs: [a, b, addend].map(Some).into_iter().collect(),
            outputs: add.outputs.clone(),
            attributes: AttributeMap::new(),
            ..matmul.clone()
        })
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
    graph.replace_nodes(find, |_, _, gemm| Ok(Some(vec![gemm])))
}

/// The matrix of which a value is the transpose.
fn transposed_matrix(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let transpose = producer(graph, value, "Transpose")?;
    let matrix = transpose.input(0)?;
    let is_empty = graph.value(matrix).shape.as_ref()?.iter().any(|size| size.is(0));
    (perm_of(graph, transpose)? == [1, 0] && !is_empty).then_some(matrix)
}
