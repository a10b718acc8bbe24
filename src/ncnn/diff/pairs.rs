//! Which layers of two nets are the same: by name, or by structure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ncnn::{BlobId, Layer, Net, NetLayer};

/// A top of a layer, by the index of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub layer: usize,
    pub top: usize,
}

/// Where a layer is read: the reader, the index of the bottom, and the index of the top.
type Use = (usize, usize, usize);

/// A net without its layers Split.
pub(super) struct Side<'a> {
    net: &'a Net,
    /// The origins of the bottoms of each layer; `None` for layers Split.
    bottoms: Vec<Option<Vec<Origin>>>,
    /// The readers of each layer, sorted.
    uses: Vec<Vec<Use>>,
}

impl<'a> Side<'a> {
    /// Returns a net whose bottoms are followed through layers Split.
    pub fn of(net: &'a Net) -> Side<'a> {
        let mut origins: BTreeMap<BlobId, Origin> = BTreeMap::new();
        let mut bottoms = Vec::with_capacity(net.layers.len());
        let mut uses = vec![Vec::new(); net.layers.len()];
        for (index, layer) in net.layers.iter().enumerate() {
            let read: Vec<Origin> =
                layer.bottoms.iter().filter_map(|blob| origins.get(blob)).copied().collect();
            if let (Layer::Split(_), [origin]) = (&layer.layer, read.as_slice()) {
                origins.extend(layer.tops.iter().map(|top| (*top, *origin)));
                bottoms.push(None);
                continue;
            }
            for (at, origin) in read.iter().enumerate() {
                if let Some(uses) = uses.get_mut(origin.layer) {
                    uses.push((index, at, origin.top));
                }
            }
            let tops = layer.tops.iter().enumerate();
            origins.extend(tops.map(|(top, blob)| (*blob, Origin { layer: index, top })));
            bottoms.push(Some(read));
        }
        Side { net, bottoms, uses }
    }

    /// Returns the layers but for Split, with their indices.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, &'a NetLayer)> + '_ {
        let layers = self.net.layers.iter().enumerate().zip(&self.bottoms);
        layers.filter(|(_, bottoms)| bottoms.is_some()).map(|(layer, _)| layer)
    }

    /// Returns the origins of the bottoms of a layer.
    pub fn bottoms(&self, index: usize) -> &[Origin] {
        self.bottoms.get(index).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Returns the names of blobs.
    pub fn names(&self, origins: &[Origin]) -> Vec<String> {
        let blob = |origin: &Origin| self.net.layers.get(origin.layer)?.tops.get(origin.top).copied();
        origins.iter().filter_map(blob).map(|blob| self.net.blob(blob).name.clone()).collect()
    }

    fn uses(&self, index: usize) -> &[Use] {
        self.uses.get(index).map(Vec::as_slice).unwrap_or_default()
    }
}

/// What two layers without a common name have in common.
#[derive(Clone, Copy)]
enum Likeness {
    /// Type and params.
    Params,
    /// The type.
    Type,
}

/// The most rounds over both nets. Each follows chains of layers from end to end, so few are needed: the
/// bound is for damaged nets.
const MAX_ROUNDS: usize = 32;

/// Layers that are not matched yet, by what has to be equal.
type Rest<K> = BTreeMap<K, VecDeque<usize>>;

/// Returns the index of the matched layer of the second net, for each matched layer of the first net.
pub(super) fn pairs(old: &Side, new: &Side) -> BTreeMap<usize, usize> {
    let mut pairs = Pairs::default();
    pairs.by_name(old, new, true);
    for _ in 0..MAX_ROUNDS {
        let before = pairs.forward.len();
        pairs.by_structure(old, new, Likeness::Params);
        if pairs.forward.len() == before {
            pairs.by_structure(old, new, Likeness::Type);
        }
        if pairs.forward.len() == before {
            break;
        }
    }
    pairs.by_name(old, new, false);
    pairs.forward
}

/// The layers that are matched so far.
#[derive(Default)]
struct Pairs {
    forward: BTreeMap<usize, usize>,
    matched: BTreeSet<usize>,
}

impl Pairs {
    /// Matches layers with the same name, and of the same type if asked.
    fn by_name(&mut self, old: &Side, new: &Side, same_type: bool) {
        let key = |layer: &NetLayer| (layer.name.clone(), same_type.then(|| layer.layer.type_name()));
        let rest = self.rest(new, |_, layer| key(layer));
        self.take(old.layers(), rest, |_, _, layer| Some(key(layer)));
    }

    /// Matches layers that are alike and read the same, then those that are read by the same.
    fn by_structure(&mut self, old: &Side, new: &Side, likeness: Likeness) {
        let key = |layer: &NetLayer| {
            let params = match likeness {
                Likeness::Params => format!("{:?}", layer.layer.params()),
                Likeness::Type => String::new(),
            };
            (layer.layer.type_name(), params)
        };
        let rest = self.rest(new, |index, layer| (key(layer), new.bottoms(index).to_vec()));
        self.take(old.layers(), rest, |pairs, index, layer| {
            let counterpart =
                |origin: &Origin| Some(Origin { layer: *pairs.forward.get(&origin.layer)?, ..*origin });
            let read: Option<Vec<Origin>> = old.bottoms(index).iter().map(counterpart).collect();
            Some((key(layer), read?))
        });
        let rest = self.rest(new, |index, layer| (key(layer), new.uses(index).to_vec()));
        self.take(old.layers().rev(), rest, |pairs, index, layer| {
            let counterpart = |(reader, at, top): &Use| Some((*pairs.forward.get(reader)?, *at, *top));
            let uses: Option<Vec<Use>> = old.uses(index).iter().map(counterpart).collect();
            let mut uses = uses.filter(|uses| !uses.is_empty())?;
            uses.sort_unstable();
            Some((key(layer), uses))
        });
    }

    /// Returns the layers of the second net that are not matched.
    fn rest<K: Ord>(&self, new: &Side, key: impl Fn(usize, &NetLayer) -> K) -> Rest<K> {
        let mut rest: Rest<K> = BTreeMap::new();
        for (index, layer) in new.layers().filter(|(index, _)| !self.matched.contains(index)) {
            rest.entry(key(index, layer)).or_default().push_back(index);
        }
        rest
    }

    /// Matches layers of the first net that are not matched, in an order in which each can rely on those
    /// before.
    fn take<'l, K: Ord>(
        &mut self,
        layers: impl Iterator<Item = (usize, &'l NetLayer)>,
        mut rest: Rest<K>,
        key: impl Fn(&Pairs, usize, &NetLayer) -> Option<K>,
    ) {
        for (index, layer) in layers {
            if self.forward.contains_key(&index) {
                continue;
            }
            let key = key(self, index, layer);
            let found = key.and_then(|key| rest.get_mut(&key)).and_then(VecDeque::pop_front);
            if let Some(found) = found {
                self.forward.insert(index, found);
                self.matched.insert(found);
            }
        }
    }
}
