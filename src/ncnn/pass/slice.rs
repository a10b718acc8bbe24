//! Replacement of crops that partition a blob along an axis by a Slice.

use std::collections::BTreeMap;

use smallvec::smallvec;

use super::super::layer::{Crop, Slice};
use super::super::{BlobId, BlobIds, Layer, Net, NetLayer};
use super::wiring::{Edits, Wiring, known};
use crate::error::Result;
use crate::ncnn::layer::shape::Size;

/// The range of a crop along an axis, and the index of the layer.
type Part = (i64, i64, usize);

pub(super) fn join_crops(net: &mut Net, _: &Wiring) -> Result<bool> {
    let mut parts: BTreeMap<(BlobId, usize), Vec<Part>> = BTreeMap::new();
    for (index, layer) in net.layers.iter().enumerate() {
        if let Some((blob, axis, from, to)) = run_of(net, layer) {
            parts.entry((blob, axis)).or_default().push((from, to, index));
        }
    }
    let mut edits = Edits::default();
    for ((blob, axis), mut found) in parts {
        let Some(size) = known(&net.blob(blob).shape).and_then(|sizes| sizes.get(axis).copied()) else {
            continue;
        };
        found.sort_unstable();
        // Of crops of the same elements the first stays.
        let mut runs: Vec<Part> = Vec::with_capacity(found.len());
        let mut same = Vec::new();
        for part in found {
            match runs.last() {
                Some((from, to, first)) if (*from, *to) == (part.0, part.1) => same.push((part.2, *first)),
                _ => runs.push(part),
            }
        }
        let mut end = 0;
        let is_whole = runs.iter().all(|(from, to, _)| std::mem::replace(&mut end, *to) == *from);
        if !is_whole || end != i64::from(size) || runs.len() < 2 {
            continue;
        }
        let top = |index: usize| net.layers.get(index).and_then(|layer| layer.tops.first()).copied();
        let Some(tops) = runs.iter().map(|(_, _, index)| top(*index)).collect::<Option<BlobIds>>() else {
            continue;
        };
        let indices = || runs.iter().map(|(_, _, index)| *index);
        let all = || indices().chain(same.iter().map(|(index, _)| *index));
        let Some(first) = all().min() else { continue };
        let Some(name) = net.layers.get(first).map(|layer| layer.name.clone()) else { continue };
        let slices = runs.iter().map(|(from, to, _)| Ok(i32::try_from(to - from)?)).collect::<Result<_>>()?;
        let layer = Slice { slices, axis: i32::try_from(axis)?, ..Slice::default() };
        let layers = all().filter_map(|index| net.layers.get(index));
        let provenance = layers.flat_map(|layer| layer.provenance.iter()).collect();
        let float32 = all().filter_map(|index| net.layers.get(index)).any(|layer| layer.float32);
        let bottoms = smallvec![blob];
        let slice = NetLayer { name, layer: layer.into(), bottoms, tops, float32, provenance };
        edits.insert_before(first, slice);
        indices().for_each(|index| edits.remove(index, None));
        for (index, first) in same {
            edits.remove(index, None);
            if let (Some(top), Some(first)) = (top(index), top(first)) {
                edits.replace(top, first);
            }
        }
    }
    Ok(edits.apply(net))
}

/// Returns the blob, axis and range of a Crop along one axis.
fn run_of(net: &Net, layer: &NetLayer) -> Option<(BlobId, usize, i64, i64)> {
    let (Layer::Crop(crop), [bottom]) = (&layer.layer, layer.bottoms.as_slice()) else { return None };
    let Crop { starts, ends, axes, starts_expr, .. } = &**crop;
    let ([start], [end], [axis]) = (starts.as_slice(), ends.as_slice(), axes.as_slice()) else { return None };
    let sizes = known(&net.blob(*bottom).shape)?;
    let axis = usize::try_from(*axis).ok()?;
    let (from, to) = Crop::range(*start, *end, Size::from(*sizes.get(axis)?));
    let (from, to) = (from.known()?, to.known()?);
    (starts_expr.is_empty() && 0 <= from && from < to).then_some((*bottom, axis, from, to))
}
