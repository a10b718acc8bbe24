//! Sizes computed from those of several blobs: ncnn's expressions over the sizes of the bottoms.

use std::collections::BTreeMap;

use super::{Lower, State};
use crate::error::{At, Error, Result};
use crate::ncnn::layer::{CROP_EXPRESSIONS, Crop, EXPRESSIONS, Reshape};
use crate::ncnn::{BlobId, Layer, MAX_BOTTOMS, is_readable, letter};
use crate::tensor::{Dim, SizeCondition};

/// The blobs that have an axis of a free size: the newest, since a blob lives until its last reader.
#[derive(Default)]
pub(super) struct Axes {
    /// Those that have elements.
    filled: BTreeMap<Dim, (BlobId, char)>,
    /// Those that may be empty.
    maybe_empty: BTreeMap<Dim, (BlobId, char)>,
}

/// Returns whether a blob of this shape has elements for any sizes of the inputs.
fn has_elements(shape: &[Dim]) -> bool {
    let is_positive = |size: &Dim| !size.has_length() || size.lower_bound().is_some_and(|least| least > 0);
    shape.iter().all(is_positive)
}

impl Axes {
    pub(super) fn add(&mut self, blob: BlobId, shape: &[Dim]) {
        let sources = if has_elements(shape) { &mut self.filled } else { &mut self.maybe_empty };
        for (place, size) in shape.iter().enumerate() {
            if size.known().is_none()
                && let Some(letter) = letter(place, shape.len())
            {
                sources.insert(size.clone(), (blob, letter));
            }
        }
    }

    /// Returns the sources of two sizes that have this one as their difference, which have elements. The second may be
    /// a number.
    fn difference(&self, size: &Dim) -> Option<((BlobId, char), Rest)> {
        if !size.has_length() {
            return None;
        }
        let rest = |whole: &Dim| {
            let rest = whole.sub(size).ok()?;
            match rest.known() {
                Some(number) => (number > 0).then_some(Rest::Number(number)),
                None => self.filled.get(&rest).copied().map(Rest::Source),
            }
        };
        self.filled.iter().find_map(|(whole, source)| Some((*source, rest(whole)?)))
    }

    /// Replaces `blob` as the source of its sizes by another blob, as far as that has them.
    pub(super) fn replace(&mut self, blob: BlobId, by: BlobId, shape: &[Dim]) {
        self.filled.retain(|_, (size_source, _)| *size_source != blob);
        self.maybe_empty.retain(|_, (size_source, _)| *size_source != blob);
        self.add(by, shape);
    }
}

/// The smaller of two sizes that have a third one as their difference.
enum Rest {
    Number(i64),
    Source((BlobId, char)),
}

/// Expressions over the sizes of blobs, the bottoms of the layer that evaluates them.
struct Texts<'a> {
    state: &'a State,
    bottoms: Vec<BlobId>,
}

impl Texts<'_> {
    fn spell(&mut self, size: &Dim) -> Option<String> {
        size.spell(&mut |part| {
            let own = &self.state.net.blob(*self.bottoms.first()?).shape;
            if let Some(place) = own.iter().position(|size| size == part) {
                return Some(format!("0{}", letter(place, own.len())?));
            }
            let axes = &self.state.axes;
            let bottoms = &mut self.bottoms;
            let mut word = |(size_source, letter): (BlobId, char)| {
                let place = bottoms.iter().position(|bottom| *bottom == size_source).unwrap_or(bottoms.len());
                if place == bottoms.len() {
                    bottoms.push(size_source);
                }
                format!("{place}{letter}")
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

    /// Starts expressions over the sizes of `blob` and others; `None` if the net is for a release before `since`.
    fn texts(&self, blob: BlobId, since: u32) -> Option<Texts<'_>> {
        let known = self.may_be_newer || self.net.release >= since;
        known.then(|| Texts { state: self, bottoms: vec![blob] })
    }

    /// Returns the Reshape of a blob to a form by expressions, and its bottoms; `None` if no blobs have the
    /// sizes.
    pub(super) fn reshape_by_expression(&self, blob: BlobId, form: &[Dim]) -> Option<(Reshape, Vec<BlobId>)> {
        let (shape_expr, bottoms) = self.sizes_by_expression(blob, form)?;
        Some((Reshape { shape_expr, ..Reshape::default() }, bottoms))
    }

    /// Returns the sizes of a top, innermost first, of a layer with the first bottom `blob`, and all bottoms; `None` if no
    /// blobs have the sizes.
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

    /// Raises the required release to that of a layer, unless the user asked for an older one.
    pub(super) fn allow(&mut self, layer: &Layer) {
        if self.may_be_newer {
            self.net.release = self.net.release.max(layer.since());
        }
    }
}

impl Lower<'_> {
    /// Adds a layer with one top, and raises the required release to that of the layer unless the user asked for
    /// an older one.
    pub fn emit_newer(
        &mut self,
        layer: impl Into<Layer>,
        bottoms: &[BlobId],
        form: &[Dim],
    ) -> Result<BlobId> {
        let layer = layer.into();
        self.state.allow(&layer);
        self.emit(layer, bottoms, form)
    }

    /// Emits `count` elements of an axis from `start` on; both are computed from the sizes of other blobs.
    pub fn crop_by_expression(
        &mut self,
        blob: BlobId,
        place: usize,
        start: &Dim,
        count: &Dim,
    ) -> Result<BlobId> {
        let refuse = || {
            Error::unsupported(format!("{count} elements from {start} on: no blobs have these sizes"))
                .help("fix them with --input-shape, or allow ncnn 20260113 or later")
        };
        // Negative numbers count from the end at run time.
        let condition = SizeCondition::at_least(start, 0).map_err(|_| refuse())?;
        self.call.require(Ok(condition))?;
        let end = start.add(count)?;
        let mut range = self.state.range(blob, start, &end).ok_or_else(refuse)?;
        // Crop fails if it has to unpack a bottom without elements. One more than the size of that is never 0.
        let has_elements = |blob: &BlobId| has_elements(&self.state.net.blob(*blob).shape);
        if self.bears_empty() && !range.bottoms.iter().all(has_elements) {
            self.stretched_one(&start.add(&Dim::Known(1))?)?;
            range = self.state.range(blob, start, &end).ok_or_else(refuse)?;
        }
        let Range { starts_expr, ends_expr, bottoms } = range;
        let axes_expr = place.to_string();
        let mut form = self.form(blob);
        form.put(place, count.clone());
        let layer = Layer::from(Crop { starts_expr, ends_expr, axes_expr, ..Crop::default() });
        self.state.allow(&layer);
        self.emit(layer, &bottoms, &form)
    }
}
