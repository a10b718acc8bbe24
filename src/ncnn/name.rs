//! Names that the runtime can read: `%255s` in `Net::load_param`, found again by their text.

use std::collections::{BTreeMap, BTreeSet};

use super::Net;

/// Longest name, in bytes.
pub(super) const MAX_NAME: usize = 255;

/// A graph input or output that could not keep its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    /// The name it was given.
    pub from: String,
    /// The name in the `.param` file.
    pub to: String,
}

impl Net {
    /// Gives every layer and every blob a name of its own that the runtime can read, after [`Net::split`]. Inputs and outputs keep
    /// theirs where possible; those that do not are returned.
    pub(crate) fn name(&mut self) -> Vec<Renamed> {
        let mut renamed = Vec::new();
        let mut names = Names::default();
        let mut named = BTreeSet::new();
        let inputs = self.inputs.iter().map(|blob| (*blob, self.blob(*blob).name.clone()));
        let outputs = self.outputs.iter().map(|output| (output.blob, output.name.clone()));
        for (blob, from) in inputs.chain(outputs).collect::<Vec<_>>() {
            // An input that is an output under its own name, and read by no layer, is one blob.
            if !named.insert(blob) {
                continue;
            }
            let to = names.claim(&from, "blob");
            if let Some(blob) = self.blob_mut(blob) {
                blob.name.clone_from(&to);
            }
            if from != to {
                renamed.push(Renamed { from, to });
            }
        }
        for output in &mut self.outputs {
            if let Some(blob) = self.blobs.get(output.blob.0) {
                output.name.clone_from(&blob.name);
            }
        }
        self.name_layers();
        let tops: Vec<_> = self
            .layers
            .iter()
            .flat_map(|layer| layer.tops.iter().map(|top| (*top, layer.name.clone())))
            .collect();
        for (top, layer) in tops {
            if named.insert(top)
                && let Some(blob) = self.blob_mut(top)
            {
                blob.name = names.claim(&blob.name, &layer);
            }
        }
        renamed
    }

    fn name_layers(&mut self) {
        let mut names = Names::default();
        for layer in &mut self.layers {
            layer.name = names.claim(&layer.name, layer.layer.type_name());
        }
    }
}

/// Names that are taken.
#[derive(Default)]
struct Names {
    taken: BTreeSet<String>,
    /// The next number to try behind a name.
    next: BTreeMap<String, usize>,
}

impl Names {
    /// A name that nobody has: `wanted` if possible, `otherwise` if that is empty, with a number behind it where it is taken.
    fn claim(&mut self, wanted: &str, otherwise: &str) -> String {
        let base = legal(if wanted.is_empty() { otherwise } else { wanted });
        if self.taken.insert(base.clone()) {
            return base;
        }
        let next = self.next.entry(base.clone()).or_insert(1);
        loop {
            let name = legal(&format!("{base}_{next}"));
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// The name without white space and control characters. A long one is cut and ends in a hash of the whole.
fn legal(name: &str) -> String {
    let clean: String =
        name.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
    if clean.len() <= MAX_NAME {
        return clean;
    }
    let hash = format!("_{:016x}", fnv(clean.as_bytes()));
    let mut kept = String::with_capacity(MAX_NAME);
    kept.extend(
        clean.char_indices().take_while(|(at, c)| at + c.len_utf8() + hash.len() <= MAX_NAME).map(|(_, c)| c),
    );
    kept + &hash
}

/// The FNV-1a hash, which is the same on every machine and in every version of this program.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inputs_and_outputs_keep_their_names_before_others() {
        let mut net = Net::default();
        let x = net.push_input("a b", &[4]);
        let hidden = net.push_abs("y", x);
        let other = net.push_abs("", hidden);
        let y = net.push_abs("a_b", other);
        net.push_output("y", y);
        net.split();
        let renamed = net.name();
        assert_eq!(renamed, [Renamed { from: "a b".into(), to: "a_b".into() }]);
        assert_eq!(net.wiring(), [" > a_b", "a_b > y_1", "y_1 > UnaryOp", "UnaryOp > y"]);
        let layers: Vec<&str> = net.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(layers, ["a_b", "y", "UnaryOp", "a_b_1"]);
        net.check().unwrap();
    }

    #[test]
    fn long_names_are_cut_and_differ() {
        let long = |end: &str| format!("{}{end}", "ü".repeat(200));
        let (a, b) = (legal(&long("a")), legal(&long("b")));
        assert!(a.len() <= MAX_NAME && b.len() <= MAX_NAME && a != b);
        assert_eq!(a, legal(&long("a")));
        assert_eq!(legal("tab\tand\u{a0}no-break\0"), "tab_and_no-break_");
    }

    proptest! {
        #[test]
        fn names_are_legal_and_unique(wanted in prop::collection::vec(".{0,4}|a{250,260}", 0..40)) {
            let mut names = Names::default();
            let mut seen = BTreeSet::new();
            for name in wanted {
                let claimed = names.claim(&name, "blob");
                prop_assert!(!claimed.is_empty() && claimed.len() <= MAX_NAME);
                prop_assert!(!claimed.chars().any(|c| c.is_whitespace() || c.is_control()));
                prop_assert!(seen.insert(claimed));
            }
        }
    }
}
