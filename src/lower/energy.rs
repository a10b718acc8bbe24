//! Sums of squares under roots and logarithms: spectra of sound, variances. Half precision represents neither
//! the largest nor the smallest of them, nor the difference of two. The sums of a transform cancel: what
//! remains of a weak frequency is smaller than the rounding error of a strong one, and a logarithm or an
//! angle shows both alike.

use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, ValueId};
use crate::op::identity::is_filled_with;
use crate::op::{self, Access, NCNN_DOMAIN, Op};

/// Returns the values from which roots and logarithms of sums of squares are computed, back to the values
/// that are squared; under logarithms, back to the inputs of the network that a linear transform reads.
/// Angles are as logarithms, and what they read is a result of the transform.
pub(super) fn energies(graph: &Graph) -> IndexSet<ValueId> {
    // Sums of squares, and results of reductions, such as a mean whose square is subtracted from that of
    // squares.
    let (mut energies, mut totals) = (IndexSet::default(), IndexSet::default());
    let mut transforms: IndexSet<ValueId> = graph.variable_inputs().into_iter().collect();
    let (mut pending, mut logarithms, mut angles) = (Vec::new(), Vec::new(), Vec::new());
    for (_, node) in graph.nodes() {
        let Some(op) = op::find(node) else { continue };
        let outputs = || node.outputs.iter().flatten().copied();
        let come_from = |set: &IndexSet<ValueId>| {
            let mut inputs = computed_floats(graph, node).peekable();
            keeps_energies(op) && inputs.peek().is_some() && inputs.all(|id| set.contains(id))
        };
        if is_square(graph, node) || come_from(&energies) {
            energies.extend(outputs());
        } else if matches!(op.access, Access::Reduction) || come_from(&totals) {
            totals.extend(outputs());
        }
        if is_linear(graph, node, op) && computed_floats(graph, node).all(|id| transforms.contains(id)) {
            transforms.extend(outputs());
        }
        // Their results are of ordinary magnitude even for energies that half precision does not represent.
        if node.is("Log") || node.is("Sqrt") {
            let roots = if node.is("Log") { &mut logarithms } else { &mut pending };
            roots.extend(computed_floats(graph, node).filter(|id| energies.contains(*id)));
        }
        if node.domain == NCNN_DOMAIN && node.op_type == "Atan2" {
            angles.extend(computed_floats(graph, node));
        }
    }
    let is_sum = |id| energies.contains(id) || totals.contains(id);
    let mut found = sources(graph, pending, is_sum);
    found.extend(sources(graph, logarithms, |id| is_sum(id) || transforms.contains(id)).iter());
    // A transform of what a network computes has the weights of float32 too: some of a Fourier transform are
    // below those of float16, and decide the sign of a part that is zero in exact arithmetic.
    found.extend(sources(graph, angles, |id| transforms.contains(id) || is_moved(graph, id)).iter());
    found
}

/// Returns values and the floats from which they are computed, back to values that are not traced.
fn sources(
    graph: &Graph,
    mut pending: Vec<ValueId>,
    is_traced: impl Fn(ValueId) -> bool,
) -> IndexSet<ValueId> {
    let mut found = IndexSet::default();
    while let Some(id) = pending.pop() {
        if found.insert(id) && is_traced(id) {
            let producer = graph.producer(id);
            pending.extend(producer.into_iter().flat_map(|node| computed_floats(graph, node)));
        }
    }
    found
}

fn is_moved(graph: &Graph, id: ValueId) -> bool {
    graph.producer(id).is_some_and(|node| {
        node.is("Identity") || matches!(op::access(node), Access::View | Access::Selection)
    })
}

/// Returns whether each element of the results is a sum of computed elements with constant weights.
fn is_linear(graph: &Graph, node: &Node, op: &Op) -> bool {
    let reads_one = || computed_floats(graph, node).count() == 1;
    match op.access {
        Access::View | Access::Selection => true,
        _ if node.is_one_of(&["Identity", "Add", "Sub", "Neg", "Pad", "Concat"]) => true,
        _ => node.is_one_of(&["Mul", "Conv", "ConvTranspose", "Gemm", "MatMul"]) && reads_one(),
    }
}

/// Returns whether a node computes the square of its first input.
fn is_square(graph: &Graph, node: &Node) -> bool {
    let is_scalar = |value| graph.value(value).constant.as_ref().is_some_and(|tensor| tensor.len() == 1);
    match node.inputs.as_slice() {
        [a, b] if node.is("Mul") => a == b,
        [_, Some(by)] => node.is("Pow") && is_scalar(*by) && is_filled_with(graph, *by, 2.0),
        _ => false,
    }
}

/// Returns the float inputs of a node that are not constants.
pub(super) fn computed_floats<'a>(graph: &'a Graph, node: &'a Node) -> impl Iterator<Item = ValueId> + 'a {
    node.inputs.iter().flatten().copied().filter(|id| {
        let value = graph.value(*id);
        value.constant.is_none() && value.dtype.is_some_and(|dtype| dtype.is_float())
    })
}

/// Returns whether the results of an operator on energies are energies: sums, products, moves, and functions
/// of an element.
fn keeps_energies(op: &Op) -> bool {
    let is_by_element = matches!(
        op.access,
        Access::Elementwise | Access::Broadcast | Access::View | Access::Selection | Access::Reduction
    );
    is_by_element || op.multiply_adds.is_some()
}
