//! Layers of inputs, constants and copies, and layers that change the form.

use super::shape::{Size, Sizes, Tops, one, product, stated};
use super::{ANY, BATCHES, EXPRESSIONS, MANY, OLDEST, between, exactly, layer, weight};
use crate::error::{At, Error, Result, unsupported};

layer! {
    /// An input of the net, or several of unknown sizes.
    16 Input(exactly(0), MANY) [Source Float32 Unmasked] {
        params {
            0 w: i32 = 0,
            1 h: i32 = 0,
            2 c: i32 = 0,
            11 d: i32 = 0,
        }
        tops { |l, _, _| Ok(stated(l.w, l.h, l.d, l.c)) }
    }

    /// A constant blob.
    19 MemoryData(exactly(0), exactly(1)) [Gpu Source Float32] {
        params {
            0 w: i32 = 0,
            1 h: i32 = 0,
            2 c: i32 = 0,
            11 d: i32 = 0,
            21 load_type: i32 = 1,
        }
        weights {
            // Tagged if `load_type` is 0.
            Raw data,
        }
        reads { |l, _| {
            let sizes: Vec<i32> = [l.w, l.h, l.d, l.c].into_iter().filter(|size| *size != 0).collect();
            Ok(vec![("data", Some(weight::product(&sizes)?))])
        } }
        tops { |l, _, _| Ok(stated(l.w, l.h, l.d, l.c)) }
    }

    /// Copies of a blob by reference, since each blob has one reader.
    33 Split(exactly(1), MANY) [Gpu Move] {
        tops { |_, bottoms, tops| Ok(Some(vec![bottoms.at(0)?.clone(); tops])) }
        also {
            fn accepts_empty(&self, _: usize) -> bool {
                true
            }

            fn reads_integers(&self) -> Option<bool> {
                Some(false)
            }
        }
    }

    /// The identity: each top is the bottom at its index. Further bottoms have no top.
    68 Noop(MANY, ANY) [Gpu] {}
}

/// The size param of an absent axis in Reshape.
const ABSENT: i32 = -233;
/// The batch axis of a blob without one.
const NO_BATCH: i32 = 233;

layer! {
    /// Another shape for the same elements. A size of -1 follows from the others; 0 is the size of the same
    /// axis of the bottom.
    27 Reshape(between(1, 32), exactly(1)) [Gpu Move] {
        params {
            0 w: i32 = ABSENT,
            1 h: i32 = ABSENT,
            2 c: i32 = ABSENT,
            /// Sizes as expressions over the bottoms, innermost first.
            6 shape_expr: String = String::new(),
            11 d: i32 = ABSENT,
            /// The index of the batch of the bottom among its axes: the sizes have one of the batch.
            12 input_batch_axis: i32 = NO_BATCH,
            /// The axis that becomes the batch of the top.
            13 output_batch_axis: i32 = NO_BATCH,
        }
        tops { Reshape::top }
        since { |layer| match layer.shape_expr.as_str() {
            _ if layer.changes_batch() => BATCHES,
            "" => OLDEST,
            _ => EXPRESSIONS,
        } }
        also {
            fn reads_only_size(&self, index: usize) -> bool {
                index > 0
            }

            fn reads_integers(&self) -> Option<bool> {
                Some(false)
            }
        }
    }
}

impl Reshape {
    /// Returns whether an axis becomes the batch of the top, or the batch of the bottom an axis.
    pub(in crate::ncnn) fn changes_batch(&self) -> bool {
        self.input_batch_axis != NO_BATCH || self.output_batch_axis != NO_BATCH
    }

    /// Returns the size of the batch of the top, for the largest one of the bottoms.
    pub(crate) fn top_batch(&self, batch: u32) -> u32 {
        let sizes = self.sizes();
        let made = usize::try_from(self.output_batch_axis).ok().and_then(|axis| sizes.get(axis));
        match made.and_then(|(size, _)| u32::try_from(*size).ok()) {
            Some(size) => size,
            None if self.input_batch_axis != NO_BATCH => 1,
            None => batch,
        }
    }

    /// Returns the sizes that the params state, outermost first, each with the index of its axis among w, h,
    /// c and d.
    fn sizes(&self) -> Vec<(i32, usize)> {
        match (self.w, self.h, self.d, self.c) {
            (w, ABSENT, ..) => vec![(w, 0)],
            (w, h, _, ABSENT) => vec![(h, 1), (w, 0)],
            (w, h, ABSENT, c) => vec![(c, 2), (h, 1), (w, 0)],
            (w, h, d, c) => vec![(c, 2), (d, 3), (h, 1), (w, 0)],
        }
    }

    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        if !self.shape_expr.is_empty() {
            return Ok(None);
        }
        let bottom = bottoms.at(0)?;
        let missing = Size::from(1);
        // w, h, c, d of the bottom.
        let bottom_sizes = match *bottom.as_slice() {
            [w] => [w, missing, missing, missing],
            [h, w] => [w, h, missing, missing],
            [c, h, w] => [w, h, c, missing],
            [c, d, h, w] => [w, h, c, d],
            _ => unsupported!("a bottom of {bottom:?}"),
        };
        let mut sizes = Vec::new();
        for (size, axis) in self.sizes() {
            sizes.push(if size == 0 { *bottom_sizes.at(axis)? } else { Size::from(size) });
        }
        if self.input_batch_axis != NO_BATCH {
            return one(sizes);
        }
        let total = product(bottom);
        let stated: Sizes = sizes.iter().copied().filter(|size| *size != -1).collect();
        for size in sizes.iter_mut().filter(|size| **size == -1) {
            *size = total / product(&stated);
        }
        if product(&sizes).differs(total) || sizes.iter().any(|size| *size < 1) {
            unsupported!("{bottom:?} as {sizes:?}");
        }
        if let Ok(axis) = usize::try_from(self.output_batch_axis)
            && axis < sizes.len()
        {
            sizes.remove(axis);
        }
        one(sizes)
    }
}

layer! {
    /// A permutation of two, three or four axes.
    47 Permute(exactly(1), exactly(1)) [Gpu Move] {
        params {
            0 order_type: i32 = 0,
        }
        tops { |l, bottoms, _| one(l.permuted(bottoms.at(0)?)?) }
    }
}

impl Permute {
    /// Returns the layer whose top has these axes of the bottom, outermost first.
    ///
    /// # Errors
    ///
    /// If the axes are not a permutation.
    pub(crate) fn of(perm: &[usize]) -> Result<Permute> {
        let mut left: Vec<usize> = (0..perm.len()).collect();
        let mut number = 0;
        for axis in perm {
            let index = left.iter().position(|other| other == axis);
            let index = index.ok_or_else(|| Error::invalid(format!("{perm:?} is not a permutation")))?;
            left.remove(index);
            number = number * (left.len() + 1) + index;
        }
        Ok(Permute { order_type: i32::try_from(number)? })
    }

    /// Returns one item per axis, outermost first, in the order of the axes of the top.
    ///
    /// `order_type` is the index of the permutation among the sorted ones; a permutation lists axes from the
    /// innermost one, counted from the innermost one (`permute.cpp`).
    pub(in crate::ncnn) fn permuted<T: Copy>(&self, items: &[T]) -> Result<Vec<T>> {
        let mut left = items.to_vec();
        let mut number = usize::try_from(self.order_type)?;
        let mut digits = Vec::with_capacity(left.len());
        for base in 1..=left.len() {
            digits.push(number % base);
            number /= base;
        }
        if number != 0 {
            unsupported!("order_type {} of {} axes", self.order_type, items.len());
        }
        // The outermost axis of the top comes first, taken from the remaining axes, outermost first.
        let mut permuted = Vec::with_capacity(items.len());
        for digit in digits.into_iter().rev() {
            permuted.extend((digit < left.len()).then(|| left.remove(digit)));
        }
        Ok(permuted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_types_match_the_runtime() {
        for (perm, number) in [
            (&[0, 1][..], 0),
            (&[1, 0], 1),
            // 1 = h w c, 2 = w c h, 3 = c w h, 4 = h c w, 5 = c h w (innermost first)
            (&[0, 2, 1], 1),
            (&[1, 0, 2], 2),
            (&[1, 2, 0], 3),
            (&[2, 0, 1], 4),
            (&[2, 1, 0], 5),
            // 6 = w h c d, 8 = w c h d, 23 = c d h w
            (&[1, 0, 2, 3], 6),
            (&[1, 2, 0, 3], 8),
            (&[3, 2, 1, 0], 23),
        ] {
            let permute = Permute::of(perm).unwrap();
            assert_eq!(permute.order_type, number, "{perm:?}");
            let axes: Vec<usize> = (0..perm.len()).collect();
            assert_eq!(permute.permuted(&axes).unwrap(), perm);
        }
    }
}
