//! The net of a program, and its files.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tail::Scale;
use crate::ncnn::Net;
use crate::pipeline::{Computed, Metadata, Pixels, Port, Rest};
use crate::tensor::{Dim, SizeCondition};

/// What a program does that has the files of a folder next to the net.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Text {
    /// It continues a text.
    Continued(Continuation),
    /// It makes a vector of each text.
    Vectors(Pooling),
    /// It makes a text of another one, or of a sound.
    Sequence(Box<Sequence>),
    /// It names the classes of a text, or of a pair of texts.
    Classes(Classes),
    /// It names the classes of a picture, or of its pixels.
    Picture(Reading),
}

/// How scores of classes become probabilities.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Classes {
    pub scale: Scale,
    /// The names of the classes, by their indices.
    pub labels: Vec<String>,
    /// The most tokens of a text, if the folder has a number.
    pub most_tokens: Option<i64>,
}

/// The size of a picture before its border is cut off.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resized {
    /// Its shorter side, without distortion.
    Shorter(i64),
    /// Its width and its height.
    Sides(i64, i64),
}

/// How a picture becomes the input of a model.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reading {
    /// The means and the factors of pixels from 0 to 255, in the order red, green, blue.
    pub mean: [f64; 3],
    pub norm: [f64; 3],
    /// The size of the picture before its middle is cut out.
    pub resized: Resized,
    /// The interpolation, as Pillow names it.
    pub resample: &'static str,
    pub scale: Scale,
    pub labels: Vec<String>,
    /// Whether each pixel has a class.
    pub of_pixels: bool,
}

/// How a decoder makes a text of what an encoder reads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sequence {
    #[serde(flatten)]
    pub continuation: Continuation,
    /// The first tokens of the decoder.
    pub start: Vec<i64>,
    /// The tokens that a text never has, and those with which it does not begin.
    pub suppressed: Vec<i64>,
    pub suppressed_first: Vec<i64>,
    /// The token of each language by its name: the second token is one. And the tokens after it.
    pub languages: BTreeMap<String, i64>,
    pub after_language: Vec<i64>,
    /// How the encoder reads a sound; `None` if it reads a text.
    pub sound: Option<Sound>,
    /// The net that reads the text or the sound.
    pub encoder: SideNet,
    /// The net that makes the keys and values of the decoder, from what the encoder computes.
    pub keys: SideNet,
    /// The inputs of the decoder that have them, with the outputs of `keys`.
    pub links: Vec<(String, String)>,
    /// The input of the decoder that has a one for each token of the encoder.
    pub mask: Option<Blob>,
    /// The input of the decoder that has the output of the encoder itself.
    pub hidden: Option<String>,
}

/// A net next to the one of the program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SideNet {
    /// The name of its files, without the ending.
    pub name: String,
    pub inputs: Vec<Blob>,
    pub outputs: Vec<String>,
}

/// A blob that a program fills.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Blob {
    /// The name of the model's input.
    pub name: String,
    pub blob: String,
    pub int32: bool,
}

/// How sounds become the features of an encoder.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sound {
    /// The samples in a second.
    pub rate: i64,
    /// The bands of frequencies; 0 for a net that reads samples.
    pub bands: i64,
    /// The samples of a window and between windows.
    pub window: i64,
    pub hop: i64,
    /// The samples that the net reads in a call; 0 for any number.
    pub samples: i64,
}

/// How results become the vector of a text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pooling {
    /// The name of the output.
    pub output: String,
    pub kind: PoolingKind,
    /// Whether vectors have the length 1.
    pub is_normalized: bool,
    /// The most tokens of a text, if the folder has a number.
    pub most_tokens: Option<i64>,
}

/// The vector of a text, of those of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PoolingKind {
    Mean,
    First,
    Last,
    /// The net computes it.
    Computed,
}

/// Facts of the texts that a decoder continues.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Continuation {
    /// The tokens that end a text.
    pub ends: Vec<i64>,
    /// Whether there is a template of chats.
    pub has_chat: bool,
    /// The text of the first token and of the last one, for the template.
    pub begin: String,
    pub end: String,
    /// The recommended numbers of sampling; 0 for all tokens.
    pub temperature: f64,
    pub top_k: i64,
    pub top_p: f64,
    pub repetition: f64,
}

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
    /// The conditions on free sizes under which the net is valid.
    pub conditions: &'a [SizeCondition],
    /// What the model computes behind the outputs of a part.
    pub rest: Option<&'a Rest>,
    /// How texts become tokens, if the program has the files for that.
    pub text: Option<&'a Text>,
}

impl<'a> Subject<'a> {
    /// Returns a shape at the chosen sizes.
    pub(super) fn at(&self, shape: &[Dim]) -> Option<Vec<i64>> {
        shape.iter().map(|size| size.substitute(self.sizes).known()).collect()
    }

    /// Returns how the model reads a picture, if the folder says so.
    pub(super) fn reading(&self) -> Option<&'a Reading> {
        match self.text {
            Some(Text::Picture(reading)) => Some(reading),
            _ => None,
        }
    }

    /// Returns the nets before the decoder.
    pub(super) fn sequence(&self) -> Option<&'a Sequence> {
        match self.text {
            Some(Text::Sequence(sequence)) => Some(sequence),
            _ => None,
        }
    }

    /// Returns the rest of the model, if the program computes it.
    pub(super) fn computed(&self) -> Option<&'a Computed> {
        match self.rest {
            Some(Rest::Computed(rest)) => Some(rest),
            _ => None,
        }
    }

    /// Returns the same net with the outputs that the program reads: the model's, if the program computes
    /// them.
    pub(super) fn of_results(self) -> Self {
        match self.computed() {
            Some(rest) => Subject { outputs: &rest.outputs, ..self },
            None => self,
        }
    }

    pub(super) fn output_at(&self, index: usize) -> Option<Vec<i64>> {
        self.at(&self.outputs.get(index)?.shape)
    }
}

/// The files of a program: its name, and the names of the net's files as the program opens them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    pub program: &'a str,
    pub param: &'a str,
    pub bin: &'a str,
}
