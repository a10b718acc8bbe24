//! Pad and CenterCropPad: elements added around a value or removed.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | negative amounts | Crop |
//! | constant, edge, reflect | Padding of up to three axes at once |
//! | constant, edge by a free size | Padding by its upper bound and Crop; Concat of a product with ones if it has none |
//! | reflect by a free size | Concat with Flip |
//! | reflect by the size of the axis or more | Crop and Concat; the sizes must be fixed |
//! | wrap | Crop and Concat |
//! | an infinite constant | Padding with a value per channel: a param cannot be infinite |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Pad.html>, `onnx__CenterCropPad.html`.

mod lower;

use super::size::{known_dims, resized};
use crate::op::identity::same_shape;
use crate::op::{axes_or_all, required};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("CenterCropPad", Access::Any, infer_center)
        .fold(fold_center)
        .lower(lower::lower_center)
        .identity(same_shape)
        .transparent(|_, _| true)
        .lowers_to("Padding, Crop")
        .limits("free sizes"),
    Row::new("Pad", Access::Any, infer_pad)
        .padding(constant_padding)
        .batched(|call, index| {
            let amounts = (index == 0).then(|| pad_amounts(call).ok()).flatten();
            amounts.and_then(|amounts| amounts.into_iter().next()).is_some_and(|(a, b)| a.is(0) && b.is(0))
        })
        .fold(fold_pad)
        .lower(lower::lower_pad)
        .identity(unpadded)
        .transparent(|_, _| true)
        .lowers_to(
            "Padding; Crop for negative amounts; Crop and Concat for wrap, for reflections by the size of the \
            axis or more, and for free sizes without an upper bound",
        )
        .limits("amounts or a constant computed at run time"),
];

/// The source of the added elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Constant,
    /// The element at the edge.
    Edge,
    /// The mirror image, without the element at the edge.
    Reflect,
    /// The elements at the other end.
    Wrap,
}

/// The numbers of elements added before and after each axis; negative numbers remove elements.
type Amounts = Vec<(Dim, Dim)>;

fn read_mode(call: &Call) -> Result<Mode> {
    Ok(match call.string("mode")? {
        "constant" => Mode::Constant,
        "edge" => Mode::Edge,
        "reflect" => Mode::Reflect,
        // New in version 19; torch writes it in older ones too, and onnxruntime accepts it there.
        "wrap" => Mode::Wrap,
        other => unsupported!("unknown mode \"{other}\""),
    })
}

/// Reads the amounts of each axis: attributes before version 11, then an input; since version 18 another
/// input lists the axes.
fn pad_amounts(call: &Call) -> Result<Amounts> {
    let (since, rank) = (call.since(), call.shape(0)?.len());
    let pads = match since {
        1 => call.given_ints("paddings")?.map(known_dims),
        2 => call.given_ints("pads")?.map(known_dims),
        _ => call.given_dims(1)?,
    };
    let pads = required(pads, "pads")?;
    let axes = if since >= 18 { call.given_dims(3)? } else { None };
    let axes = axes.unwrap_or((0..rank.int()).map(Dim::Known).collect());
    if pads.len() != 2 * axes.len() {
        invalid!("pads has {} elements for {} axes", pads.len(), axes.len());
    }
    let mut amounts = vec![(Dim::ZERO, Dim::ZERO); rank];
    let mut padded = Vec::new();
    let (before, after) = pads.split_at_checked(axes.len()).unwrap_or((&pads, &[]));
    for ((axis, before), after) in axes.iter().zip(before).zip(after) {
        let Some(axis) = axis.known() else { unsupported!("the axis {axis} is not fixed") };
        let axis = resolve_axis(axis, rank)?;
        if padded.contains(&axis) {
            invalid!("axis {axis} is padded twice");
        }
        padded.push(axis);
        for amount in [before, after].into_iter().filter_map(Dim::known) {
            if amount.unsigned_abs() > limits::BLOB_ELEMENTS.unsigned_abs() {
                return Err(Error::limit(format!(
                    "axis {axis} is padded by {amount}; a blob has at most {} elements",
                    limits::BLOB_ELEMENTS
                )));
            }
        }
        amounts.put(axis, (before.clone(), after.clone()));
    }
    Ok(amounts)
}

/// Returns the target sizes of CenterCropPad; the declared ones if they are computed at run time.
fn center_target(call: &Call) -> Result<Vec<Dim>> {
    let axes = axes_or_all(call, call.shape(0)?.len())?;
    call.check_list(1, axes.len())?;
    call.dims(1).or_else(|error| match call.declared_instead_of(1) {
        Some(declared) => axes.iter().map(|axis| declared.at(*axis).cloned()).collect(),
        None => Err(error),
    })
}

/// Returns the amounts that bring each axis to its target size; the larger half of an odd difference goes
/// after.
fn center_amounts(call: &Call) -> Result<Amounts> {
    let (shape, target) = (call.shape(0)?, center_target(call)?);
    let axes = axes_or_all(call, shape.len())?;
    if axes.len() != target.len() {
        invalid!("the target has {} sizes for {} axes", target.len(), axes.len());
    }
    let mut amounts = vec![(Dim::ZERO, Dim::ZERO); shape.len()];
    for (axis, size) in axes.iter().zip(&target) {
        let difference = size - shape.at(*axis)?;
        let Some(n) = difference.known() else {
            unsupported!("cannot pad an axis of size {} to {size}", shape.at(*axis)?)
        };
        let before = n / 2;
        amounts.put(*axis, (Dim::Known(before), Dim::Known(n - before)));
    }
    Ok(amounts)
}

fn padded_shape(shape: &[Dim], amounts: &Amounts) -> Result<Vec<Dim>> {
    let padded = |(size, (before, after)): (&Dim, &(Dim, Dim))| (size + before) + after;
    let padded: Vec<Dim> = shape.iter().zip(amounts).map(padded).collect();
    if let Some(negative) = padded.iter().find(|size| size.known().is_some_and(|n| n < 0)) {
        invalid!("an axis has the negative size {negative} after padding");
    }
    Ok(padded)
}

/// Returns the data if all amounts are 0.
fn unpadded(graph: &Graph, node: &Node) -> Option<ValueId> {
    let data = same_shape(graph, node)?;
    let amounts = pad_amounts(&Call::of(graph, node)?.1).ok()?;
    Some(data).filter(|_| amounts.iter().all(|(before, after)| before.is(0) && after.is(0)))
}

/// Returns the value and the amounts of a Pad with mode `constant`, if all are known.
fn constant_padding(call: &Call) -> Option<(f64, Vec<(i64, i64)>)> {
    if read_mode(call).ok()? != Mode::Constant {
        return None;
    }
    let value = match (call.since(), call.value(2)) {
        (1 | 2, _) => f64::from(call.float("value").ok()?),
        (_, None) => 0.0,
        (_, Some(_)) => call.constant(2)?.load_listed().ok()?.to_f64().ok()?.first().copied()?,
    };
    let known = |(before, after): &(Dim, Dim)| Some((before.known()?, after.known()?));
    let amounts: Option<Vec<(i64, i64)>> = pad_amounts(call).ok()?.iter().map(known).collect();
    Some((value, amounts?))
}

fn infer_pad(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(call.dtype(0)?, padded_shape(call.shape(0)?, &pad_amounts(call)?)?)])
}

fn infer_center(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let amounts = center_amounts(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, padded_shape(shape, &amounts)?)])
}

/// Returns the index in an axis of `size` that element `place` of the padded axis copies; 0 is the first
/// element of the axis.
fn source(place: i64, size: i64, mode: Mode) -> Option<i64> {
    match mode {
        _ if (0..size).contains(&place) => Some(place),
        Mode::Constant => None,
        Mode::Edge => Some(place.clamp(0, size - 1)),
        Mode::Wrap => place.checked_rem_euclid(size),
        Mode::Reflect if size == 1 => Some(0),
        Mode::Reflect => {
            let period = 2 * (size - 1);
            let place = place.checked_rem_euclid(period)?;
            Some(place.min(period - place))
        }
    }
}

fn fold_pad(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let amounts = pad_amounts(call)?;
    let value = match call.given_array(2)? {
        Some(value) if call.since() >= 11 => value.reshape(&[])?,
        _ => fill(call.float("value")?, data)?,
    };
    Ok(vec![pad(data, &amounts, read_mode(call)?, &value)?])
}

fn fold_center(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let amounts = center_amounts(call)?;
    Ok(vec![pad(data, &amounts, Mode::Constant, &fill(0.0, data)?)?])
}

fn fill(value: f32, like: &Array) -> Result<Array> {
    Array::f32(ndarray::ArrayD::from_elem(Vec::new(), value)).cast(like.dtype())
}

fn pad(data: &Array, amounts: &Amounts, mode: Mode, value: &Array) -> Result<Array> {
    let mut data = data.clone();
    for (axis, (before, after)) in amounts.iter().enumerate() {
        let (Some(before), Some(after)) = (before.known(), after.known()) else {
            unsupported!("the amounts {before} and {after} are not fixed");
        };
        // Added elements do not copy removed ones.
        let size = data.shape().at(axis)?.int();
        let padded = size.saturating_add(before).saturating_add(after);
        let kept: Vec<usize> = (0.max(before.saturating_neg())..size.min(size.saturating_add(after)))
            .map(usize::try_from)
            .collect::<std::result::Result<_, _>>()?;
        let size = kept.len().int();
        data = data.gather(axis, &kept)?;
        if size == 0 && mode != Mode::Constant && (before > 0 || after > 0) {
            invalid!("an empty axis has no elements to pad with");
        }
        let block = |count: i64| value.broadcast(&resized(data.shape(), axis, usize::try_from(count)?));
        let taken = |range: std::ops::Range<i64>| {
            let places = range.filter_map(|place| source(place, size, mode)).map(usize::try_from);
            data.gather(axis, &places.collect::<std::result::Result<Vec<_>, _>>()?)
        };
        // If no element of the axis is left, the rest is removed from the added elements.
        let (before, after) = if size == 0 { (0, padded) } else { (before.max(0), after.max(0)) };
        let parts = match mode {
            Mode::Constant => [block(before)?, data.clone(), block(after)?],
            _ => [taken(-before..0)?, data.clone(), taken(size..size + after)?],
        };
        data = Array::concat(&parts, axis)?;
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in onnxruntime 1.31.
    #[test]
    fn padding_may_remove_more_than_all_elements() {
        let data = Array::f32(ndarray::ArrayD::from_elem(vec![6], 1.0));
        let value = fill(9.0, &data).unwrap();
        let padded = |before, after| {
            let amounts = [(Dim::Known(before), Dim::Known(after))];
            pad(&data, &amounts.to_vec(), Mode::Constant, &value).unwrap().float_list().unwrap()
        };
        assert_eq!(padded(-8, 5), [9.0; 3]);
        assert_eq!(padded(5, -8), [9.0; 3]);
        assert_eq!(padded(-(1 << 31), (1 << 31) - 1), [9.0; 5]);
        assert_eq!(padded(-7, 1), [0.0; 0]);
        assert_eq!(padded(-5, 2), [1.0, 9.0, 9.0]);
    }

    #[test]
    fn sources_match_numpy() {
        let places = |mode, size, range: std::ops::Range<i64>| -> Vec<i64> {
            range.filter_map(|place| source(place, size, mode)).collect()
        };
        assert_eq!(places(Mode::Constant, 3, -2..5), [0, 1, 2]);
        assert_eq!(places(Mode::Edge, 3, -2..5), [0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(places(Mode::Reflect, 3, -3..6), [1, 2, 1, 0, 1, 2, 1, 0, 1]);
        assert_eq!(places(Mode::Reflect, 1, -2..2), [0, 0, 0, 0]);
        assert_eq!(places(Mode::Wrap, 3, -4..4), [2, 0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn constants_are_padded_and_cropped() {
        let ints = |list: &[i64]| Array::i64(ndarray::Array1::from_vec(list.to_vec()).into_dyn());
        let amounts = |before, after| vec![(Dim::Known(before), Dim::Known(after))];
        let value = Array::i64(ndarray::ArrayD::from_elem(Vec::new(), 7));
        let padded =
            |before, after, mode| pad(&ints(&[1, 2, 3]), &amounts(before, after), mode, &value).unwrap();
        assert_eq!(padded(1, 2, Mode::Constant), ints(&[7, 1, 2, 3, 7, 7]));
        assert_eq!(padded(-1, 1, Mode::Constant), ints(&[2, 3, 7]));
        assert_eq!(padded(-1, 1, Mode::Reflect), ints(&[2, 3, 2]));
        assert_eq!(padded(2, -1, Mode::Wrap), ints(&[1, 2, 1, 2]));
    }
}
