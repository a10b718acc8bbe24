//! Resize of free sizes by a quotient of integers.
//!
//! Coordinates are scaled by the quotient, and sizes are rounded down. Interp scales by the quotient of the
//! sizes, so it is right only over multiples of the divisor: the last element is repeated up to a multiple,
//! and the excess of the result is cropped. If Interp has other coordinates, each block of input elements
//! gives a block of output elements by the same weights: a gather, or a product along the axis of a block.

use super::axis::{AxisMap, INTERP_MODES, InterpMode, interp_map, matrix, onnx_map, radius};
use super::node::{AxisResize, Mode, Resize};
use super::ratio::Ratio;
use crate::ops::prelude::*;
use crate::ops::shape::size::{divided, resized};
use crate::tensor::Border;

/// The input sizes for which weights are compared, in addition to the smallest ones.
const TRIED_SIZES: [i64; 5] = [31, 32, 33, 64, 125];
/// The number of the smallest ones.
const SMALLEST: i64 = 24;
/// The size for which the rounding of nearest neighbours is checked.
const LONG: i64 = 1 << 14;
/// The largest numbers of elements that a block reads, and that it gives.
const MAX: i64 = 64;

/// Compares ONNX's map of an axis with maps that are computed for input sizes, in which elements beyond the
/// end stand for the last one. Returns the least number of elements of a result for which they are the same,
/// 1 or 2.
fn least_same(
    resize: &Resize,
    axis: &AxisResize,
    ratio: Ratio,
    other: impl Fn(i64) -> Option<AxisMap>,
) -> Result<Option<i64>> {
    let long = matches!(resize.filter.mode, Mode::Nearest(_)).then_some(LONG);
    let mut least = 1;
    for size in (1..=SMALLEST).chain(TRIED_SIZES).chain(long) {
        let output = ratio.output_of(size);
        if !(1..=8 * LONG).contains(&output) {
            continue;
        }
        let sized = AxisResize { output: Dim::Known(output), ..axis.clone() };
        let map = onnx_map(&resize.filter, &sized, size)?;
        if other(size).and_then(|other| other.within(size, output)).is_some_and(|other| map.same(&other)) {
            continue;
        }
        if output > 1 {
            return Ok(None);
        }
        least = 2;
    }
    Ok(Some(least))
}

/// Axes that Interp resizes if the last element is repeated up to a multiple of the divisor.
pub(super) struct Lengthened {
    pub mode: InterpMode,
    ratios: Vec<Ratio>,
}

impl Lengthened {
    /// Returns the mode of Interp that is right for all axes, if there is one. Requires results of two
    /// elements if results of one element differ.
    pub fn of(lower: &Lower, resize: &Resize, axes: &[AxisResize]) -> Result<Option<Lengthened>> {
        let ratios: Option<Vec<Ratio>> = axes.iter().map(|axis| Ratio::of(axis.scale?)).collect();
        let Some(ratios) = ratios else { return Ok(None) };
        for mode in INTERP_MODES {
            let mut least = Vec::with_capacity(axes.len());
            for (axis, ratio) in axes.iter().zip(&ratios) {
                let interp = |size: i64| {
                    let blocks = ratio.blocks_of(size);
                    interp_map(mode, blocks * ratio.from, blocks * ratio.to)
                };
                least.extend(least_same(resize, axis, *ratio, interp)?.map(|least| (axis, least)));
            }
            if least.len() < axes.len() {
                continue;
            }
            for (axis, least) in least {
                lower.require(SizeCondition::at_least(&axis.output, least))?;
            }
            return Ok(Some(Lengthened { mode, ratios }));
        }
        Ok(None)
    }

    /// Repeats the last element of each axis up to a multiple of the divisor; returns the axes of the result,
    /// too.
    pub fn lengthen<'l>(&self, x: Nd<'l>, axes: &[AxisResize]) -> (Nd<'l>, Vec<AxisResize>) {
        let (mut x, mut longer) = (x, Vec::with_capacity(axes.len()));
        for (axis, ratio) in axes.iter().zip(&self.ratios) {
            let blocks = ratio.blocks(&x.size(axis.axis));
            let padded = x.pad(&[(axis.axis, [Dim::ZERO, Dim::Known(ratio.from - 1)])], Border::Edge);
            x = padded.first(axis.axis, &blocks * ratio.from);
            longer.push(AxisResize { output: blocks * ratio.to, ..axis.clone() });
        }
        (x, longer)
    }
}

/// What each block of `ratio.to` output elements reads of the input.
pub(super) struct Blocks {
    ratio: Ratio,
    /// The number of elements before a block that are read.
    before: i64,
    /// The number of blocks, from these elements on, that are read.
    reach: i64,
    /// The weights of the elements of these blocks, for each output element.
    map: AxisMap,
}

impl Blocks {
    /// Returns the blocks of an axis, if all have the same weights. Requires a result of two elements if one
    /// of a single element differs.
    pub fn of(lower: &Lower, resize: &Resize, axis: &AxisResize) -> Result<Option<Blocks>> {
        let Some((scale, ratio)) = axis.scale.and_then(|scale| Some((scale, Ratio::of(scale)?))) else {
            return Ok(None);
        };
        let Ratio { to, from } = ratio;
        let radius = radius(&resize.filter, scale);
        if from.max(to) > MAX || radius > MAX {
            return Ok(None);
        }
        // A block far from both ends.
        let middle = radius / from + 1;
        let blocks = 2 * middle + 1;
        let whole = AxisResize { output: Dim::Known(blocks * to), ..axis.clone() };
        let map = onnx_map(&resize.filter, &whole, blocks * from)?;
        let rows = map.rows.iter().skip(usize::try_from(middle * to)?).take(usize::try_from(to)?);
        let start = middle * from;
        let mut offsets: Vec<Vec<(i64, f32)>> = Vec::new();
        for row in rows {
            let read = row.iter().filter(|(_, weight)| *weight != 0.0);
            let offset = |(index, weight): &(usize, f32)| Ok((index.int() - start, *weight));
            offsets.push(read.map(offset).collect::<Result<_>>()?);
        }
        let ends = offsets.iter().flatten().map(|(offset, _)| *offset);
        let before = -ends.clone().min().unwrap_or(0).min(0);
        let reach = (ends.max().unwrap_or(0) + before) / from + 1;
        let moved = |(offset, weight): &(i64, f32)| Ok((usize::try_from(offset + before)?, *weight));
        let rows: Result<Vec<Vec<(usize, f32)>>> =
            offsets.iter().map(|row| row.iter().map(moved).collect()).collect();
        let map = AxisMap { input: usize::try_from(reach * from)?, rows: rows?, outside: Vec::new() };
        let blocks = Blocks { ratio, before, reach, map };
        let Some(least) = least_same(resize, axis, ratio, |size| blocks.whole_map(size))? else {
            return Ok(None);
        };
        lower.require(SizeCondition::at_least(&axis.output, least))?;
        Ok(Some(blocks))
    }

    /// Returns the map of an axis, in which elements beyond an end stand for that at the end.
    fn whole_map(&self, size: i64) -> Option<AxisMap> {
        let mut rows = Vec::new();
        for block in 0..self.ratio.blocks_of(size) {
            for row in &self.map.rows {
                let read = |(index, weight): &(usize, f32)| {
                    let index = block * self.ratio.from + index.int() - self.before;
                    Some((usize::try_from(index.max(0)).ok()?, *weight))
                };
                rows.push(row.iter().map(read).collect::<Option<_>>()?);
            }
        }
        let outside = vec![false; rows.len()];
        Some(AxisMap { input: usize::try_from(size).ok()?, rows, outside })
    }

    /// Resizes an axis.
    pub fn resize<'l>(&self, lower: &'l Lower, x: Nd<'l>, axis: &AxisResize) -> Result<Nd<'l>> {
        let (Ratio { to, from }, output, axis) = (self.ratio, &axis.output, axis.axis);
        let count = self.ratio.blocks(&x.size(axis));
        let after = (from * self.reach - 1 - self.before).max(0);
        let padded = x.pad(&[(axis, [self.before, after].map(Dim::Known))], Border::Edge);
        let x = padded.first(axis, (&count + (self.reach - 1)) * from);
        let shape = divided(&x.shape(), axis, [count.clone(), Dim::Known(from)]);
        let size = &count * from;
        let part = |part| x.slice(axis, part * from, &size).reshape(shape.as_slice());
        let blocks = lower.join(&(0..self.reach).map(part).collect::<Vec<_>>(), axis + 1);
        let made = match self.map.copied_elements() {
            Some(elements) => blocks.pick(axis + 1, &elements),
            None => blocks.linear(axis + 1, &matrix(self.map.clone())?),
        };
        Ok(made.reshape(resized(&x.shape(), axis, count * to)).first(axis, output))
    }
}
