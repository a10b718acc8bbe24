//! Trilu: the elements on one side of a diagonal.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Trilu.html>.

use crate::common::limits;
use crate::error::{Error, Result, invalid};
use crate::lower::Lower;
use crate::ncnn::layer::binary_op;
use crate::op::{Access, Attributes, Call, Fact, required_input};
use crate::ops::Row;
use crate::pass::expand::Expand;
use crate::tensor::{Array, Dim, Tensor, coordinates};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Trilu", &[14], Access::Any, infer_trilu)
    .fold(fold_trilu)
    .expand(expand_trilu)
    .lower(lower_trilu)
    .lowers_to("BinaryOp MIN and MAX with constants; Where for a diagonal computed at run time")
    .limits("free sizes")];

fn read_upper(attributes: &Attributes) -> Result<bool> {
    attributes.flag("upper", true)
}

fn infer_trilu(call: &Call) -> Result<Vec<Fact>> {
    read_upper(call)?;
    call.check_integer(1)?;
    let shape = call.shape(0)?;
    if shape.len() < 2 {
        invalid!("the input has {} axes, expected at least 2", shape.len());
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape.to_vec())])
}

/// Returns the distance of each element of a matrix from the main diagonal, to the right.
fn offsets(rows: i64, columns: i64) -> Result<Vec<i64>> {
    let shape = [usize::try_from(rows)?, usize::try_from(columns)?];
    limits::check_listed(shape.iter().fold(1, |places, size| places.saturating_mul(*size)))?;
    coordinates(&shape)
        .map(|at| match *at.as_slice() {
            [row, column] => Ok(i64::try_from(column)? - i64::try_from(row)?),
            _ => Err(Error::invalid("a matrix has two axes")),
        })
        .collect()
}

fn keeps(upper: bool, offset: i64, k: i64) -> bool {
    if upper { offset >= k } else { offset <= k }
}

fn fold_trilu(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let k = inputs.get(1).and_then(Option::as_ref).map_or(Ok(0), Array::scalar_i64)?;
    let upper = read_upper(attributes)?;
    let [.., rows, columns] = *data.shape() else {
        invalid!("the input has shape {:?}, expected at least 2 axes", data.shape())
    };
    let offsets = offsets(i64::try_from(rows)?, i64::try_from(columns)?)?;
    let dropped = |place: &usize| {
        let offset = place.checked_rem(offsets.len()).and_then(|place| offsets.get(place));
        offset.is_some_and(|offset| !keeps(upper, *offset, k))
    };
    let targets: Vec<usize> = (0..data.len()).filter(dropped).collect();
    let zeros = Array::i64(ndarray::ArrayD::zeros(vec![targets.len()])).cast(data.dtype())?;
    Ok(vec![data.replace(&targets, &zeros)?])
}

/// A diagonal computed at run time is compared with the offset of each element.
fn expand_trilu(expand: &mut Expand) -> Result<bool> {
    if !expand.has_input(1) || expand.constant(1).is_some() {
        return Ok(false);
    }
    let sizes = expand.sizes(0)?;
    let [.., rows, columns] = *sizes.as_slice() else {
        invalid!("the input has shape {sizes:?}, expected at least 2 axes")
    };
    let shape = [usize::try_from(rows)?, usize::try_from(columns)?];
    let offsets = Array::i64(ndarray::ArrayD::from_shape_vec(shape.as_slice(), offsets(rows, columns)?)?);
    let (data, k, offsets) = (expand.operand(0)?, expand.operand(1)?, expand.literal(&offsets)?);
    let compare = if read_upper(expand)? { "GreaterOrEqual" } else { "LessOrEqual" };
    let kept = expand.op(compare, &[offsets, k], &[])?;
    let zero = expand.scalar_like(0, 0.0)?;
    let chosen = expand.op("Where", &[kept, data, zero], &[])?;
    expand.output(0, chosen)?;
    Ok(true)
}

fn lower_trilu(lower: &mut Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let sizes = lower.sizes(0)?;
    let [.., rows, columns] = *sizes.as_slice() else {
        invalid!("the input has shape {sizes:?}, expected at least 2 axes")
    };
    let k = if lower.has_input(1) { lower.int_list(1)?.first().copied().unwrap_or(0) } else { 0 };
    let upper = read_upper(lower)?;
    let outer = Dim::product(shape.iter().take(shape.len() - 2))?;
    let (rows_size, columns_size) = (Dim::Known(rows), Dim::Known(columns));
    let blob = lower.blob_as(0, &[outer, rows_size.clone(), columns_size.clone()])?;
    let form = [Dim::Known(1), rows_size, columns_size];
    // Clamping between 0 and 0 sets an element to 0, also an infinite one, of which a product with 0 would
    // make NaN.
    let offsets = offsets(rows, columns)?;
    let limits =
        |open: f32| offsets.iter().map(|offset| if keeps(upper, *offset, k) { open } else { 0.0 }).collect();
    let shape = [usize::try_from(rows)?, usize::try_from(columns)?];
    let most = lower.memory_data(&Tensor::from_f32(&shape, limits(f32::INFINITY))?, &form)?;
    let least = lower.memory_data(&Tensor::from_f32(&shape, limits(f32::NEG_INFINITY))?, &form)?;
    let below = lower.binary(binary_op::MIN, blob, most)?;
    let top = lower.binary(binary_op::MAX, below, least)?;
    lower.set(0, top)
}
