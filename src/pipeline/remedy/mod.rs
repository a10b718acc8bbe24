//! Remedies of refusals: options with which a refused model, or a part of it, is converted. Each is tried.

mod border;
pub(crate) mod chain;
mod expected;
mod flow;
mod outline;
mod part;
mod program;
mod size;
mod value;
mod vertices;
mod weight;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::warning::is_of_unfit_constant;
use super::{Conversion, Metadata, OptionInfo, OptionValue, Options, convert};
use crate::error::{Error, ErrorCode, ErrorKind, Errors};
use crate::onnx::Sources;
use crate::ops;
use crate::pass::declared::is_contradiction;
use crate::tensor::{Array, Dim, Elements};

use chain::{Chain, Link};
use part::{Part, Parts};
pub(super) use size::FreeInput;

/// The most conversions that search for remedies of a model, and their nodes taken together: large models are
/// tried less often.
const MAX_TRIALS: usize = 32;
const MAX_NODES: usize = 200_000;
/// The conversions that are tried of any model.
const MIN_TRIALS: usize = 3;

/// The time after which no further conversion is tried.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The part of the weights that a cut keeps at least, as a divisor.
const LEAST_PART: u64 = 20;

/// The size of a model below which its weights are not counted.
const FEW_WEIGHTS: u64 = 1000;

/// The part of the weights above which no second part is proposed, in percent.
const MAX: u64 = 90;

/// Options with which a refused model, or a part of it, can be converted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Remedy {
    /// Inputs that become constants.
    pub set: Vec<(String, Array)>,
    /// Shapes of inputs.
    pub input_shapes: Vec<(String, Vec<Dim>)>,
    /// Whether these shapes fix no size, but state one as a sum of others.
    pub is_tied: bool,
    /// The inputs of a part of the model; empty for the inputs of the model.
    pub inputs: Vec<String>,
    /// The outputs of a part of the model; empty for the outputs of the model.
    pub outputs: Vec<String>,
    /// Whether a program of `--example` computes the nodes that are cut off.
    pub has_program: bool,
    /// The values at which the model is cut into a chain of nets; empty for one net.
    pub split_at: Vec<Vec<String>>,
    /// Options without values, by their names.
    pub flags: Vec<&'static str>,
    /// The percentage of the weights that is converted.
    pub percent: u64,
    /// Whether it counts the nodes, too: the model has hardly any weights.
    pub counts_nodes: bool,
}

impl Remedy {
    /// Returns whether only a part of the model is converted.
    pub fn is_cut(&self) -> bool {
        !self.inputs.is_empty() || !self.outputs.is_empty() || !self.split_at.is_empty()
    }

    /// Returns the options as words of a command line, without quotes.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, array) in &self.set {
            words.extend(["--set".to_owned(), format!("{name}={}", elements(array))]);
        }
        for (name, shape) in &self.input_shapes {
            words.extend(["--input-shape".to_owned(), format!("{name}:{}", joined(shape))]);
        }
        for (option, names) in [("--inputs", &self.inputs), ("--outputs", &self.outputs)] {
            if !names.is_empty() {
                words.extend([option.to_owned(), names.join(",")]);
            }
        }
        words.extend(self.split_at.iter().flat_map(|names| ["--split-at".to_owned(), names.join(",")]));
        let flags = self.flags.iter().filter_map(|name| OptionInfo::named(name));
        words.extend(flags.map(|info| format!("--{}", info.long_name())));
        words
    }

    /// Returns a warning that names the inputs, the outputs and the size of a part.
    pub(crate) fn describe_cut(&self) -> String {
        let quoted =
            |names: &[String]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let side = |word, names: &[String]| (!names.is_empty()).then(|| format!("{word} {}", quoted(names)));
        let sides = [side("from", &self.inputs), side("to", &self.outputs)];
        let sides = sides.into_iter().flatten().collect::<Vec<_>>().join(" ");
        format!("only the part {sides} is converted, with {} % of the {}", self.percent, self.counted())
    }

    /// Returns what the percentage counts.
    pub fn counted(&self) -> &'static str {
        if self.counts_nodes { "weights and nodes" } else { "weights" }
    }

    /// Returns these options in addition to others.
    pub(crate) fn apply(&self, options: &Options) -> Options {
        let mut new = options.clone();
        new.set.retain(|(name, _)| self.set.iter().all(|(other, _)| other != name));
        new.set.extend(self.set.iter().cloned());
        new.input_shapes.retain(|(name, _)| self.input_shapes.iter().all(|(other, _)| other != name));
        new.input_shapes.extend(self.input_shapes.iter().cloned());
        for (values, other) in [(&self.inputs, &mut new.inputs), (&self.outputs, &mut new.outputs)] {
            if !values.is_empty() {
                other.clone_from(values);
            }
        }
        for name in &self.flags {
            // The names are those of flags.
            let _ = new.put(name, OptionValue::Flag(true));
        }
        if self.is_cut() {
            // A renamed value may lie outside of the part.
            new.rename.clear();
        }
        new
    }
}

/// The errors that an option avoids, and the option.
const FLAGS: [(ErrorCode, &str); 5] = [
    (ErrorCode::RANDOM, RANDOM),
    (ErrorCode::DOUBLE, DOUBLE),
    (ErrorCode::ROUNDED_TWICE, DEQUANTIZE),
    (ErrorCode::ROUNDED_TWICE, INT8),
    (ErrorCode::FAULTY_KERNEL, DEQUANTIZE),
];

const RANDOM: &str = "random_as_input";
const DOUBLE: &str = "double_as_float";
const DEQUANTIZE: &str = "dequantize";
const INT8: &str = "int8";

/// Returns remedies of a refused model, the best first.
pub(crate) fn remedies(sources: &Sources, options: &Options, errors: &Errors) -> Vec<Remedy> {
    // Sizes of the user that contradict the model have a help of their own: no part is what was asked for.
    let is_invalid = errors.iter().any(|error| error.kind() == ErrorKind::Invalid);
    if is_invalid && !options.input_shapes.is_empty() {
        return Vec::new();
    }
    let Some(mut search) = Search::new(sources, options, errors) else { return Vec::new() };
    search.set_flags(errors);
    // What converts the whole model is better than a part, and one such option is enough.
    for step in [Search::set_values, Search::tie_sizes, Search::set_sizes, Search::cut, Search::cut_at_sizes]
    {
        if search.found.is_empty() {
            step(&mut search);
        }
    }
    search.split();
    search.found
}

/// Returns the part of a refused model to which `--auto-cut` cuts it.
pub(crate) fn largest_part(sources: &Sources, options: &Options, errors: &Errors) -> Option<Remedy> {
    let mut search = Search::new(sources, options, errors)?;
    search.cut();
    search.found.into_iter().next()
}

/// The search for remedies.
struct Search<'a> {
    sources: &'a Sources,
    options: Options,
    metadata: Metadata,
    parts: Parts,
    /// A remedy that does not convert the model by itself, but avoids some of its errors.
    base: Remedy,
    /// The errors of the base.
    reasons: BTreeSet<String>,
    /// The first fixed sizes that were tried, and the errors that remain with them.
    sized: Option<(Remedy, Errors)>,
    trials: usize,
    /// The time of the beginning; `None` on targets without a clock.
    start: Option<Instant>,
    found: Vec<Remedy>,
}

impl<'a> Search<'a> {
    /// Starts a search, if the errors concern the model and not files or options.
    fn new(sources: &'a Sources, options: &Options, errors: &Errors) -> Option<Search<'a>> {
        concern_model(errors).then_some(())?;
        ops::register();
        let start = (!cfg!(target_family = "wasm")).then(Instant::now);
        // What a trial converts is not written.
        let options = Options { emit_onnx: None, keep_onnx: false, check: false, ..options.clone() };
        let (mut parts, metadata) = Parts::read(sources, &options).ok()?;
        let trials = (MAX_NODES / parts.graph.node_count().max(1)).clamp(MIN_TRIALS, MAX_TRIALS);
        parts.learn(errors);
        let counts_nodes = parts.total < FEW_WEIGHTS;
        let base = Remedy { percent: 100, counts_nodes, ..Remedy::default() };
        Some(Search {
            sources,
            options,
            metadata,
            parts,
            base,
            reasons: errors.iter().map(Error::to_string).collect(),
            sized: None,
            trials,
            start,
            found: Vec::new(),
        })
    }

    /// Tries a remedy; `None` if there were enough trials.
    fn attempt(&mut self, remedy: &Remedy) -> Option<Result<Conversion, Errors>> {
        let is_late = self.start.is_some_and(|start| start.elapsed() > MAX_TIME);
        self.trials = self.trials.checked_sub(1).filter(|_| !is_late)?;
        Some(convert(self.sources, &remedy.apply(&self.options)))
    }

    /// Returns whether a net has a good part of the weights: what only decides random numbers is left out
    /// where these are inputs.
    fn keeps_weights(&self, converted: &Conversion) -> bool {
        let weights = converted.net.check();
        // A few numbers may be params of layers.
        let few = self.parts.total < FEW_WEIGHTS;
        weights.is_ok_and(|weights| few || weights.saturating_mul(LEAST_PART) >= self.parts.total)
    }

    /// Makes a remedy the base of further trials if it avoids all errors of the base, though others follow;
    /// returns whether it does.
    fn rebase(&mut self, remedy: Remedy, errors: &Errors) -> bool {
        let reasons: BTreeSet<String> = errors.iter().map(Error::to_string).collect();
        if !concern_model(errors) || !reasons.is_disjoint(&self.reasons) {
            return false;
        }
        let read = Parts::read(self.sources, &remedy.apply(&self.options));
        let Ok((mut parts, _)) = read else { return false };
        parts.learn(errors);
        (self.base, self.parts, self.reasons) = (remedy, parts, reasons);
        true
    }

    /// Tries the options that avoid an error of a certain code.
    fn set_flags(&mut self, errors: &Errors) {
        let codes: BTreeSet<ErrorCode> = errors.iter().map(Error::code).collect();
        for (code, flag) in FLAGS.into_iter().filter(|(code, _)| codes.contains(code)) {
            let mut remedy = self.base.clone();
            // Either treatment of a quantized model excludes the other.
            remedy.flags.retain(|other| ![DEQUANTIZE, INT8].contains(other));
            remedy.flags.push(flag);
            match self.attempt(&remedy) {
                // Where no layer is in int8, the option changes nothing but the rounding.
                Some(Ok(converted))
                    if flag == INT8 && !converted.net.layers.iter().any(|layer| layer.layer.is_int8()) => {}
                Some(Ok(converted)) if self.keeps_weights(&converted) => self.found.push(remedy),
                Some(Err(errors)) if errors.iter().all(|error| error.code() != code) => {
                    self.rebase(remedy, &errors);
                }
                _ => {}
            }
        }
    }

    /// Tries values of the inputs that decide sizes or conditions.
    fn set_values(&mut self) {
        for (name, values) in value::deciding(&self.parts, &self.metadata) {
            // The first value with which a result has another size than the model declares.
            let mut contradicting = None;
            for value in values {
                let mut remedy = self.base.clone();
                remedy.set.push((name.clone(), value));
                match self.attempt(&remedy) {
                    // A net without inputs computes a constant.
                    Some(Ok(converted)) if converted.inputs.is_empty() => {}
                    Some(Ok(converted))
                        if converted.warnings.iter().any(|text| is_of_unfit_constant(text)) => {}
                    Some(Ok(converted)) if converted.warnings.iter().any(|text| is_contradiction(text)) => {
                        contradicting.get_or_insert(remedy);
                    }
                    Some(Ok(_)) => {
                        contradicting = None;
                        self.found.push(remedy);
                        break;
                    }
                    Some(Err(errors)) if contradicting.is_none() && self.rebase(remedy, &errors) => break,
                    Some(Err(_)) => {}
                    None => break,
                }
            }
            self.found.extend(contradicting);
        }
    }

    /// Tries parts of the model, and the rest of it.
    fn cut(&mut self) {
        let (total, mut tried) = (self.parts.total, BTreeSet::new());
        let mut kept = 0;
        // A later part needs what an earlier one computes.
        while kept * 100 < total * MAX || self.largest_first_part().is_none() {
            let Some((remedy, part)) = self.next_part(total, &mut tried) else { break };
            kept += part.size;
            self.parts.discount(&part);
            let is_all = remedy.has_program;
            self.found.push(remedy);
            if is_all {
                break;
            }
        }
        self.found.sort_by_key(|remedy| std::cmp::Reverse(remedy.percent));
    }

    /// Returns the percentage of the largest part that begins at the inputs of the model.
    fn largest_first_part(&self) -> Option<u64> {
        let first = self.found.iter().filter(|remedy| remedy.inputs.is_empty());
        first.map(|remedy| remedy.percent).max()
    }

    /// Proposes a chain of nets, if several parts are converted and the first has not most of the weights.
    fn split(&mut self) {
        let cuts: Vec<Vec<String>> =
            self.found.iter().flat_map(|part| [&part.outputs, &part.inputs]).cloned().collect();
        let best = self.largest_first_part().unwrap_or(MAX);
        if self.found.len() < 2 || best >= MAX || !self.options.has_plain_pixels() {
            return;
        }
        let Some(chain) = Chain::of(&self.parts, &cuts) else { return };
        let mut size = 0;
        let has_failed = |link: &Link| link.nodes.iter().any(|id| self.parts.failed.contains(&id));
        let links: Vec<&Link> = chain.links.iter().filter(|link| !has_failed(link)).collect();
        for link in links {
            let remedy =
                Remedy { inputs: link.inputs.clone(), outputs: link.outputs.clone(), ..self.base.clone() };
            match self.attempt(&remedy) {
                Some(Ok(_)) => size += link.size,
                Some(Err(_)) => {}
                None => return,
            }
        }
        let percent = size.saturating_mul(100) / self.parts.total.max(1);
        if percent >= MAX {
            self.found.insert(0, Remedy { split_at: chain.cuts, percent, ..self.base.clone() });
        }
    }

    /// Returns the best part that is converted.
    fn next_part(
        &mut self,
        total: u64,
        tried: &mut BTreeSet<(Vec<String>, Vec<String>)>,
    ) -> Option<(Remedy, Part)> {
        loop {
            let parts = self.parts.parts();
            let large = parts.into_iter().filter(|part| part.size.saturating_mul(LEAST_PART) > total);
            let (cut, part) = large
                .map(|part| ((self.parts.input_names(&part.inputs), self.parts.names(&part.outputs)), part))
                // The scaling of pixels is for the inputs of the model.
                .find(|(cut, _)| {
                    !tried.contains(cut) && (cut.0.is_empty() || self.options.has_plain_pixels())
                })?;
            tried.insert(cut.clone());
            let (inputs, mut outputs) = cut;
            if part.outputs == self.parts.graph.outputs {
                outputs.clear();
            }
            let percent = part.size.saturating_mul(100) / total.max(1);
            let remedy = Remedy { inputs, outputs, percent, ..self.base.clone() };
            match self.attempt(&remedy)? {
                Ok(converted) => {
                    return Some((self.with_program(remedy, &converted), part));
                }
                Err(errors) => {
                    if let Some(remedy) = self.with_sizes(&remedy) {
                        return Some((remedy, part));
                    }
                    self.parts.learn(&errors);
                }
            }
        }
    }

    /// Returns a part with usual sizes of its inputs, if free ones are the obstacle.
    fn with_sizes(&mut self, part: &Remedy) -> Option<Remedy> {
        let mut free = super::convert::free_inputs(self.sources, &part.apply(&self.options)).ok()?;
        // The sizes of other values are those that the net before gives.
        let of_model = self.parts.names(&self.parts.graph.inputs);
        free.retain(|input| of_model.contains(&input.name));
        let shapes = size::usual(&free, &self.metadata).into_iter().next()?;
        let remedy = Remedy { input_shapes: shapes, ..part.clone() };
        self.attempt(&remedy)?.is_ok().then_some(remedy)
    }
}

fn joined<'a, T: ToString + 'a>(items: impl IntoIterator<Item = &'a T>) -> String {
    items.into_iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Returns elements as `--set` reads them.
fn elements(array: &Array) -> String {
    match array.elements() {
        Elements::Dim(sizes) => joined(sizes),
        Elements::I64(integers) => joined(integers),
        Elements::F32(floats) => joined(floats),
        Elements::F64(floats) => joined(floats),
    }
}

/// Returns whether errors concern the model, not options or files.
fn concern_model(errors: &Errors) -> bool {
    use ErrorKind::{Internal, Io, Parse, Usage};
    !errors.iter().any(|error| matches!(error.kind(), Io | Parse | Usage | Internal))
}
