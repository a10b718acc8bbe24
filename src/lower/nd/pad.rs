//! Elements added around axes, or removed.

use super::Nd;
use crate::common::limits;
use crate::error::{At, Error, Result, unsupported};
use crate::lower::form::MAX_AXES;
use crate::lower::{Lower, Operand};
use crate::ncnn::BlobId;
use crate::ncnn::layer::Padding;
use crate::tensor::{Border, Dim, SizeCondition, Tensor, shape};

/// How an axis is padded.
enum Plan {
    /// By so many elements before and after it. If an amount is free, these are upper bounds, and the surplus
    /// is removed.
    By([i64; 2]),
    /// By free amounts without bounds: copies are joined to it.
    Open,
}

impl<'l> Nd<'l> {
    /// Returns the value with elements before and after axes, in as few layers as possible. Negative numbers
    /// remove elements; they are removed before others are added.
    pub fn pad(self, around: &[(usize, [Dim; 2])], border: Border<f32>) -> Nd<'l> {
        let plan = |(axis, amounts): &(usize, [Dim; 2])| self.plan(*axis, amounts, border);
        let plans: Option<Vec<Plan>> = self.lower.run(|| around.iter().map(plan).collect());
        let plans = plans.unwrap_or_default();
        let (mut x, mut added) = (self, Vec::new());
        for ((axis, _), plan) in around.iter().zip(&plans) {
            let Plan::By(amounts) = plan else { continue };
            let [front, back] = amounts.map(|count| count.min(0));
            x = x.slice(*axis, -front, x.size(*axis) + (front + back));
            added.push((*axis, amounts.map(|count| count.max(0))));
        }
        added.retain(|(_, amounts)| *amounts != [0, 0]);
        let (near, far): (Vec<_>, Vec<_>) = added.into_iter().partition(|(axis, amounts)| match border {
            Border::Constant(_) | Border::Edge => true,
            Border::Reflect => x.reflects(*axis, amounts),
            Border::Wrap => false,
        });
        x = far.iter().fold(x.padded(&near, border), |x, (axis, added)| x.by_sources(*axis, *added, border));
        for ((axis, amounts), plan) in around.iter().zip(plans) {
            let axis = *axis;
            x = match plan {
                Plan::By([most, _]) if is_free(amounts) => {
                    x.slice(axis, most - &amounts[0], self.size(axis) + &amounts[0] + &amounts[1])
                }
                Plan::By(_) => x,
                Plan::Open if border == Border::Reflect => x.mirrored(axis, amounts),
                Plan::Open => x.surrounded(axis, amounts, |x, count| match border {
                    Border::Constant(number) => x.filled(axis, count, number),
                    _ => x.repeat(axis, count),
                }),
            };
        }
        x
    }

    fn plan(self, axis: usize, amounts: &[Dim; 2], border: Border<f32>) -> Result<Plan> {
        let repeats = matches!(border, Border::Constant(_) | Border::Edge);
        let grows = amounts.iter().all(may_add);
        let bound = |amount: &Dim| {
            let most = amount.bounds().1.filter(|most| repeats && *most <= limits::BLOB_ELEMENTS);
            amount.known().or(most)
        };
        let bounds = amounts.each_ref().map(bound);
        // The Crop that removes a surplus at one end also removes what a negative amount does.
        let may_remove = bounds.iter().all(Option::is_some) && amounts.iter().any(|amount| amount.is(0));
        if is_free(amounts) && border != Border::Wrap && !may_remove {
            self.require_signs(amounts)?;
        }
        match bounds {
            _ if is_free(amounts) && grows && border == Border::Reflect => Ok(Plan::Open),
            [Some(before), Some(after)] => Ok(Plan::By([before, after])),
            _ if repeats && grows => Ok(Plan::Open),
            _ => {
                let [before, after] = amounts;
                unsupported!("axis {axis} is padded by the free sizes {before} and {after}")
            }
        }
    }

    /// Requires that amounts which may be positive never remove elements.
    fn require_signs(self, amounts: &[Dim; 2]) -> Result<()> {
        let mut free = amounts.iter().filter(|amount| amount.known().is_none() && may_add(amount));
        free.try_for_each(|amount| match SizeCondition::at_least(amount, 0) {
            Ok(condition) => self.lower.require(Ok(condition)),
            Err(_) => unsupported!("the free amount {amount} removes elements"),
        })
    }

    /// Returns whether Padding can reflect an axis: it reads beyond one that is not larger than its padding.
    /// A free size is required to be larger: a smaller one has no reflection.
    fn reflects(self, axis: usize, added: &[i64; 2]) -> bool {
        let (size, most) = (self.size(axis), added[0].max(added[1]));
        let is_larger = size.known().is_none_or(|size| size > most);
        if is_larger {
            self.lower.run(|| self.lower.require(SizeCondition::at_least(&size, most + 1)));
        }
        is_larger
    }

    /// Pads an axis by the sources of its elements; one of free size, which is wrapped, by its ends.
    fn by_sources(self, axis: usize, [before, after]: [i64; 2], border: Border<f32>) -> Nd<'l> {
        let Some(size) = self.size(axis).known() else {
            let front = (before > 0).then(|| self.last(axis, before));
            let back = (after > 0).then(|| self.first(axis, after));
            let parts: Vec<Nd> = [front, Some(self), back].into_iter().flatten().collect();
            return self.lower.join(&parts, axis);
        };
        let listed = before.saturating_add(size).saturating_add(after);
        if self.lower.run(|| limits::check_listed(usize::try_from(listed)?)).is_none() {
            return self;
        }
        let sources = (-before..size + after).filter_map(|index| border.source(index, size));
        self.pick(axis, &sources.collect::<Vec<_>>())
    }

    /// Joins copies to both ends of an axis, as many as the amounts say. One more is made than needed: no
    /// blob is empty.
    fn surrounded(
        self,
        axis: usize,
        [before, after]: &[Dim; 2],
        copies: impl Fn(Nd<'l>, Dim) -> Nd<'l>,
    ) -> Nd<'l> {
        let mut x = self;
        if !before.is(0) {
            let size = x.size(axis) + before;
            x = copies(x.first(axis, 1), before + 1).join(x, axis).last(axis, size);
        }
        if !after.is(0) {
            let size = x.size(axis) + after;
            x = x.join(copies(x.last(axis, 1), after + 1), axis).first(axis, size);
        }
        x
    }

    /// Joins a reversed copy without the element at the edge to each end of an axis.
    fn mirrored(self, axis: usize, amounts: &[Dim; 2]) -> Nd<'l> {
        let (mut x, [before, after]) = (self, amounts);
        let is_longer = |amount: &Dim| SizeCondition::at_least(&(self.size(axis) - amount), 1);
        self.lower.run(|| amounts.iter().try_for_each(|amount| self.lower.require(is_longer(amount))));
        if !after.is(0) {
            let rest = x.first(axis, x.size(axis) - 1);
            x = rest.join(x.reverse(axis).first(axis, after + 1), axis);
        }
        if !before.is(0) {
            let rest = x.last(axis, x.size(axis) - 1);
            x = x.first(axis, before + 1).reverse(axis).join(rest, axis);
        }
        x
    }

    /// Returns the value with elements around axes, by one layer if it can pad all of them.
    fn padded(self, around: &[(usize, [i64; 2])], border: Border<f32>) -> Nd<'l> {
        let mut shape = self.shape().to_vec();
        for (axis, [before, after]) in around {
            shape.put(*axis, self.size(*axis) + (before + after));
        }
        let axes: Vec<usize> = around.iter().map(|(axis, _)| *axis).collect();
        let at_once = self.lower.run(|| {
            let is_one_layer = !around.is_empty() && !matches!(border, Border::Constant(n) if !n.is_finite());
            let found = if is_one_layer { self.isolated_axes(&axes)? } else { None };
            // Padding adds nothing around the outermost of four axes.
            let can_pad = |(x, blob_axes): &(BlobId, Vec<usize>)| {
                self.lower.form(*x).len() < MAX_AXES || !blob_axes.contains(&0)
            };
            let Some((x, blob_axes)) = found.filter(can_pad) else { return Ok(None) };
            let around: Vec<_> = blob_axes.into_iter().zip(around.iter().map(|(_, added)| *added)).collect();
            pad_axes(self.lower, x, &around, border).map(Some)
        });
        match at_once.flatten() {
            Some(blob) => self.lower.nd(blob, shape),
            None => around.iter().fold(self, |x, (axis, [before, after])| {
                x.along(*axis, x.size(*axis) + (before + after), |lower, x, blob_axis, _| {
                    lower.padded(x, blob_axis, *before, *after, border)
                })
            }),
        }
    }
}

fn is_free(amounts: &[Dim; 2]) -> bool {
    amounts.iter().any(|amount| amount.known().is_none())
}

/// Returns whether an amount may be positive, or is 0.
fn may_add(amount: &Dim) -> bool {
    amount.is(0) || !matches!(amount.bounds(), (_, Some(..=0)))
}

impl Lower<'_> {
    /// Adds `before` and `after` elements around an axis.
    pub(in crate::lower) fn padded(
        &self,
        blob: BlobId,
        axis: usize,
        before: i64,
        after: i64,
        border: Border<f32>,
    ) -> Result<BlobId> {
        if (before, after) == (0, 0) {
            return Ok(blob);
        }
        let form = self.form(blob);
        let whole = self.resized(blob, axis, form.at(axis)? + (before + after));
        if let Border::Constant(value) = border
            && !value.is_finite()
        {
            // Padding takes infinities only for known channels.
            let [outer, inner] = Dim::around(&form, axis);
            if outer.known().is_none() {
                return self.surrounded(blob, axis, [before, after], value);
            }
            let rows = self.reshape(blob, &shape![outer, form.at(axis)?, inner])?;
            let padded = pad_axes(self, rows, &[(1, [before, after])], border)?;
            return self.reshape(padded, &whole);
        }
        if form.len() == MAX_AXES && axis == 0 {
            let (grouped, axis) = self.grouped(blob, axis)?;
            let padded = self.padded(grouped, axis, before, after, border)?;
            return self.reshape(padded, &whole);
        }
        pad_axes(self, blob, &[(axis, [before, after])], border)
    }

    /// Concatenates elements of a number, which is infinite, before and after an axis.
    fn surrounded(&self, blob: BlobId, axis: usize, added: [i64; 2], number: f32) -> Result<BlobId> {
        let first = self.crop(blob, axis, 0, Some(1), &Dim::ONE)?;
        let first = self.compute(first.clip(1.0, 1.0))?;
        let infinite = self.scaled(first, number)?;
        let [before, after] = added.map(|count| (count > 0).then_some(count));
        let before = before.map(|count| self.tile(infinite, axis, count)).transpose()?;
        let after = after.map(|count| self.tile(infinite, axis, count)).transpose()?;
        let parts: Vec<BlobId> = [before, Some(blob), after].into_iter().flatten().collect();
        self.concat(&parts, axis)
    }

    /// Multiplies ones by a number, which may be infinite.
    pub(in crate::lower) fn scaled(&self, ones: BlobId, number: f32) -> Result<BlobId> {
        if number == 1.0 {
            return Ok(ones);
        }
        // Params are finite.
        if number.is_finite() {
            return self.compute(ones * number);
        }
        let infinity = self.memory_data(&Tensor::all(number, vec![1])?, &[Dim::ONE])?;
        self.compute(ones * infinity)
    }
}

/// Adds elements around up to three axes by one layer, none of them the outermost of four.
fn pad_axes(
    lower: &Lower,
    blob: BlobId,
    around: &[(usize, [i64; 2])],
    border: Border<f32>,
) -> Result<BlobId> {
    let mut form = lower.form(blob);
    let rank = form.len();
    let mut layer = match border {
        Border::Constant(value) if value.is_finite() => Padding { value, ..Padding::default() },
        Border::Constant(value) => {
            let channels = form.first().and_then(Dim::known).filter(|_| rank >= 3);
            let channels = channels.ok_or_else(|| Error::internal("infinite padding of free channels"))?;
            let each = Tensor::all(value, vec![usize::try_from(channels)?])?;
            Padding { per_channel_pad_data: Some(each), ..Padding::default() }
        }
        Border::Edge => Padding { type_: 1, ..Padding::default() },
        Border::Reflect => Padding { type_: 2, ..Padding::default() },
        Border::Wrap => return Err(Error::internal("Padding does not wrap")),
    };
    for (axis, [before, after]) in around {
        let pair = (i32::try_from(*before)?, i32::try_from(*after)?);
        match rank - axis {
            1 => (layer.left, layer.right) = pair,
            2 => (layer.top, layer.bottom) = pair,
            _ => (layer.front, layer.behind) = pair,
        }
        let size = form.at(*axis)? + (before + after);
        form.put(*axis, size);
    }
    lower.emit(layer, &[blob], &form)
}
