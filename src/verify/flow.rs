//! Control flow, evaluated on elements: the branch that is taken, each iteration.

use std::sync::Arc;

use ndarray::arr0;

use super::engine::Engine;
use super::{Passed, Values};
use crate::error::{Error, Result, unsupported};
use crate::graph::{Attribute, Graph, Node};
use crate::op::resolve_axis;
use crate::tensor::Array;

/// The most iterations of a loop.
const ITERATIONS: i64 = 4096;
/// The version from which Scan has no batch axis.
const WITHOUT_BATCH: i64 = 9;

/// Evaluates a node with bodies. Captured values are those of the graph of the node.
pub(super) fn evaluate(
    engine: &Engine,
    node: &Node,
    inputs: &[Option<Arc<Array>>],
    around: &Values,
    passed: Passed,
) -> Result<Vec<Arc<Array>>> {
    match node.op_type.as_str() {
        "If" => {
            let branch =
                if is_true(required(inputs.first())?.as_ref())? { "then_branch" } else { "else_branch" };
            run(engine, body(node, branch)?, [], around, passed)
        }
        "Loop" => run_loop(engine, node, inputs, around, passed),
        "Scan" if node.version >= WITHOUT_BATCH => scan(engine, node, inputs, around, passed),
        _ => unsupported!("{} is not evaluated", node.qualified_op_type()),
    }
}

fn required(input: Option<&Option<Arc<Array>>>) -> Result<Arc<Array>> {
    input.cloned().flatten().ok_or_else(|| Error::invalid("an input is missing"))
}

fn is_true(condition: &Array) -> Result<bool> {
    Ok(condition.to_f64()?.iter().any(|value| *value != 0.0))
}

fn body<'a>(node: &'a Node, name: &str) -> Result<&'a Graph> {
    match node.attributes.get(name) {
        Some(Attribute::Graph(graph)) => Ok(graph),
        _ => Err(Error::invalid(format!("no graph as the attribute {name}"))),
    }
}

/// Evaluates a body.
fn run(
    engine: &Engine,
    body: &Graph,
    inputs: impl IntoIterator<Item = Arc<Array>>,
    around: &Values,
    passed: Passed,
) -> Result<Vec<Arc<Array>>> {
    let mut given: Vec<_> = body.inputs.iter().copied().zip(inputs).collect();
    for capture in &body.captures {
        given.push((capture.inner, around.get(capture.outer)?));
    }
    let mut values = Values::new(body, given);
    for (id, _) in body.nodes() {
        values.compute(engine, id, passed)?;
    }
    body.outputs.iter().map(|output| values.get(*output)).collect()
}

fn run_loop(
    engine: &Engine,
    node: &Node,
    inputs: &[Option<Arc<Array>>],
    around: &Values,
    passed: Passed,
) -> Result<Vec<Arc<Array>>> {
    let body = body(node, "body")?;
    let most = match inputs.first().and_then(Option::as_ref) {
        Some(count) => count.scalar_i64()?,
        None => i64::MAX,
    };
    let mut goes_on = match inputs.get(1).and_then(Option::as_ref) {
        Some(condition) => is_true(condition)?,
        None => true,
    };
    let mut carried: Vec<Arc<Array>> =
        inputs.iter().skip(2).map(|input| required(Some(input))).collect::<Result<_>>()?;
    let (count, mut scanned) = (carried.len(), Vec::new());
    for iteration in 0.. {
        if !goes_on || iteration >= most {
            break;
        }
        if iteration == ITERATIONS {
            unsupported!("a loop of more than {ITERATIONS} iterations");
        }
        let leading =
            [Array::i64(arr0(iteration).into_dyn()), Array::bool(arr0(true).into_dyn())].map(Arc::new);
        let mut outputs = run(engine, body, leading.into_iter().chain(carried), around, passed)?.into_iter();
        let condition = outputs.next().ok_or_else(|| Error::invalid("a loop without a condition"))?;
        goes_on = is_true(&condition)?;
        carried = outputs.by_ref().take(count).collect();
        scanned.push(outputs.collect::<Vec<_>>());
    }
    let results = body.outputs.len().saturating_sub(1 + count);
    carried.extend(stacked(&scanned, &vec![(0, false); results])?.into_iter().map(Arc::new));
    Ok(carried)
}

fn scan(
    engine: &Engine,
    node: &Node,
    inputs: &[Option<Arc<Array>>],
    around: &Values,
    passed: Passed,
) -> Result<Vec<Arc<Array>>> {
    let body = body(node, "body")?;
    let list = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Ints(list)) => list.clone(),
        _ => Vec::new(),
    };
    let Some(Attribute::Int(sequences)) = node.attributes.get("num_scan_inputs") else {
        return Err(Error::invalid("no number of scanned inputs"));
    };
    let states = inputs.len().checked_sub(usize::try_from(*sequences)?);
    let states = states.ok_or_else(|| Error::invalid("more scanned inputs than inputs"))?;
    let mut carried: Vec<Arc<Array>> =
        inputs.iter().map(|input| required(Some(input))).collect::<Result<_>>()?;
    let sequences = carried.split_off(states);
    let (axes, directions) = (list("scan_input_axes"), list("scan_input_directions"));
    let at = |list: &[i64], index: usize| list.get(index).copied().unwrap_or(0);
    let mut places = Vec::new();
    for (index, sequence) in sequences.iter().enumerate() {
        let axis = resolve_axis(at(&axes, index), sequence.shape().len())?;
        places.push((axis, at(&directions, index) == 1));
    }
    let lengths =
        sequences.iter().zip(&places).filter_map(|(sequence, (axis, _))| sequence.shape().get(*axis));
    let length = lengths.copied().min().unwrap_or(0);
    let mut scanned = Vec::new();
    for step in 0..length {
        let mut given = carried;
        for (sequence, (axis, is_reversed)) in sequences.iter().zip(&places) {
            let index = if *is_reversed { length - 1 - step } else { step };
            given.push(Arc::new(element(sequence, *axis, index)?));
        }
        let mut outputs = run(engine, body, given, around, passed)?.into_iter();
        carried = outputs.by_ref().take(states).collect();
        scanned.push(outputs.collect::<Vec<_>>());
    }
    let (axes, directions) = (list("scan_output_axes"), list("scan_output_directions"));
    let results = body.outputs.len().saturating_sub(states);
    let places: Vec<_> = (0..results).map(|index| (at(&axes, index), at(&directions, index) == 1)).collect();
    carried.extend(stacked(&scanned, &places)?.into_iter().map(Arc::new));
    Ok(carried)
}

/// Returns an element along an axis, without that axis.
fn element(array: &Array, axis: usize, index: usize) -> Result<Array> {
    let mut shape = array.shape().to_vec();
    shape.remove(axis);
    array.gather(axis, &[index])?.reshape(&shape)
}

/// Returns what the iterations computed, each output along an axis, of the last iteration first if it is
/// reversed.
fn stacked(iterations: &[Vec<Arc<Array>>], places: &[(i64, bool)]) -> Result<Vec<Array>> {
    let one = |(index, (axis, is_reversed)): (usize, &(i64, bool))| {
        let mut list: Vec<&Array> =
            iterations.iter().filter_map(|outputs| outputs.get(index)).map(|array| &**array).collect();
        let Some(first) = list.first().copied() else {
            unsupported!("no iteration: its results have no size")
        };
        if *is_reversed {
            list.reverse();
        }
        let mut shape = first.shape().to_vec();
        let axis = resolve_axis(*axis, shape.len() + 1)?;
        shape.insert(axis, 1);
        let list: Vec<Array> = list.into_iter().map(|array| array.reshape(&shape)).collect::<Result<_>>()?;
        Array::concat(&list, axis)
    };
    places.iter().enumerate().map(one).collect()
}
