//! The facts of a program, as the templates of all languages read them.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Language;
use super::custom::CustomText;
use super::pixels::Pixels;
use super::purpose::{Purpose, Role, Source, is_of_encoder};
use super::rest::{RestText, omitted};
use super::subject::{Files, Reading, Sequence, Subject, Text};
use super::tail::Tail;
use crate::common::GENERATOR;
use crate::common::int::Int;
use crate::pipeline::Port;
use crate::tensor::{Dim, SizeCondition, display_shape};

/// What a template may name.
#[derive(Debug, Serialize)]
pub(super) struct Facts<'a> {
    generator: &'static str,
    /// The names of the model's file and of the program's.
    model: String,
    file: String,
    /// The files of the net.
    param: &'a str,
    bin: &'a str,
    /// A table of inputs and outputs, a line each.
    ports: Vec<String>,
    source: Source,
    /// The scaling of the pixels of a picture.
    pixels: Option<Pixels>,
    /// Whether an input is a picture with channels as the last axis.
    has_channels_last: bool,
    /// The inputs that are not states.
    inputs: Vec<Input<'a>>,
    /// The names of those that the runtime reads as integers.
    integers: Vec<&'a str>,
    states: Vec<State<'a>>,
    /// Whether the net reads one token in each call, and continues its states.
    one_token: bool,
    /// The maximum number of the tokens of all calls, if the net has one.
    most_tokens: Option<i64>,
    outputs: Vec<&'a str>,
    /// The layers of the user.
    custom: Vec<CustomText>,
    /// What the model computes behind them, and what a comment says if the program does not.
    rest: Option<RestText<'a>>,
    omitted: Option<String>,
    /// The outputs that the program reads: the model's if the program computes them, else the net's.
    results: Vec<&'a str>,
    /// The ones that the runtime writes as integers.
    integer_results: Vec<&'a str>,
    /// The outputs that are caches of the runtime.
    kept: Vec<&'a str>,
    /// The outputs that the runtime writes as integers.
    integer_outputs: Vec<&'a str>,
    /// The outputs that the program reads.
    read: Vec<&'a str>,
    tail: Tail,
    /// Whether the program draws into the picture, and whether its results have classes.
    draws: bool,
    has_names: bool,
    /// What the numbers of a box are.
    box_numbers: Option<String>,
    /// The names of classes.
    names: &'a [String],
    /// The characters of an output of text by their indices.
    alphabet: Vec<String>,
    alphabet_is_known: bool,
    text: Option<&'a Text>,
    /// The nets before the decoder.
    sequence: Option<&'a Sequence>,
    /// How the model reads a picture.
    reading: Option<&'a Reading>,
}

/// An input that is not a state.
#[derive(Debug, Serialize)]
struct Input<'a> {
    blob: &'a str,
    int32: bool,
    role: Role,
    /// The sizes of the blob as a program computes them. Next to tokens, `count` is the number of tokens
    /// of this call, and `total` the number of all.
    sizes: Vec<String>,
    /// The length of a row of tokens, if it is fixed.
    fixed: Option<i64>,
    /// The sizes in the model and of the blob; -1 for a length that an array of the user decides.
    shape: Vec<i64>,
    form: Vec<i64>,
    /// The axes of the shape that each axis of the blob merges.
    axes: Vec<Vec<usize>>,
}

/// An input that an output of the call before continues.
#[derive(Debug, Serialize)]
struct State<'a> {
    before: &'a str,
    after: &'a str,
    int32: bool,
    /// Whether the runtime keeps it. The runtime begins with empty caches.
    is_cache: bool,
    /// The sizes before the first call.
    first: Vec<i64>,
}

impl<'a> Facts<'a> {
    /// Returns the inputs of the decoder of an encoder for which a program has no values.
    pub fn unknown_of_decoder(&self) -> Vec<&'a str> {
        use Role::{AllOnes, Encoded, Ones, Positions, Tokens};
        let is_known = |input: &&Input| matches!(input.role, AllOnes | Encoded | Ones | Positions | Tokens);
        let unknown = self.inputs.iter().filter(|input| self.sequence.is_some() && !is_known(input));
        let (usual, foreign): (Vec<&str>, Vec<&str>) =
            unknown.map(|input| input.blob).partition(|name| *name == "input_ids" || is_of_encoder(name));
        // One foreign input takes the roles of all others.
        if foreign.is_empty() { usual } else { foreign }
    }

    pub fn of(subject: &Subject<'a>, files: &Files<'a>, language: Language) -> Facts<'a> {
        let seen = subject.of_results();
        let purpose = Purpose::of(&seen);
        let (source, tail) = (purpose.source, purpose.tail.clone());
        let inputs: Vec<Input> = subject
            .inputs
            .iter()
            .zip(&purpose.roles)
            .filter_map(|(port, role)| Input::of(subject, &purpose, port, *role))
            .collect();
        let outputs = || subject.outputs.iter().enumerate();
        let is_read = |at: usize| match &tail {
            Tail::Boxes(boxes) => boxes.reads(at),
            Tail::Points { points, scores } => at == *points || Some(at) == *scores,
            Tail::Scores { output, .. }
            | Tail::Text { output }
            | Tail::Next { output }
            | Tail::Vector { output }
            | Tail::Map { output, .. }
            | Tail::Sound { output, .. } => at == *output,
            Tail::Shapes => !purpose.states().any(|(_, output)| at == output),
        };
        let (alphabet, alphabet_is_known) = alphabet(&seen, &tail);
        let rest = subject.computed();
        let is_read = |at: usize| match rest {
            Some(rest) => rest.inputs.iter().any(|input| input.output == at),
            None => is_read(at),
        };
        Facts {
            generator: GENERATOR,
            model: plain(subject.model),
            file: plain(files.program),
            param: files.param,
            bin: files.bin,
            ports: table(subject),
            source,
            pixels: match source {
                Source::Picture(picture) => Some(Pixels::of(subject, picture, &tail)),
                Source::Tokens | Source::Arrays => None,
            },
            has_channels_last: purpose.roles.contains(&Role::PictureOfPixels),
            integers: inputs.iter().filter(|input| input.int32).map(|input| input.blob).collect(),
            states: purpose
                .states()
                .filter_map(|(before, after)| State::of(subject, before, after))
                .collect(),
            one_token: has_one_token(&inputs, &purpose),
            most_tokens: most_tokens(subject, &purpose),
            outputs: outputs().map(|(_, port)| port.blob.as_str()).collect(),
            integer_outputs: outputs()
                .filter(|(_, port)| port.int32)
                .map(|(_, port)| port.blob.as_str())
                .collect(),
            custom: CustomText::all(subject.net),
            rest: rest.map(|rest| RestText::of(rest, language)),
            omitted: omitted(subject.rest),
            results: seen.outputs.iter().map(|port| port.blob.as_str()).collect(),
            integer_results: seen
                .outputs
                .iter()
                .filter(|port| port.int32)
                .map(|port| port.blob.as_str())
                .collect(),
            kept: outputs()
                .filter(|(_, port)| port.cache.is_some())
                .map(|(_, port)| port.blob.as_str())
                .collect(),
            inputs,
            read: outputs().filter(|(at, _)| is_read(*at)).map(|(_, port)| port.blob.as_str()).collect(),
            draws: matches!(tail, Tail::Boxes(_) | Tail::Points { .. } | Tail::Map { .. }),
            has_names: tail.has_classes(),
            box_numbers: match &tail {
                Tail::Boxes(boxes) => Some(boxes.described()),
                _ => None,
            },
            names: match &tail {
                // The names are of other classes.
                Tail::Boxes(boxes) if boxes.classes != subject.metadata.classes.len().int() => &[],
                _ => &subject.metadata.classes,
            },
            tail,
            alphabet,
            alphabet_is_known,
            text: subject.text,
            sequence: subject.sequence(),
            reading: subject.reading(),
        }
    }
}

impl<'a> Input<'a> {
    /// Returns `None` for a state.
    fn of(subject: &Subject, purpose: &Purpose, port: &'a Port, role: Role) -> Option<Input<'a>> {
        let is_row = purpose.source == Source::Tokens && port.form.len() == 1;
        (!matches!(role, Role::State(_))).then(|| Input {
            blob: &port.blob,
            int32: port.int32,
            role,
            sizes: sizes(subject, purpose, &port.form),
            fixed: port.form.last().and_then(Dim::known).filter(|_| is_row),
            shape: sizes_of_array(subject, purpose, &port.shape),
            form: sizes_of_array(subject, purpose, &port.form),
            axes: port.axes(),
        })
    }
}

impl<'a> State<'a> {
    fn of(subject: &Subject<'a>, before: usize, after: usize) -> Option<State<'a>> {
        let (port, after) = (subject.inputs.get(before)?, subject.outputs.get(after)?);
        // A length that may be 0 is 0.
        let size = |size: &Dim| match size.has_length() {
            true => 0,
            false => size.substitute(subject.sizes).known().unwrap_or(1),
        };
        Some(State {
            before: &port.blob,
            after: &after.blob,
            int32: port.int32,
            is_cache: port.cache.is_some(),
            first: port.form.iter().map(size).collect(),
        })
    }
}

/// Returns whether a net reads one token in each call, and continues its states.
fn has_one_token(inputs: &[Input], purpose: &Purpose) -> bool {
    let mut tokens = inputs.iter().filter(|input| input.role == Role::Tokens);
    purpose.states().next().is_some() && tokens.any(|input| input.fixed == Some(1))
}

/// Returns the maximum number of tokens, by the conditions on sizes that their number decides.
fn most_tokens(subject: &Subject, purpose: &Purpose) -> Option<i64> {
    let tokens = subject.inputs.iter().zip(&purpose.roles).find(|(_, role)| **role == Role::Tokens);
    let count = tokens.and_then(|(port, _)| port.form.last())?.symbol_name()?;
    let is_of_tokens = |size: &Dim| {
        let mut names = BTreeSet::new();
        size.collect_symbols(&mut names);
        names.contains(count)
    };
    let bounds = subject.conditions.iter().filter_map(|condition| match condition {
        SizeCondition::AtMost(size, Dim::Known(most)) if is_of_tokens(size) => Some(*most),
        _ => None,
    });
    let stated = match subject.text {
        Some(Text::Vectors(pooling)) => pooling.most_tokens,
        Some(Text::Classes(classes)) => classes.most_tokens,
        _ => None,
    };
    bounds.chain(stated).min()
}

/// Returns the table of inputs and outputs.
fn table(subject: &Subject) -> Vec<String> {
    let line = |(kind, port): (&str, &Port)| {
        let [shape, form] = [&port.shape, &port.form].map(|shape| display_shape(shape));
        let int32 = if port.int32 { " as int32" } else { "" };
        let (blob, dtype) = (&port.blob, &port.dtype);
        plain(&format!("{kind:6}  {blob}  {dtype} {shape}, a Mat of {form}{int32}"))
    };
    let inputs = subject.inputs.iter().map(|port| ("input", port));
    inputs.chain(subject.outputs.iter().map(|port| ("output", port))).map(line).collect()
}

/// Returns text without characters that end a comment or a line.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\\' | '"') { '_' } else { c }).collect()
}

/// Returns the sizes of a blob as a program computes them.
fn sizes(subject: &Subject, purpose: &Purpose, form: &[Dim]) -> Vec<String> {
    if purpose.source != Source::Tokens {
        return subject.at(form).unwrap_or_default().iter().map(i64::to_string).collect();
    }
    let tokens = subject.inputs.iter().zip(&purpose.roles).find(|(_, role)| **role == Role::Tokens);
    let count = tokens.and_then(|(port, _)| port.form.last());
    let size = |size: &Dim| match size.known() {
        Some(n) => n.to_string(),
        None if count == Some(size) => "count".to_owned(),
        None => "total".to_owned(),
    };
    form.iter().map(size).collect()
}

/// Returns the sizes of an array that a program reads: -1 for a length that the array decides, if no other
/// size of the array is free and no state joins calls.
fn sizes_of_array(subject: &Subject, purpose: &Purpose, shape: &[Dim]) -> Vec<i64> {
    let mut sizes = subject.at(shape).unwrap_or_default();
    let mut free = shape.iter().zip(&mut sizes).filter(|(size, _)| size.known().is_none());
    if let (Some((size, slot)), None, None) = (free.next(), free.next(), purpose.states().next())
        && size.symbol_name().is_some()
    {
        *slot = -1;
    }
    sizes
}

/// Returns the characters of an output of text by their indices, and whether the model tells them. The blank
/// comes first.
fn alphabet(subject: &Subject, tail: &Tail) -> (Vec<String>, bool) {
    let known = &subject.metadata.alphabet;
    let Tail::Text { output } = *tail else { return (Vec::new(), false) };
    let shape = subject.output_at(output).unwrap_or_default();
    let count = shape.last().and_then(|n| usize::try_from(*n).ok()).unwrap_or(0);
    let blank = || std::iter::once(String::new());
    if known.is_empty() {
        return (blank().collect(), false);
    }
    match count.checked_sub(known.len()) {
        // The alphabet has the blank, or neither blank nor space, which PaddleOCR adds.
        Some(0) => (known.clone(), true),
        Some(2) => (blank().chain(known.iter().cloned()).chain([" ".to_owned()]).collect(), true),
        _ => (blank().chain(known.iter().cloned()).collect(), true),
    }
}
