//! The options of a conversion, and what their interfaces know of them.

mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common::limits;
use crate::error::{Error, Result};
use crate::lower::Cut;
use crate::ncnn::Embedding;
use crate::onnx::ReadOptions;
use crate::pass::blocks::Weights;
use crate::pass::quantized::Quantization;
use crate::tensor::{Array, Dim};

pub(crate) use table::for_each_option;

/// An option of a conversion, for interfaces that take options by their names.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The name.
    pub name: &'static str,
    /// The name on the command line, if it differs by more than its hyphens.
    pub word: Option<&'static str>,
    /// What the option concerns.
    pub purpose: Purpose,
    /// The type of its values.
    pub kind: OptionKind,
    /// A sign for its value; empty for flags.
    pub value: &'static str,
    /// The heading in the help of the command.
    pub heading: &'static str,
    /// A description in one sentence.
    pub help: &'static str,
    /// Further sentences; empty if there are none.
    pub details: &'static str,
    /// Whether few users need it.
    pub is_rare: bool,
    /// The option that excludes it.
    pub excludes: Option<&'static str>,
    /// The option that it requires.
    pub requires: Option<&'static str>,
    /// The file whose path is the value, if it is one.
    pub file: Option<FileInfo>,
}

/// A further file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FileInfo {
    /// The name of the file in messages.
    pub what: &'static str,
    /// The ending of its name after that of the model, unless the user names it.
    pub ending: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// Whether it is written for refused models too.
    pub is_report: bool,
}

/// What an option concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// How a model is read: for conversion, simplification and inspection.
    Source,
    /// The net.
    Net,
    /// A further file.
    File,
    /// What stays in memory, for programs that use the library.
    Memory,
}

/// The type of the values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// No value: the option is set or not.
    Flag,
    /// Any number of names.
    Names,
    /// The path of a file or folder.
    Path,
    /// The date of a release of ncnn.
    Release,
    /// A number of bytes.
    Bytes,
    /// The name of one of the [`Weights`].
    Weights,
    /// Any number of shapes by names.
    Shapes,
    /// Any number of arrays by names.
    Arrays,
    /// Any number of names by names.
    Pairs,
}

/// A value of an option: one for each item of an option of many items.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OptionValue {
    /// Of a [`OptionKind::Flag`].
    Flag(bool),
    /// Of [`OptionKind::Names`].
    Name(String),
    /// Of a [`OptionKind::Path`].
    Path(PathBuf),
    /// Of a [`OptionKind::Release`].
    Release(u32),
    /// Of [`OptionKind::Bytes`].
    Bytes(u64),
    /// Of [`OptionKind::Weights`].
    Weights(Weights),
    /// Of [`OptionKind::Shapes`].
    Shape(String, Vec<Dim>),
    /// Of [`OptionKind::Arrays`].
    Array(String, Array),
    /// Of [`OptionKind::Pairs`].
    Pair(String, String),
}

/// Returns every option.
pub fn options() -> &'static [OptionInfo] {
    OPTIONS
}

const fn option(purpose: Purpose, heading: &'static str, help: &'static str) -> OptionInfo {
    OptionInfo {
        name: "",
        word: None,
        purpose,
        kind: OptionKind::Flag,
        value: "",
        heading,
        help,
        details: "",
        is_rare: false,
        excludes: None,
        requires: None,
        file: None,
    }
}

const fn source(help: &'static str) -> OptionInfo {
    option(Purpose::Source, "Model", help)
}

const fn net(help: &'static str) -> OptionInfo {
    option(Purpose::Net, "Result", help)
}

/// A file with a name in messages, an ending, and a description.
const fn file(
    what: &'static str,
    ending: &'static str,
    about: &'static str,
    help: &'static str,
) -> OptionInfo {
    let file = FileInfo { what, ending, about, is_report: false };
    OptionInfo { file: Some(file), ..option(Purpose::File, "Further files", help).takes("FILE") }
}

/// Like [`file`], also written for refused models.
const fn report(
    what: &'static str,
    ending: &'static str,
    about: &'static str,
    help: &'static str,
) -> OptionInfo {
    let file = FileInfo { what, ending, about, is_report: true };
    OptionInfo { file: Some(file), ..option(Purpose::File, "Further files", help) }
}

const fn memory(help: &'static str) -> OptionInfo {
    option(Purpose::Memory, "", help)
}

/// Additions to a row of the table.
impl OptionInfo {
    const fn word(self, word: &'static str) -> OptionInfo {
        OptionInfo { word: Some(word), ..self }
    }

    const fn takes(self, value: &'static str) -> OptionInfo {
        OptionInfo { value, ..self }
    }

    const fn under(self, heading: &'static str) -> OptionInfo {
        OptionInfo { heading, ..self }
    }

    const fn details(self, details: &'static str) -> OptionInfo {
        OptionInfo { details, ..self }
    }

    const fn rare(self) -> OptionInfo {
        OptionInfo { is_rare: true, ..self }
    }

    const fn without(self, other: &'static str) -> OptionInfo {
        OptionInfo { excludes: Some(other), ..self }
    }

    const fn needs(self, other: &'static str) -> OptionInfo {
        OptionInfo { requires: Some(other), ..self }
    }
}

/// The type of an option.
trait Accept {
    const KIND: OptionKind;

    /// Sets or adds a value; `None` if it has another type.
    fn accept(&mut self, value: OptionValue) -> Option<()>;

    /// Returns the path, if it is one.
    fn path(&self) -> Option<&Path> {
        None
    }
}

impl Accept for Option<PathBuf> {
    const KIND: OptionKind = OptionKind::Path;

    fn accept(&mut self, value: OptionValue) -> Option<()> {
        let OptionValue::Path(path) = value else { return None };
        *self = Some(path);
        Some(())
    }

    fn path(&self) -> Option<&Path> {
        self.as_deref()
    }
}

macro_rules! accept {
    ($($type:ty: $kind:ident, $value:pat => |$field:ident| $set:expr;)*) => {
        $(impl Accept for $type {
            const KIND: OptionKind = OptionKind::$kind;

            fn accept(&mut self, value: OptionValue) -> Option<()> {
                let $value = value else { return None };
                let $field = self;
                $set;
                Some(())
            }
        })*
    };
}

accept! {
    bool: Flag, OptionValue::Flag(is_set) => |field| *field = is_set;
    Vec<String>: Names, OptionValue::Name(name) => |field| field.push(name);
    BTreeSet<String>: Names, OptionValue::Name(name) => |field| field.insert(name);
    Option<u32>: Release, OptionValue::Release(release) => |field| *field = Some(release);
    Option<u64>: Bytes, OptionValue::Bytes(bytes) => |field| *field = Some(bytes);
    Weights: Weights, OptionValue::Weights(weights) => |field| *field = weights;
    Vec<(String, Vec<Dim>)>: Shapes, OptionValue::Shape(name, shape) => |field| field.push((name, shape));
    Vec<(String, Array)>: Arrays, OptionValue::Array(name, array) => |field| field.push((name, array));
    Vec<(String, String)>: Pairs, OptionValue::Pair(old, new) => |field| field.push((old, new));
}

macro_rules! define {
    ($($(#[$doc:meta])* $method:ident $name:ident: $type:ty = $info:expr;)*) => {
        /// The options of a conversion, as the methods of [`Converter`](crate::Converter) set them.
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct Options {
            $($(#[$doc])* pub $name: $type,)*
        }

        static OPTIONS: &[OptionInfo] =
            &[$(OptionInfo { name: stringify!($name), kind: <$type as Accept>::KIND, ..$info }),*];

        impl Options {
            fn accept(&mut self, name: &str, value: OptionValue) -> Option<()> {
                match name {
                    $(stringify!($name) => self.$name.accept(value),)*
                    _ => None,
                }
            }

            /// Returns the further files to write.
            pub fn files(&self) -> impl Iterator<Item = (&'static OptionInfo, FileInfo, &Path)> {
                let paths = [$(self.$name.path()),*];
                OPTIONS.iter().zip(paths).filter_map(|(info, path)| Some((info, info.file?, path?)))
            }
        }
    };
}

for_each_option!(define);

impl Options {
    /// Sets an option by its name, or adds an item to it.
    pub(crate) fn put(&mut self, name: &str, value: OptionValue) -> Result<()> {
        self.accept(name, value)
            .ok_or_else(|| Error::usage(format!("there is no option \"{name}\" for a value of this type")))
    }

    /// Returns the options for reading a model.
    pub(crate) fn read(&self) -> ReadOptions {
        ReadOptions {
            max_size: self.max_size.unwrap_or(limits::MODEL_BYTES),
            data_dir: self.data_dir.clone(),
        }
    }

    /// Returns the treatment of quantized networks.
    pub(crate) fn quantization(&self) -> Quantization {
        match (self.int8, self.dequantize) {
            (true, _) => Quantization::Int8,
            (_, true) => Quantization::Float,
            _ => Quantization::Exact,
        }
    }

    /// Returns the further forms of the net to write.
    pub(crate) fn embedding(&self) -> Embedding {
        Embedding {
            param_bin: self.param_bin.clone(),
            id_header: self.id_header.clone(),
            mem_header: self.mem_header.clone(),
        }
    }

    /// The same options for a part of the model.
    pub(crate) fn cut_at(&self, cut: &Cut) -> Options {
        let or =
            |part: &Vec<String>, own: &Vec<String>| if part.is_empty() { own.clone() } else { part.clone() };
        Options {
            inputs: or(&cut.inputs, &self.inputs),
            outputs: or(&cut.outputs, &self.outputs),
            // A renamed value may lie outside of the part.
            rename: Vec::new(),
            emit_onnx: None,
            keep_onnx: false,
            report: None,
            html: None,
            ..self.clone()
        }
    }
}
