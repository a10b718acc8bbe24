//! Lowers Pad and CenterCropPad: elements are first removed, then added.

use super::{Amounts, Mode, call_amounts, center_amounts, center_target, read_mode, source};
use crate::ncnn::layer::Padding;
use crate::ops::prelude::*;
use crate::ops::shape::size::resized;

pub(super) fn lower_pad(lower: &mut Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let amounts = call_amounts(lower)?;
    let value = if lower.since() < 11 {
        lower.float("value")?
    } else if lower.has_input(2) {
        lower.required_constant(2)?.load_listed()?.scalar_f32()?
    } else {
        0.0
    };
    let mode = read_mode(lower)?;
    pad(lower, shape, &amounts, mode, value)
}

pub(super) fn lower_center(lower: &mut Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let amounts = center_amounts(lower, &shape, &center_target(lower)?)?;
    pad(lower, shape, &amounts, Mode::Constant, 0.0)
}

/// An axis and the numbers of elements added before and after it.
#[derive(Clone, Copy)]
struct Added {
    axis: usize,
    before: i64,
    after: i64,
}

fn pad(lower: &mut Lower, mut shape: Vec<Dim>, amounts: &Amounts, mode: Mode, value: f32) -> Result<()> {
    let mut blob = lower.blob(0)?;
    let mut added = Vec::new();
    let mut surplus = Vec::new();
    let mut apart = Vec::new();
    for (axis, (before, after)) in amounts.iter().enumerate() {
        let is_free = before.known().is_none() || after.known().is_none();
        let grows = may_add(before) && may_add(after);
        if is_free && mode != Mode::Wrap {
            require_signs(lower, [before, after])?;
        }
        if mode == Mode::Reflect && is_free && grows {
            apart.push((axis, before, after));
            continue;
        }
        let repeats = matches!(mode, Mode::Constant | Mode::Edge);
        let most = |amount: &Dim| match amount.bounds() {
            (_, Some(most)) if repeats => Some(most).filter(|most| *most <= limits::BLOB_ELEMENTS),
            _ => amount.known(),
        };
        let (Some(most_before), Some(most_after)) = (most(before), most(after)) else {
            if repeats && grows {
                apart.push((axis, before, after));
                continue;
            }
            return Err(Error::unsupported(format!(
                "axis {axis} is padded by the free sizes {before} and {after}"
            )));
        };
        if is_free {
            let start = Dim::Known(most_before).sub(before)?;
            surplus.push((axis, start, shape.at(axis)?.add(before)?.add(after)?));
        }
        let (before, after) = (most_before, most_after);
        if before < 0 || after < 0 {
            let (front, back) = (before.min(0), after.min(0));
            let size = shape.at(axis)?.add(&Dim::Known(front + back))?;
            let (alone, place) = lower.alone(blob, &shape, axis)?;
            blob = lower.crop(alone, place, -front, (back < 0).then_some(back), &size)?;
            shape = resized(&shape, axis, size);
        }
        if before > 0 || after > 0 {
            added.push(Added { axis, before: before.max(0), after: after.max(0) });
        }
    }
    let mut top = match mode {
        Mode::Constant | Mode::Edge => pad_layers(lower, blob, &mut shape, &added, mode, value)?,
        Mode::Reflect | Mode::Wrap => {
            let (near, far) = split_far(lower, &shape, &added, mode)?;
            let blob = pad_layers(lower, blob, &mut shape, &near, mode, value)?;
            gather_sources(lower, blob, &mut shape, &far, mode)?
        }
    };
    // An amount of free size is padded by its upper bound; Crop removes the surplus.
    for (axis, start, size) in surplus {
        let (alone, place) = lower.alone(top, &shape, axis)?;
        top = lower.crop_by_expression(alone, place, &start, &size)?;
        shape = resized(&shape, axis, size);
    }
    for (axis, before, after) in apart {
        top = match mode {
            Mode::Reflect => mirror(lower, top, &mut shape, axis, (before, after))?,
            _ => repeat(lower, top, &mut shape, axis, (before, after), (mode, value))?,
        };
    }
    lower.set(0, top)
}

/// Returns whether an amount may be positive, or is 0.
fn may_add(amount: &Dim) -> bool {
    amount.is(0) || !matches!(amount.bounds(), (_, Some(..=0)))
}

/// Requires that amounts which may be positive never remove elements.
fn require_signs(lower: &Lower, amounts: [&Dim; 2]) -> Result<()> {
    let mut free = amounts.into_iter().filter(|amount| amount.known().is_none() && may_add(amount));
    free.try_for_each(|amount| match SizeCondition::at_least(amount, 0) {
        Ok(condition) => lower.require(Ok(condition)),
        Err(_) => unsupported!("the free amount {amount} removes elements"),
    })
}

/// Pads an axis by amounts without an upper bound: joins as many copies of an element to each end.
fn repeat(
    lower: &mut Lower,
    blob: BlobId,
    shape: &mut Vec<Dim>,
    axis: usize,
    (before, after): (&Dim, &Dim),
    (mode, value): (Mode, f32),
) -> Result<BlobId> {
    let one = Dim::Known(1);
    let (mut blob, place) = lower.alone(blob, shape, axis)?;
    let mut size = shape.at(axis)?.clone();
    for (amount, is_front) in [(before, true), (after, false)] {
        if amount.is(0) {
            continue;
        }
        // One more than needed: a blob is not empty.
        let (longer, whole) = (amount.add(&one)?, size.add(amount)?);
        let (start, end) = if is_front { (0, Some(1)) } else { (-1, None) };
        let copies = if mode == Mode::Edge {
            let element = lower.crop(blob, place, start, end, &one)?;
            let line = resized(&vec![one.clone(); lower.form(element).len()], place, longer);
            let ones = lower.ones(&line)?;
            lower.compute(element * ones)?
        } else {
            let ones = lower.ones(&resized(&lower.form(blob), place, longer))?;
            multiplied(lower, ones, value)?
        };
        let parts = if is_front { [copies, blob] } else { [blob, copies] };
        let joined = lower.concat(&parts, place)?;
        let (start, end) = if is_front { (1, None) } else { (0, Some(-1)) };
        blob = lower.crop(joined, place, start, end, &whole)?;
        size = whole;
    }
    *shape = resized(shape, axis, size);
    Ok(blob)
}

/// Multiplies ones by a number, which may be infinite.
fn multiplied(lower: &mut Lower, ones: BlobId, value: f32) -> Result<BlobId> {
    if value.is_finite() {
        return lower.compute(ones * value);
    }
    let infinity = lower.memory_data(&Tensor::all(value, vec![1])?, &[Dim::Known(1)])?;
    lower.compute(ones * infinity)
}

/// Pads an axis by reflection: joins a reversed copy without the edge element to each end.
fn mirror(
    lower: &mut Lower,
    blob: BlobId,
    shape: &mut Vec<Dim>,
    axis: usize,
    (before, after): (&Dim, &Dim),
) -> Result<BlobId> {
    let one = Dim::Known(1);
    let (mut blob, place) = lower.alone(blob, shape, axis)?;
    let mut size = shape.at(axis)?.clone();
    for amount in [before, after] {
        lower.require(SizeCondition::at_least(&size.sub(amount)?, 1))?;
    }
    if !after.is(0) {
        let rest = lower.crop(blob, place, 0, Some(-1), &size.sub(&one)?)?;
        let reversed = lower.reverse(blob, place)?;
        let image = lower.crop_by_expression(reversed, place, &Dim::Known(0), &after.add(&one)?)?;
        blob = lower.concat(&[rest, image], place)?;
        size = size.add(after)?;
    }
    if !before.is(0) {
        let rest = lower.crop(blob, place, 1, None, &size.sub(&one)?)?;
        let image = lower.crop_by_expression(blob, place, &Dim::Known(0), &before.add(&one)?)?;
        let image = lower.reverse(image, place)?;
        blob = lower.concat(&[image, rest], place)?;
        size = size.add(before)?;
    }
    *shape = resized(shape, axis, size);
    Ok(blob)
}

fn grow(shape: &mut [Dim], added: &Added) -> Result<()> {
    if let Some(size) = shape.get_mut(added.axis) {
        *size = size.add(&Dim::Known(added.before + added.after))?;
    }
    Ok(())
}

/// Separates axes that Padding can pad from the others: it reads beyond an axis that is not larger than its
/// padding, and cannot wrap. A free size is required to be larger than its padding: a smaller one has no
/// reflection.
fn split_far(lower: &Lower, shape: &[Dim], added: &[Added], mode: Mode) -> Result<(Vec<Added>, Vec<Added>)> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for one in added {
        let size = shape.at(one.axis)?;
        let padding = one.before.max(one.after);
        let is_near = mode == Mode::Reflect && size.known().is_none_or(|size| padding < size);
        if is_near {
            lower.require(SizeCondition::at_least(size, padding + 1))?;
        }
        if is_near { near.push(*one) } else { far.push(*one) }
    }
    Ok((near, far))
}

/// Pads axes of known sizes by gathering the source of each element, and wraps free ones.
fn gather_sources(
    lower: &mut Lower,
    mut blob: BlobId,
    shape: &mut [Dim],
    added: &[Added],
    mode: Mode,
) -> Result<BlobId> {
    for one in added {
        let (alone, place) = lower.alone(blob, shape, one.axis)?;
        blob = if let Some(size) = shape.at(one.axis)?.known() {
            let listed = one.before.saturating_add(size).saturating_add(one.after);
            limits::check_listed(usize::try_from(listed)?)?;
            let places = (-one.before..size + one.after).filter_map(|place| source(place, size, mode));
            lower.gather(alone, place, &places.collect::<Vec<_>>())?
        } else {
            wrap(lower, alone, place, one)?
        };
        grow(shape, one)?;
    }
    Ok(blob)
}

/// Joins the elements of each end of an axis to the other end; the axis is required to have as many.
fn wrap(lower: &mut Lower, blob: BlobId, place: usize, one: &Added) -> Result<BlobId> {
    let mut parts = Vec::new();
    if one.before > 0 {
        parts.push(lower.crop(blob, place, -one.before, None, &Dim::Known(one.before))?);
    }
    parts.push(blob);
    if one.after > 0 {
        parts.push(lower.crop(blob, place, 0, Some(one.after), &Dim::Known(one.after))?);
    }
    lower.concat(&parts, place)
}

/// Emits Padding layers: one for all axes if a Mat of three axes, or the inner three of four, separates them,
/// else one per axis.
fn pad_layers(
    lower: &mut Lower,
    mut blob: BlobId,
    shape: &mut [Dim],
    added: &[Added],
    mode: Mode,
    value: f32,
) -> Result<BlobId> {
    if added.is_empty() {
        return Ok(blob);
    }
    let axes: Vec<usize> = added.iter().map(|one| one.axis).collect();
    let per_channel = mode == Mode::Constant && !value.is_finite();
    if !per_channel
        && let Some((apart, places)) = lower.apart(blob, shape, &axes)?
        && !(lower.form(apart).len() == 4 && places.contains(&0))
    {
        added.iter().try_for_each(|one| grow(shape, one))?;
        return pad_layer(lower, apart, &places, added, mode, value);
    }
    for one in added {
        let (alone, place) = lower.alone(blob, shape, one.axis)?;
        let form = lower.form(alone);
        let inner = Dim::product(form.iter().skip(place + 1))?;
        blob = if per_channel {
            let outer = Dim::product(form.iter().take(place))?;
            if outer.known().is_some() {
                let rows = lower.reshape(alone, &[outer, form.at(place)?.clone(), inner])?;
                pad_layer(lower, rows, &[1], &[*one], mode, value)?
            } else {
                surround(lower, alone, place, one, value)?
            }
        } else if form.len() == 4 && place == 0 {
            let flat = lower.reshape(alone, &[form.at(0)?.clone(), inner])?;
            pad_layer(lower, flat, &[0], &[*one], mode, value)?
        } else {
            pad_layer(lower, alone, &[place], &[*one], mode, value)?
        };
        grow(shape, one)?;
    }
    Ok(blob)
}

/// Concatenates infinities before and after a blob: Padding takes them for known channels alone.
fn surround(lower: &mut Lower, blob: BlobId, place: usize, one: &Added, value: f32) -> Result<BlobId> {
    let first = lower.crop(blob, place, 0, Some(1), &Dim::Known(1))?;
    let first = lower.compute(first.clip(1.0, 1.0))?;
    let infinite = multiplied(lower, first, value)?;
    let mut parts = Vec::new();
    if one.before > 0 {
        parts.push(lower.tile(infinite, place, one.before)?);
    }
    parts.push(blob);
    if one.after > 0 {
        parts.push(lower.tile(infinite, place, one.after)?);
    }
    lower.concat(&parts, place)
}

fn pad_layer(
    lower: &mut Lower,
    blob: BlobId,
    places: &[usize],
    added: &[Added],
    mode: Mode,
    value: f32,
) -> Result<BlobId> {
    let mut form = lower.form(blob);
    let rank = form.len();
    let mut layer = Padding {
        type_: match mode {
            Mode::Constant => 0,
            Mode::Edge => 1,
            _ => 2,
        },
        ..Padding::default()
    };
    for (place, one) in places.iter().zip(added) {
        let (before, after) = (i32::try_from(one.before)?, i32::try_from(one.after)?);
        match rank - place {
            1 => (layer.left, layer.right) = (before, after),
            2 => (layer.top, layer.bottom) = (before, after),
            3 => (layer.front, layer.behind) = (before, after),
            axis => invalid!("Padding cannot pad axis {axis} from the end"),
        }
        if let Some(size) = form.get_mut(*place) {
            *size = size.add(&Dim::Known(one.before + one.after))?;
        }
    }
    if mode == Mode::Constant && value.is_finite() {
        layer.value = value;
    } else if mode == Mode::Constant {
        let Some(channels) = form.first().and_then(Dim::known).filter(|_| rank >= 3) else {
            unsupported!("padding a blob of {rank} axes with {value}");
        };
        let channels = usize::try_from(channels)?;
        layer.per_channel_pad_data = Some(Tensor::all(value, vec![channels])?);
    }
    lower.emit(layer, &[blob], &form)
}
