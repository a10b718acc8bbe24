//! Faults of a net, one in each of its mutants.

use std::collections::BTreeMap;

use fastrand::Rng;
use onnx2ncnn::ncnn::Net;

use super::files::{Files, Line, Stretch, stretches};

/// The number of mutants of each kind that picks elements of a weight.
const DRAWS: usize = 2;

/// Layers that compute each element from the same element of the bottom.
const ACTIVATIONS: [&str; 12] = [
    "AbsVal",
    "Clip",
    "ELU",
    "GELU",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "ReLU",
    "SELU",
    "Sigmoid",
    "Swish",
    "TanH",
];

/// A net with a fault.
pub struct Mutant {
    pub kind: &'static str,
    /// What was changed.
    pub what: String,
    pub files: Files,
}

/// The net whose mutants are made.
pub struct Source<'a> {
    pub files: &'a Files,
    pub net: &'a Net,
    /// The sizes of the blobs.
    pub shapes: BTreeMap<String, String>,
}

/// The mutants so far.
struct Mutants<'a> {
    source: &'a Source<'a>,
    random: Rng,
    all: Vec<Mutant>,
}

/// Returns the mutants of a net: the same for the same seed.
pub fn mutants(source: &Source, seed: u64) -> Vec<Mutant> {
    let mut mutants = Mutants { source, random: Rng::with_seed(seed), all: Vec::new() };
    let stretches = stretches(source.net, &source.files.bin);
    for stretch in &stretches {
        mutants.of_weight(stretch);
    }
    for index in 0..source.files.lines.len() {
        mutants.of_params(index);
        mutants.of_blobs(index);
        mutants.of_activation(index);
    }
    mutants.of_pairs(&stretches);
    mutants.all
}

impl Mutants<'_> {
    /// Adds a mutant, unless the change left the files as they are.
    fn add(&mut self, kind: &'static str, what: String, change: impl FnOnce(&mut Files)) {
        let mut files = self.source.files.clone();
        change(&mut files);
        if files != *self.source.files {
            self.all.push(Mutant { kind, what, files });
        }
    }

    fn line(&self, index: usize) -> &Line {
        &self.source.files.lines[index]
    }

    fn describe(&self, index: usize) -> String {
        let line = self.line(index);
        format!("{} {}", line.kind, line.name)
    }

    fn of_weight(&mut self, stretch: &Stretch) {
        let what = format!("{} {}", self.describe(stretch.layer), stretch.name);
        let files = self.source.files;
        let places = stretch.places();
        let present: Vec<usize> = places.iter().copied().filter(|place| files.float(*place) != 0.0).collect();
        for _ in 0..DRAWS {
            let Some(place) = self.random.choice(&present).copied() else { break };
            let value = files.float(place);
            let what = format!("{what}[{}]", (place - stretch.bytes.start) / 4);
            let changes = [("a weight times 1.2", 1.2 * value), ("a weight negated", -value)];
            for (kind, value) in changes {
                self.add(kind, what.clone(), |files| files.set_float(place, value));
            }
            if stretch.is_bias() {
                self.add("a bias times 1.01", what, |files| files.set_float(place, 1.01 * value));
            }
            let other = self.random.choice(&places).copied().unwrap();
            let what =
                format!("{} and {}", (place - stretch.bytes.start) / 4, (other - stretch.bytes.start) / 4);
            self.add("two weights swapped", format!("{}: {what}", stretch.name), |files| {
                files.set_float(place, files.float(other));
                files.set_float(other, value);
            });
        }
        let count = present.len().min(places.len().div_ceil(1000));
        let some = self.random.choose_multiple(&present, count);
        self.add("0.1 % of weights times 1.01", what.clone(), |files| {
            for place in some {
                files.set_float(*place, 1.01 * files.float(*place));
            }
        });
        self.add("weights shifted by one", what, |files| files.bin[stretch.bytes.clone()].rotate_right(4));
    }

    fn of_params(&mut self, index: usize) {
        let what = self.describe(index);
        for (at, (id, value)) in self.line(index).params.clone().into_iter().enumerate() {
            // The shapes of the tops are a hint.
            if id == "-23330" {
                continue;
            }
            let what = format!("{what} {id}={value}");
            self.add("a param removed", what.clone(), |files| {
                files.lines[index].params.remove(at);
            });
            let (kind, all) = changed(&id, &value, &mut self.random);
            for other in all {
                let what = format!("{what} -> {other}");
                self.add(kind, what, |files| files.lines[index].params[at].1 = other);
            }
        }
    }

    fn of_blobs(&mut self, index: usize) {
        let what = self.describe(index);
        let line = self.line(index).clone();
        for (kind, count) in [("bottoms swapped", line.bottoms.len()), ("tops swapped", line.tops.len())] {
            for other in 1..count {
                let names = |files: &mut Files| match kind {
                    "bottoms swapped" => files.lines[index].bottoms.swap(0, other),
                    _ => files.lines[index].tops.swap(0, other),
                };
                let shapes = [&line.tops[0], &line.tops[other.min(line.tops.len() - 1)]];
                let equal = self.source.shapes.get(shapes[0]) == self.source.shapes.get(shapes[1]);
                if kind == "bottoms swapped" || equal {
                    self.add(kind, format!("{what}: 0 and {other}"), names);
                }
            }
        }
        let before = self.source.files.lines[..index].iter().flat_map(|line| line.tops.clone());
        let before: Vec<String> = before.collect();
        for (at, bottom) in line.bottoms.iter().enumerate() {
            let shape = self.source.shapes.get(bottom);
            let same = |other: &&String| *other != bottom && self.source.shapes.get(*other) == shape;
            let others: Vec<&String> = before.iter().filter(same).collect();
            if let Some(other) = self.random.choice(&others) {
                let what = format!("{what}: {bottom} -> {other}");
                self.add("another bottom", what, |files| {
                    files.lines[index].bottoms[at].clone_from(other);
                });
            }
        }
    }

    fn of_activation(&mut self, index: usize) {
        let (what, line) = (self.describe(index), self.line(index).clone());
        if !ACTIVATIONS.contains(&line.kind.as_str()) {
            return;
        }
        let mut replace = |kind: &'static str, name: &str, params: &[(&str, &str)]| {
            self.add(kind, format!("{what} -> {name}"), |files| {
                name.clone_into(&mut files.lines[index].kind);
                let params = params.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned()));
                files.lines[index].params = params.collect();
            });
        };
        replace("activation removed", "Noop", &[]);
        for name in ["ReLU", "Sigmoid", "TanH", "Swish", "HardSwish", "GELU", "Mish"] {
            if name != line.kind {
                replace("activation replaced", name, &[]);
            }
        }
        if line.kind == "GELU" {
            let fast = line.params.iter().any(|(id, value)| id == "0" && value == "1");
            replace("the other form of GELU", "GELU", &[("0", if fast { "0" } else { "1" })]);
        }
    }

    /// Adds mutants in which two layers of equal type exchange their params and weights.
    fn of_pairs(&mut self, stretches: &[Stretch]) {
        let bytes = |layer: usize| -> Vec<_> {
            let own = stretches.iter().filter(|stretch| stretch.layer == layer);
            own.map(|stretch| stretch.bytes.clone()).collect()
        };
        for (index, line) in self.source.files.lines.iter().enumerate() {
            for (other, second) in self.source.files.lines.iter().enumerate().skip(index + 1) {
                let shapes = |line: &Line| -> Vec<_> {
                    let blobs = line.bottoms.iter().chain(&line.tops);
                    blobs.map(|blob| self.source.shapes.get(blob).cloned()).collect()
                };
                let (one, two) = (bytes(index), bytes(other));
                let equal = one.iter().map(|range| range.len()).eq(two.iter().map(|range| range.len()));
                if line.kind != second.kind
                    || line.kind == "Input"
                    || !equal
                    || shapes(line) != shapes(second)
                {
                    continue;
                }
                let what = format!("{} and {}", self.describe(index), self.describe(other));
                self.add("two layers swapped", what, |files| {
                    files.lines[index].params.clone_from(&second.params);
                    files.lines[other].params.clone_from(&line.params);
                    for (one, two) in one.iter().zip(&two) {
                        let first = files.bin[one.clone()].to_vec();
                        files.bin.copy_within(two.clone(), one.start);
                        files.bin[two.clone()].copy_from_slice(&first);
                    }
                });
            }
        }
    }
}

/// Returns other values of a param.
fn changed(id: &str, value: &str, random: &mut Rng) -> (&'static str, Vec<String>) {
    if value.starts_with('"') {
        let digits: Vec<usize> =
            value.char_indices().filter(|(_, letter)| letter.is_ascii_digit()).map(|(at, _)| at).collect();
        let Some(at) = random.choice(&digits) else { return ("a text", Vec::new()) };
        let digit = (value.as_bytes()[*at] - b'0' + 1) % 10;
        return ("a text", vec![format!("{}{digit}{}", &value[..*at], &value[at + 1..])]);
    }
    if !value.contains(',') && !id.starts_with("-233") {
        let kind = if is_float(value) { "a float" } else { "an integer" };
        return (kind, one_changed(value));
    }
    let values: Vec<&str> = value.split(',').collect();
    let first = usize::from(id.starts_with("-233"));
    let of = |at: usize| {
        let mut values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        values[at] = one_changed(values[at].as_str()).swap_remove(0);
        values.join(",")
    };
    ("an element of a list", (first..values.len()).filter(|at| !values[*at].is_empty()).map(of).collect())
}

fn is_float(text: &str) -> bool {
    text.contains(['.', 'e'])
}

/// Returns other values of a number.
fn one_changed(value: &str) -> Vec<String> {
    if !is_float(value) {
        let value: i32 = value.parse().unwrap();
        return vec![value.wrapping_add(1).to_string(), value.wrapping_sub(1).to_string()];
    }
    let value: f32 = value.parse().unwrap();
    let others = match value {
        0.0 => vec![0.01],
        // A constant that keeps quotients finite.
        value if value.abs() < 1e-3 => vec![100.0 * value],
        value => vec![1.01 * value],
    };
    others.into_iter().map(|other| format!("{other:e}")).collect()
}
