//! A node with the known facts of its inputs: the view of shape rules, evaluations, expansions and lowerings.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use super::Op;
use crate::common::int::Int;
use crate::common::limits;
use crate::error::{At, Error, Result, invalid};
use crate::graph::{Fact, Graph, Node, Value};
use crate::tensor::{Array, DType, Dim, SizeCondition, Tensor, broadcast_shapes, display_shape};

/// The inputs of a node that is evaluated.
pub(crate) struct Inputs {
    arrays: Vec<Option<Arc<Array>>>,
    /// The types and shapes of the inputs, from the first time on that one is asked for.
    values: OnceCell<Vec<Option<Value>>>,
}

impl Inputs {
    /// Lists the elements of each input; `None` for an omitted one.
    pub fn of(arrays: impl IntoIterator<Item = Option<impl Into<Arc<Array>>>>) -> Inputs {
        let arrays = arrays.into_iter().map(|array| array.map(Into::into)).collect();
        Inputs { arrays, values: OnceCell::new() }
    }

    fn value(&self, index: usize) -> Option<&Value> {
        let value = |array: &Arc<Array>| Value {
            dtype: Some(array.dtype()),
            shape: Some(array.shape().into()),
            ..Value::default()
        };
        let list = || self.arrays.iter().map(|array| array.as_ref().map(value)).collect();
        self.values.get_or_init(list).get(index)?.as_ref()
    }
}

/// A node, its attributes, and the facts of its inputs.
pub(crate) struct Call<'a> {
    graph: &'a Graph,
    node: &'a Node,
    op: &'a Op,
    /// The inputs, if the node is evaluated.
    evaluated: Option<&'a Inputs>,
    /// The elements of inputs that are constants of the graph.
    loaded: OnceCell<Vec<OnceCell<Array>>>,
    /// The conditions on free sizes that were required.
    conditions: RefCell<Vec<SizeCondition>>,
    /// The inputs whose elements were replaced by sizes.
    replaced: RefCell<Vec<usize>>,
}

/// Returns the number of elements of a shape, at most `u64::MAX`, if all sizes are known.
pub(crate) fn element_count(shape: &[Dim]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |count, size| Some(count.saturating_mul(u64::try_from(size.known()?).ok()?)))
}

impl<'a> Call<'a> {
    /// Creates the call of `op` by `node`.
    pub fn new(graph: &'a Graph, node: &'a Node, op: &'a Op) -> Call<'a> {
        Call {
            graph,
            node,
            op,
            evaluated: None,
            loaded: OnceCell::new(),
            conditions: RefCell::default(),
            replaced: RefCell::default(),
        }
    }

    /// Creates the call of `op` by `node` on elements: nothing of its inputs is read from `graph`.
    pub fn evaluated(graph: &'a Graph, node: &'a Node, op: &'a Op, inputs: &'a Inputs) -> Call<'a> {
        Call { evaluated: Some(inputs), ..Call::new(graph, node, op) }
    }

    /// Returns the operator.
    pub fn op(&self) -> &'a Op {
        self.op
    }

    /// Requires a condition on free sizes, one that [`SizeCondition`]'s constructors return.
    pub fn require(&self, condition: Result<Option<SizeCondition>>) -> Result<()> {
        self.conditions.borrow_mut().extend(condition?);
        Ok(())
    }

    /// Returns the smaller one of two sizes, where the conditions of earlier nodes are met.
    pub fn minimum(&self, a: &Dim, b: &Dim) -> Dim {
        self.one_of(a.minimum(b), [a, b], [a, b])
    }

    /// Returns the larger one of two sizes, where the conditions of earlier nodes are met.
    pub fn maximum(&self, a: &Dim, b: &Dim) -> Dim {
        self.one_of(a.maximum(b), [a, b], [b, a])
    }

    /// Returns `below` if the conditions leave no `a` above `b`, `above` if they leave none below it, else
    /// the extreme of both.
    fn one_of(&self, extreme: Dim, [a, b]: [&Dim; 2], [below, above]: [&Dim; 2]) -> Dim {
        if extreme == *a || extreme == *b {
            return extreme;
        }
        match SizeCondition::bounds(&self.graph.conditions, &(a - b)) {
            (_, Some(..=0)) => below.clone(),
            (Some(0..), _) => above.clone(),
            _ => extreme,
        }
    }

    /// Requires two sizes to be equal.
    pub fn require_equal(&self, a: &Dim, b: &Dim) -> Result<()> {
        self.require(SizeCondition::equal(a, b))
    }

    /// Returns the shape of two values that are broadcast, aligned at their last axes. Requires that free
    /// sizes broadcast.
    pub fn broadcast_shapes(&self, a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
        let shape = broadcast_shapes(a, b)?;
        self.require_broadcast(a, b)?;
        Ok(shape)
    }

    /// Requires that two shapes broadcast, aligned at their last axes.
    pub fn require_broadcast(&self, a: &[Dim], b: &[Dim]) -> Result<()> {
        let mut pairs = a.iter().rev().zip(b.iter().rev());
        pairs.try_for_each(|(a, b)| self.require(SizeCondition::broadcast(a, b)))
    }

    /// Returns the conditions that were required.
    pub fn into_conditions(self) -> Vec<SizeCondition> {
        self.conditions.into_inner()
    }

    /// Returns the graph of the node.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// Returns the node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Returns the number of inputs, including omitted ones.
    pub fn input_count(&self) -> usize {
        self.node.inputs.len()
    }

    /// Returns whether input `index` is present.
    pub fn has_input(&self, index: usize) -> bool {
        self.value(index).is_some()
    }

    /// Returns input `index`, unless it is omitted.
    pub fn value(&self, index: usize) -> Option<&'a Value> {
        match self.evaluated {
            Some(inputs) => inputs.value(index),
            None => Some(self.graph.value(self.node.input(index)?)),
        }
    }

    /// Returns input `index`, which must be present.
    pub fn input(&self, index: usize) -> Result<&'a Value> {
        self.value(index).ok_or_else(|| missing(index))
    }

    /// Returns the label of input `index` in messages.
    pub fn label(&self, index: usize) -> String {
        match self.value(index) {
            Some(value) if !value.name.is_empty() => format!("input {index} \"{}\"", value.name),
            _ => format!("input {index}"),
        }
    }

    /// Returns the element type of input `index`.
    pub fn dtype(&self, index: usize) -> Result<DType> {
        self.input(index)?
            .dtype
            .ok_or_else(|| Error::unsupported("its type is unknown").at_part(self.label(index)))
    }

    /// Returns the shape of input `index`.
    pub fn shape(&self, index: usize) -> Result<&'a [Dim]> {
        self.input(index)?
            .shape
            .as_deref()
            .ok_or_else(|| Error::unsupported("its rank is unknown").at_part(self.label(index)))
    }

    /// Returns the shape of input `index` with an element type.
    pub fn like(&self, index: usize, dtype: DType) -> Result<Fact> {
        Ok(Fact { shape: self.input(index)?.shape.clone(), ..Fact::unranked(dtype) })
    }

    /// Returns the sizes of input `index`, which must be known.
    pub fn sizes(&self, index: usize) -> Result<Vec<i64>> {
        let sizes: Option<Vec<i64>> = self.shape(index)?.iter().map(Dim::known).collect();
        sizes.ok_or_else(|| Error::unsupported("its sizes must be known").at_part(self.label(index)))
    }

    /// Returns the tensor of input `index`, if it is a constant.
    pub fn constant(&self, index: usize) -> Option<&'a Tensor> {
        self.value(index)?.constant.as_ref()
    }

    /// Checks that input `index`, if present, is a list of `count` elements, as far as its shape is known.
    pub fn check_list(&self, index: usize, count: usize) -> Result<()> {
        self.check_shape(index, &[Dim::from(count)])
    }

    /// Checks that input `index`, if present, is one integer, as far as its type and shape are known.
    pub fn check_integer(&self, index: usize) -> Result<()> {
        let Some(value) = self.value(index) else { return Ok(()) };
        let invalid = |found: String| {
            Error::invalid(format!("{found}, expected one integer")).at_part(format!("input {index}"))
        };
        if let Some(dtype) = value.dtype.filter(|dtype| !dtype.is_int()) {
            return Err(invalid(dtype.to_string()));
        }
        let shape = value.shape.as_deref().unwrap_or_default();
        match shape.iter().any(|size| size.known().is_some_and(|size| size != 1)) {
            true => Err(invalid(display_shape(shape))),
            false => Ok(()),
        }
    }

    /// Checks that input `index`, if present, has these sizes, as far as they are known.
    pub fn check_shape(&self, index: usize, expected: &[Dim]) -> Result<()> {
        let Some(shape) = self.value(index).and_then(|value| value.shape.as_deref()) else { return Ok(()) };
        let mut sizes = shape.iter().zip(expected);
        if shape.len() == expected.len() && sizes.all(|(a, b)| self.require_equal(a, b).is_ok()) {
            return Ok(());
        }
        let message = format!("shape {}, expected {}", display_shape(shape), display_shape(expected));
        Err(Error::invalid(message).at_part(self.label(index)))
    }

    /// Checks that input `index`, if present, broadcasts to these sizes, as far as they are known.
    pub fn check_broadcasts(&self, index: usize, to: &[Dim]) -> Result<()> {
        let Some(shape) = self.value(index).and_then(|value| value.shape.as_deref()) else { return Ok(()) };
        check_broadcasts(shape, to).map_err(|error| error.at_part(self.label(index)))?;
        let mut pairs = shape.iter().rev().zip(to.iter().rev());
        pairs.try_for_each(|(size, to)| match size.known() {
            Some(known) if known != 1 => self.require_equal(size, to),
            _ => self.require(SizeCondition::broadcast(size, to)),
        })
    }

    /// Returns the tensor of input `index`, which must be a constant.
    pub fn required_constant(&self, index: usize) -> Result<&'a Tensor> {
        self.input(index)?;
        self.constant(index).ok_or_else(|| {
            Error::unsupported("it must be a constant; its value is computed at run time")
                .at_part(self.label(index))
        })
    }

    /// Returns the elements of input `index`: the elements of a constant, or sizes.
    pub fn array(&self, index: usize) -> Result<&Array> {
        if let Some(inputs) = self.evaluated {
            return inputs.arrays.get(index).and_then(Option::as_deref).ok_or_else(|| missing(index));
        }
        let value = self.input(index)?;
        if let Some(elements) = &value.elements {
            return Ok(elements);
        }
        if let Some(few) = value.constant.as_ref().map(Tensor::few).transpose()?.flatten() {
            return Ok(few);
        }
        let loaded = self.loaded.get_or_init(|| vec![OnceCell::new(); self.input_count()]);
        let slot = loaded.at(index)?;
        if slot.get().is_none() {
            // Nothing else sets it.
            let _ = slot.set(self.required_constant(index)?.load_listed()?.into_owned());
        }
        slot.get().ok_or_else(|| Error::internal("a constant that was not loaded"))
    }

    /// Returns the elements of input `index`, unless it is omitted.
    pub fn optional_array(&self, index: usize) -> Result<Option<&Array>> {
        self.has_input(index).then(|| self.array(index)).transpose()
    }

    /// Returns the elements of all inputs.
    pub fn arrays(&self) -> Result<Vec<&Array>> {
        (0..self.input_count()).map(|index| self.array(index)).collect()
    }

    /// Returns the elements of input `index`, which may be symbolic, in row-major order.
    pub fn dims(&self, index: usize) -> Result<Vec<Dim>> {
        if let Some(count) = self.constant(index).map(Tensor::len).filter(|n| *n > limits::SIZE_ELEMENTS) {
            return Err(Error::limit(format!("{count} sizes are too many")).at_part(self.label(index)));
        }
        self.array(index)?.dim_list()
    }

    /// Returns the elements of input `index`, unless it is omitted.
    pub fn optional_dims(&self, index: usize) -> Result<Option<Vec<Dim>>> {
        self.has_input(index).then(|| self.dims(index)).transpose()
    }

    /// Returns the elements of input `index`, which must be known integers, in row-major order.
    pub fn int_list(&self, index: usize) -> Result<Vec<i64>> {
        self.array(index)?.int_list().map_err(|e| e.at_part(self.label(index)))
    }

    /// Returns the axes in input `index`, which must be known.
    pub fn axes(&self, index: usize) -> Result<Vec<i64>> {
        if let Some(count) = self.constant(index).map(Tensor::len).filter(|count| *count > limits::AXES) {
            return Err(Error::limit(format!("{count} axes are too many")).at_part(self.label(index)));
        }
        self.int_list(index)
    }

    /// Returns the elements of input `index` as float32.
    pub fn float_list(&self, index: usize) -> Result<Vec<f32>> {
        self.array(index)?.float_list().map_err(|e| e.at_part(self.label(index)))
    }

    /// Returns the shape of output `index`.
    pub fn output_shape(&self, index: usize) -> Result<&'a [Dim]> {
        let id = self.node.output(index).filter(|_| self.evaluated.is_none());
        id.and_then(|id| self.graph.value(id).shape.as_deref())
            .ok_or_else(|| Error::unsupported("the rank of the output is unknown"))
    }

    /// Returns the declared shape of output `index`, if all sizes are known.
    pub fn declared_shape(&self, index: usize) -> Option<&'a [Dim]> {
        self.output_shape(index).ok().filter(|shape| shape.iter().all(|size| size.known().is_some()))
    }

    /// Returns the declared shape of the first output if input `index` is computed at run time, not if it is
    /// missing or wrong.
    pub fn declared_instead_of(&self, index: usize) -> Option<&'a [Dim]> {
        let is_computed = self.has_input(index) && self.constant(index).is_none();
        let shape = self.declared_shape(0).filter(|_| is_computed)?;
        self.replace_by_sizes(index);
        Some(shape)
    }

    /// Records that sizes of an output stand for the elements of input `index`: the net is right only for the
    /// elements that give these sizes, which is stated unless they turn out to be known.
    pub fn replace_by_sizes(&self, index: usize) {
        self.replaced.borrow_mut().push(index);
    }

    /// Returns the inputs whose elements were replaced by sizes.
    pub fn replaced(&self) -> Vec<usize> {
        self.replaced.take()
    }
}

fn missing(index: usize) -> Error {
    Error::invalid(format!("input {index} is missing"))
}

/// Checks that a shape broadcasts to another one, as far as sizes are known.
pub(crate) fn check_broadcasts(shape: &[Dim], to: &[Dim]) -> Result<()> {
    let differ = |(a, b): (&Dim, &Dim)| a.known().is_some_and(|a| a != 1) && b.known().is_some() && a != b;
    if shape.len() > to.len() || shape.iter().rev().zip(to.iter().rev()).any(differ) {
        invalid!("{} does not broadcast to {}", display_shape(shape), display_shape(to));
    }
    Ok(())
}

/// The shape rule of operators whose output has type and shape of the first input.
pub(crate) fn infer_same(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

/// The shape rule of tests of each element of the first input.
pub(crate) fn infer_test(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![call.like(0, DType::Bool)?])
}

/// Counts `axis` from the front, and checks that it is one of `rank` axes.
pub(crate) fn resolve_axis(axis: i64, rank: usize) -> Result<usize> {
    let rank = rank.int();
    let counted = if axis < 0 { axis.saturating_add(rank) } else { axis };
    if (0..rank).contains(&counted) {
        return Ok(usize::try_from(counted)?);
    }
    Err(Error::invalid(format!("axis {axis} is out of range for rank {rank}")).at_part("axis"))
}

/// Counts axes from the front, and refuses duplicates.
pub(crate) fn distinct_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut distinct = Vec::with_capacity(axes.len().min(rank));
    for axis in axes {
        let axis = resolve_axis(*axis, rank)?;
        if distinct.contains(&axis) {
            invalid!("axis {axis} is named twice");
        }
        distinct.push(axis);
    }
    Ok(distinct)
}

/// Returns an index counted from the front of an axis, whose size may be free.
pub(crate) fn index_from_front(index: i64, size: &Dim) -> Dim {
    if index < 0 { size + index } else { index.into() }
}

/// Returns an index counted from the front; a negative one counts from the end of an axis of `size`.
pub(crate) fn resolve_index(index: i64, size: i64) -> Result<i64> {
    let counted = if index < 0 { index.saturating_add(size) } else { index };
    if !(0..size).contains(&counted) {
        invalid!("index {index} is out of range for an axis of size {size}");
    }
    Ok(counted)
}

/// Returns the axes in the attribute `axes`; all without it.
pub(crate) fn axes_or_all(call: &Call, rank: usize) -> Result<Vec<usize>> {
    match call.optional_ints("axes")? {
        Some(axes) => distinct_axes(&axes, rank),
        None => Ok((0..rank).collect()),
    }
}
