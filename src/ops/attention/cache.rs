//! TensorScatter: writing into a cache of keys or values.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__TensorScatter.html>.

use ndarray::Array1;

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::defined("", "TensorScatter", expand_tensor_scatter)
    .lowers_to("Where for each element that is written; Concat if it is written at the front")
    .limits("many elements at positions computed at run time")];

/// The maximum number of elements that are written one by one: each is a Where over the whole cache.
const MAX_WRITES: i64 = 64;

fn read_tensor_scatter(call: &Call) -> Result<(usize, bool)> {
    let axis = resolve_axis(call.int("axis")?, call.shape(0)?.len())?;
    if axis == 0 {
        return Err(Error::invalid("the axis is the batch axis").at_part("attribute axis"));
    }
    Ok((axis, call.word("mode", &[("linear", false), ("circular", true)])?))
}

fn expand_tensor_scatter<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (axis, circular) = read_tensor_scatter(x)?;
    let known = |index: usize| {
        let size = x.shape(index)?.at(axis)?.known();
        size.ok_or_else(|| Error::unsupported("a cache or an update of free length"))
    };
    let (length, writes) = (known(0)?, known(1)?);
    if writes > length {
        invalid!("{writes} elements written into a cache of {length}");
    }
    let result = if x.has_input(2) {
        write(x, axis, [length, writes], circular)?
    } else {
        front(x, axis.int(), [length, writes])
    };
    Ok(result)
}

/// Returns the update, followed by the rest of the cache.
fn front<'x>(x: &'x Expand, axis: i64, [length, writes]: [i64; 2]) -> Expr<'x> {
    let (past, update) = (x.operand(0), x.operand(1));
    if writes == length {
        return update;
    }
    x.make.concat(&[update, past.slice(axis, writes, length)], axis)
}

/// Returns the cache with the update written at a position for each element of the batch.
fn write<'x>(x: &'x Expand, axis: usize, [length, writes]: [i64; 2], circular: bool) -> Result<Expr<'x>> {
    if writes > MAX_WRITES {
        unsupported!("{writes} elements written at different positions (at most {MAX_WRITES})");
    }
    let (mut cache, update) = (x.operand(0), x.operand(1));
    let rank = x.shape(0)?.len();
    let first = x.operand(2).along(0, rank);
    let positions = Array::i64(Array1::from_iter(0..length).into_dyn());
    let positions = x.make.cast_literal(&positions, x.dtype(2)?).along(axis, rank);
    let axis = axis.int();
    for index in 0..writes {
        let mut position = if index == 0 { first } else { first + index };
        if circular {
            position = position.modulo(length);
        }
        let here = positions.equal(position);
        let part = if writes == 1 { update } else { update.slice(axis, index, index + 1) };
        x.make.require_broadcast(part, cache);
        cache = here.select(part, cache);
    }
    Ok(cache)
}
