//! Sequences of tensors and optional tensors. ncnn has neither: if the elements are known when the model is
//! converted, readers read the elements.
//!
//! Refused: sequences and optional values that are inputs or outputs of the net, positions computed at run
//! time.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html>, `onnx__SplitToSequence.html`,
//! `onnx__Optional.html`.

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("ConcatFromSequence", Access::Any, infer_reader)
        .inline(inline_concat)
        .lowers_to("Concat")
        .limits("sequences of unknown length"),
    Row::new("Optional", Access::Any, infer_container)
        .lowers_to("no layer: readers read the value")
        .limits("an optional value that is an input or output of the net"),
    Row::new("OptionalGetElement", Access::Any, infer_reader)
        .inline(inline_get)
        .lowers_to("the value")
        .limits("an optional value that is an input of the net"),
    Row::new("OptionalHasElement", Access::Any, infer_reader)
        .inline(inline_has)
        .lowers_to("a constant")
        .limits("an optional value that is an input of the net"),
    Row::new("SequenceAt", Access::Any, infer_reader)
        .inline(inline_at)
        .lowers_to("the element")
        .limits("positions computed at run time"),
    Row::new("SequenceConstruct", Access::Any, infer_container)
        .lowers_to("no layer: readers read the elements")
        .limits("a sequence that is an input or output of the net"),
    Row::new("SequenceEmpty", Access::Any, infer_container)
        .lowers_to("no layer")
        .limits("a sequence that is an input or output of the net"),
    Row::new("SequenceErase", Access::Any, infer_container)
        .inline(inline_erase)
        .lowers_to("SequenceConstruct")
        .limits("positions computed at run time"),
    Row::new("SequenceInsert", Access::Any, infer_container)
        .inline(inline_insert)
        .lowers_to("SequenceConstruct")
        .limits("positions computed at run time"),
    Row::new("SequenceLength", Access::Any, infer_reader)
        .inline(inline_length)
        .lowers_to("a constant")
        .limits("sequences of unknown length"),
    Row::new("SequenceMap", Access::Any, infer_container)
        .inline(inline_map)
        .lowers_to("its body, once for each element")
        .limits("sequences of unknown length"),
    Row::new("SplitToSequence", Access::Any, infer_container)
        .inline(inline_split)
        .lowers_to("Split, SequenceConstruct")
        .limits("lengths computed at run time"),
];

/// The maximum number of elements that a tensor is split into: each becomes at least one layer.
const MAX_ELEMENTS: i64 = 4096;

fn infer_container(_: &Call) -> Result<Vec<Fact>> {
    Err(Error::unsupported("its output is a sequence or an optional value; ncnn has only tensors"))
}

fn infer_reader(_: &Call) -> Result<Vec<Fact>> {
    Err(Error::unsupported("it reads a sequence or an optional value that is known only at run time"))
}

/// Returns the node that produces a value, skipping Identity.
fn producer<'a>(call: &Call<'a>, mut id: ValueId) -> Option<&'a Node> {
    let graph = call.graph();
    loop {
        // This ends: each step goes to an earlier node.
        let node = graph.producer(id)?;
        match (node.op_type.as_str(), node.input(0)) {
            ("Identity", Some(input)) => id = input,
            _ => return Some(node),
        }
    }
}

/// Returns the elements of the sequence that is input `index`, if they are known.
fn elements<'x>(x: &'x Expand, index: usize) -> Option<Vec<Expr<'x>>> {
    let node = producer(x, x.node().input(index)?)?;
    let inputs = node.inputs.iter().flatten().map(|id| x.make.value(*id));
    (node.is("SequenceConstruct") || node.is("SequenceEmpty")).then(|| inputs.collect())
}

/// Returns the position in a sequence that input `index` gives; a negative one counts from the end.
fn position(call: &Call, index: usize, count: usize) -> Result<usize> {
    let position = call.required_constant(index)?.load_listed()?.scalar_i64()?;
    resolve_axis(position, count).map_err(|_| {
        Error::invalid(format!("position {position} is out of range for a sequence of {count} elements"))
    })
}

/// Makes output `index` a sequence of `elements`.
fn construct<'x>(x: &'x Expand, index: usize, elements: &[Expr<'x>]) {
    x.output(index, x.make.op("SequenceConstruct", elements.iter().copied(), []));
}

fn inline_at(x: &Expand) -> Result<bool> {
    let Some(elements) = elements(x, 0) else { return Ok(false) };
    x.output(0, *elements.at(position(x, 1, elements.len())?)?);
    Ok(true)
}

fn inline_length(x: &Expand) -> Result<bool> {
    let Some(elements) = elements(x, 0) else { return Ok(false) };
    x.output(0, x.make.int(elements.len()));
    Ok(true)
}

fn inline_insert(x: &Expand) -> Result<bool> {
    let Some(mut elements) = elements(x, 0) else { return Ok(false) };
    let count = elements.len();
    let index = if x.has_input(2) {
        // The end of the sequence is also a position.
        let requested = x.required_constant(2)?.load_listed()?.scalar_i64()?;
        if count.int() == requested { count } else { position(x, 2, count)? }
    } else {
        count
    };
    elements.insert(index, x.operand(1));
    construct(x, 0, &elements);
    Ok(true)
}

fn inline_erase(x: &Expand) -> Result<bool> {
    let Some(mut elements) = elements(x, 0) else { return Ok(false) };
    let Some(last) = elements.len().checked_sub(1) else {
        invalid!("an empty sequence has no element to erase")
    };
    let index = if x.has_input(1) { position(x, 1, elements.len())? } else { last };
    elements.remove(index);
    construct(x, 0, &elements);
    Ok(true)
}

fn inline_concat(x: &Expand) -> Result<bool> {
    let axis = x.int("axis")?;
    let stacked = x.flag("new_axis")?;
    let Some(elements) = elements(x, 0) else { return Ok(false) };
    if elements.is_empty() {
        invalid!("an empty sequence has no elements to join");
    }
    // A Concat of one element checks the axis.
    let join = || x.make.op("Concat", elements.iter().copied(), [("axis", axis.into())]);
    x.output(0, if stacked { x.make.stack(&elements, axis) } else { join() });
    Ok(true)
}

/// Returns the sizes of the parts along an axis of `size`.
fn part_sizes(x: &Expand, size: &Dim) -> Result<Option<Vec<i64>>> {
    let step = if x.has_input(1) {
        let split = x.required_constant(1)?;
        if !split.shape().is_empty() {
            let sizes = split.load_listed()?.int_list()?;
            let sum = sizes.iter().fold(0_i64, |sum, size| sum.saturating_add(*size));
            if let Some(size) = size.known().filter(|size| *size != sum) {
                invalid!("the parts have {sum} elements, the axis {size}");
            }
            x.require(SizeCondition::equal(size, &sum.into()))?;
            return Ok(Some(sizes));
        }
        split.load_listed()?.scalar_i64()?
    } else {
        1
    };
    let Some(size) = size.known() else { return Ok(None) };
    if step < 1 {
        invalid!("the parts have size {step}, at least 1 is needed");
    }
    if size / step > MAX_ELEMENTS {
        return Err(Error::limit(format!(
            "the sequence has {} elements (at most {MAX_ELEMENTS})",
            size / step
        )));
    }
    let (whole, rest) = (size / step, size % step);
    let mut sizes = vec![step; usize::try_from(whole)?];
    sizes.extend((rest > 0).then_some(rest));
    Ok(Some(sizes))
}

fn inline_split(x: &Expand) -> Result<bool> {
    let axis = resolve_axis(x.int("axis")?, x.shape(0)?.len())?;
    // keepdims applies only without input split.
    let squeezed = !x.flag("keepdims")? && !x.has_input(1);
    let Some(sizes) = part_sizes(x, x.shape(0)?.at(axis)?)? else { return Ok(false) };
    let axis = axis.int();
    let mut parts = x.operand(0).split_list(axis, &sizes);
    if squeezed {
        for part in &mut parts {
            *part = part.squeeze(&[axis]);
        }
    }
    construct(x, 0, &parts);
    Ok(true)
}

fn inline_map(x: &Expand) -> Result<bool> {
    let body = x.body("body")?;
    let Some(first) = elements(x, 0) else { return Ok(false) };
    let mut lists = Vec::new();
    for index in 0..x.input_count() {
        let list = match elements(x, index) {
            Some(list) if list.len() == first.len() => list,
            Some(list) => invalid!("the sequences have {} and {} elements", first.len(), list.len()),
            // Each iteration reads the whole tensor.
            None if x.input(index)?.dtype.is_some() => vec![x.operand(index); first.len()],
            None => return Ok(false),
        };
        lists.push(list);
    }
    let mut results: Vec<Vec<Expr>> = vec![Vec::new(); body.outputs.len()];
    for iteration in 0..first.len() {
        let inputs = lists.iter().map(|list| list.at(iteration).copied()).collect::<Result<Vec<_>>>()?;
        for (result, output) in results.iter_mut().zip(x.make.inline(body, &inputs)?) {
            result.push(output);
        }
    }
    for (index, result) in results.iter().enumerate() {
        construct(x, index, result);
    }
    Ok(true)
}

/// The content of the optional input 0.
enum Content {
    Empty,
    Value(ValueId),
    Unknown,
}

fn content(call: &Call) -> Result<Content> {
    let Some(id) = call.node().input(0) else { return Ok(Content::Empty) };
    Ok(match producer(call, id) {
        Some(node) if node.is("Optional") => node.input(0).map_or(Content::Empty, Content::Value),
        // Since version 18 the input may be a tensor or a sequence.
        Some(node) if node.is("SequenceConstruct") || node.is("SequenceEmpty") => Content::Value(id),
        _ if call.input(0)?.dtype.is_some() => Content::Value(id),
        _ => Content::Unknown,
    })
}

fn inline_get(x: &Expand) -> Result<bool> {
    match content(x)? {
        Content::Value(id) => x.output(0, x.make.value(id)),
        Content::Empty => unsupported!("the optional value is empty"),
        Content::Unknown => return Ok(false),
    }
    Ok(true)
}

fn inline_has(x: &Expand) -> Result<bool> {
    let is_present = match content(x)? {
        Content::Value(_) => 1.0,
        Content::Empty => 0.0,
        Content::Unknown => return Ok(false),
    };
    x.output(0, x.make.number(is_present, DType::Bool));
    Ok(true)
}
