//! The options of a conversion, and what their interfaces know of them.

mod json;
mod table;

use std::any::Any;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common::limits;
use crate::error::{Error, Result};
use crate::graph::{CustomLayer, CustomLayers, Graph};
use crate::ncnn::Embedding;
use crate::onnx::ReadOptions;
use crate::pass::blocks::Weights;
use crate::pass::cut::stated_shapes;
use crate::pass::pixels::Pixels;
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
    /// The type of its value, or of each item.
    pub kind: OptionKind,
    /// Whether it has any number of items.
    pub is_list: bool,
    /// A sign for its value; empty for flags.
    pub value: &'static str,
    /// The heading in the help of the command.
    pub heading: &'static str,
    /// A description: a sentence, and perhaps a paragraph after an empty line.
    pub help: &'static str,
    /// Whether few users need it.
    pub is_rare: bool,
    /// The option that excludes it.
    pub excludes: Option<&'static str>,
    /// The option that it requires.
    pub requires: Option<&'static str>,
    /// The file whose path is the value, if it is one that a conversion writes.
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
        is_list: false,
        value: "",
        heading,
        help,
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

/// An option of the net that concerns its model, too.
const fn model(help: &'static str) -> OptionInfo {
    option(Purpose::Net, "Model", help).rare()
}

/// An option of pixels, which the net reads instead of the input of the model.
const fn pixels(help: &'static str) -> OptionInfo {
    option(Purpose::Net, "Model", help)
}

const fn file(file: FileInfo, help: &'static str) -> OptionInfo {
    OptionInfo { file: Some(file), value: "FILE", ..option(Purpose::File, "Further files", help) }
}

const fn memory(help: &'static str) -> OptionInfo {
    option(Purpose::Memory, "", help)
}

impl OptionInfo {
    const fn takes(self, value: &'static str) -> OptionInfo {
        OptionInfo { value, ..self }
    }

    const fn rare(self) -> OptionInfo {
        OptionInfo { is_rare: true, ..self }
    }

    /// Returns the option of this name.
    pub fn named(name: &str) -> Option<&'static OptionInfo> {
        options().iter().find(|info| info.name == name)
    }

    /// Returns the name on the command line, without hyphens before it.
    pub fn long_name(&self) -> String {
        self.word.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    /// Returns the description: its first sentence, and the paragraph after it, which may be empty.
    pub fn descriptions(&self) -> (&'static str, &'static str) {
        self.help.split_once("\n\n").unwrap_or((self.help, ""))
    }
}

impl FileInfo {
    const fn new(what: &'static str, ending: &'static str, about: &'static str) -> FileInfo {
        FileInfo { what, ending, about, is_report: false }
    }

    const fn report(what: &'static str, ending: &'static str, about: &'static str) -> FileInfo {
        FileInfo { is_report: true, ..FileInfo::new(what, ending, about) }
    }
}

/// The type of a field: a value, an optional one, or items.
trait Field {
    type Item: Item;
    const IS_LIST: bool = false;

    fn put(&mut self, item: Self::Item);

    /// Returns the items, those of the default among them.
    fn items(&self) -> Vec<OptionValue>;
}

impl<T: Item> Field for Option<T> {
    type Item = T;

    fn put(&mut self, item: T) {
        *self = Some(item);
    }

    fn items(&self) -> Vec<OptionValue> {
        self.iter().map(|item| item.clone().into_value()).collect()
    }
}

impl<T: Item> Field for Vec<T> {
    type Item = T;
    const IS_LIST: bool = true;

    fn put(&mut self, item: T) {
        self.push(item);
    }

    fn items(&self) -> Vec<OptionValue> {
        self.iter().map(|item| item.clone().into_value()).collect()
    }
}

impl Field for BTreeSet<String> {
    type Item = String;
    const IS_LIST: bool = true;

    fn put(&mut self, item: String) {
        self.insert(item);
    }

    fn items(&self) -> Vec<OptionValue> {
        self.iter().map(|item| item.clone().into_value()).collect()
    }
}

/// The type of a value.
trait Item: Clone {
    const KIND: OptionKind;

    /// Returns the value, if it has this type.
    fn of(value: OptionValue) -> Option<Self>;

    fn into_value(self) -> OptionValue;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($item:ty);)*) => {
        /// The type of a value of an option.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum OptionKind {
            $($(#[$doc])* $kind,)*
        }

        /// A value of an option, or an item of it.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum OptionValue {
            $($(#[$doc])* $kind($item),)*
        }

        $(impl Field for $item {
            type Item = $item;

            fn put(&mut self, item: $item) {
                *self = item;
            }

            fn items(&self) -> Vec<OptionValue> {
                vec![self.clone().into_value()]
            }
        }

        impl Item for $item {
            const KIND: OptionKind = OptionKind::$kind;

            fn of(value: OptionValue) -> Option<$item> {
                match value {
                    OptionValue::$kind(item) => Some(item),
                    _ => None,
                }
            }

            fn into_value(self) -> OptionValue {
                OptionValue::$kind(self)
            }
        })*
    };
}

kinds! {
    /// Whether the option is set.
    Flag(bool);
    /// A name.
    Name(String);
    /// The path of a file or folder.
    Path(PathBuf);
    /// The date of a release of ncnn.
    Release(u32);
    /// A number of bytes.
    Bytes(u64);
    /// A number.
    Number(f64);
    /// A storage of weights.
    Weights(Weights);
    /// The name of an input and its shape; the empty name means the only input.
    Shape((String, Vec<Dim>));
    /// The name of an input and its elements.
    Array((String, Array));
    /// The name of a value and the new name of its blob.
    Pair((String, String));
    /// An operator that a layer of the user computes.
    Layer(CustomLayer);
}

macro_rules! define {
    ($($(#[$doc:meta])* $method:ident $name:ident: $type:ty = $info:expr;)*) => {
        /// The options of a conversion, as the methods of [`Converter`](crate::Converter) set them.
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct Options {
            $($(#[$doc])* pub $name: $type,)*
        }

        static OPTIONS: &[OptionInfo] = &[$(OptionInfo {
            name: stringify!($name),
            kind: <<$type as Field>::Item as Item>::KIND,
            is_list: <$type as Field>::IS_LIST,
            ..$info
        }),*];

        impl Options {
            /// Sets an option by its name, or adds an item to it.
            pub(crate) fn put(&mut self, name: &str, value: OptionValue) -> Result<()> {
                let done = match name {
                    $(stringify!($name) => Item::of(value).map(|item| Field::put(&mut self.$name, item)),)*
                    _ => None,
                };
                done.ok_or_else(|| Error::usage(format!("unknown option \"{name}\", or a value of another type")))
            }

            /// Returns each option with its items, those of the default among them.
            fn items(&self) -> impl Iterator<Item = (&'static OptionInfo, Vec<OptionValue>)> {
                OPTIONS.iter().zip([$(Field::items(&self.$name)),*])
            }

            /// Returns the further files to write.
            pub fn files(&self) -> impl Iterator<Item = (&'static OptionInfo, FileInfo, &Path)> {
                let fields: [&dyn Any; OPTIONS.len()] = [$(&self.$name),*];
                let fields = OPTIONS.iter().zip(fields);
                fields.filter_map(|(info, field)| {
                    let path: &Option<PathBuf> = field.downcast_ref()?;
                    Some((info, info.file?, path.as_deref()?))
                })
            }
        }
    };
}

for_each_option!(define);

impl Options {
    /// Returns the options for reading a model.
    pub(crate) fn read(&self) -> ReadOptions {
        ReadOptions {
            max_size: self.max_size.unwrap_or(limits::MODEL_BYTES),
            data_dir: self.data_dir.clone(),
            layers: CustomLayers::of(&self.custom_layers),
        }
    }

    /// Returns whether pictures are passed as the model reads them.
    pub fn has_plain_pixels(&self) -> bool {
        self.pixels().are_plain()
    }

    /// Returns the sizes of first axes that the options name: those of no batch.
    pub(crate) fn named_first_sizes(&self, graph: &Graph) -> Result<BTreeSet<Dim>> {
        let stated = stated_shapes(graph, &self.inputs)?;
        let shapes = self.input_shapes.iter().map(|(_, shape)| shape).chain(&stated);
        Ok(shapes.filter_map(|shape| shape.first()).cloned().collect())
    }

    /// Returns the treatment of quantized networks.
    pub(crate) fn quantization(&self) -> Quantization {
        match (self.int8, self.dequantize) {
            (true, _) => Quantization::Int8,
            (_, true) => Quantization::Float,
            _ => Quantization::Exact,
        }
    }

    /// Returns how pixels become the elements of pictures.
    pub(crate) fn pixels(&self) -> Pixels {
        let [scale, mean, norm] = [&self.scale, &self.mean, &self.norm].map(Clone::clone);
        Pixels { scale, mean, norm, is_bgr: self.bgr, are_planes: self.chw }
    }

    /// Returns the further forms of the net to write.
    pub(crate) fn embedding(&self) -> Embedding {
        Embedding {
            param_bin: self.param_bin.clone(),
            id_header: self.id_header.clone(),
            mem_header: self.mem_header.clone(),
        }
    }
}
