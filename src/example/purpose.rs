//! The roles of the inputs of a net; `tail` has the uses of its outputs.

use serde::Serialize;

use super::subject::Subject;
use super::tail::{Tail, tail};
use crate::pipeline::Port;
use crate::tensor::Dim;

/// What a program gives an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// The picture of the command line.
    Picture,
    /// The same with channels as the last axis.
    PictureOfPixels,
    /// The tokens of the command line.
    Tokens,
    /// A one for each of these tokens.
    Ones,
    /// A one for each token of this and the earlier calls.
    AllOnes,
    /// The positions of the tokens.
    Positions,
    /// The number of the text of each token, of a pair of texts: 0 or 1.
    Types,
    /// The number of the tokens.
    Length,
    /// Height and width of the picture.
    Sides,
    Zeros,
    /// An array of the user.
    Array,
    /// What the program computes of an encoder.
    Encoded,
    /// The output of this index, of the call before.
    State(usize),
}

/// What the main input of a net is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Source {
    Picture(Picture),
    Tokens,
    Arrays,
}

/// How a net reads pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Picture {
    pub width: i64,
    pub height: i64,
    pub channels: i64,
    /// Whether the model scales the pixels itself: its input has integers.
    pub is_raw: bool,
    /// For a model of ultralytics that reads pictures of any size: the number of which the sides are
    /// multiples. Its runtime adds no more border than that.
    pub stride: Option<i64>,
    /// Whether the model reads the middle of a picture instead of all of it, distorted: a classifier of
    /// ultralytics.
    pub is_middle: bool,
}

/// The use of a net.
#[derive(Clone, Debug)]
pub(super) struct Purpose {
    /// The roles of the inputs.
    pub roles: Vec<Role>,
    pub source: Source,
    pub tail: Tail,
}

impl Purpose {
    pub fn of(subject: &Subject) -> Purpose {
        let has_encoder = subject.sequence().is_some();
        let first = |port: &Port| match has_encoder && is_of_encoder(&port.name) {
            true => Role::Encoded,
            false => Role::Array,
        };
        let mut roles: Vec<Role> = subject.inputs.iter().map(first).collect();
        set_states(subject, &mut roles);
        let source = match picture(subject, &roles) {
            Some((index, picture, kind)) => {
                set(&mut roles, index, kind);
                Source::Picture(picture)
            }
            None if set_tokens(subject, &mut roles) => Source::Tokens,
            None => Source::Arrays,
        };
        if let Source::Picture(_) = source {
            for (port, role) in subject.inputs.iter().zip(&mut roles) {
                let name = port.name.to_lowercase();
                match role {
                    Role::Array if name.contains("scale") => *role = Role::Ones,
                    Role::Array if name.contains("shape") || name.contains("size") => *role = Role::Sides,
                    Role::Array => *role = Role::Zeros,
                    _ => {}
                }
            }
        }
        let tail = tail(subject, source, has_states(&roles));
        Purpose { roles, source, tail }
    }

    /// Returns the states of the net: the indices of their inputs, and of the outputs that continue them.
    pub fn states(&self) -> impl Iterator<Item = (usize, usize)> {
        self.roles.iter().enumerate().filter_map(|(input, role)| match role {
            Role::State(output) => Some((input, *output)),
            _ => None,
        })
    }
}

/// Returns whether the encoder of a model decides an input of its decoder, by its name.
pub(crate) fn is_of_encoder(name: &str) -> bool {
    name.starts_with("encoder_") || name.contains(".encoder.")
}

fn has_states(roles: &[Role]) -> bool {
    roles.iter().any(|role| matches!(role, Role::State(_)))
}

fn set(roles: &mut [Role], index: usize, value: Role) {
    if let Some(slot) = roles.get_mut(index) {
        *slot = value;
    }
}

/// Marks states: inputs that outputs of earlier calls continue, by their names and shapes.
fn set_states(subject: &Subject, roles: &mut [Role]) {
    let mut taken: Vec<usize> = Vec::new();
    for (index, input) in subject.inputs.iter().enumerate() {
        let fits = |(at, output): &(usize, &Port)| match &input.cache {
            Some(blob) => output.blob == *blob,
            None => {
                roles.get(index) == Some(&Role::Array)
                    && is_state(&input.name)
                    && !taken.contains(at)
                    && continues(input, output)
            }
        };
        // A state has the name of one on both sides; of several, the order is that of the inputs.
        let fitting = subject.outputs.iter().enumerate().filter(fits);
        if let Some((output, _)) = fitting.min_by_key(|(_, output)| !is_state(&output.name)) {
            taken.push(output);
            set(roles, index, Role::State(output));
        }
    }
}

/// Returns whether a name is one of those that exporters give to states.
fn is_state(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_short = |letter: char| {
        let rest = name.strip_prefix(letter);
        let ends = ["", "0", "x", "n", "_0", "_n", "in", "_in", "out", "_out", "_prev", "_next"];
        rest.is_some_and(|rest| ends.contains(&rest))
    };
    ["state", "cache", "past", "present", "hidden", "memory"].iter().any(|word| name.contains(word))
        || is_short('h')
        || is_short('c')
}

/// Returns whether an output may continue an input: it has its shape, or a length that grows.
fn continues(input: &Port, output: &Port) -> bool {
    input.dtype == output.dtype
        && input.shape.len() == output.shape.len()
        && input.shape.iter().zip(&output.shape).all(|(before, after)| before == after || before.has_length())
}

/// Returns the sides of the picture that an input reads, height first, and its channels; `None` if it reads
/// none.
pub(crate) fn picture_sides(port: &Port) -> Option<(&Dim, &Dim, i64)> {
    let name = port.name.to_lowercase();
    let is_sound = ["mel", "spec", "feat", "audio", "wav", "mask"].iter().any(|word| name.contains(word));
    let channels = |size: &Dim| size.known().filter(|n| matches!(n, 1 | 3));
    let is_side = |size: &Dim| size.known().is_none_or(|n| n >= 8);
    let (a, b, c) = match port.shape.as_slice() {
        [_, a, b, c] => (a, b, c),
        // Without a batch, as detectors of torchvision: three planes.
        [a, b, c] if a.is(3) => (a, b, c),
        _ => return None,
    };
    let sides = match (channels(a), channels(c)) {
        (Some(channels), _) if is_side(b) && is_side(c) => (b, c, channels),
        (_, Some(channels)) if is_side(a) && is_side(b) => (a, b, channels),
        _ => return None,
    };
    let is_pixel = matches!(port.dtype.as_str(), "float" | "float16" | "bfloat16" | "double" | "uint8");
    (is_pixel && !is_sound && port.form.len() == 3).then_some(sides)
}

/// Returns the input that reads a picture.
fn picture(subject: &Subject, roles: &[Role]) -> Option<(usize, Picture, Role)> {
    let free = subject.inputs.iter().zip(roles).enumerate();
    let mut free = free.filter(|(_, (_, role))| **role == Role::Array);
    free.find_map(|(index, (port, _))| {
        let (height, width, channels) = picture_sides(port)?;
        let is_free = height.symbol_name().is_some() && width.symbol_name().is_some() && height != width;
        let [height, width] = <[i64; 2]>::try_from(subject.at(&[height.clone(), width.clone()])?).ok()?;
        let is_first = port.shape.iter().rev().nth(2).is_some_and(|size| size.is(channels));
        let kind = if is_first { Role::Picture } else { Role::PictureOfPixels };
        let stride = subject.metadata.stride.filter(|_| is_free && subject.metadata.is_of_ultralytics());
        let is_middle =
            subject.metadata.is_of_ultralytics() && subject.metadata.task.as_deref() == Some("classify");
        let is_raw = port.dtype == "uint8";
        Some((index, Picture { width, height, channels, is_raw, stride, is_middle }, kind))
    })
}

/// Marks the inputs of a net that reads tokens; returns whether it does.
fn set_tokens(subject: &Subject, roles: &mut [Role]) -> bool {
    let is_integer = |port: &Port| port.dtype.contains("int");
    let is_ids = |port: &Port| {
        let name = port.name.to_lowercase();
        let is_other = ["mask", "position", "type", "segment", "len"].iter().any(|word| name.contains(word));
        is_integer(port)
            && port.shape.len() <= 2
            && !is_other
            && (port.int32 || name.contains("ids") || name.contains("token"))
    };
    let Some(tokens) = subject.inputs.iter().position(is_ids) else { return false };
    set(roles, tokens, Role::Tokens);
    for (port, slot) in subject.inputs.iter().zip(roles.iter_mut()) {
        let name = port.name.to_lowercase();
        if *slot == Role::Array {
            *slot = match name.as_str() {
                name if name.contains("mask") && port.form.len() > 1 => Role::Ones,
                name if name.contains("mask") || name == "kv_length" => Role::AllOnes,
                name if name.contains("position") && port.form.len() == 1 => Role::Positions,
                name if name.contains("len") => Role::Length,
                name if name.contains("type") || name.contains("segment") => Role::Types,
                _ => Role::Array,
            };
        }
    }
    let are_known = are_of_tokens(subject, roles);
    if !are_known {
        let others = roles.iter_mut().filter(|role| !matches!(role, Role::State(_)));
        others.for_each(|role| *role = Role::Array);
    }
    are_known
}

/// Returns whether the number of the tokens, of this call or of all, gives each input its elements and its
/// free sizes.
fn are_of_tokens(subject: &Subject, roles: &[Role]) -> bool {
    let inputs = || subject.inputs.iter().zip(roles);
    let count = inputs().find(|(_, role)| **role == Role::Tokens).and_then(|(port, _)| port.form.last());
    let has_states = has_states(roles);
    // Some exporters name the length of a mask separately.
    let is_of_masks = |size: &Dim| {
        let mut readers = inputs().filter(|(port, _)| port.form.contains(size));
        readers.all(|(_, role)| *role == Role::AllOnes)
    };
    let mut others = inputs().filter(|(_, role)| !matches!(role, Role::State(_) | Role::Encoded));
    others.all(|(port, role)| {
        let is_mask = matches!(role, Role::AllOnes | Role::Ones);
        let is_known = |size: &Dim| {
            size.known().is_some() || Some(size) == count || is_mask && (has_states || is_of_masks(size))
        };
        *role != Role::Array && port.form.iter().all(is_known)
    })
}
