//! Sizes computed from those of several blobs: ncnn's expressions over the sizes of the bottoms.

use super::axes::{Rest, has_elements};
use super::{Lower, State};
use crate::error::{At, Error, Result};
use crate::ncnn::layer::{CROP_EXPRESSIONS, Crop, EXPRESSIONS, Reshape};
use crate::ncnn::{BlobId, Layer, MAX_BOTTOMS, is_readable, letter};
use crate::tensor::{Dim, SizeCondition};

/// Expressions over the sizes of blobs, the bottoms of the layer that evaluates them.
struct Texts<'a> {
    state: &'a State,
    bottoms: Vec<BlobId>,
}

impl Texts<'_> {
    fn spell(&mut self, size: &Dim) -> Option<String> {
        size.spell(&mut |part| {
            let form = &self.state.net.blob(*self.bottoms.first()?).shape;
            if let Some(axis) = form.iter().position(|size| size == part) {
                return Some(format!("0{}", letter(axis, form.len())?));
            }
            let axes = &self.state.axes;
            let bottoms = &mut self.bottoms;
            let mut word = |(size_source, letter): (BlobId, char)| {
                let index = bottoms.iter().position(|bottom| *bottom == size_source).unwrap_or(bottoms.len());
                if index == bottoms.len() {
                    bottoms.push(size_source);
                }
                format!("{index}{letter}")
            };
            if let Some(source) = axes.filled.get(part) {
                return Some(word(*source));
            }
            if let Some((whole, rest)) = axes.difference(part) {
                let whole = word(whole);
                return Some(match rest {
                    Rest::Number(number) => format!("-({whole},{number})"),
                    Rest::Source(source) => format!("-({whole},{})", word(source)),
                });
            }
            axes.maybe_empty.get(part).map(|source| word(*source))
        })
    }

    /// Returns the bottoms, if the runtime can evaluate the expressions.
    fn finish(self, texts: &[&String]) -> Option<Vec<BlobId>> {
        let readable = texts.iter().all(|text| is_readable(text));
        (self.bottoms.len() <= MAX_BOTTOMS && readable).then_some(self.bottoms)
    }
}

/// A range along an axis of the first bottom.
struct Range {
    starts_expr: String,
    ends_expr: String,
    bottoms: Vec<BlobId>,
}

impl State {
    /// Returns the expressions of a range of `blob`; `None` if no blobs have the sizes.
    fn range(&self, blob: BlobId, start: &Dim, end: &Dim) -> Option<Range> {
        let mut texts = self.texts(blob, CROP_EXPRESSIONS)?;
        let (starts_expr, ends_expr) = (texts.spell(start)?, texts.spell(end)?);
        let bottoms = texts.finish(&[&starts_expr, &ends_expr])?;
        Some(Range { starts_expr, ends_expr, bottoms })
    }

    /// Starts expressions over the sizes of `blob` and others; `None` if the net is for a release before
    /// `since`.
    fn texts(&self, blob: BlobId, since: u32) -> Option<Texts<'_>> {
        self.may_be_of(since).then(|| Texts { state: self, bottoms: vec![blob] })
    }

    /// Returns whether the net may need the release `since`.
    fn may_be_of(&self, since: u32) -> bool {
        self.may_be_newer || self.net.release >= since
    }

    /// Returns the Reshape of a blob to a form by expressions, and its bottoms; `None` if no blobs have the
    /// sizes.
    pub(super) fn reshape_by_expression(&self, blob: BlobId, form: &[Dim]) -> Option<(Reshape, Vec<BlobId>)> {
        let (shape_expr, bottoms) = self.sizes_by_expression(blob, form)?;
        Some((Reshape { shape_expr, ..Reshape::default() }, bottoms))
    }

    /// Returns the sizes of a top, innermost first, of a layer with the first bottom `blob`, and all bottoms;
    /// `None` if no blobs have the sizes.
    pub(super) fn sizes_by_expression(&self, blob: BlobId, sizes: &[Dim]) -> Option<(String, Vec<BlobId>)> {
        let mut texts = self.texts(blob, EXPRESSIONS)?;
        let spelled: Option<Vec<String>> = sizes.iter().rev().map(|size| texts.spell(size)).collect();
        let text = spelled?.join(",");
        let bottoms = texts.finish(&[&text])?;
        Some((text, bottoms))
    }

    /// Returns whether a Reshape between these forms needs no other blob.
    pub(super) fn is_plain(&self, from: BlobId, to: &[Dim]) -> bool {
        super::state::reshape_layer(&self.net.blob(from).shape, to).is_ok()
    }

    /// Raises the required release to the first release of a layer, unless the user asked for an older one.
    pub(super) fn allow(&mut self, layer: &Layer) {
        if self.may_be_newer {
            self.net.release = self.net.release.max(layer.since());
        }
    }
}

impl Lower<'_> {
    /// Raises the required release to the first release of a layer, unless the user asked for an older one.
    pub fn newer(&self, layer: impl Into<Layer>) -> Layer {
        let layer = layer.into();
        self.state_mut().allow(&layer);
        layer
    }

    /// Adds a layer with one top, see [`Lower::newer`].
    pub(super) fn emit_newer(
        &self,
        layer: impl Into<Layer>,
        bottoms: &[BlobId],
        form: &[Dim],
    ) -> Result<BlobId> {
        self.emit(self.newer(layer), bottoms, form)
    }

    /// Emits `count` elements of an axis from `start` on; both are computed from the sizes of other blobs.
    pub(super) fn crop_by_expression(
        &self,
        blob: BlobId,
        axis: usize,
        start: &Dim,
        count: &Dim,
    ) -> Result<BlobId> {
        let is_too_old = !self.state().may_be_of(CROP_EXPRESSIONS);
        let refuse = || {
            let message = format!("{count} elements from {start} on: no blobs have these sizes");
            match Error::unsupported(message) {
                error if is_too_old => {
                    error.help("ncnn 20260113 and later compute such sizes: allow these releases")
                }
                error => error,
            }
        };
        // Negative numbers count from the end at run time.
        let condition = SizeCondition::at_least(start, 0).map_err(|_| refuse())?;
        self.call.require(Ok(condition))?;
        let end = start + count;
        let mut range = self.state().range(blob, start, &end).ok_or_else(refuse)?;
        // Crop fails if it has to unpack a bottom without elements. One more than the size of that is never
        // 0.
        let has_elements = |blob: &BlobId| has_elements(&self.state().net.blob(*blob).shape);
        if self.accepts_empty() && !range.bottoms.iter().all(has_elements) {
            self.stretched_one(&(start + 1))?;
            range = self.state().range(blob, start, &end).ok_or_else(refuse)?;
        }
        let Range { starts_expr, ends_expr, bottoms } = range;
        let axes_expr = axis.to_string();
        let mut form = self.form(blob);
        form.put(axis, count.clone());
        let layer = Crop { starts_expr, ends_expr, axes_expr, ..Crop::default() };
        self.emit_newer(layer, &bottoms, &form)
    }
}
