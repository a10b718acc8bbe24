//! Operators that leave the elements unchanged, in the same or another shape.
//!
//! Dropout is converted as in inference.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Reshape.html>, `onnx__Dropout.html`, `onnx__Flatten.html`,
//! `onnx__Identity.html`, `onnx__Squeeze.html`, `onnx__Unsqueeze.html`.

use ndarray::{ArrayD, IxDyn};

use super::size::{data_sizes, dims_of, fixed_shape, known_dims};
use crate::lower::same_elements;
use crate::op::identity::{first, same_shape};
use crate::op::required;
use crate::ops::prelude::*;
use crate::tensor::Shape;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Dropout", Access::Elementwise, infer_dropout)
        .fold(fold_dropout)
        .lower(lower_alias)
        .identity(first)
        .transparent(|_, _| true)
        .lowers_to("no layer")
        .limits("training mode: it drops elements at random"),
    Row::new("Flatten", Access::View, infer_flatten)
        .fold(fold_flatten)
        .lower(lower_alias)
        .identity(same_shape)
        .transparent(|_, _| true)
        .lowers_to(RESHAPED_BY_READER),
    Row::new("Identity", Access::Elementwise, infer_identity)
        .fold(|_, inputs| Ok(vec![required_input(inputs, 0)?.clone()]))
        .lower(lower_alias)
        .identity(first)
        .transparent(|_, _| true)
        .keeps_magnitude()
        .lowers_to("no layer"),
    Row::new("Reshape", Access::View, infer_reshape)
        .fold(fold_reshape)
        .lower(lower_alias)
        .identity(same_shape)
        .transparent(|_, _| true)
        .lowers_to(RESHAPED_BY_READER)
        .limits("a shape computed at run time"),
    Row::new("Squeeze", Access::View, infer_squeeze)
        .fold(fold_squeeze)
        .expand(expand_squeeze)
        .lower(lower_alias)
        .identity(same_shape)
        .transparent(|_, _| true)
        .lowers_to("no layer"),
    Row::new("Unsqueeze", Access::View, infer_unsqueeze)
        .fold(fold_unsqueeze)
        .expects(|call, index, result| expected_before_unsqueeze(call, &result().filter(|_| index == 0)?))
        .lower(lower_alias)
        .identity(same_shape)
        .transparent(|_, _| true)
        .lowers_to("no layer"),
];

const RESHAPED_BY_READER: &str = "no layer: a reader reshapes the blob as it needs";

/// Returns input 0 in another shape; a constant stays one and is not loaded.
fn reshaped(call: &Call, shape: Vec<Dim>) -> Result<Fact> {
    if let (Some(tensor), Some(sizes)) = (call.constant(0), Dim::known_sizes::<usize>(&shape)) {
        return Fact::constant(tensor.reshaped(&sizes)?);
    }
    require_same_elements(call, call.shape(0)?, &shape)?;
    Ok(Fact::new(call.dtype(0)?, shape))
}

/// Requires two shapes to have the same number of elements.
fn require_same_elements(call: &Call, from: &[Dim], to: &[Dim]) -> Result<()> {
    let (mut from, mut to) = (from.to_vec(), to.to_vec());
    from.retain(|size| match to.iter().position(|other| other == size) {
        Some(place) => {
            to.swap_remove(place);
            false
        }
        None => true,
    });
    call.require_equal(&Dim::product(&from)?, &Dim::product(&to)?)
}

/// Folds a node: reshapes input 0 as `rule` maps its shape.
fn fold_by(inputs: &[Option<Array>], rule: impl Fn(&[Dim]) -> Result<Vec<Dim>>) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let shape = rule(&Shape::try_from(data.shape())?)?;
    Ok(vec![data.reshape(&fixed_shape(&shape)?)?])
}

/// Infers input 0 in the requested shape, or in the declared one if that is computed at run time.
fn requested_or_declared(call: &Call, requested: Result<Vec<Dim>>) -> Result<Vec<Fact>> {
    let shape = requested.or_else(|error| match call.declared_shape(0) {
        Some(declared) if same_elements(call.shape(0)?, declared)? => {
            call.replace_by_sizes(1);
            Ok(declared.to_vec())
        }
        _ => Err(error),
    })?;
    Ok(vec![reshaped(call, shape)?])
}

fn lower_alias(lower: &mut Lower) -> Result<()> {
    let (from, to) = (lower.shape(0)?, lower.output_shape(0)?);
    if same_elements(from, to)? { lower.alias() } else { lower.reinterpret() }
}

// Identity and Dropout

fn infer_identity(call: &Call) -> Result<Vec<Fact>> {
    if let Some(elements) = &call.input(0)?.elements {
        return Ok(vec![Fact::elements(elements.as_ref().clone())?]);
    }
    if let Some(tensor) = call.constant(0) {
        return Ok(vec![Fact::constant(tensor.clone())?]);
    }
    infer_same(call)
}

/// Returns the type of the mask: bool since version 10, before that the type of the data.
fn mask_dtype(attributes: &Attributes, data: DType) -> DType {
    if attributes.since() >= 10 { DType::Bool } else { data }
}

fn infer_dropout(call: &Call) -> Result<Vec<Fact>> {
    if call.since() >= 12 && call.has_input(2) {
        let training = call.int_list(2)?.first().is_some_and(|flag| *flag != 0);
        let ratio = if call.has_input(1) { call.float_list(1)?.first().copied().unwrap_or(0.5) } else { 0.5 };
        if training && ratio != 0.0 {
            unsupported!("training mode: it drops elements at random");
        }
    }
    let mut facts = infer_identity(call)?;
    if call.has_output(1) {
        let dtype = mask_dtype(call, call.dtype(0)?);
        let shape = data_sizes(call)?;
        let mask = Tensor::deferred(dtype, shape.clone(), Vec::new(), move |_| ones(dtype, &shape))?;
        facts.push(Fact::constant(mask)?);
    } else {
        facts.push(Fact::unranked(DType::Bool));
    }
    Ok(facts)
}

fn ones(dtype: DType, shape: &[usize]) -> Result<Array> {
    Array::i64(ArrayD::from_elem(IxDyn(shape), 1)).cast(dtype)
}

fn fold_dropout(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    Ok(vec![data.clone(), ones(mask_dtype(attributes, data.dtype()), data.shape())?])
}

// Reshape and Flatten

fn infer_reshape(call: &Call) -> Result<Vec<Fact>> {
    let requested = match call.since() {
        1 => requested_attribute(call),
        _ => call.dims(1),
    };
    requested_or_declared(call, requested.and_then(|requested| reshape(call, call.shape(0)?, &requested)))
}

fn requested_attribute(attributes: &Attributes) -> Result<Vec<Dim>> {
    Ok(known_dims(attributes.ints("shape")?))
}

fn fold_reshape(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let requested = match attributes.since() {
        1 => requested_attribute(attributes)?,
        _ => dims_of(required_input(inputs, 1)?)?,
    };
    fold_by(inputs, |shape| reshape(attributes, shape, &requested))
}

/// Resolves the requested sizes: 0 copies the size of the input's axis unless `allowzero` is set, one -1 is
/// inferred.
fn reshape(attributes: &Attributes, from: &[Dim], requested: &[Dim]) -> Result<Vec<Dim>> {
    let allow_zero = attributes.since() >= 14 && attributes.flag("allowzero")?;
    let mut shape = Vec::with_capacity(requested.len());
    let mut inferred = None;
    for (axis, size) in requested.iter().enumerate() {
        shape.push(match size.known() {
            Some(0) if !allow_zero => from.at(axis)?.clone(),
            Some(-1) => {
                if inferred.replace(axis).is_some() {
                    invalid!("more than one -1 in the shape {}", display_shape(requested));
                }
                Dim::Known(1)
            }
            Some(n) if n < -1 => invalid!("size {n} is less than -1"),
            _ => size.clone(),
        });
    }
    let (total, product) = (Dim::product(from)?, Dim::product(&shape)?);
    if let Some(axis) = inferred {
        if product.is(0) {
            invalid!("the shape {} contains both -1 and 0", display_shape(requested));
        }
        if let (Some(total), Some(product)) = (total.known(), product.known())
            && total % product != 0
        {
            invalid!("cannot reshape {} to {}", display_shape(from), display_shape(requested));
        }
        shape.put(axis, total.floor_div(&product)?);
    } else if total.known().is_some() && product.known().is_some() && total != product {
        invalid!("cannot reshape {} to {}", display_shape(from), display_shape(requested));
    }
    Ok(shape)
}

fn infer_flatten(call: &Call) -> Result<Vec<Fact>> {
    let shape = flatten(call, call.shape(0)?)?;
    Ok(vec![reshaped(call, shape)?])
}

fn fold_flatten(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    fold_by(inputs, |shape| flatten(attributes, shape))
}

/// Merges the axes before `axis`, which may be the rank, and the others.
fn flatten(attributes: &Attributes, from: &[Dim]) -> Result<Vec<Dim>> {
    let axis = attributes.int("axis")?;
    let axis =
        if usize::try_from(axis) == Ok(from.len()) { from.len() } else { resolve_axis(axis, from.len())? };
    let (outer, inner) = from.split_at_checked(axis).unwrap_or((from, &[]));
    Ok(vec![Dim::product(outer)?, Dim::product(inner)?])
}

// Squeeze and Unsqueeze

/// Reads the axes: an attribute before version 13, then an input.
fn read_axes(
    attributes: &Attributes,
    input: impl Fn() -> Result<Option<Vec<i64>>>,
) -> Result<Option<Vec<i64>>> {
    if attributes.since() < 13 { attributes.given_ints("axes") } else { input() }
}

fn axes_input(call: &Call) -> Result<Option<Vec<i64>>> {
    if call.has_input(1) { call.axes(1).map(Some) } else { Ok(None) }
}

fn axes_array(inputs: &[Option<Array>]) -> Result<Option<Vec<i64>>> {
    inputs.get(1).and_then(Option::as_ref).map(Array::int_list).transpose()
}

fn infer_squeeze(call: &Call) -> Result<Vec<Fact>> {
    let axes = read_axes(call, || axes_input(call));
    requested_or_declared(call, axes.and_then(|axes| squeeze(axes, call.shape(0)?)))
}

fn fold_squeeze(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let axes = read_axes(attributes, || axes_array(inputs))?;
    fold_by(inputs, |shape| squeeze(axes.clone(), shape))
}

/// Removes the axes, or all of size 1.
fn squeeze(axes: Option<Vec<i64>>, from: &[Dim]) -> Result<Vec<Dim>> {
    let Some(axes) = axes else {
        if let Some(open) = from.iter().find(|d| d.known().is_none()) {
            unsupported!("whether {open} is 1 is known only at run time");
        }
        return Ok(from.iter().filter(|d| !d.is(1)).cloned().collect());
    };
    let mut removed = vec![false; from.len()];
    for axis in axes {
        let axis = resolve_axis(axis, from.len())?;
        if from.at(axis)?.known().is_some_and(|n| n != 1) {
            invalid!("cannot squeeze axis {axis} of {}: its size is not 1", display_shape(from));
        }
        removed.put(axis, true);
    }
    Ok(from.iter().zip(removed).filter(|(_, removed)| !removed).map(|(d, _)| d.clone()).collect())
}

/// Takes the first element of removed axes of free size: ONNX allows only a size of 1 there.
fn expand_squeeze(x: &Expand) -> Result<bool> {
    // If the axes are computed at run time, the output has its declared shape.
    let Ok(Some(axes)) = read_axes(x, || axes_input(x)) else { return Ok(false) };
    let from = x.shape(0)?;
    let mut data = x.operand(0);
    let mut taken = false;
    for axis in &axes {
        if from.at(resolve_axis(*axis, from.len())?)?.known().is_none() {
            data = data.gather(x.make.ints(&[0]), *axis);
            taken = true;
        }
    }
    if taken {
        x.output(0, data.squeeze(&axes));
    }
    Ok(taken)
}

fn infer_unsqueeze(call: &Call) -> Result<Vec<Fact>> {
    let axes = read_axes(call, || axes_input(call));
    requested_or_declared(call, axes.and_then(|axes| unsqueeze(&required(axes, "axes")?, call.shape(0)?)))
}

/// Returns the type and the shape of the input, if those of the result are expected.
fn expected_before_unsqueeze(call: &Call, result: &Fact) -> Option<Fact> {
    let axes = read_axes(call, || axes_input(call)).ok()??;
    let shape = result.shape.as_deref()?;
    let added: Vec<usize> =
        axes.iter().map(|axis| resolve_axis(*axis, shape.len()).ok()).collect::<Option<_>>()?;
    let kept =
        shape.iter().enumerate().filter(|(axis, _)| !added.contains(axis)).map(|(_, size)| size.clone());
    Some(Fact::new(result.dtype, kept.collect::<Vec<Dim>>()))
}

fn fold_unsqueeze(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let axes = required(read_axes(attributes, || axes_array(inputs))?, "axes")?;
    fold_by(inputs, |shape| unsqueeze(&axes, shape))
}

/// Inserts axes of size 1; `axes` refer to the result.
fn unsqueeze(axes: &[i64], from: &[Dim]) -> Result<Vec<Dim>> {
    let rank = from.len() + axes.len();
    let mut added = vec![false; rank];
    for axis in axes {
        let axis = resolve_axis(*axis, rank)?;
        match added.get_mut(axis) {
            Some(slot) if !*slot => *slot = true,
            _ => invalid!("axis {axis} is given twice"),
        }
    }
    let mut kept = from.iter();
    let size = |added| if added { Some(Dim::Known(1)) } else { kept.next().cloned() };
    Ok(added.into_iter().filter_map(size).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn squeeze_and_unsqueeze_resolve_axes() {
        for (axes, from, to) in [
            (None, &[1, 3, 1][..], &[3][..]),
            (Some(vec![0]), &[1, 3, 1], &[3, 1]),
            (Some(vec![-1]), &[1, 3, 1], &[1, 3]),
        ] {
            assert_eq!(squeeze(axes, &dims(from)).unwrap(), dims(to), "{from:?}");
        }
        assert!(squeeze(Some(vec![1]), &dims(&[1, 3])).is_err());
        assert!(squeeze(None, &[Dim::symbol("N")]).is_err());
        assert_eq!(unsqueeze(&[-1, 0], &dims(&[3])).unwrap(), dims(&[1, 3, 1]));
        assert_eq!(unsqueeze(&[2, 1], &dims(&[3, 4])).unwrap(), dims(&[3, 1, 1, 4]));
        assert!(unsqueeze(&[0, 0], &dims(&[3])).is_err());
        assert!(unsqueeze(&[3], &dims(&[3])).is_err());
    }
}
