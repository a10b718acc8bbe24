//! Control flow, evaluated on elements: the branch that is taken, each iteration.

use std::sync::Arc;

use ndarray::arr0;

use super::engine::Engine;
use super::{Passed, Values};
use crate::error::{Error, Result, unsupported};
use crate::graph::{Graph, Node};
use crate::op::{self, Call, resolve_axis};
use crate::tensor::Array;

/// The most iterations of a loop.
const ITERATIONS: i64 = 4096;
/// The version from which Scan has no batch axis.
const WITHOUT_BATCH: i64 = 9;

/// Evaluates a node with bodies, which capture values of its graph, `around`.
pub(super) fn evaluate(
    engine: &Engine,
    node: &Node,
    inputs: &[Option<Arc<Array>>],
    around: &Values,
    passed: Passed,
) -> Result<Vec<Arc<Array>>> {
    let call = Call::new(around.graph, node, op::find_handled(node)?);
    let mut flow = Flow { call, engine, inputs, around, passed };
    match node.op_type.as_str() {
        "If" => {
            let [condition] = &flow.inputs_from(0)?[..] else {
                return Err(Error::invalid("no condition"));
            };
            let branch = if is_true(condition)? { "then_branch" } else { "else_branch" };
            flow.run(flow.call.body(branch)?, [])
        }
        "Loop" => flow.run_loop(),
        "Scan" if node.version >= WITHOUT_BATCH => flow.scan(),
        _ => unsupported!("{} is not evaluated", node.qualified_op_type()),
    }
}

/// The evaluation of a node with bodies.
struct Flow<'a, 'p> {
    call: Call<'a>,
    engine: &'a Engine<'a>,
    inputs: &'a [Option<Arc<Array>>],
    around: &'a Values<'a>,
    passed: Passed<'p>,
}

impl Flow<'_, '_> {
    /// Returns the inputs from an index on, all of which must be present.
    fn inputs_from(&self, index: usize) -> Result<Vec<Arc<Array>>> {
        let missing = || Error::invalid("an input is missing");
        self.inputs.iter().skip(index).map(|input| input.clone().ok_or_else(missing)).collect()
    }

    /// Evaluates a body.
    fn run(&mut self, body: &Graph, inputs: impl IntoIterator<Item = Arc<Array>>) -> Result<Vec<Arc<Array>>> {
        let mut known: Vec<_> = body.inputs.iter().copied().zip(inputs).collect();
        for capture in &body.captures {
            known.push((capture.inner, self.around.get(capture.outer)?));
        }
        let values = Values::computed(self.engine, body, known, &mut *self.passed)?;
        body.outputs.iter().map(|output| values.get(*output)).collect()
    }

    fn run_loop(&mut self) -> Result<Vec<Arc<Array>>> {
        let body = self.call.body("body")?;
        let most = match self.inputs.first().and_then(Option::as_ref) {
            Some(count) => count.scalar_i64()?,
            None => i64::MAX,
        };
        let mut goes_on = match self.inputs.get(1).and_then(Option::as_ref) {
            Some(condition) => is_true(condition)?,
            None => true,
        };
        let mut carried = self.inputs_from(2)?;
        let (count, mut scanned) = (carried.len(), Vec::new());
        for iteration in 0.. {
            if !goes_on || iteration >= most {
                break;
            }
            if iteration == ITERATIONS {
                unsupported!("a loop of more than {ITERATIONS} iterations");
            }
            let leading = [Array::i64(arr0(iteration).into_dyn()), Array::bool(arr0(true).into_dyn())];
            let inputs = leading.map(Arc::new).into_iter().chain(carried);
            let mut outputs = self.run(body, inputs)?.into_iter();
            let condition = outputs.next().ok_or_else(|| Error::invalid("a loop without a condition"))?;
            goes_on = is_true(&condition)?;
            carried = outputs.by_ref().take(count).collect();
            scanned.push(outputs.collect());
        }
        let results = body.outputs.len().saturating_sub(1 + count);
        carried.extend(stacked(&scanned, &vec![(0, false); results])?);
        Ok(carried)
    }

    fn scan(&mut self) -> Result<Vec<Arc<Array>>> {
        let body = self.call.body("body")?;
        let sequences = usize::try_from(self.call.int("num_scan_inputs")?)?;
        let mut carried = self.inputs_from(0)?;
        let states = carried.len().checked_sub(sequences);
        let states = states.ok_or_else(|| Error::invalid("more scanned inputs than inputs"))?;
        let sequences = carried.split_off(states);
        let results = body.outputs.len().saturating_sub(states);
        let read = self.axes(["scan_input_axes", "scan_input_directions"], sequences.len())?;
        let made = self.axes(["scan_output_axes", "scan_output_directions"], results)?;
        let mut scans = Vec::new();
        for (sequence, (axis, is_reversed)) in sequences.iter().zip(read) {
            scans.push((sequence, resolve_axis(axis, sequence.shape().len())?, is_reversed));
        }
        let lengths = scans.iter().filter_map(|(sequence, axis, _)| sequence.shape().get(*axis));
        let length = lengths.copied().min().unwrap_or(0);
        let mut scanned = Vec::new();
        for step in 0..length {
            for (sequence, axis, is_reversed) in &scans {
                let index = if *is_reversed { length - 1 - step } else { step };
                carried.push(Arc::new(element(sequence, *axis, index)?));
            }
            let mut outputs = self.run(body, carried)?.into_iter();
            carried = outputs.by_ref().take(states).collect();
            scanned.push(outputs.collect());
        }
        carried.extend(stacked(&scanned, &made)?);
        Ok(carried)
    }

    /// Returns the axis of each sequence, and whether it runs backwards.
    fn axes(&self, [axes, directions]: [&str; 2], count: usize) -> Result<Vec<(i64, bool)>> {
        let list = |name: &str| self.call.optional_ints(name).map(Option::unwrap_or_default);
        let (axes, directions) = (list(axes)?, list(directions)?);
        let at = |list: &[i64], index: usize| list.get(index).copied().unwrap_or(0);
        Ok((0..count).map(|index| (at(&axes, index), at(&directions, index) == 1)).collect())
    }
}

fn is_true(condition: &Array) -> Result<bool> {
    Ok(condition.to_f64()?.iter().any(|value| *value != 0.0))
}

/// Returns an element along an axis, without that axis.
fn element(array: &Array, axis: usize, index: usize) -> Result<Array> {
    let mut shape = array.shape().to_vec();
    shape.remove(axis);
    array.gather(axis, &[index])?.reshape(&shape)
}

/// Returns what the iterations computed, each output along an axis, of the last iteration first if it is
/// reversed.
fn stacked(iterations: &[Vec<Arc<Array>>], axes: &[(i64, bool)]) -> Result<Vec<Arc<Array>>> {
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
        Array::concat(&list, axis).map(Arc::new)
    };
    axes.iter().enumerate().map(one).collect()
}
