//! What the outputs of a net are for.

use serde::Serialize;

use super::boxes::Boxes;
use super::purpose::{Picture, Source};
use super::subject::{Classes, Reading, Subject, Text};
use crate::common::int::Int;
use crate::ncnn::{Net, NetLayer};
use crate::pipeline::Port;
use crate::tensor::Dim;

/// The minimum height of a picture that is not a line of text.
const TALL: i64 = 65;

/// The minimum number of characters of an alphabet: digits and a blank.
const MIN_ALPHABET: i64 = 11;

/// The maximum number of classes without names and without a Softmax: more numbers are a vector of features.
const MAX_UNNAMED: i64 = 30;

/// The number of classes of ImageNet.
pub(super) const IMAGENET: i64 = 1000;

/// The minimum number of tokens of a vocabulary.
const MIN_VOCABULARY: i64 = 1000;

/// The samples in a second of a sound of a model that does not tell.
const SAMPLE_RATE: i64 = 22_050;

/// What a program does with the outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Tail {
    /// Prints the best classes of an output.
    Scores { output: usize, scale: Scale },
    /// Selects boxes, and draws them.
    Boxes(Boxes),
    /// Draws points, which the model finds, with their scores if it has them.
    Points { points: usize, scores: Option<usize> },
    /// Draws an output over the picture.
    Map { output: usize, map: Map, channels: i64, height: i64, width: i64 },
    /// Writes an output as a sound.
    Sound { output: usize, rate: i64 },
    /// Prints the text of an output.
    Text { output: usize },
    /// Prints the most probable next token.
    Next { output: usize },
    /// Makes a vector of each text, and compares them.
    Vector { output: usize },
    /// Prints shapes and magnitudes.
    Shapes,
}

/// The meaning of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    /// Probabilities, by a Softmax or Sigmoid at the end of the net.
    Probabilities,
    /// Arbitrary numbers, of which Softmax makes probabilities.
    Logits,
    /// Arbitrary numbers, of which Sigmoid makes probabilities: no class excludes another one.
    Independent,
    /// Arbitrary numbers that are the results.
    Number,
}

impl Tail {
    /// Returns whether the results are classes.
    pub fn has_classes(&self) -> bool {
        let is_of_classes = |map: &Map| matches!(map, Map::Classes | Map::Labels);
        match self {
            Tail::Scores { .. } | Tail::Boxes(_) => true,
            Tail::Map { map, .. } => is_of_classes(map),
            _ => false,
        }
    }
}

/// What an output says about each pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Map {
    /// A number: a depth, or how far it belongs to the foreground.
    Heat,
    /// A score for each class.
    Classes,
    /// The class.
    Labels,
    /// Red, green and blue.
    Pixels,
}

/// Returns the use of the outputs of a net. `has_states`: some of them continue inputs.
pub(super) fn tail(subject: &Subject, source: Source, has_states: bool) -> Tail {
    let found = match source {
        Source::Picture(picture) => {
            let boxes = || Boxes::of(subject, picture).map(Tail::Boxes);
            boxes()
                .or_else(|| points(subject))
                .or_else(|| text(subject, picture))
                .or_else(|| map(subject, picture))
                .or_else(|| scores(subject))
        }
        Source::Tokens => vector(subject)
            .or_else(|| next(subject, has_states))
            .or_else(|| sound(subject))
            .or_else(|| scores(subject)),
        Source::Arrays => {
            sound(subject).or_else(|| scores(subject).filter(|_| !subject.metadata.classes.is_empty()))
        }
    };
    found.unwrap_or(Tail::Shapes)
}

fn text(subject: &Subject, picture: Picture) -> Option<Tail> {
    let shape = subject.output_at(0)?;
    let (length, characters) = match *shape.as_slice() {
        [1, length, characters] | [length, 1, characters] => (length, characters),
        _ => return None,
    };
    let alphabet = subject.metadata.alphabet.len().int();
    // Detectors state the names of their classes under the same key.
    let is_only = subject.outputs.len() == 1;
    let is_known = is_only && alphabet > 0 && (alphabet..=alphabet + 2).contains(&characters);
    let is_line = picture.height < TALL && picture.width >= 2 * picture.height;
    let is_likely = is_line && characters >= MIN_ALPHABET && length > 1 && 2 * length <= picture.width;
    (is_known || is_likely).then_some(Tail::Text { output: 0 })
}

/// Returns the number of axes after leading ones of size 1: a program has one picture.
pub(super) fn rank(port: &Port) -> usize {
    port.shape.iter().skip_while(|size| size.is(1)).count()
}

/// Returns the outputs of the points that the model finds, and of their scores: as many numbers.
fn points(subject: &Subject) -> Option<Tail> {
    let rows = |port: &Port| {
        port.shape.iter().find(|size| !size.is(1)).filter(|size| size.known().is_none()).cloned()
    };
    let outputs = || subject.outputs.iter().enumerate();
    let (points, port) =
        outputs().find(|(_, port)| rank(port) == 2 && port.shape.last().is_some_and(|size| size.is(2)))?;
    let count = rows(port)?;
    let is_float = |port: &Port| port.dtype.contains("float");
    let scores =
        outputs().find(|(_, port)| is_float(port) && rank(port) == 1 && rows(port).as_ref() == Some(&count));
    subject.computed().is_some().then(|| Tail::Points { points, scores: scores.map(|(at, _)| at) })
}

/// Returns the output that says something about each pixel.
fn map(subject: &Subject, picture: Picture) -> Option<Tail> {
    let (output, shape) = (0..subject.outputs.len()).find_map(|at| {
        let shape = subject.output_at(at).filter(|shape| matches!(shape.len(), 3 | 4))?;
        Some((at, shape))
    })?;
    let is_integer = subject.outputs.get(output).is_some_and(|port| port.dtype.contains("int"));
    let (channels, height, width) = match *shape.as_slice() {
        [1, channels, height, width] => (channels, height, width),
        [1, height, width] => (1, height, width),
        _ => return None,
    };
    // A map has the proportions of the picture.
    let is_of_picture = height * picture.width == width * picture.height && height >= picture.height / 8;
    let named = subject.metadata.classes.len().int();
    let map = match channels {
        1 if is_integer => Map::Labels,
        1 => Map::Heat,
        3 if named != 3 => Map::Pixels,
        2.. => Map::Classes,
        _ => return None,
    };
    (is_of_picture && height > 1).then_some(Tail::Map { output, map, channels, height, width })
}

/// Returns the output that is a sound: a row of samples.
fn sound(subject: &Subject) -> Option<Tail> {
    let is_named = |port: &Port| {
        let name = port.name.to_lowercase();
        let is_sound = ["audio", "wav", "speech", "sound"].iter().any(|word| name.contains(word));
        is_sound && port.dtype.contains("float")
    };
    let is_row = |port: &Port| port.form.iter().rev().skip(1).all(|size| size.is(1));
    let output = subject.outputs.iter().position(|port| is_named(port) && is_row(port))?;
    Some(Tail::Sound { output, rate: subject.metadata.sample_rate.unwrap_or(SAMPLE_RATE) })
}

/// Returns the output with the scores of the next token. Without states, few scores of a token are classes.
fn next(subject: &Subject, has_states: bool) -> Option<Tail> {
    let logits = subject.outputs.iter().position(|port| port.name.to_lowercase().contains("logits"))?;
    let shape = &subject.outputs.get(logits)?.shape;
    let vocabulary = shape.last().and_then(Dim::known)?;
    let is_next = match shape.len() {
        2 => has_states,
        3 => has_states || vocabulary >= MIN_VOCABULARY,
        _ => false,
    };
    is_next.then_some(Tail::Next { output: logits })
}

/// Returns the output with the vectors of texts, if the program is to make these.
fn vector(subject: &Subject) -> Option<Tail> {
    let Some(Text::Vectors(pooling)) = subject.text else { return None };
    let output = subject.outputs.iter().position(|port| port.name == pooling.output)?;
    Some(Tail::Vector { output })
}

fn scores(subject: &Subject) -> Option<Tail> {
    let output = subject.outputs.first().filter(|port| port.dtype.contains("float"))?;
    let shape: Vec<i64> = output.shape.iter().map(Dim::known).collect::<Option<_>>()?;
    let count = shape.iter().product::<i64>();
    let is_list = shape.last() == Some(&count) || shape.get(1) == Some(&count);
    let scale = match (subject.text, computing_layer(subject.net, &output.blob)) {
        (Some(Text::Classes(Classes { scale, .. }) | Text::Picture(Reading { scale, .. })), _) => *scale,
        (_, Some("Softmax" | "Sigmoid")) => Scale::Probabilities,
        _ => Scale::Logits,
    };
    let is_named = !subject.metadata.classes.is_empty() || scale == Scale::Probabilities;
    let are_classes = is_named || count <= MAX_UNNAMED || count == IMAGENET;
    let is_told = matches!(subject.text, Some(Text::Classes(_)));
    (is_list && (count > 1 || is_told) && are_classes).then_some(Tail::Scores { output: 0, scale })
}

/// Returns the type of the layer that computes the elements of a blob; a Reshape moves none.
pub(super) fn computing_layer<'a>(net: &'a Net, blob: &str) -> Option<&'a str> {
    let makes = |layer: &&NetLayer| layer.tops.iter().any(|top| net.blob(*top).name == blob);
    let layer = net.layers.iter().find(makes)?;
    match layer.layer.type_name() {
        "Reshape" => computing_layer(net, &net.blob(*layer.bottoms.first()?).name),
        other => Some(other),
    }
}
