//! Reshapes by expressions over several bottoms, between blobs that the runtime packs.
//!
//! Release 20261020 moves their elements one at a time if it packs the bottom or the top (NCNN.md), 109 ns
//! for each. It packs no blob whose outermost axis has one element. So a Reshape without expressions removes
//! the packing, that by expressions gives the sizes below an axis of one element, and a third one removes
//! this axis. Where the two outer axes of four are free, it takes one more to divide them.

use smallvec::smallvec;

use super::layer::Reshape;
use super::text::{MAX_BOTTOMS, is_readable};
use super::{Blob, BlobId, Layer, Net, NetLayer};
use crate::tensor::{Dim, Shape};

/// The smallest number of elements of a pack, which divides the others.
const LEAST_PACK: i64 = 4;

/// A Reshape by expressions as one to an outermost axis of one element, and others without expressions.
struct Apart {
    shape_expr: String,
    /// The shapes between the reshapes; the first has the outermost axis.
    forms: Vec<Vec<Dim>>,
    /// The reshapes that follow, the last of them to the top.
    rest: Vec<Reshape>,
}

impl Net {
    /// Replaces reshapes by expressions over several bottoms that the runtime computes one element at a time.
    /// It precedes [`Net::split`].
    pub(crate) fn unpack_reshapes(&mut self) {
        let layers = Vec::with_capacity(self.layers.len());
        for mut layer in std::mem::replace(&mut self.layers, layers) {
            let rest = self.unpack(&mut layer).unwrap_or_default();
            self.layers.push(layer);
            self.layers.extend(rest);
        }
    }

    /// Adds the layer that removes the packing of the bottom, and changes the layer; returns the layers that
    /// follow it.
    fn unpack(&mut self, layer: &mut NetLayer) -> Option<Vec<NetLayer>> {
        let (Layer::Reshape(reshape), [bottom, _, ..], [top]) =
            (&layer.layer, layer.bottoms.as_slice(), layer.tops.as_slice())
        else {
            return None;
        };
        let (bottom, top) = (*bottom, *top);
        let (from, to) = (&self.blob(bottom).shape, &self.blob(top).shape);
        let (was_packed, is_packed) = (may_be_packed(from), may_be_packed(to));
        // A blob of one axis is copied as it is, and so are packs of the same rows.
        if to.len() < 2 || from.first() == to.first() || !(was_packed || is_packed) {
            return None;
        }
        let (mut shape_expr, mut bottoms) = (reshape.shape_expr.clone(), layer.bottoms.clone());
        if was_packed && let Some(text) = of_another(&shape_expr, bottoms.len()) {
            shape_expr = text;
            bottoms.push(bottom);
        }
        let flat = Dim::product(from);
        let apart = if is_packed { Some(Apart::of(&shape_expr, to)?) } else { None };
        shape_expr = apart.as_ref().map_or(shape_expr, |apart| apart.shape_expr.clone());
        if bottoms.len() > MAX_BOTTOMS || !is_readable(&shape_expr) {
            return None;
        }
        if was_packed {
            let flattened = self.between(top, [Dim::ONE, flat].as_slice().into());
            let flatten = Reshape { w: -1, h: 1, ..Reshape::default() };
            self.layers.push(NetLayer {
                layer: flatten.into(),
                bottoms: smallvec![bottom],
                tops: smallvec![flattened],
                ..layer.clone()
            });
            *bottoms.first_mut()? = flattened;
        }
        layer.layer = Reshape { shape_expr, ..Reshape::default() }.into();
        layer.bottoms = bottoms;
        let Apart { forms, rest, .. } = apart?;
        let mut blobs: Vec<BlobId> =
            forms.iter().map(|form| self.between(top, form.as_slice().into())).collect();
        layer.tops = blobs.first().copied().into_iter().collect();
        blobs.push(top);
        let ends = blobs.iter().zip(blobs.iter().skip(1));
        let follow = |(reshape, (from, to)): (Reshape, (&BlobId, &BlobId))| {
            let (bottoms, tops) = (smallvec![*from], smallvec![*to]);
            NetLayer { layer: reshape.into(), bottoms, tops, ..layer.clone() }
        };
        Some(rest.into_iter().zip(ends).map(follow).collect())
    }

    /// Adds a blob of the same elements as another one.
    fn between(&mut self, other: BlobId, shape: Shape) -> BlobId {
        let blob = self.blob(other).clone();
        self.add_blob(Blob { name: format!("{}_part", blob.name), is_value: false, shape, ..blob })
    }
}

/// Returns whether the runtime may pack a blob of this shape.
fn may_be_packed(shape: &[Dim]) -> bool {
    shape.first().and_then(Dim::known).is_none_or(|size| size % LEAST_PACK == 0)
}

impl Apart {
    /// Returns the reshapes to the form `to`; `None` if its three outer axes of four are free.
    fn of(shape_expr: &str, to: &[Dim]) -> Option<Apart> {
        let known = |size: &Dim| size.known().and_then(|size| i32::try_from(size).ok());
        let mut sizes = items(shape_expr);
        let mut form = to.to_vec();
        let same = Reshape { w: 0, ..Reshape::default() };
        // The axes that are one axis at first, and the reshapes that follow.
        let (axes, rest) = match to {
            [_, _] => (0..1, vec![Reshape { h: -1, ..same }]),
            [_, _, _] => (0..1, vec![Reshape { h: 0, c: -1, ..same }]),
            [c, d, h, _] => match (known(c), known(d), known(h)) {
                (_, Some(d), _) => (0..2, vec![Reshape { h: 0, d, c: -1, ..same }]),
                (Some(c), ..) => (0..2, vec![Reshape { h: 0, d: -1, c, ..same }]),
                (.., Some(h)) => {
                    let joined = Reshape { h: 0, c: -1, ..same.clone() };
                    (1..3, vec![joined, Reshape { h, d: -1, c: 0, ..same }])
                }
                _ => return None,
            },
            _ => return None,
        };
        // Expressions begin with the innermost axis.
        let texts = to.len() - axes.end..to.len() - axes.start;
        let text = match sizes.get(texts.clone())? {
            [a, b] => format!("*({a},{b})"),
            [only] => only.clone(),
            _ => return None,
        };
        sizes.splice(texts, [text]);
        sizes.push("1".to_owned());
        form.splice(axes.clone(), [Dim::product(to.get(axes)?)]);
        let forms = [[vec![Dim::ONE], form.clone()].concat(), form].into_iter().take(rest.len());
        Some(Apart { shape_expr: sizes.join(","), forms: forms.collect(), rest })
    }
}

/// Returns the expressions with the sizes of the first bottom read from the bottom at `index`; `None` if
/// there are none.
fn of_another(shape_expr: &str, index: usize) -> Option<String> {
    let (mut text, mut before, mut is_changed) = (String::new(), None, false);
    let mut letters = shape_expr.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_size = letter == '0' && letters.peek().is_some_and(char::is_ascii_alphabetic);
        if is_size && !before.is_some_and(|before: char| before.is_ascii_digit()) {
            text.push_str(&index.to_string());
            is_changed = true;
        } else {
            text.push(letter);
        }
        before = Some(letter);
    }
    is_changed.then_some(text)
}

/// Returns the expressions of a list.
fn items(list: &str) -> Vec<String> {
    let (mut items, mut depth) = (vec![String::new()], 0_usize);
    for letter in list.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        items.last_mut().into_iter().for_each(|item| item.push(letter));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::example::sizes;
    use super::*;

    /// Returns the expressions of the layers that a Reshape to these sizes becomes; -1 for those without.
    fn unpacked(from: &[&str], to: &[&str], text: &str) -> Vec<String> {
        let mut net = Net::default();
        let (x, z) = (net.push_input("x", &[1]), net.push_input("z", &[1, 1]));
        net.blob_mut(x).unwrap().shape = sizes(from);
        let reshape = Reshape { shape_expr: text.to_owned(), ..Reshape::default() };
        let y = net.push("y", reshape, &[x, z], &[1]);
        net.blob_mut(y).unwrap().shape = sizes(to);
        net.unpack_reshapes();
        let reshapes = net.layers.iter().filter_map(|layer| match &layer.layer {
            Layer::Reshape(reshape) => Some(reshape.as_ref()),
            _ => None,
        });
        let text = |reshape: &Reshape| match reshape {
            Reshape { shape_expr, .. } if !shape_expr.is_empty() => shape_expr.clone(),
            Reshape { w, h, d, c, .. } => format!("{w} {h} {d} {c}"),
        };
        reshapes.map(text).collect()
    }

    #[test]
    fn reshapes_of_packed_blobs_become_three() {
        let found = unpacked(&["64", "32"], &["8", "H", "W"], "1w,1h,8");
        assert_eq!(found, ["-1 1 -233 -233", "1w,1h,8,1", "0 0 -233 -1"]);
        let found = unpacked(&["8*H", "W"], &["8", "H", "7", "W"], "1w,7,1h,8");
        assert_eq!(found, ["-1 1 -233 -233", "1w,7,*(1h,8),1", "0 0 -1 8"]);
        let found = unpacked(&["4*C", "W"], &["C", "H", "2", "W"], "1w,2,1h,1d");
        assert_eq!(found, ["-1 1 -233 -233", "1w,*(2,1h),1d,1", "0 0 -233 -1", "0 2 -1 0"]);
        let found = unpacked(&["3", "H*W"], &["H", "W"], "*(3,1w),1h");
        assert_eq!(found, ["*(3,1w),1h,1", "0 -1 -233 -233"]);
        let found = unpacked(&["8", "H*W"], &["3", "H", "W"], "1w,1h,3");
        assert_eq!(found, ["-1 1 -233 -233", "1w,1h,3"]);
        let found = unpacked(&["8*H", "W"], &["1", "10*H", "W"], "0w,*(10,1h),-(0h,1)");
        assert_eq!(found, ["-1 1 -233 -233", "2w,*(10,1h),-(2h,1)"]);
    }

    #[test]
    fn other_reshapes_stay() {
        assert_eq!(unpacked(&["8", "H*W"], &["8", "H", "W"], "1w,1h,8"), ["1w,1h,8"]);
        assert_eq!(unpacked(&["3", "H*W"], &["1", "H", "W"], "1w,1h,1"), ["1w,1h,1"]);
        assert_eq!(unpacked(&["H", "W"], &["H*W"], "*(1h,1w)"), ["*(1h,1w)"]);
        assert_eq!(unpacked(&["C*H", "W"], &["C", "H", "W", "2"], "2,1w,1h,1d"), ["2,1w,1h,1d"]);
    }
}
