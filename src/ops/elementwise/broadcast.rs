//! Broadcasting of operands, by numpy's rules or by the attributes of operator sets 1 to 6.
//!
//! Spec: <https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md>,
//! <https://onnx.ai/onnx/operators/onnx__Add.html>.

use std::borrow::Cow;

use crate::lower::{ScalarOrBlob, check_numbers, inexact_integer};
use crate::op::MANY;
use crate::ops::prelude::*;
use crate::tensor::{try_zip_broadcast, zip_broadcast};

/// The difference of vectorized functions and comparisons, see `Row::differs`.
pub(in crate::ops) const LOSES_NAN: &str = "NaN, which may become a number";

/// The alignment of the second input with the first.
struct Alignment {
    /// The axis of the first input at which the axes of the second begin.
    axis: Option<i64>,
    /// Whether the shapes must be equal.
    equal: bool,
}

fn read_alignment(call: &Call) -> Result<Alignment> {
    // Max, Min, Sum and Mean never had the call; their inputs had one shape before they could be
    // broadcast.
    let n_ary = matches!(call.op_type(), "Max" | "Min" | "Sum" | "Mean");
    if call.since() >= 7 || n_ary {
        return Ok(Alignment { axis: None, equal: false });
    }
    let (broadcast, axis) = (call.flag_or_false("broadcast")?, call.optional_int("axis")?);
    Ok(Alignment { axis: axis.filter(|_| broadcast), equal: !broadcast })
}

impl Alignment {
    /// Returns the number of axes of size 1 to append to the second input.
    fn trailing(&self, first: usize, second: usize) -> Result<usize> {
        let Some(axis) = self.axis else { return Ok(0) };
        let axis = resolve_axis(axis, first)?;
        let Some(trailing) = first.checked_sub(axis + second) else {
            invalid!("{second} axes do not fit at axis {axis} of {first}");
        };
        Ok(trailing)
    }
}

/// Returns the inputs with shapes to which numpy's rules apply.
fn operand_shapes<'a>(call: &Call<'a>) -> Result<Vec<(usize, Cow<'a, [Dim]>)>> {
    let alignment = read_alignment(call)?;
    let mut shapes: Vec<(usize, Cow<[Dim]>)> = Vec::with_capacity(call.input_count());
    for index in 0..call.input_count() {
        let mut shape = Cow::Borrowed(call.shape(index)?);
        if let Some((_, first)) = shapes.first() {
            let trailing = alignment.trailing(first.len(), shape.len())?;
            if trailing > 0 {
                shape.to_mut().extend(std::iter::repeat_n(Dim::ONE, trailing));
            }
            if alignment.equal && shape.len() != first.len() {
                invalid!("{} and {} without broadcasting", display_shape(first), display_shape(&shape));
            }
        }
        shapes.push((index, shape));
    }
    Ok(shapes)
}

/// Infers one output of the type of the first input, of the broadcast shape.
pub(in crate::ops) fn infer_first(call: &Call) -> Result<Vec<Fact>> {
    infer_broadcast(call, call.dtype(0)?)
}

/// Infers one output of type `dtype`, of the broadcast shape.
pub(in crate::ops) fn infer_broadcast(call: &Call, dtype: DType) -> Result<Vec<Fact>> {
    // An operator that takes any number of inputs needs one.
    let required = if call.most_inputs() == MANY { 1 } else { call.most_inputs() };
    for index in 0..required.max(call.input_count()) {
        if call.input(index)?.shape.is_none() {
            return Ok(vec![Fact::unranked(dtype)]);
        }
    }
    let mut shapes = operand_shapes(call)?.into_iter().map(|(_, shape)| shape);
    let mut out = shapes.next().unwrap_or_default();
    for shape in shapes {
        out = call.broadcast_shapes(&out, &shape)?.into();
    }
    Ok(vec![Fact::new(dtype, out.into_owned())])
}

/// Refuses NaN constants, for operations that are lowered to minima and maxima.
pub(in crate::ops) fn refuse_nan(lower: &Lower) -> Result<()> {
    for index in 0..lower.input_count() {
        let Some(tensor) = lower.constant(index).filter(|tensor| tensor.dtype().is_float()) else { continue };
        tensor.for_each_f32(&mut |elements| match elements.iter().any(|element| element.is_nan()) {
            true => {
                Err(Error::unsupported("NaN in minima and maxima: the result of ncnn depends on the order")
                    .at_part(lower.label(index)))
            }
            false => Ok(()),
        })?;
    }
    Ok(())
}

/// Returns the two inputs as operands of an arithmetic layer.
pub(in crate::ops) fn lower_pair(lower: &Lower) -> Result<(ScalarOrBlob, ScalarOrBlob)> {
    let sides = lower_operands(lower)?;
    Ok((*sides.at(0)?, *sides.at(1)?))
}

/// Returns the inputs as operands of arithmetic layers. Integer constants must be exact in float32.
pub(in crate::ops) fn lower_operands(lower: &Lower) -> Result<Vec<ScalarOrBlob>> {
    for index in 0..lower.input_count() {
        lower.constant(index).map_or(Ok(()), check_numbers).map_err(|e| e.at_part(lower.label(index)))?;
    }
    broadcast_operands(lower)
}

/// Returns the inputs as operands of a comparison or an extreme: a constant bound beyond 2^25 in magnitude
/// may be rounded, because it stays beyond every integer that float32 represents exactly.
pub(in crate::ops) fn lower_bounded(lower: &Lower) -> Result<Vec<ScalarOrBlob>> {
    for index in 0..lower.input_count() {
        let Some(tensor) = lower.constant(index) else { continue };
        if inexact_integer(tensor)?
            .is_some_and(|integer| tensor.len() > 1 || integer.unsigned_abs() < FAR_BOUND)
        {
            check_numbers(tensor).map_err(|e| e.at_part(lower.label(index)))?;
        }
    }
    broadcast_operands(lower)
}

/// 2^25: rounding keeps larger integers above 2^24.
const FAR_BOUND: u64 = 1 << 25;

fn broadcast_operands(lower: &Lower) -> Result<Vec<ScalarOrBlob>> {
    let shapes = operand_shapes(lower)?;
    lower.broadcast(&shapes)
}

/// Returns the inputs with shapes to which numpy's rules apply.
pub(in crate::ops) fn align_arrays<'c>(call: &'c Call) -> Result<Vec<Cow<'c, Array>>> {
    let alignment = read_alignment(call)?;
    let mut arrays: Vec<Cow<Array>> = Vec::with_capacity(call.input_count());
    for array in call.arrays()? {
        let trailing = match arrays.first() {
            Some(first) => alignment.trailing(first.shape().len(), array.shape().len())?,
            None => 0,
        };
        if trailing == 0 {
            arrays.push(Cow::Borrowed(array));
            continue;
        }
        let mut shape = array.shape().to_vec();
        shape.extend(std::iter::repeat_n(1, trailing));
        arrays.push(Cow::Owned(array.reshape(&shape)?));
    }
    Ok(arrays)
}

/// An operation on each kind of elements. Float32 is computed in float64 and rounded once.
pub(in crate::ops) struct Kernel<F, I, D> {
    /// On floats.
    pub float: fn(f64, f64) -> F,
    /// On integers and booleans.
    pub int: fn(i64, i64) -> Result<I>,
    /// On symbolic sizes.
    pub dim: fn(&Dim, &Dim) -> Result<D>,
}

/// Evaluates arithmetic of two arrays; the result has the type of the first.
pub(in crate::ops) fn fold_arithmetic(a: &Array, b: &Array, kernel: &Kernel<f64, i64, Dim>) -> Result<Array> {
    use num_traits::AsPrimitive;
    let elements = match (a.elements(), b.elements()) {
        (Elements::F32(x), Elements::F32(y)) => {
            Elements::F32(zip_broadcast(x, y, |x, y| (kernel.float)(f64::from(*x), f64::from(*y)).as_())?)
        }
        (Elements::I64(x), Elements::I64(y)) => {
            Elements::I64(try_zip_broadcast(x, y, |x, y| (kernel.int)(*x, *y))?)
        }
        (Elements::Dim(_), Elements::Dim(_) | Elements::I64(_)) | (Elements::I64(_), Elements::Dim(_)) => {
            Elements::Dim(try_zip_broadcast(&a.to_dims()?, &b.to_dims()?, kernel.dim)?)
        }
        _ => {
            let result = zip_broadcast(&a.to_f64()?, &b.to_f64()?, |x, y| (kernel.float)(*x, *y))?;
            return Array::new(DType::F64, Elements::F64(result)).cast(a.dtype());
        }
    };
    Ok(Array::new(a.dtype(), elements))
}

/// Evaluates a comparison of two arrays.
pub(in crate::ops) fn fold_comparison(
    a: &Array,
    b: &Array,
    kernel: &Kernel<bool, bool, bool>,
) -> Result<Array> {
    Ok(Array::bool(match (a.elements(), b.elements()) {
        (Elements::I64(x), Elements::I64(y)) => try_zip_broadcast(x, y, |x, y| (kernel.int)(*x, *y))?,
        (Elements::Dim(_), Elements::Dim(_) | Elements::I64(_)) | (Elements::I64(_), Elements::Dim(_)) => {
            try_zip_broadcast(&a.to_dims()?, &b.to_dims()?, kernel.dim)?
        }
        _ => zip_broadcast(&a.to_f64()?, &b.to_f64()?, |x, y| (kernel.float)(*x, *y))?,
    }))
}
