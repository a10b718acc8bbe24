//! Lowering of reductions.

use super::node::{Kind, read_reduce, reduced_axes, reduced_shape};
use crate::ncnn::layer::{Reduction, reduction_op};
use crate::ops::prelude::*;
use crate::tensor::axis_groups;

/// Most axes of a Mat.
const MAX_AXES: usize = 4;

/// Adjacent axes that are all reduced or all kept, merged.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::ops) struct Group {
    pub size: Dim,
    pub reduced: bool,
}

/// Returns the groups of the axes of a shape, without unit axes.
pub(in crate::ops) fn groups(shape: &[Dim], reduced: &[bool]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (size, reduced) in shape.iter().zip(reduced).filter(|(size, _)| !size.is(1)) {
        push(&mut groups, Group { size: size.clone(), reduced: *reduced });
    }
    Ok(groups)
}

fn push(groups: &mut Vec<Group>, group: Group) {
    match groups.last_mut() {
        Some(last) if last.reduced == group.reduced => last.size = &last.size * &group.size,
        _ => groups.push(group),
    }
}

/// Returns for each axis of a blob whether it is reduced, if each axis lies in one group.
fn split_groups(form: &[Dim], groups: &[Group]) -> Option<Vec<bool>> {
    let sizes: Vec<Dim> = groups.iter().map(|group| group.size.clone()).collect();
    let mut flags = vec![false; form.len()];
    for (group, axes) in groups.iter().zip(axis_groups(&sizes, form)?) {
        axes.into_iter().for_each(|axis| flags.put(axis, group.reduced));
    }
    Some(flags)
}

pub(super) fn lower_reduce(kind: Kind, lower: &Lower) -> Result<()> {
    let reduce = read_reduce(lower)?;
    let reduced = reduced_axes(lower, &reduce)?;
    let mut groups = groups(lower.shape(0)?, &reduced)?;
    if !groups.iter().any(|group| group.reduced) {
        if !matches!(kind, Kind::L1 | Kind::L2 | Kind::LogSum | Kind::SumSquare) {
            return lower.give(0, lower.input(0));
        }
        // Without reduced axes, the function of each element is still computed: along a unit axis.
        groups.push(Group { size: Dim::ONE, reduced: true });
    }
    let input = lower.blob(0)?;
    if let Some(flags) = split_groups(&lower.form(input), &groups)
        && flags.contains(&true)
    {
        let top = emit_step(lower, input, &flags, kind, reduce.keepdims)?;
        return lower.set(0, top);
    }
    let (first, next) = match kind {
        Kind::LogSum => (Kind::Sum, Kind::Sum),
        Kind::SumSquare => (Kind::SumSquare, Kind::Sum),
        _ => (kind, kind),
    };
    let mut step = first;
    let mut blob = input;
    while groups.len() > MAX_AXES {
        // The last reduced group, between merged axes before and after it.
        let Some(index) = groups.iter().rposition(|group| group.reduced) else { break };
        let tail = groups.split_off(index + 1);
        let Some(middle) = groups.pop() else { break };
        let outer = Dim::product(groups.iter().map(|group| &group.size));
        let inner = Dim::product(tail.iter().map(|group| &group.size));
        blob = lower.reshape(blob, &[outer, middle.size, inner])?;
        blob = emit_step(lower, blob, &[false, true, false], step, false)?;
        for group in tail {
            push(&mut groups, group);
        }
        step = next;
    }
    let last = if kind == Kind::LogSum { Kind::LogSum } else { step };
    let form: Vec<Dim> = groups.iter().map(|group| group.size.clone()).collect();
    let flags: Vec<bool> = groups.iter().map(|group| group.reduced).collect();
    let blob = if blob == input { lower.blob_as(0, &form)? } else { lower.reshape(blob, &form)? };
    let top = emit_step(lower, blob, &flags, last, false)?;
    lower.set(0, top)
}

/// Reduces the flagged axes of a blob.
fn emit_step(lower: &Lower, blob: BlobId, flags: &[bool], kind: Kind, keepdims: bool) -> Result<BlobId> {
    let operation = match kind {
        Kind::Sum => reduction_op::SUM,
        Kind::SumSquare => reduction_op::SUMSQ,
        Kind::Mean => reduction_op::MEAN,
        Kind::Max => reduction_op::MAX,
        Kind::Min => reduction_op::MIN,
        Kind::Prod => reduction_op::PROD,
        Kind::L1 => reduction_op::L1,
        Kind::L2 => reduction_op::L2,
        Kind::LogSum => reduction_op::LOG_SUM,
        Kind::LogSumExp => {
            // The runtime sums `exp(x)` without subtracting the maximum, which overflows above 88
            // (`reduction.cpp`).
            let max = emit_reduction(lower, blob, flags, reduction_op::MAX, true)?;
            // The difference of infinities is NaN.
            let finite = lower.compute(max.clip(f32::MIN, f32::MAX))?;
            let shifted = lower.compute(blob - finite)?;
            let sum = emit_reduction(lower, shifted, flags, reduction_op::LOG_SUM_EXP, true)?;
            return lower.compute(sum + max);
        }
    };
    if !matches!(kind, Kind::Max | Kind::Min) || !lower.may_be_infinite(0)? {
        return emit_reduction(lower, blob, flags, operation, keepdims);
    }
    // The runtime starts from the least or largest finite number, which no half reaches; its double is
    // infinite (`reduction.cpp`).
    let half = lower.compute(blob * 0.5)?;
    let extreme = emit_reduction(lower, half, flags, operation, keepdims)?;
    lower.compute(extreme * 2.0)
}

/// Emits a Reduction along the flagged axes; `operation` as in [`reduction_op`].
fn emit_reduction(
    lower: &Lower,
    blob: BlobId,
    flags: &[bool],
    operation: i32,
    keepdims: bool,
) -> Result<BlobId> {
    let axes = (0..).zip(flags).filter_map(|(axis, reduced)| reduced.then_some(axis)).collect();
    let mut top = reduced_shape(&lower.form(blob), flags, keepdims.then_some(Dim::ONE));
    if top.is_empty() {
        top.push(Dim::ONE);
    }
    let layer = Reduction {
        operation,
        reduce_all: 0,
        axes,
        keepdims: i32::from(keepdims),
        fixbug0: 1,
        ..Reduction::default()
    };
    lower.emit(layer, &[blob], &top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn adjacent_axes_are_grouped() {
        let found = groups(&dims(&[1, 2, 3, 4, 5]), &[true, false, false, true, true]).unwrap();
        let group = |size, reduced| Group { size: Dim::Known(size), reduced };
        assert_eq!(found, [group(6, false), group(20, true)]);
        for (form, flags) in [
            (&[2, 3, 4, 5][..], Some(vec![false, false, true, true])),
            (&[6, 20], Some(vec![false, true])),
            (&[1, 6, 20], Some(vec![false, false, true])),
            (&[2, 12, 5], None),
            (&[120], None),
        ] {
            assert_eq!(split_groups(&dims(form), &found), flags, "{form:?}");
        }
    }
}
