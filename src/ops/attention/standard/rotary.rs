//! RotaryEmbedding: pairs of elements rotated by an angle that depends on the position.

use crate::ops::prelude::*;

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

fn read_rotary(call: &Call) -> Result<RotaryAttributes> {
    Ok(RotaryAttributes {
        interleaved: call.flag("interleaved")?,
        num_heads: call.int_or("num_heads", 0)?,
        rotary_embedding_dim: call.int("rotary_embedding_dim")?,
    })
}

pub(super) fn expand_rotary<'x>(expand: &'x Expand) -> Result<Expr<'x>> {
    let rotary = read_rotary(expand)?;
    let shape = expand.shape(input::X)?.to_vec();
    let mut x = expand.operand(input::X);
    // The angles get an axis for the heads: after the axis of the positions if the heads are merged, else
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
            x = x.reshape(&[0, 0, heads, head]);
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
        (x.slice_by(-1, 0, turned, 2), x.slice_by(-1, 1, turned, 2))
    } else {
        (x.slice(-1, 0, turned / 2), x.slice(-1, turned / 2, turned))
    };
    let products = [first.times(cos), second.times(sin), first * sin, second * cos];
    let [first_cos, second_sin, first_sin, second_cos] = products;
    let pair = [first_cos - second_sin, first_sin + second_cos];
    let mut y = if rotary.interleaved {
        expand.make.stack(&pair, -1).reshape(&[0, 0, 0, turned])
    } else {
        expand.make.concat(&pair, -1)
    };
    if turned < head {
        y = expand.make.concat(&[y, x.slice(-1, turned, head)], -1);
    }
    if shape.len() == 3 {
        y = y.reshape(&[0, 0, -1]);
    }
    Ok(y)
}

/// Returns the cosines or sines of each position, with an axis of size 1 for the heads.
fn angles<'x>(expand: &'x Expand, index: usize, heads_axis: i64) -> Result<Expr<'x>> {
    let mut cache = expand.operand(index);
    if let Some(ids) = expand.optional(input::POSITION_IDS) {
        cache = cache.gather(ids, 0);
    } else {
        expand.shape(index)?.at(2)?;
    }
    Ok(cache.unsqueeze(&[heads_axis]))
}
