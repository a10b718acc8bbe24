//! Scan over sequences of constant length. In version 8, sequences and states have a batch axis before that
//! of the elements; each element of the batch is scanned separately.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Scan.html>.

use super::recurrence;
use super::unroll::stack;
use crate::ops::prelude::*;

/// The first version without a batch axis.
const WITHOUT_BATCH: i64 = 9;

struct ScanAttributes {
    batched: bool,
    /// The number of inputs before the states: the lengths of the sequences.
    before: usize,
    scan_inputs: usize,
    input_axes: Vec<i64>,
    input_directions: Vec<i64>,
    output_axes: Vec<i64>,
    output_directions: Vec<i64>,
}

impl ScanAttributes {
    /// Returns whether sequences and results run backwards; `None` unless all do so or none, along their
    /// first axes and without a batch axis.
    fn direction(&self, results: usize) -> Option<bool> {
        let mut axes = self.input_axes.iter().chain(&self.output_axes);
        let directions =
            |list: &[i64], count| (0..count).map(|i| list.get(i) == Some(&1)).collect::<Vec<_>>();
        let mut all = directions(&self.input_directions, self.scan_inputs);
        all.extend(directions(&self.output_directions, results));
        let first = *all.first()?;
        let is_plain =
            !self.batched && axes.all(|axis| *axis == 0) && all.iter().all(|other| *other == first);
        is_plain.then_some(first)
    }
}

fn read_scan(call: &Call) -> Result<ScanAttributes> {
    call.body("body")?;
    let scan_inputs = usize::try_from(call.int("num_scan_inputs")?)?;
    if scan_inputs > call.input_count() {
        return Err(Error::invalid("more scan inputs than inputs"));
    }
    let list = |name| Ok::<_, Error>(call.optional_ints(name)?.unwrap_or_default());
    if call.since() < WITHOUT_BATCH {
        return Ok(ScanAttributes {
            batched: true,
            before: 1,
            scan_inputs,
            input_axes: vec![1; scan_inputs],
            input_directions: list("directions")?,
            output_axes: Vec::new(),
            output_directions: Vec::new(),
        });
    }
    Ok(ScanAttributes {
        batched: false,
        before: 0,
        scan_inputs,
        input_axes: list("scan_input_axes")?,
        input_directions: list("scan_input_directions")?,
        output_axes: list("scan_output_axes")?,
        output_directions: list("scan_output_directions")?,
    })
}

pub(super) fn infer_scan(call: &Call) -> Result<Vec<Fact>> {
    read_scan(call)?;
    unsupported!("the length of the sequence is known only at run time; ncnn has no control flow")
}

pub(super) fn inline_scan(x: &Expand) -> Result<bool> {
    let scan = read_scan(x)?;
    let states = x.input_count().checked_sub(scan.before + scan.scan_inputs);
    let states = states.ok_or_else(|| Error::invalid("more scan inputs than inputs"))?;
    let first_sequence = scan.before + states;
    let results = x.body("body")?.outputs.len().saturating_sub(states);
    if let Some(is_reversed) = scan.direction(results)
        && recurrence::replace_scan(x, states, is_reversed)?
    {
        return Ok(true);
    }
    let mut axes = Vec::new();
    let mut length = None;
    for index in 0..scan.scan_inputs {
        let sizes = x.shape(first_sequence + index)?;
        let axis = resolve_axis(scan.input_axes.get(index).copied().unwrap_or(0), sizes.len())?;
        let Some(size) = sizes.at(axis)?.known() else { return Ok(false) };
        if *length.get_or_insert(size) != size {
            return Err(Error::invalid("the scan inputs have different lengths"));
        }
        axes.push(axis.int());
    }
    let length = length.unwrap_or(0);
    let inputs: Vec<Expr> = (scan.before..x.input_count()).map(|index| x.operand(index)).collect();
    let outputs = if scan.batched {
        let Some(batch) = x.shape(first_sequence)?.at(0)?.known() else { return Ok(false) };
        check_lengths(x, length)?;
        // Without the batch axis, a sequence runs along axis 0.
        axes.fill(0);
        let mut entries = Vec::new();
        for entry in 0..batch {
            let entry_inputs = inputs.iter().map(|input| input.element(0, entry)).collect();
            entries.push(scan_once(x, &scan, entry_inputs, &axes, length)?);
        }
        let count = entries.first().map_or(0, Vec::len);
        let gathered =
            (0..count).map(|index| entries.iter().filter_map(|entry| entry.get(index).copied()).collect());
        gathered.map(|list: Vec<Expr>| stack(x, &list, 0)).collect::<Result<Vec<_>>>()?
    } else {
        scan_once(x, &scan, inputs, &axes, length)?
    };
    for (index, output) in outputs.into_iter().enumerate() {
        if x.has_output(index) {
            x.output(index, output);
        }
    }
    Ok(true)
}

/// Refuses sequences that are not scanned to the end.
fn check_lengths(x: &Expand, length: i64) -> Result<()> {
    if !x.has_input(0) {
        return Ok(());
    }
    let lengths = x.required_constant(0)?.load_listed()?.to_i64()?;
    if lengths.iter().any(|other| *other != length) {
        unsupported!("the sequences have different lengths");
    }
    Ok(())
}

/// Scans one set of sequences. `inputs` are states and sequences; returns final states and scanned outputs.
fn scan_once<'x>(
    x: &'x Expand,
    scan: &ScanAttributes,
    mut inputs: Vec<Expr<'x>>,
    axes: &[i64],
    length: i64,
) -> Result<Vec<Expr<'x>>> {
    let body: &Graph = x.body("body")?;
    let sequences = inputs.split_off(inputs.len().saturating_sub(axes.len()));
    let (mut carried, states) = (inputs, x.input_count() - scan.before - axes.len());
    let mut scanned: Vec<Vec<Expr>> = vec![Vec::new(); body.outputs.len().saturating_sub(states)];
    for step in 0..length {
        let mut inputs = carried;
        for (index, (sequence, axis)) in sequences.iter().zip(axes).enumerate() {
            let is_reversed = scan.input_directions.get(index) == Some(&1);
            inputs.push(sequence.element(*axis, if is_reversed { length - 1 - step } else { step }));
        }
        let mut outputs = x.make.inline(body, &inputs)?.into_iter();
        carried = outputs.by_ref().take(states).collect();
        for (list, output) in scanned.iter_mut().zip(outputs) {
            list.push(output);
        }
    }
    for (index, mut list) in scanned.into_iter().enumerate() {
        if scan.output_directions.get(index) == Some(&1) {
            list.reverse();
        }
        carried.push(stack(x, &list, scan.output_axes.get(index).copied().unwrap_or(0))?);
    }
    Ok(carried)
}
