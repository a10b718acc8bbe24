//! DepthToSpace and SpaceToDepth: channels to spatial blocks and back. ShuffleChannel: a transposition of
//! groups of channels.
//!
//! Mode CRD is mode 0 of the layers, DCR is mode 1. The batch is merged into the channels; in mode DCR a
//! Permute moves it between the positions of a block and the channels. Spec:
//! <https://onnx.ai/onnx/operators/onnx__DepthToSpace.html>, `onnx__SpaceToDepth.html`.

use crate::ncnn::Layer;
use crate::ncnn::layer::{PixelShuffle, Reorg, ShuffleChannel};
use crate::op::{Move, Moved};
use crate::ops::prelude::*;
use crate::ops::spatial::batch_as_channels;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::moving("", "DepthToSpace", Access::Selection, |call| rearranged(call, TO_SPACE))
        .infer(|call| infer_rearrange(call, TO_SPACE))
        .lower(|lower| lower_rearrange(lower, TO_SPACE))
        .lowers_to("PixelShuffle; Permute for a batch in mode DCR"),
    Row::moving("", "SpaceToDepth", Access::Selection, |call| rearranged(call, TO_DEPTH))
        .infer(|call| infer_rearrange(call, TO_DEPTH))
        .lower(|lower| lower_rearrange(lower, TO_DEPTH))
        .lowers_to("Reorg; Permute for a batch in mode DCR"),
    Row::moving(NCNN_DOMAIN, "ShuffleChannel", Access::Any, shuffled)
        .lower(lower_shuffle)
        .lowers_to("ShuffleChannel")
        .limits("a batch over 1"),
];

fn shuffled(call: &Call) -> Result<Vec<Moved>> {
    let (group, shape) = (call.int("group")?, call.shape(0)?);
    let [batch, channels, height, width] = shape else {
        invalid!("an input of shape {}, expected batch, channels, height and width", display_shape(shape))
    };
    let Some(each) = channels.exact_div(group).filter(|_| group > 0) else {
        invalid!("{channels} channels in {group} groups");
    };
    let groups = [batch, &group.into(), &each, height, width].map(Dim::clone);
    let steps =
        [Move::Reshape(groups.to_vec()), Move::Transpose(vec![0, 2, 1, 3, 4]), Move::Reshape(shape.to_vec())];
    Ok(vec![Moved::by(steps)])
}

fn lower_shuffle(lower: &Lower) -> Result<()> {
    let group = i32::try_from(lower.int("group")?)?;
    let [batch, image @ ..] = lower.shape(0)? else { unsupported!("an input without axes") };
    if !batch.is(1) {
        unsupported!("a batch of {batch}");
    }
    lower.give(0, lower.input(0).reshape(image).layer(ShuffleChannel { group, reverse: 0 }, image))
}

/// The direction in which elements move.
#[derive(Clone, Copy)]
struct Way {
    to_space: bool,
    /// The version since which the operator has a mode.
    has_mode_since: i64,
}

const TO_SPACE: Way = Way { to_space: true, has_mode_since: 11 };
const TO_DEPTH: Way = Way { to_space: false, has_mode_since: 28 };

/// DepthToSpace or SpaceToDepth as a Transpose between two Reshapes.
struct Plan {
    block: i64,
    /// Whether the channels are the outermost part of the depth (CRD) instead of the innermost (DCR).
    channel_first: bool,
    /// The shape of the input with blocks as axes.
    blocks: Vec<Dim>,
    perm: [usize; 6],
    /// The shape of the output.
    shape: Vec<Dim>,
}

fn plan(call: &Call, shape: &[Dim], way: Way) -> Result<Plan> {
    let block = call.int("blocksize")?;
    // The order of versions without a mode is DCR.
    let channel_first =
        call.since() >= way.has_mode_since && call.word("mode", &[("DCR", false), ("CRD", true)])?;
    let [n, c, h, w] = shape else {
        invalid!("an input of shape {}, expected batch, channels, height and width", display_shape(shape))
    };
    if block < 1 {
        invalid!("blocksize {block} is not positive");
    }
    let side = Dim::Known(block);
    let divided = |size: &Dim, by: &Dim| {
        // The shape rule requires a free size to be a multiple.
        match size.exact_div(by) {
            Some(parts) => Ok(parts),
            None if size.known().is_none() => Ok(size.floor_div(by)),
            None => Err(Error::invalid(format!("an axis of size {size} is not divisible by {by}"))),
        }
    };
    let area = &side * &side;
    let (blocks, perm, shape) = if way.to_space {
        let deep = divided(c, &area)?;
        let shape = [n.clone(), deep.clone(), h * &side, w * &side];
        if channel_first {
            ([n, &deep, &side, &side, h, w].map(Dim::clone), [0, 1, 4, 2, 5, 3], shape)
        } else {
            ([n, &side, &side, &deep, h, w].map(Dim::clone), [0, 3, 4, 1, 5, 2], shape)
        }
    } else {
        let (rows, columns) = (divided(h, &side)?, divided(w, &side)?);
        let shape = [n.clone(), c * &area, rows.clone(), columns.clone()];
        let perm = if channel_first { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
        ([n, c, &rows, &side, &columns, &side].map(Dim::clone), perm, shape)
    };
    Ok(Plan { block, channel_first, blocks: blocks.to_vec(), perm, shape: shape.to_vec() })
}

fn rearranged(call: &Call, way: Way) -> Result<Vec<Moved>> {
    let Plan { blocks, perm, shape, .. } = plan(call, call.shape(0)?, way)?;
    Ok(vec![Moved::by([Move::Reshape(blocks), Move::Transpose(perm.to_vec()), Move::Reshape(shape)])])
}

/// Requires free sizes to be multiples, from which follows that the steps keep the number of elements.
fn infer_rearrange(call: &Call, way: Way) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let plan = plan(call, shape, way)?;
    let area = plan.block.saturating_mul(plan.block);
    let factors = if way.to_space { [1, area, 1, 1] } else { [1, 1, plan.block, plan.block] };
    for (size, of) in shape.iter().zip(factors) {
        call.require(SizeCondition::multiple(size, of))?;
    }
    Ok(vec![Fact::new(call.dtype(0)?, plan.shape)])
}

fn lower_rearrange(lower: &Lower, way: Way) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let Plan { block, channel_first, shape: result, .. } = plan(lower, &shape, way)?;
    let (upscale_factor, mode) = (i32::try_from(block)?, i32::from(!channel_first));
    let layer: Layer = if way.to_space {
        PixelShuffle { upscale_factor, mode }.into()
    } else {
        Reorg { stride: upscale_factor, mode }.into()
    };
    let (from, to) = (batch_as_channels(&shape), batch_as_channels(&result));
    let (x, batch) = (lower.input(0), shape.at(0)?);
    if channel_first || batch.is(1) {
        return lower.give(0, x.reshape(from).layer(layer, to));
    }
    // The positions of a block precede the channels, and here the channels of all elements of the batch.
    let area = Dim::Known(block) * block;
    let deep = if way.to_space { &shape } else { &result };
    let rest = Dim::product(deep.get(1..).unwrap_or_default()).exact_div(&area);
    let Some(rest) = rest else { unsupported!("channels of {} in blocks of {area}", display_shape(deep)) };
    let y = if way.to_space {
        let moved = x.reshape(shape![batch, area, rest]).transpose(&[1, 0, 2]);
        moved.reshape(from).layer(layer, to)
    } else {
        let blocks = x.reshape(from).layer(layer, to);
        blocks.reshape(shape![area, batch, rest]).transpose(&[1, 0, 2])
    };
    lower.give(0, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Attribute, AttributeMap, Node};
    use ndarray::ArrayD;

    fn fold(op_type: &str, mode: &str, shape: &[usize]) -> (Vec<usize>, Vec<i64>) {
        let attributes = AttributeMap::from_iter([
            ("blocksize".into(), Attribute::Int(2)),
            ("mode".into(), Attribute::String(bytes::Bytes::copy_from_slice(mode.as_bytes()))),
        ]);
        let node = Node { op_type: op_type.into(), version: 28, attributes, ..Node::default() };
        let count: usize = shape.iter().product();
        let elements = (0..count).map(|i| i.int()).collect();
        let data = Array::i64(ArrayD::from_shape_vec(shape, elements).unwrap());
        let op = &OPS.iter().find(|row| row.op.schema.name == op_type).unwrap().op;
        let folded = op.evaluate(&node, vec![Some(data)]).unwrap();
        (folded[0].shape().to_vec(), folded[0].int_list().unwrap())
    }

    #[test]
    fn modes_differ_in_the_order_of_the_depth() {
        let to_space = |mode| fold("DepthToSpace", mode, &[1, 8, 1, 1]);
        assert_eq!(to_space("DCR"), (vec![1, 2, 2, 2], vec![0, 2, 4, 6, 1, 3, 5, 7]));
        assert_eq!(to_space("CRD"), (vec![1, 2, 2, 2], vec![0, 1, 2, 3, 4, 5, 6, 7]));
        let to_depth = |mode| fold("SpaceToDepth", mode, &[1, 2, 2, 2]);
        assert_eq!(to_depth("DCR"), (vec![1, 8, 1, 1], vec![0, 4, 1, 5, 2, 6, 3, 7]));
        assert_eq!(to_depth("CRD"), (vec![1, 8, 1, 1], vec![0, 1, 2, 3, 4, 5, 6, 7]));
    }
}
