//! The layers of operators that only move elements.

use super::{Lower, Nd};
use crate::error::{At, Result};
use crate::op::{Move, Moved};
use crate::tensor::{DType, Dim};

/// Makes each output the elements that the operator moves there.
pub(crate) fn lower_moves(lower: &Lower) -> Result<()> {
    let moves = lower.moves()?;
    if let Some((axis, sizes)) = partition(lower, &moves)? {
        let parts = lower.input(0).split(axis, &sizes);
        let parts = parts.into_iter().zip(&sizes).enumerate().filter(|(_, (_, size))| !size.is(0));
        return parts.into_iter().try_for_each(|(index, (part, _))| lower.give(index, part));
    }
    moves.iter().enumerate().try_for_each(|(index, moved)| lower.give(index, emit(lower, moved)?))
}

/// Returns an axis and the sizes of its parts, if these are the outputs, in order.
fn partition(lower: &Lower, moves: &[Moved]) -> Result<Option<(usize, Vec<Dim>)>> {
    let (mut along, mut end, mut sizes) = (None, Dim::ZERO, Vec::with_capacity(moves.len()));
    for moved in moves {
        let Moved::Steps(0, steps) = moved else { return Ok(None) };
        let [Move::Take { axis, span }] = steps.as_slice() else { return Ok(None) };
        if *along.get_or_insert(*axis) != *axis || span.start != end || span.step != 1 {
            return Ok(None);
        }
        end = span.end();
        sizes.push(span.count.clone());
    }
    let Some(axis) = along.filter(|_| moves.len() > 1) else { return Ok(None) };
    Ok((*lower.shape(0)?.at(axis)? == end).then_some((axis, sizes)))
}

fn emit<'l>(lower: &'l Lower, moved: &Moved) -> Result<Nd<'l>> {
    let (mut x, mut steps) = match moved {
        Moved::Steps(index, steps) => (lower.input(*index), steps.as_slice()),
        Moved::Join(parts, axis) => {
            let parts = parts.iter().map(|part| emit(lower, part)).collect::<Result<Vec<Nd>>>()?;
            return Ok(lower.join(&parts, *axis));
        }
    };
    while let Some((step, rest)) = steps.split_first() {
        steps = rest;
        x = match step {
            Move::Reshape(to) => x.view(to.as_slice()),
            Move::Transpose(perm) => x.transpose(perm),
            Move::Take { axis, span } => x.take(*axis, span),
            Move::Pick { axis, indices } => x.pick(*axis, indices),
            Move::Broadcast(to) => x.broadcast(to),
            Move::Repeat { axis, times } => {
                let mut to = x.shape().to_vec();
                to.put(*axis, x.size(*axis) * times);
                if times.known().is_some() || x.size(*axis).is(1) {
                    x.broadcast(&to)
                } else {
                    // A free number of copies along a new axis.
                    let mut one = x.shape().to_vec();
                    one.insert(*axis, Dim::ONE);
                    let mut copies = one.clone();
                    copies.put(*axis, times.clone());
                    x.view(one).broadcast(&copies).view(to)
                }
            }
            Move::Pad { border, .. } => {
                // Padding adds elements around several axes at once.
                let same = |step: &&Move| matches!(step, Move::Pad { border: other, .. } if other == border);
                let padded = rest.iter().take_while(|step| same(step)).count();
                let (others, after) = rest.split_at(padded);
                steps = after;
                let axes = std::iter::once(step).chain(others).filter_map(|step| match step {
                    Move::Pad { axis, added, .. } => Some((*axis, added.clone())),
                    _ => None,
                });
                let border = border.try_map(|element| element.cast(DType::F32)?.scalar_f32())?;
                x.pad(&axes.collect::<Vec<_>>(), border)
            }
        };
    }
    Ok(x)
}
