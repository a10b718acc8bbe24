//! Inference of types and shapes and folding of constants, in one sweep from the inputs to the outputs.

use crate::common::index::IndexSet;
use crate::common::limits;
use crate::error::{Error, Result, invalid};
use crate::graph::{DeferredErrors, Fact, Graph, Inferred, Node, NodeId, Value, ValueId};
use crate::op;
use crate::op::{Call, Inputs, Op};
use crate::tensor::{Array, Cost, DType, Dim, Elements, Shape, SizeCondition, Tensor, display_shape};

/// Infers and folds all nodes. Returns the errors of nodes that are unsupported.
///
/// # Errors
///
/// If the model violates the ONNX specification, or exceeds a limit.
pub fn infer_and_fold(graph: &mut Graph) -> Result<DeferredErrors> {
    infer_with(graph, |_| None)
}

/// Infers and folds all nodes; `outline` returns what is known of the first output of an unsupported node.
pub(crate) fn infer_with(
    graph: &mut Graph,
    mut outline: impl FnMut(&Call) -> Option<Fact>,
) -> Result<DeferredErrors> {
    let mut deferred = DeferredErrors::new();
    let mut folded = IndexSet::default();
    let mut conditions = Vec::new();
    for input in &graph.inputs {
        let value = graph.value(*input);
        check_input(value, &mut conditions)
            .map_err(|error| error.at_part(format!("input \"{}\"", value.name)))?;
    }
    graph.conditions.extend(conditions);
    for id in graph.node_ids() {
        // Inference reads the node and the values of the graph, not the node in the graph.
        let Some(node) = graph.take_out(id) else { continue };
        let visited = visit(graph, &node).map_err(|error| error.at_node(|| node.at()));
        if let (Ok(Visited::Folded), Some(kept)) = (&visited, &mut graph.folded) {
            kept.push(node.clone());
        }
        graph.put_back(id, node);
        match visited {
            Ok(Visited::Inferred) => detach_constants(graph, id)?,
            Ok(Visited::Folded) => {
                folded.insert(id);
            }
            Err(error) if error.kind() == crate::error::ErrorKind::Unsupported => {
                let fact = graph.node(id).and_then(|node| {
                    let (_, call) = Call::of(graph, node)?;
                    Some((node.output(0)?, outline(&call)?))
                });
                if let Some((output, fact)) = fact {
                    record(graph, output, fact)?;
                }
                deferred.insert(id, error);
            }
            Err(error) => return Err(error),
        }
    }
    graph.remove_nodes(&folded);
    Ok(deferred)
}

/// Detaches constant outputs from a node that stays. An unread value replaces each that the node must name.
fn detach_constants(graph: &mut Graph, id: NodeId) -> Result<()> {
    let Some(node) = graph.node(id) else { return Ok(()) };
    let required = op::find(node).map_or(0, |op| op.schema.required_outputs(node.version));
    let outputs = node.outputs.iter().enumerate().filter_map(|(index, output)| Some((index, (*output)?)));
    let constants: Vec<_> = outputs.filter(|(_, id)| graph.value(*id).constant.is_some()).collect();
    for (index, output) in constants {
        let value = graph.value_mut(output)?;
        value.producer = None;
        let unread =
            Value { dtype: value.dtype, shape: value.shape.clone(), producer: Some(id), ..Value::default() };
        let replacement = (index < required).then(|| graph.add_value(unread));
        if let Some(slot) = graph.node_mut(id).and_then(|node| node.outputs.get_mut(index)) {
            *slot = replacement;
        }
    }
    Ok(())
}

enum Visited {
    Inferred,
    Folded,
}

fn visit(graph: &mut Graph, node: &Node) -> Result<Visited> {
    let op = op::find_handled(node)?;
    let known = if op.defined { graph.inferred(node).cloned() } else { None };
    let Inferred { facts, conditions, replaced } = known.map_or_else(|| infer(graph, node, op), Ok)?;
    graph.require(node, conditions, replaced);
    for (output, mut fact) in node.outputs.iter().zip(facts) {
        if let Some(output) = output {
            fact.shape = fact.shape.map(|shape| share(graph, node, shape));
            record(graph, *output, fact)?;
        }
    }
    fold(graph, node, op)
}

/// Applies the shape rule of a node.
fn infer(graph: &mut Graph, node: &Node, op: &Op) -> Result<Inferred> {
    let call = Call::new(graph, node, op);
    if call.input_count() > call.most_inputs() {
        invalid!("{} inputs, expected at most {}", call.input_count(), call.most_inputs());
    }
    call.check_types()?;
    let facts = (op.infer)(&call)?;
    call.check_attributes()?;
    if facts.len() < node.outputs.len() {
        invalid!("the node has {} outputs, the operator {}", node.outputs.len(), facts.len());
    }
    let replaced = call.replaced();
    let inferred = Inferred { facts, conditions: call.into_conditions(), replaced };
    if op.defined {
        graph.remember(node, inferred.clone());
    }
    Ok(inferred)
}

/// Checks the sizes of an input, and requires elements; a cache may have none.
fn check_input(input: &Value, conditions: &mut Vec<SizeCondition>) -> Result<()> {
    let shape = input.shape.as_deref().unwrap_or_default();
    for size in shape.iter().filter(|size| size.known().is_none() && !size.has_length()) {
        conditions.extend(SizeCondition::at_least(size, 1)?);
    }
    check_sizes(shape)
}

/// Checks that sizes are not negative and that their product fits 64 bits, so that later products do not
/// overflow.
fn check_sizes(shape: &[Dim]) -> Result<()> {
    if shape.len() > limits::AXES {
        return Err(Error::limit(format!("a tensor of {} axes", shape.len())));
    }
    shape.iter().try_for_each(Dim::check)?;
    let mut elements = 1_i64;
    for size in shape.iter().filter_map(Dim::known) {
        if size < 0 {
            invalid!("negative size {size} in {}", display_shape(shape));
        }
        elements = elements
            .checked_mul(size.max(1))
            .ok_or_else(|| Error::limit(format!("a tensor of shape {}", display_shape(shape))))?;
    }
    Ok(())
}

/// The shape, shared with an input of the node if one has the same.
fn share(graph: &Graph, node: &Node, shape: Shape) -> Shape {
    let mut inputs = node.inputs.iter().flatten().filter_map(|input| graph.value(*input).shape.as_ref());
    inputs.find(|input| **input == shape).cloned().unwrap_or(shape)
}

/// Records inferred facts of a value, instead of declared ones.
fn record(graph: &mut Graph, id: ValueId, fact: Fact) -> Result<()> {
    let value = graph.value_mut(id)?;
    value.dtype = Some(fact.dtype);
    if let Some(shape) = fact.shape {
        check_sizes(&shape)?;
        // A tensor without elements is a constant: ncnn has no empty blobs.
        let empty = Tensor::without_elements(fact.dtype, &shape)?;
        value.constant = empty.or(value.constant.take());
        value.shape = Some(shape);
    }
    if let Some(constant) = fact.constant {
        value.constant = Some(constant);
    }
    if let Some(elements) = fact.elements
        && elements.len() <= limits::SIZE_ELEMENTS
    {
        set_elements(graph, id, elements)?;
    }
    Ok(())
}

fn set_elements(graph: &mut Graph, id: ValueId, elements: Array) -> Result<()> {
    if let Elements::Dim(sizes) = elements.elements() {
        sizes.iter().try_for_each(Dim::check)?;
    }
    let tensor = Tensor::from_array(&elements);
    let value = graph.value_mut(id)?;
    // Keep an equal shape, which may be shared.
    if !value.shape.as_ref().is_some_and(|shape| shape.is(elements.shape())) {
        value.shape = Some(elements.shape().into());
    }
    value.dtype = Some(elements.dtype());
    match tensor {
        Ok(tensor) => {
            value.constant = Some(tensor);
            value.elements = None;
        }
        Err(_) => value.elements = Some(Box::new(elements)),
    }
    Ok(())
}

fn fold(graph: &mut Graph, node: &Node, op: &'static Op) -> Result<Visited> {
    let outputs: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
    let all_constant = |graph: &Graph| outputs.iter().all(|id| graph.value(*id).constant.is_some());
    if all_constant(graph) {
        return Ok(Visited::Folded);
    }
    let Some(evaluate) = op.fold else { return Ok(Visited::Inferred) };
    let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let known = |id: &ValueId| graph.value(*id).constant.is_some() || graph.value(*id).elements.is_some();
    if !inputs.iter().all(known) {
        return Ok(Visited::Inferred);
    }
    let work = op.work.map_or(Some(0), |work| work(&Call::new(graph, node, op)));
    let Some(work) = work else { return Ok(Visited::Inferred) };
    let constant = inputs.iter().all(|id| graph.value(*id).constant.is_some());
    let bytes = output_bytes(graph, &outputs)?;
    // An array of free size has no elements. Its other sizes may be too large for memory.
    if !constant && (bytes > limits::EAGER_BYTES || has_free_size(graph, &outputs)) {
        return Ok(Visited::Inferred);
    }
    let costs = if constant { costs(graph, node, op.scratch, work) } else { Vec::new() };
    if !costs.iter().all(|cost| graph.budget.may_fold(cost.work(), cost.memory)) {
        return Ok(Visited::Inferred);
    }
    if constant && bytes > limits::EAGER_BYTES {
        return defer(graph, node, op, &costs);
    }
    let inputs = Inputs::of(load_inputs(graph, node)?);
    if let Some(work) = costs.iter().map(|cost| cost.direct).max() {
        graph.budget.meter().take(work)?;
    }
    let call = Call::evaluated(graph, node, op, &inputs);
    let folded = match evaluate(&call) {
        Ok(folded) => folded,
        // The node stays: it may be lowered, or the error is reported then.
        Err(error) if error.kind() == crate::error::ErrorKind::Unsupported => return Ok(Visited::Inferred),
        Err(error) => return Err(error),
    };
    let conditions = call.into_conditions();
    graph.conditions.extend(conditions);
    for (output, array) in node.outputs.iter().zip(folded) {
        let Some(output) = output else { continue };
        if constant || array.len() <= limits::SIZE_ELEMENTS {
            set_elements(graph, *output, array)?;
        }
    }
    Ok(if all_constant(graph) { Visited::Folded } else { Visited::Inferred })
}

fn load_inputs(graph: &Graph, node: &Node) -> Result<Vec<Option<Array>>> {
    let load = |id: &Option<ValueId>| {
        let Some(id) = id else { return Ok(None) };
        let value = graph.value(*id);
        match (&value.elements, &value.constant) {
            (Some(elements), _) => Ok(Some(elements.as_ref().clone())),
            (None, Some(tensor)) => tensor.load().map(Some),
            (None, None) => Ok(None),
        }
    };
    node.inputs.iter().map(load).collect()
}

/// The cost of each output of a node on constants.
fn costs(graph: &Graph, node: &Node, scratch: u64, work: u64) -> Vec<Cost> {
    let constant = |id: &ValueId| graph.value(*id).constant.clone();
    let inputs: Vec<Tensor> = node.inputs.iter().flatten().filter_map(constant).collect();
    let elements =
        inputs.iter().filter_map(|tensor| u64::try_from(tensor.len()).ok()).fold(0, u64::saturating_add);
    let scratch = elements.saturating_mul(scratch);
    let cost = |output: &ValueId| {
        let value = graph.value(*output);
        let sizes = Dim::known_sizes(value.shape.iter().flatten());
        let cost = Tensor::cost(value.dtype.unwrap_or(DType::I64), &sizes.unwrap_or_default(), &inputs);
        Cost { direct: cost.direct.saturating_add(work), memory: cost.memory.saturating_add(scratch), ..cost }
    };
    node.outputs.iter().flatten().map(cost).collect()
}

fn has_free_size(graph: &Graph, outputs: &[ValueId]) -> bool {
    let mut sizes = outputs.iter().filter_map(|id| graph.value(*id).shape.as_deref()).flatten();
    sizes.any(|size| size.known().is_none())
}

/// The bytes of all outputs of known shape.
fn output_bytes(graph: &Graph, outputs: &[ValueId]) -> Result<u64> {
    let mut bytes = 0_u64;
    for id in outputs {
        let value = graph.value(*id);
        let Some(shape) = &value.shape else { continue };
        let count = Dim::product(shape).known().unwrap_or(0);
        let bits = value.dtype.map_or(64, DType::bits);
        bytes = bytes.saturating_add(u64::try_from(count)?.saturating_mul(u64::try_from(bits)?) / 8);
    }
    Ok(bytes)
}

/// Makes each output a deferred constant.
fn defer(graph: &mut Graph, node: &Node, op: &'static Op, costs: &[Cost]) -> Result<Visited> {
    let tensors: Vec<Option<Tensor>> =
        node.inputs.iter().map(|id| graph.value((*id)?).constant.clone()).collect();
    let mut bytes = 0_u64;
    for tensor in tensors.iter().flatten() {
        bytes = bytes.saturating_add(tensor.byte_len()?);
    }
    let outputs: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
    if output_bytes(graph, &outputs)? > bytes.saturating_add(limits::FOLD_GROWTH) {
        return Ok(Visited::Inferred);
    }
    let mut made = Vec::new();
    let named = node.outputs.iter().enumerate().filter_map(|(index, output)| Some((index, (*output)?)));
    for ((index, output), cost) in named.zip(costs) {
        let value = graph.value(output);
        let sizes: Option<Vec<usize>> = value
            .shape
            .as_ref()
            .and_then(|shape| shape.iter().map(|d| usize::try_from(d.known()?).ok()).collect());
        let (Some(dtype), Some(shape)) = (value.dtype, sizes) else { return Ok(Visited::Inferred) };
        let (node, present) = (node.clone(), tensors.iter().map(Option::is_some).collect::<Vec<_>>());
        let inputs = tensors.iter().flatten().cloned().collect();
        let meter = Some(graph.budget.meter());
        let tensor = Tensor::deferred_at(*cost, meter, dtype, shape, inputs, move |arrays| {
            let mut arrays = arrays.into_iter();
            let inputs: Vec<Option<Array>> =
                present.iter().map(|is_present| if *is_present { arrays.next() } else { None }).collect();
            let folded = op.evaluate(&node, inputs).map_err(|e| e.at_node(|| node.at()))?;
            folded.into_iter().nth(index).ok_or_else(|| Error::internal("an output was not evaluated"))
        })?;
        made.push((output, tensor));
    }
    for (output, tensor) in made {
        graph.value_mut(output)?.constant = Some(tensor);
    }
    Ok(Visited::Folded)
}
