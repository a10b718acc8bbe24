//! Layers that move, copy or drop elements.

use super::shape::{Size, Sizes, Tops, axis_of, differ, extended, one, product, unknown, with_size};
use super::weight::{if_present, outermost};
use super::{CROP_EXPRESSIONS, MANY, OLDEST, between, exactly, layer, weight_len};
use crate::common::int::Int;
use crate::error::{At, Result, unsupported};

/// The size param of the rest of an axis in Crop and Slice.
pub(in crate::ncnn) const REST: i32 = -233;

layer! {
    /// A conversion of the element type: 0 unknown, 1 float32, 2 float16, 3 int8, 4 bfloat16.
    64 Cast(exactly(1), exactly(1)) [Gpu] {
        params {
            0 type_from: i32 = 0,
            1 type_to: i32 = 0,
        }
    }

    /// Concatenation along an axis.
    5 Concat(MANY, exactly(1)) [Gpu Move] {
        params {
            0 axis: i32 = 0,
        }
        tops { Concat::top }
        also {
            fn accepts_empty(&self, index: usize) -> bool {
                // Concat takes its layout from the first bottom.
                index > 0
            }
        }
    }
}

impl Concat {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let first = bottoms.at(0)?;
        let axis = axis_of(self.axis, first)?;
        let mut total = Size::from(0);
        for sizes in bottoms {
            let fits = |size: &&Size| !differ(sizes, &with_size(first, axis, **size));
            let Some(size) = sizes.get(axis).filter(fits) else {
                unsupported!("{bottoms:?} along axis {axis}");
            };
            total = total + *size;
        }
        one(with_size(first, axis, total))
    }
}

layer! {
    /// The first bottom with the second written into it at offsets.
    99 CopyTo(exactly(2), exactly(1)) {
        params {
            0 woffset: i32 = 0,
            1 hoffset: i32 = 0,
            2 coffset: i32 = 0,
            9 starts: Vec<i32> = Vec::new(),
            11 axes: Vec<i32> = Vec::new(),
            13 doffset: i32 = 0,
        }
        tops { unknown }
    }

    /// A part of a blob: by offsets and sizes, by `starts`, `ends` and `axes` as in numpy's slices, or
    /// by the size of the second bottom.
    7 Crop(between(1, 32), exactly(1)) [Gpu Move Unpacks] {
        params {
            0 woffset: i32 = 0,
            1 hoffset: i32 = 0,
            2 coffset: i32 = 0,
            /// -233: the rest.
            3 outw: i32 = 0,
            4 outh: i32 = 0,
            5 outc: i32 = 0,
            /// The number of elements cropped at the end if `outw` is -233.
            6 woffset2: i32 = 0,
            7 hoffset2: i32 = 0,
            8 coffset2: i32 = 0,
            9 starts: Vec<i32> = Vec::new(),
            10 ends: Vec<i32> = Vec::new(),
            11 axes: Vec<i32> = Vec::new(),
            13 doffset: i32 = 0,
            14 outd: i32 = 0,
            15 doffset2: i32 = 0,
            /// `starts`, `ends` and `axes` as expressions over the bottoms.
            19 starts_expr: String = String::new(),
            20 ends_expr: String = String::new(),
            21 axes_expr: String = String::new(),
        }
        tops { Crop::top }
        since { |layer| {
            let expressions = [&layer.starts_expr, &layer.ends_expr, &layer.axes_expr];
            if expressions.iter().all(|text| text.is_empty()) { OLDEST } else { CROP_EXPRESSIONS }
        } }
        also {
            fn reads_only_size(&self, index: usize) -> bool {
                index > 0
            }
        }
    }
}

impl Crop {
    /// Returns the range of elements between `start` and `end` along an axis (`Crop::resolve_crop_roi`).
    pub(in crate::ncnn) fn range(start: i32, end: i32, size: Size) -> (Size, Size) {
        let from = match start {
            REST => Size::from(0),
            start if start < 0 => size + start,
            start => Size::from(start),
        };
        // An end of 0 is the end of the axis.
        let to = match end {
            REST => size,
            end if end > 0 => size.at_most(end),
            end => size + end,
        };
        (from, to)
    }

    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        if bottoms.len() != 1 || !self.starts_expr.is_empty() || !self.ends_expr.is_empty() {
            return Ok(None);
        }
        let bottom = bottoms.at(0)?;
        if self.starts.is_empty() || self.ends.is_empty() {
            return self.top_by_offsets(bottom);
        }
        let mut sizes = bottom.clone();
        let count = if self.axes.is_empty() { bottom.len() } else { self.axes.len() };
        for i in 0..count {
            let axis = self.axes.get(i).map_or(Ok(i), |axis| axis_of(*axis, bottom))?;
            let size = *bottom.at(axis)?;
            let (from, to) = Crop::range(*self.starts.at(i)?, *self.ends.at(i)?, size);
            if from < 0 || to - from < 1 {
                unsupported!("elements {from:?} to {to:?} of {size:?}");
            }
            sizes = with_size(&sizes, axis, to - from);
        }
        one(sizes)
    }

    fn top_by_offsets(&self, bottom: &[Size]) -> Result<Tops> {
        let w = (self.woffset, self.woffset2, self.outw);
        let h = (self.hoffset, self.hoffset2, self.outh);
        let d = (self.doffset, self.doffset2, self.outd);
        let c = (self.coffset, self.coffset2, self.outc);
        let crops = match bottom.len() {
            1 => vec![w],
            2 => vec![h, w],
            3 => vec![c, h, w],
            _ => vec![c, d, h, w],
        };
        let mut sizes = Vec::with_capacity(bottom.len());
        for (size, (before, after, out)) in bottom.iter().zip(crops) {
            let rest = *size - before - after;
            let size = if out == REST { rest } else { rest.at_most(out) };
            if before < 0 || after < 0 || size < 1 {
                unsupported!("{bottom:?} without {before} elements before and {after} after, {out} at most");
            }
            sizes.push(size);
        }
        one(sizes)
    }
}

layer! {
    /// Cumulative sums along an axis.
    98 CumulativeSum(exactly(1), exactly(1)) {
        params {
            0 axis: i32 = 0,
        }
    }

    /// A copy in separate memory.
    70 DeepCopy(exactly(1), exactly(1)) [Gpu] {}

    /// 32-bit integers converted to float32, times a scale.
    58 Dequantize(exactly(1), exactly(1)) [Gpu Move] {
        derived {
            0 scale_data_size(1) = |layer| weight_len(&layer.scale_data),
            1 bias_data_size = |layer| weight_len(&layer.bias_data),
        }
        weights {
            Raw scale_data,
            Raw bias_data,
        }
        reads { |_, _| Ok(vec![("scale_data", Some(1))]) }
        also {
            fn reads_integers(&self) -> Option<bool> {
                Some(true)
            }
        }
    }

    /// A diagonal of a matrix, or the matrix with a diagonal.
    101 Diag(exactly(1), exactly(1)) {
        params {
            0 diagonal: i32 = 0,
        }
        tops { unknown }
    }

    /// Insertion of axes of size 1.
    45 ExpandDims(exactly(1), exactly(1)) [Move] {
        params {
            3 axes: Vec<i32> = Vec::new(),
        }
        tops { unknown }
    }

    /// A blob with a single axis.
    14 Flatten(exactly(1), exactly(1)) [Gpu] {
        tops { |_, bottoms, _| one([product(bottoms.at(0)?)]) }
    }

    /// Reversal along axes.
    107 Flip(exactly(1), exactly(1)) [Move] {
        params {
            0 axes: Vec<i32> = Vec::new(),
        }
        since { |_| 20250916 }
    }

    /// Padding.
    43 Padding(exactly(1), exactly(1)) [Gpu] {
        params {
            0 top: i32 = 0,
            1 bottom: i32 = 0,
            2 left: i32 = 0,
            3 right: i32 = 0,
            /// `type` in ncnn: 0 constant, 1 replicate, 2 reflect.
            4 type_: i32 = 0,
            5 value: f32 = 0.0,
            7 front: i32 = 0,
            8 behind: i32 = 0,
        }
        derived {
            6 per_channel_pad_data_size = |layer| weight_len(&layer.per_channel_pad_data),
        }
        weights {
            Raw per_channel_pad_data,
        }
        reads { |l, bottom| Ok(if_present(&l.per_channel_pad_data, &[("per_channel_pad_data", outermost(bottom))])) }
        tops { Padding::top }
    }
}

impl Padding {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let bottom = bottoms.at(0)?;
        let (w, h) = ((self.left, self.right), (self.top, self.bottom));
        let outer = (self.front, self.behind);
        let none = (0, 0);
        let (pads, unused) = match bottom.len() {
            1 => (vec![w], h != none || outer != none),
            2 => (vec![h, w], outer != none),
            3 => (vec![outer, h, w], false),
            // `front` and `behind` are along d if there are four axes.
            _ => (vec![none, outer, h, w], false),
        };
        if unused || pads.iter().any(|(before, after)| *before < 0 || *after < 0) {
            unsupported!("a bottom of {bottom:?} with these paddings");
        }
        one(bottom.iter().zip(pads).map(|(size, (before, after))| *size + before + after).collect::<Sizes>())
    }
}

layer! {
    /// Depth to space: blocks of channels become spatial blocks.
    69 PixelShuffle(exactly(1), exactly(1)) [Gpu] {
        params {
            0 upscale_factor: i32 = 1,
            /// 0: the channel is the outermost factor (CRD), 1: the innermost (DCR).
            1 mode: i32 = 0,
        }
        tops { PixelShuffle::top }
    }
}

impl PixelShuffle {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let factor = self.upscale_factor.max(1);
        match *bottoms.at(0)?.as_slice() {
            [c, h, w] => one([c / factor / factor, h * factor, w * factor]),
            ref bottom => unsupported!("a bottom of {bottom:?}"),
        }
    }
}

layer! {
    /// Space to depth: spatial blocks become blocks of channels.
    55 Reorg(exactly(1), exactly(1)) [Gpu] {
        params {
            0 stride: i32 = 1,
            1 mode: i32 = 0,
        }
        tops { Reorg::top }
    }
}

impl Reorg {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let stride = self.stride.max(1);
        match *bottoms.at(0)?.as_slice() {
            [c, h, w] => one([c * stride * stride, h / stride, w / stride]),
            ref bottom => unsupported!("a bottom of {bottom:?}"),
        }
    }
}

layer! {
    /// Channels as a matrix of groups, transposed.
    52 ShuffleChannel(exactly(1), exactly(1)) [Gpu] {
        params {
            0 group: i32 = 1,
            1 reverse: i32 = 0,
        }
        tops { ShuffleChannel::top }
    }
}

impl ShuffleChannel {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let bottom = bottoms.at(0)?;
        let whole = |channels: Size| !(channels / self.group * self.group).differs(channels);
        if self.group < 1 || bottom.len() < 3 || !whole(*bottom.at(0)?) {
            unsupported!("{bottom:?} in {} groups", self.group);
        }
        one(bottom.as_slice())
    }
}

layer! {
    /// Parts of a blob along an axis.
    31 Slice(exactly(1), MANY) [Gpu Move] {
        params {
            /// Sizes; -233: an equal part of the rest.
            0 slices: Vec<i32> = Vec::new(),
            1 axis: i32 = 0,
            /// Split positions, instead of sizes.
            2 indices: Vec<i32> = Vec::new(),
        }
        tops { Slice::tops }
    }
}

impl Slice {
    fn tops(&self, bottoms: &[Sizes], tops: usize) -> Result<Tops> {
        let bottom = bottoms.at(0)?;
        let axis = axis_of(self.axis, bottom)?;
        let size = *bottom.at(axis)?;
        let mut done = Size::from(0);
        let mut parts = Vec::with_capacity(tops);
        for i in 0..tops {
            let part = if self.indices.is_empty() {
                match *self.slices.at(i)? {
                    REST => (size - done) / (tops - i).int(),
                    part => Size::from(part),
                }
            } else if i + 1 == tops {
                size - done
            } else {
                let index = *self.indices.at(i)?;
                (if index < 0 { size + index } else { Size::from(index) }) - done
            };
            if part < 1 || size - done - part < 0 {
                unsupported!("a part of {part:?} after {done:?} of {size:?}");
            }
            done = done + part;
            parts.push(with_size(bottom, axis, part));
        }
        Ok(Some(parts))
    }
}

layer! {
    /// Removal of axes of size 1.
    44 Squeeze(exactly(1), exactly(1)) [Move Float32 Unmasked] {
        params {
            0 squeeze_w: i32 = 0,
            1 squeeze_h: i32 = 0,
            2 squeeze_c: i32 = 0,
            3 axes: Vec<i32> = Vec::new(),
            11 squeeze_d: i32 = 0,
        }
        tops { unknown }
    }

    /// Repetition along one axis, or along all axes by `repeats`.
    37 Tile(exactly(1), exactly(1)) [Move] {
        params {
            0 axis: i32 = 0,
            1 tiles: i32 = 1,
            2 repeats: Vec<i32> = Vec::new(),
        }
        tops { Tile::top }
    }
}

impl Tile {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let bottom = bottoms.at(0)?;
        if self.repeats.is_empty() {
            let axis = axis_of(self.axis, bottom)?;
            return one(with_size(bottom, axis, *bottom.at(axis)? * self.tiles));
        }
        let repeats: Sizes = self.repeats.iter().copied().map(Size::from).collect();
        let rank = bottom.len().max(repeats.len());
        let mut bottom = extended(bottom, rank);
        if self.repeats.len() == 4 && bottoms.at(0)?.len() == 3 {
            // The axis d is the one that is new (`Tile::forward`).
            bottom.swap(0, 1);
        }
        let repeats = extended(&repeats, rank);
        one(bottom.into_iter().zip(repeats).map(|(size, times)| size * times).collect::<Sizes>())
    }
}
