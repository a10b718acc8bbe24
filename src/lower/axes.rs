//! The blobs from which free sizes are read.

use std::collections::BTreeMap;

use crate::ncnn::{BlobId, letter};
use crate::tensor::Dim;

/// The blobs that have an axis of a free size: the newest, since a blob lives until its last reader.
#[derive(Default)]
pub(super) struct Axes {
    /// Those that have elements.
    pub(super) filled: BTreeMap<Dim, (BlobId, char)>,
    /// Those that may be empty.
    pub(super) maybe_empty: BTreeMap<Dim, (BlobId, char)>,
}

/// Returns whether a blob of this shape has elements for any sizes of the inputs.
pub(super) fn has_elements(shape: &[Dim]) -> bool {
    let is_positive = |size: &Dim| !size.has_length() || size.lower_bound().is_some_and(|least| least > 0);
    shape.iter().all(is_positive)
}

impl Axes {
    pub(super) fn add(&mut self, blob: BlobId, shape: &[Dim]) {
        let sources = if has_elements(shape) { &mut self.filled } else { &mut self.maybe_empty };
        for (axis, size) in shape.iter().enumerate() {
            if size.known().is_none()
                && let Some(letter) = letter(axis, shape.len())
            {
                sources.insert(size.clone(), (blob, letter));
            }
        }
    }

    /// Returns the sources of two sizes that have this one as their difference, which have elements. The
    /// second may be a number.
    pub(super) fn difference(&self, size: &Dim) -> Option<((BlobId, char), Rest)> {
        if !size.has_length() {
            return None;
        }
        let rest = |whole: &Dim| {
            let rest = whole - size;
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
pub(super) enum Rest {
    Number(i64),
    Source((BlobId, char)),
}
