//! The net of a program, and what the programs of all languages say of it.

use std::collections::BTreeMap;

use super::purpose::{Given, Layout, Picture, Purpose, Source, Tail};
use crate::ncnn::Net;
use crate::pipeline::{Metadata, Pixels, Port};
use crate::tensor::{Dim, display_shape};

/// The program that writes programs.
const GENERATOR: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// The net of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The name of the model's file.
    pub model: &'a str,
    pub inputs: &'a [Port],
    pub outputs: &'a [Port],
    pub net: &'a Net,
    pub metadata: &'a Metadata,
    /// The scaling of pixels that the net has.
    pub pixels: &'a Pixels,
    /// Values of the free sizes for which the net is valid.
    pub sizes: &'a BTreeMap<String, Dim>,
}

/// The files of a program: its own name, and those of the net as the program opens them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    pub program: &'a str,
    pub param: &'a str,
    pub bin: &'a str,
}

/// Returns the parts that the templates of all languages have; `prefix` begins each line of a comment.
pub(super) fn parts(subject: &Subject, files: &Files, prefix: &str) -> Vec<(&'static str, String)> {
    vec![
        ("model", plain(subject.model)),
        ("file", plain(files.program)),
        ("ports", comment(subject, prefix)),
        ("generator", GENERATOR.to_owned()),
        ("param", quoted(files.param)),
        ("bin", quoted(files.bin)),
    ]
}

/// Returns the table of inputs and outputs, a line each, after a prefix.
fn comment(subject: &Subject, prefix: &str) -> String {
    let mut lines = Vec::new();
    for (kind, ports) in [("input", subject.inputs), ("output", subject.outputs)] {
        for port in ports {
            let [shape, form] = [&port.shape, &port.form].map(|shape| display_shape(shape));
            let int32 = if port.int32 { " as int32" } else { "" };
            let (blob, dtype) = (&port.blob, &port.dtype);
            let line = format!("{kind:6}  {blob}  {dtype} {shape}, a Mat of {form}{int32}");
            lines.push(format!("{prefix}{}", plain(&line)));
        }
    }
    lines.join("\n")
}

/// Returns the sizes of a state before the first call. A length that may be 0 is 0.
pub(super) fn first_sizes(subject: &Subject, port: &Port) -> Vec<i64> {
    let size = |size: &Dim| match size.has_length() {
        true => 0,
        false => subject.at(std::slice::from_ref(size)).and_then(|at| at.first().copied()).unwrap_or(1),
    };
    port.form.iter().map(size).collect()
}

/// Returns the sizes of an array that a program reads: -1 for a length that the array decides, if no other
/// size of the array is free and no state joins calls.
pub(super) fn given_sizes(subject: &Subject, purpose: &Purpose, shape: &[Dim]) -> Vec<i64> {
    let mut sizes = subject.at(shape).unwrap_or_default();
    let mut free = shape.iter().zip(&mut sizes).filter(|(size, _)| size.known().is_none());
    if let (Some((size, slot)), None, None) = (free.next(), free.next(), purpose.states().next())
        && size.symbol_name().is_some()
    {
        *slot = -1;
    }
    sizes
}

/// Returns the inputs that are not states.
pub(super) fn given_ports<'a>(subject: &Subject<'a>, purpose: &Purpose) -> Vec<&'a Port> {
    let inputs = subject.inputs.iter().zip(&purpose.given);
    inputs.filter(|(_, given)| !matches!(given, Given::State(_))).map(|(port, _)| port).collect()
}

/// Returns whether the program calls the net several times.
pub(super) fn is_loop(purpose: &Purpose) -> bool {
    matches!((purpose.source, purpose.tail), (Source::Tokens, Tail::Next { .. }) | (Source::Arrays, _))
}

pub(super) fn indented(text: &str, by: usize) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{:by$}{line}", "")).collect();
    lines.join("\n")
}

/// Returns text without characters that end a comment or a line.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\\' | '"') { '_' } else { c }).collect()
}

/// Returns a string literal, in quotes. Programs in Python and C++ read those of JSON.
pub(super) fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    serde_json::to_string(&text).unwrap_or_default()
}

/// A constant of what a program makes of the outputs, with its name.
pub(super) enum Constant<'a> {
    /// A comment before the next constant.
    Remark(&'static str),
    Blob(&'static str, &'a str),
    Number(&'static str, i64),
    Names(&'static str, Vec<String>),
}

/// Returns the constants of what a program makes of the outputs.
pub(super) fn constants<'a>(subject: &Subject<'a>, purpose: &Purpose) -> Vec<Constant<'a>> {
    let blob = |name, index: usize| {
        Constant::Blob(name, subject.outputs.get(index).map_or("", |port| port.blob.as_str()))
    };
    let classes = || Constant::Names("NAMES", subject.metadata.classes.clone());
    match purpose.tail {
        Tail::Scores { output, .. } => vec![blob("SCORES", output), classes()],
        Tail::Boxes { layout, boxes, scores, classes: count } => {
            let mut constants = vec![blob("BOXES", boxes)];
            constants.extend((layout == Layout::Pair).then(|| blob("SCORES", scores)));
            constants.extend((layout != Layout::Selected).then_some(Constant::Number("CLASSES", count)));
            constants.push(classes());
            constants
        }
        Tail::Text { output } => {
            let (alphabet, is_known) = alphabet(subject, output);
            let remark = "The model does not tell its characters: put them here, in order.";
            let mut constants: Vec<Constant> =
                (!is_known).then_some(Constant::Remark(remark)).into_iter().collect();
            constants.extend([
                Constant::Names("ALPHABET", alphabet),
                Constant::Number("BLANK", 0),
                blob("TEXT", output),
            ]);
            constants
        }
        Tail::Next { output } => vec![blob("LOGITS", output)],
        Tail::Shapes => Vec::new(),
    }
}

/// Returns the characters of an output of text by their indices, and whether the model tells them. The blank
/// comes first.
fn alphabet(subject: &Subject, output: usize) -> (Vec<String>, bool) {
    let shape = subject.output_at(output).unwrap_or_default();
    let count = shape.last().and_then(|n| usize::try_from(*n).ok()).unwrap_or(0);
    let known = &subject.metadata.alphabet;
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

/// How pixels become numbers: `(pixel - mean) * norm`.
pub(super) struct Scaling {
    pub mean: [f64; 3],
    pub norm: [f64; 3],
    pub is_bgr: bool,
    /// The number around a line of text, as the net reads it.
    pub border: f64,
    pub reason: &'static str,
}

impl Scaling {
    /// Returns the means and the factors of the channels of a picture, each number with a suffix.
    pub fn of_channels(&self, picture: Picture, suffix: &str) -> [Vec<String>; 2] {
        let take = usize::try_from(picture.channels).unwrap_or(3);
        [self.mean, self.norm].map(|list| list.iter().take(take).map(|x| format!("{x:?}{suffix}")).collect())
    }
}

/// Returns the scaling of pixels that models of such a use have.
pub(super) fn scaling(subject: &Subject, purpose: &Purpose, picture: Picture) -> Scaling {
    let pixels = subject.pixels;
    let usual = usual_scaling(subject, purpose, picture);
    if pixels.are_plain() {
        return usual;
    }
    // Without numbers, only the order of the channels is another.
    let is_scaled = [&pixels.scale, &pixels.mean, &pixels.norm].iter().any(|list| !list.is_empty());
    let is_bgr = picture.channels == 3 && usual.is_bgr != pixels.is_bgr;
    match is_scaled {
        true => Scaling {
            mean: [0.0; 3],
            norm: [1.0; 3],
            is_bgr,
            border: pixels.border(),
            reason: "The net scales pixels itself, as it was asked to.",
        },
        false => Scaling { is_bgr, ..usual },
    }
}

/// Returns the scaling of pixels that models of such a use have, whatever the net does.
fn usual_scaling(subject: &Subject, purpose: &Purpose, picture: Picture) -> Scaling {
    let same =
        |mean, norm, reason| Scaling { mean: [mean; 3], norm: [norm; 3], is_bgr: false, border: 0.0, reason };
    let classes = match purpose.tail {
        Tail::Scores { output, .. } => subject.output_at(output).and_then(|shape| shape.into_iter().max()),
        _ => None,
    };
    match purpose.tail {
        _ if picture.is_raw => same(0.0, 1.0, "The model scales pixels itself."),
        Tail::Boxes { .. } => same(0.0, 1.0 / 255.0, "Pixels from 0 to 1, as detectors read them."),
        Tail::Text { .. } => Scaling {
            is_bgr: picture.channels == 3,
            ..same(
                127.5,
                1.0 / 127.5,
                "Pixels from -1 to 1, as PaddleOCR reads them; the model does not tell.",
            )
        },
        Tail::Scores { .. } if picture.channels == 3 && classes == Some(IMAGENET) => Scaling {
            mean: [123.675, 116.28, 103.53],
            norm: [1.0 / 58.395, 1.0 / 57.12, 1.0 / 57.375],
            is_bgr: false,
            border: 0.0,
            reason: "As networks of ImageNet read pixels; the model does not tell.",
        },
        _ => same(0.0, 1.0 / 255.0, "Pixels from 0 to 1; the model does not tell how it reads them."),
    }
}

/// The number of classes of ImageNet.
pub(super) const IMAGENET: i64 = 1000;
