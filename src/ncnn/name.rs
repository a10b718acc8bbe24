//! Names that the runtime can read with `%255s` in `Net::load_param`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};

use super::{BlobId, Net};
use crate::common::index::{Index, IndexSet};
use crate::common::near::near_names;
use crate::error::{Error, Result};

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 255;

/// A changed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    /// The original name.
    pub from: String,
    /// The name in the `.param` file.
    pub to: String,
}

/// The names that [`Net::name`] changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Names of inputs and outputs.
    pub ends: Vec<Renamed>,
    /// Names of inner blobs that the runtime cannot read. Names changed only to be unique are not included.
    pub inside: Vec<Renamed>,
}

impl Net {
    /// Gives every layer and every blob a unique name that the runtime can read, after [`Net::split`].
    /// `renames` are pairs of old and new names; of the others, inputs and outputs keep their names with
    /// priority over inner blobs. `values` are the names of the values
    /// of the model, which no other blob gets.
    pub(crate) fn name<'v>(
        &mut self,
        renames: &[(String, String)],
        values: impl Iterator<Item = &'v str> + Clone,
    ) -> Result<Changes> {
        let renamed = self.find_renamed(renames)?;
        let mut changes = Changes::default();
        if !are_valid(self.layers.iter().map(|layer| layer.name.as_str())) {
            let mut names = Names::with_capacity(self.layers.len());
            for layer in &mut self.layers {
                if let Some(name) = names.claim(&layer.name, layer.layer.type_name(), false) {
                    layer.name = name;
                }
            }
        }
        let ends = self.name_outputs();
        if !renamed.is_empty()
            || !are_valid(self.tops().map(|blob| self.blob(blob).name.as_str()))
            || self.has_name_of(values.clone())
        {
            self.claim_blobs(&ends, &renamed, values, &mut changes);
        }
        for output in &mut self.outputs {
            if let Some(blob) = self.blobs.get(output.blob.index()) {
                output.name.clone_from(&blob.name);
            }
        }
        Ok(changes)
    }

    /// Returns whether a blob has the name of another value.
    fn has_name_of<'v>(&self, mut values: impl Iterator<Item = &'v str>) -> bool {
        let others = self.tops().map(|blob| self.blob(blob)).filter(|blob| !blob.is_value);
        let others: HashSet<u64> = others.map(|blob| hash(&blob.name)).collect();
        !others.is_empty() && values.any(|name| others.contains(&hash(name)))
    }

    /// Gives blobs the names of outputs; returns the blobs of inputs and outputs. An input that is an output
    /// with the same name and has no readers is one blob.
    fn name_outputs(&mut self) -> Vec<BlobId> {
        let mut named: IndexSet<BlobId> = self.inputs.iter().copied().collect();
        let mut ends = self.inputs.clone();
        for output in &self.outputs {
            if named.insert(output.blob) {
                ends.push(output.blob);
                if let Some(blob) = self.blobs.get_mut(output.blob.index()) {
                    blob.name.clone_from(&output.name);
                    blob.is_value = true;
                }
            }
        }
        ends
    }

    /// Gives each blob a unique name: inputs and outputs that can keep theirs first, then other inputs and
    /// outputs, then inner blobs, by the name of the layer if they have none.
    fn claim_blobs<'v>(
        &mut self,
        ends: &[BlobId],
        renamed: &BTreeMap<BlobId, String>,
        values: impl Iterator<Item = &'v str>,
        changes: &mut Changes,
    ) {
        let mut names = Names::with_capacity(self.blobs.len());
        names.values.extend(values.map(hash));
        names.taken.extend(renamed.values().map(|name| hash(name)));
        let mut named: IndexSet<BlobId> = IndexSet::default();
        for id in ends.iter().filter(|id| !renamed.contains_key(id)) {
            if names.claim_exactly(&self.blob(*id).name, true) {
                named.insert(*id);
            }
        }
        for id in ends {
            let Some(blob) = self.blobs.get_mut(id.index()).filter(|_| named.insert(*id)) else { continue };
            if let Some(to) = renamed.get(id) {
                blob.name.clone_from(to);
            } else if let Some(to) = names.claim(&blob.name, "blob", true) {
                let from = std::mem::replace(&mut blob.name, to.clone());
                changes.ends.push(Renamed { from, to });
            }
        }
        for layer in &self.layers {
            for top in &layer.tops {
                let Some(blob) = self.blobs.get_mut(top.index()).filter(|_| named.insert(*top)) else {
                    continue;
                };
                let other = renamed.get(top).cloned();
                let other = other.or_else(|| names.claim(&blob.name, &layer.name, blob.is_value));
                let Some(to) = other else { continue };
                let from = std::mem::replace(&mut blob.name, to);
                if !is_legal(&from) && !from.is_empty() && !renamed.contains_key(top) {
                    changes.inside.push(Renamed { from, to: blob.name.clone() });
                }
            }
        }
    }

    /// Returns the new names that the user requested. If several blobs have the old name, such as an input
    /// that is also an output, the first one is renamed.
    fn find_renamed(&self, renames: &[(String, String)]) -> Result<BTreeMap<BlobId, String>> {
        if renames.is_empty() {
            return Ok(BTreeMap::new());
        }
        let inputs = self.inputs.iter().map(|blob| (self.blob(*blob).name.as_str(), *blob));
        let ends: Vec<_> =
            inputs.chain(self.outputs.iter().map(|end| (end.name.as_str(), end.blob))).collect();
        let inside = self.tops().map(|blob| (self.blob(blob).name.as_str(), blob));
        let mut blobs: BTreeMap<&str, BlobId> = BTreeMap::new();
        for (name, blob) in ends.iter().copied().chain(inside) {
            blobs.entry(name).or_insert(blob);
        }
        let mut renamed = BTreeMap::new();
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        for (from, to) in renames {
            let refused = |message: String| Err(Error::usage(message).at_part(format!("rename {from}={to}")));
            if to.is_empty() || !is_legal(to) {
                let rule = "ncnn reads names of 1 to 255 bytes without white space";
                return refused(rule.to_owned());
            }
            let stays = |name: &str| {
                ends.iter().any(|(end, _)| *end == name) && renames.iter().all(|(old, _)| old != name)
            };
            if !taken.insert(to) || stays(to) {
                return refused(format!("two blobs would be called \"{to}\""));
            }
            let Some(blob) = blobs.get(from.as_str()) else {
                let error = Error::usage(format!("the net has no blob \"{from}\" to rename"));
                let near = near_names(from, blobs.keys().copied());
                let way = "make a value of the model an output with --outputs";
                return Err(error.help(near.map_or(way.to_owned(), |near| format!("{near}; or {way}"))));
            };
            if renamed.insert(*blob, to.clone()).is_some() {
                return refused(format!("\"{from}\" is renamed twice"));
            }
        }
        Ok(renamed)
    }
}

/// Returns whether all names are unique and the runtime can read them.
fn are_valid<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
    let mut distinct = Distinct::default();
    let legal = names.all(|name| {
        distinct.add(name);
        !name.is_empty() && is_legal(name)
    });
    legal && distinct.all_differ()
}

/// A check for unique names. Sorting the hashes of many names is faster than looking up each in a table.
#[derive(Default)]
pub(super) struct Distinct {
    hashes: Vec<u64>,
    hasher: DefaultHashBuilder,
}

impl Distinct {
    pub(super) fn add(&mut self, name: &str) {
        self.hashes.push(self.hasher.hash_one(name));
    }

    /// Returns whether all hashes differ; unique names may have equal hashes.
    pub(super) fn all_differ(mut self) -> bool {
        self.hashes.sort_unstable();
        self.hashes.is_sorted_by(|a, b| a < b)
    }
}

/// The names in use.
struct Names {
    /// Hashes of the names; a name whose hash is in use counts as taken.
    taken: HashSet<u64>,
    /// Hashes of the names that only the values of the model take.
    values: HashSet<u64>,
    /// The next suffix to try for each name.
    next: HashMap<String, usize>,
}

impl Names {
    fn with_capacity(count: usize) -> Names {
        Names { taken: HashSet::with_capacity(count), values: HashSet::new(), next: HashMap::new() }
    }

    /// Claims a name if it can stay as it is.
    fn claim_exactly(&mut self, wanted: &str, is_value: bool) -> bool {
        !wanted.is_empty() && is_legal(wanted) && self.take(wanted, is_value)
    }

    fn take(&mut self, name: &str, is_value: bool) -> bool {
        let hash = hash(name);
        (is_value || !self.values.contains(&hash)) && self.taken.insert(hash)
    }

    /// Claims a unique name, one of the model if it `is_value`: `wanted`, or `otherwise` if that is empty,
    /// with a numeric suffix if it is taken.
    /// Returns the name unless it is `wanted`.
    fn claim(&mut self, wanted: &str, otherwise: &str, is_value: bool) -> Option<String> {
        if self.claim_exactly(wanted, is_value) {
            return None;
        }
        let base = legal(if wanted.is_empty() { otherwise } else { wanted });
        if base != wanted && self.take(&base, false) {
            return Some(base);
        }
        let mut next = self.next.get(&base).copied().unwrap_or(1);
        let name = loop {
            let name = legal(&format!("{base}_{next}"));
            next += 1;
            if self.take(&name, false) {
                break name;
            }
        };
        self.next.insert(base, next);
        Some(name)
    }
}

/// Returns whether the runtime can read a name.
pub(super) fn is_legal(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    name.len() <= MAX_NAME && (plain || !name.chars().any(is_separator))
}

/// Returns whether a character ends a name or is invisible.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Returns a name without white space and control characters. A long one is truncated and ends in its hash.
fn legal(name: &str) -> String {
    if is_legal(name) {
        return name.to_owned();
    }
    let clean: String = name.chars().map(|c| if is_separator(c) { '_' } else { c }).collect();
    if clean.len() <= MAX_NAME {
        return clean;
    }
    let hash = format!("_{:016x}", hash(&clean));
    let mut kept = String::with_capacity(MAX_NAME);
    kept.extend(
        clean.char_indices().take_while(|(at, c)| at + c.len_utf8() + hash.len() <= MAX_NAME).map(|(_, c)| c),
    );
    kept + &hash
}

/// Returns the FNV-1a hash, which is stable across machines and versions.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    #[test]
    fn inputs_and_outputs_have_priority() {
        let mut net = Net::default();
        let x = net.push_input("a b", &[4]);
        let hidden = net.push_abs("y", x);
        let other = net.push_abs("", hidden);
        let y = net.push_abs("a_b", other);
        net.push_output("y", y);
        net.split();
        let renamed = net.name(&[], std::iter::empty()).unwrap().ends;
        assert_eq!(renamed, [Renamed { from: "a b".into(), to: "a_b".into() }]);
        assert_eq!(net.wiring(), [" > a_b", "a_b > y_1", "y_1 > UnaryOp", "UnaryOp > y"]);
        let layers: Vec<&str> = net.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(layers, ["a_b", "y", "UnaryOp", "a_b_1"]);
        net.check().unwrap();
    }

    #[test]
    fn names_of_the_model_stay_with_their_values() {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let mut push = |bottom, name: &str, is_value| {
            let blob = net.push_abs(name, bottom);
            net.blob_mut(blob).unwrap().is_value = is_value;
            blob
        };
        // A part has the name of a later value, and so has another form of the same value with a number.
        let part = push(x, "b", false);
        let a = push(part, "a", true);
        let form = push(a, "a", false);
        let b = push(form, "b", true);
        let y = push(b, "y", true);
        net.push_output("y", y);
        net.name(&[], ["x", "a", "a_1", "b", "y"].into_iter()).unwrap();
        assert_eq!(net.wiring(), [" > x", "x > b_1", "b_1 > a", "a > a_2", "a_2 > b", "b > y"]);
    }

    /// `x > hid den > y`, with an illegal name in the middle.
    fn chain() -> Net {
        let mut net = Net::default();
        let x = net.push_input("x", &[4]);
        let hidden = net.push_abs("hid den", x);
        let y = net.push_abs("y", hidden);
        net.push_output("y", y);
        net.split();
        net
    }

    fn renamed(pairs: &[(&str, &str)]) -> Result<Vec<String>> {
        let mut net = chain();
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        net.name(&pairs, std::iter::empty())?;
        net.check()?;
        Ok(net.wiring())
    }

    #[test]
    fn inputs_outputs_and_inner_blobs_are_renamed() {
        for (pairs, wiring) in [
            (&[("x", "in0"), ("y", "out0")][..], [" > in0", "in0 > hid_den", "hid_den > out0"]),
            (&[("x", "y"), ("y", "x")], [" > y", "y > hid_den", "hid_den > x"]),
            (&[("hid den", "z")], [" > x", "x > z", "z > y"]),
            (&[("y", "hid_den")], [" > x", "x > hid_den_1", "hid_den_1 > hid_den"]),
        ] {
            assert_eq!(renamed(pairs).unwrap(), wiring, "{pairs:?}");
        }
        for pairs in [
            &[("none", "z")][..],
            &[("x", "y")],
            &[("x", "z"), ("y", "z")],
            &[("x", "a"), ("x", "b")],
            &[("x", "a b")],
            &[("x", "")],
        ] {
            assert_eq!(renamed(pairs).unwrap_err().kind(), ErrorKind::Usage, "{pairs:?}");
        }
    }

    #[test]
    fn inputs_and_outputs_keep_names_that_others_are_changed_to() {
        let mut net = Net::default();
        let x = net.push_input("a b", &[4]);
        let first = net.push_abs("c d", x);
        let second = net.push_abs("c_d", first);
        let third = net.push_abs("a_b", second);
        for (blob, name) in [(first, "c d"), (second, "c_d"), (third, "a_b")] {
            net.push_output(name, blob);
        }
        net.split();
        let changes = net.name(&[], std::iter::empty()).unwrap();
        let names: Vec<&str> = net.outputs.iter().map(|output| output.name.as_str()).collect();
        assert_eq!(names, ["c_d_1", "c_d", "a_b"]);
        let changed: Vec<(&str, &str)> =
            changes.ends.iter().map(|change| (change.from.as_str(), change.to.as_str())).collect();
        assert_eq!(changed, [("a b", "a_b_1"), ("c d", "c_d_1")]);
        net.check().unwrap();
    }

    #[test]
    fn illegal_inner_names_are_reported() {
        let changes = chain().name(&[], std::iter::empty()).unwrap();
        assert!(changes.ends.is_empty());
        assert_eq!(changes.inside, [Renamed { from: "hid den".into(), to: "hid_den".into() }]);
    }

    #[test]
    fn long_names_are_truncated_and_differ() {
        let long = |end: &str| format!("{}{end}", "ü".repeat(200));
        let (a, b) = (legal(&long("a")), legal(&long("b")));
        assert!(a.len() <= MAX_NAME && b.len() <= MAX_NAME && a != b);
        assert_eq!(a, legal(&long("a")));
        assert_eq!(legal("tab\tand\u{a0}no-break\0"), "tab_and_no-break_");
    }

    proptest! {
        #[test]
        fn names_are_legal_and_unique(wanted in prop::collection::vec(".{0,4}|a{250,260}", 0..40)) {
            let mut names = Names::with_capacity(0);
            let mut seen = BTreeSet::new();
            for name in wanted {
                let claimed = names.claim(&name, "blob", true).unwrap_or(name);
                prop_assert!(!claimed.is_empty() && claimed.len() <= MAX_NAME);
                prop_assert!(!claimed.chars().any(|c| c.is_whitespace() || c.is_control()));
                prop_assert!(seen.insert(claimed));
            }
        }
    }
}
