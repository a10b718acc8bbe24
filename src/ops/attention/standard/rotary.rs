//! RotaryEmbedding: pairs of elements rotated by an angle that depends on the position.

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Attributes, Call, Fact};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::display_shape;

/// The indices of the inputs.
mod input {
    pub const X: usize = 0;
    pub const COS_CACHE: usize = 1;
    pub const SIN_CACHE: usize = 2;
    pub const POSITION_IDS: usize = 3;
}

struct RotaryAttributes {
    interleaved: bool,
    num_heads: i64,
    /// The number of rotated elements of each head; 0 for all.
    rotary_embedding_dim: i64,
}

fn read_rotary(attributes: &Attributes) -> Result<RotaryAttributes> {
    Ok(RotaryAttributes {
        interleaved: attributes.flag("interleaved", false)?,
        num_heads: attributes.int_or("num_heads", 0)?,
        rotary_embedding_dim: attributes.int_or("rotary_embedding_dim", 0)?,
    })
}

pub(super) fn infer_rotary(call: &Call) -> Result<Vec<Fact>> {
    read_rotary(call)?;
    Ok(vec![Fact::new(call.dtype(input::X)?, call.shape(input::X)?.to_vec())])
}

pub(super) fn expand_rotary(expand: &Expand) -> Result<bool> {
    let rotary = read_rotary(expand)?;
    let shape = expand.shape(input::X)?.to_vec();
    let mut x = expand.raw_operand(input::X)?;
    // The angles get an axis for the heads: after that of the positions if the heads are merged, otherwise
    // before it.
    let (heads_axis, head) = match shape.as_slice() {
        [_, _, hidden] => {
            let heads = rotary.num_heads;
            let Some(hidden) = hidden.known() else {
                unsupported!("the hidden size is known only at run time");
            };
            let head = hidden.checked_div(heads).filter(|head| *head > 0 && head * heads == hidden);
            let head = head.ok_or_else(|| {
                Error::invalid(format!("{hidden} elements do not divide into {heads} heads"))
            })?;
            let apart = expand.raw_ints(&[0, 0, heads, head])?;
            x = expand.raw_op("Reshape", &[x, apart], &[])?;
            (2, head)
        }
        [_, _, _, head] => {
            let head = head
                .known()
                .ok_or_else(|| Error::unsupported("the size of the heads is known only at run time"))?;
            (1, head)
        }
        _ => invalid!("an input of shape {}", display_shape(&shape)),
    };
    let turned = if rotary.rotary_embedding_dim == 0 { head } else { rotary.rotary_embedding_dim };
    if turned > head || turned % 2 != 0 {
        invalid!("{turned} of {head} elements are rotated");
    }
    let cos = angles(expand, input::COS_CACHE, heads_axis)?;
    let sin = angles(expand, input::SIN_CACHE, heads_axis)?;
    let (first, second) = if rotary.interleaved {
        (slice(expand, x, 0, turned, 2)?, slice(expand, x, 1, turned, 2)?)
    } else {
        (slice(expand, x, 0, turned / 2, 1)?, slice(expand, x, turned / 2, turned, 1)?)
    };
    let mut y = turn(expand, [first, second], [cos, sin], rotary.interleaved.then_some(turned))?;
    let last = [("axis", Attribute::Int(-1))];
    if turned < head {
        let rest = slice(expand, x, turned, head, 1)?;
        y = expand.raw_op("Concat", &[y, rest], &last)?;
    }
    if shape.len() == 3 {
        let merged = expand.raw_ints(&[0, 0, -1])?;
        y = expand.raw_op("Reshape", &[y, merged], &[])?;
    }
    expand.raw_output(0, y)?;
    Ok(true)
}

/// Emits each pair rotated by its angle; pairs are adjacent if `interleaved` gives the number of their
/// elements.
fn turn(
    expand: &Expand,
    [first, second]: [Operand; 2],
    [cos, sin]: [Operand; 2],
    interleaved: Option<i64>,
) -> Result<Operand> {
    let product = |x: Operand, by: Operand| expand.raw_op("Mul", &[x, by], &[]);
    let real = [product(first, cos)?, product(second, sin)?];
    let imaginary = [product(first, sin)?, product(second, cos)?];
    let real = expand.raw_op("Sub", &real, &[])?;
    let imaginary = expand.raw_op("Add", &imaginary, &[])?;
    let last = [("axis", Attribute::Int(-1))];
    let Some(turned) = interleaved else { return expand.raw_op("Concat", &[real, imaginary], &last) };
    let axes = expand.raw_ints(&[-1])?;
    let real = expand.raw_op("Unsqueeze", &[real, axes], &[])?;
    let imaginary = expand.raw_op("Unsqueeze", &[imaginary, axes], &[])?;
    let pairs = expand.raw_op("Concat", &[real, imaginary], &last)?;
    let merged = expand.raw_ints(&[0, 0, 0, turned])?;
    expand.raw_op("Reshape", &[pairs, merged], &[])
}

/// Emits the cosines or sines of each position, with an axis of size 1 for the heads.
fn angles(expand: &Expand, index: usize, heads_axis: i64) -> Result<Operand> {
    let mut cache = expand.raw_operand(index)?;
    if expand.has_input(input::POSITION_IDS) {
        let ids = expand.raw_operand(input::POSITION_IDS)?;
        cache = expand.raw_op("Gather", &[cache, ids], &[("axis", Attribute::Int(0))])?;
    } else {
        expand.shape(index)?.at(2)?;
    }
    let axes = expand.raw_ints(&[heads_axis])?;
    expand.raw_op("Unsqueeze", &[cache, axes], &[])
}

/// Emits a slice of the last axis.
fn slice(expand: &Expand, x: Operand, start: i64, end: i64, step: i64) -> Result<Operand> {
    let bounds = [
        expand.raw_ints(&[start])?,
        expand.raw_ints(&[end])?,
        expand.raw_ints(&[-1])?,
        expand.raw_ints(&[step])?,
    ];
    expand.raw_op("Slice", &[[x].as_slice(), &bounds].concat(), &[])
}
