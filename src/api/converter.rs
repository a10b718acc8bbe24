//! The options of a conversion, and the conversion.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Conversion, Refusal, Simplified};
use crate::error::{Error, Errors};
use crate::graph::CustomLayer;
use crate::onnx::{Input, Sources};
use crate::pass::blocks::Weights;
use crate::pass::quantized::Quantization;
use crate::pipeline::{self, Inspection, Link, OptionValue, Options, SimplifiedModel, for_each_option};
use crate::tensor::{Array, Dim};

/// How models are converted: nothing is set at first, and each method sets one thing.
///
/// ```no_run
/// use onnx2ncnn::{Converter, Dim, Input};
///
/// let converter = Converter::new()
///     .input_shape("images", [Dim::from(1), Dim::from(3), Dim::symbol("H"), Dim::symbol("W")])
///     .outputs(["boxes", "scores"])
///     .fp16(true);
/// for model in ["one.onnx", "two.onnx"] {
///     let conversion = converter.convert(&Input::from(model))?;
///     conversion.write(&format!("{model}.param"), &format!("{model}.bin"))?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Options that do not fit a model, such as the shape of an unknown input, are an error of the kind
/// [`Usage`](crate::error::ErrorKind::Usage) when that model is converted.
#[derive(Clone, Debug, Default)]
pub struct Converter {
    options: Options,
}

/// Makes the methods of options.
macro_rules! setters {
    ($($(#[$doc:meta])* $method:ident $name:ident: $type:ty = $info:expr;)*) => {
        /// Options.
        impl Converter {
            $(setter! { $method $name: $type, $(#[$doc])* })*
        }
    };
}

/// Makes the method of an option: its generics, its argument, and what becomes of the field.
macro_rules! setter {
    (custom $name:ident: $type:ty, $($doc:tt)*) => {};
    (names $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [S: Into<String>] (names: impl IntoIterator<Item = S>)
            |field| field.extend(names.into_iter().map(Into::into)), $($doc)* }
    };
    (numbers $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] (numbers: impl IntoIterator<Item = f64>) |field| field.extend(numbers), $($doc)* }
    };
    (layers $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] (layers: impl IntoIterator<Item = CustomLayer>) |field| field.extend(layers), $($doc)* }
    };
    (name $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] (name: impl Into<String>) |field| field.extend([name.into()]), $($doc)* }
    };
    (path $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] (path: impl Into<PathBuf>) |field| *field = Some(path.into()), $($doc)* }
    };
    (bytes $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] (bytes: u64) |field| *field = Some(bytes), $($doc)* }
    };
    (release $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] (release: u32) |field| *field = Some(release), $($doc)* }
    };
    ($plain:ident $name:ident: $type:ty, $($doc:tt)*) => {
        setter! { $name [] ($name: $type) |field| *field = $name, $($doc)* }
    };
    ($name:ident [$($generic:tt)*] ($arg:ident: $type:ty) |$field:ident| $set:expr, $($doc:tt)*) => {
        $($doc)*
        #[must_use]
        pub fn $name<$($generic)*>(mut self, $arg: $type) -> Converter {
            let $field = &mut self.options.$name;
            $set;
            self
        }
    };
}

for_each_option!(setters);

/// Options with methods of another form.
impl Converter {
    /// Creates a converter without options. The written files load in every release of ncnn from 20240410 on;
    /// free sizes may require 20260113.
    pub fn new() -> Converter {
        Converter::default()
    }

    /// Sets the shape of an input, instead of the declared one. The empty name means the only input.
    #[must_use]
    pub fn input_shape(mut self, name: impl Into<String>, shape: impl IntoIterator<Item = Dim>) -> Converter {
        self.options.input_shapes.push((name.into(), shape.into_iter().collect()));
        self
    }

    /// Makes an input a constant. The empty name means the only input. The elements are converted to the type
    /// of the input, which must represent integers and booleans exactly. The array has the shape of the
    /// input, or as many elements, or one, which is repeated.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: Array) -> Converter {
        self.options.set.push((name.into(), value));
        self
    }

    /// Renames the blob of a value: of an input, of an output, or of an intermediate value that is a blob of
    /// the net. The new name has no white space, at most 255 bytes, and differs from those of other inputs
    /// and outputs.
    #[must_use]
    pub fn rename(mut self, value: impl Into<String>, blob: impl Into<String>) -> Converter {
        self.options.rename.push((value.into(), blob.into()));
        self
    }

    /// Sets the treatment of quantized networks.
    #[must_use]
    pub fn quantization(mut self, quantization: Quantization) -> Converter {
        self.options.int8 = quantization == Quantization::Int8;
        self.options.dequantize = quantization == Quantization::Float;
        self
    }

    /// Sets an option by its name, one of those that [`options`](crate::options) lists, or adds an item to
    /// it.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the values of the option have another type.
    pub fn with(mut self, name: &str, value: OptionValue) -> Result<Converter, Error> {
        self.options.put(name, value)?;
        Ok(self)
    }

    /// Sets the options of a JSON object, or adds items to them: `{"fp16": true, "input_shapes": {"x": [1, 3,
    /// "H", "W"]}}`.
    ///
    /// The names are those that [`options`](crate::options) lists. Lists of names are arrays of strings;
    /// shapes and arrays are objects by the names of inputs.
    ///
    /// # Errors
    ///
    /// The text is not a JSON object, a name is unknown, a value has another type, or two options exclude
    /// each other.
    pub fn with_json(mut self, options: &str) -> Result<Converter, Error> {
        self.options.put_json(options)?;
        Ok(self)
    }

    /// Returns the options.
    pub fn options(&self) -> &Options {
        &self.options
    }
}

/// Operations on a model.
impl Converter {
    /// Converts a model: reads, cuts, infers, folds, simplifies, expands, lowers, optimizes and checks it.
    /// Nothing is written yet.
    ///
    /// # Errors
    ///
    /// Every node that cannot be converted, and options with which the model, or a part of it, can be.
    pub fn convert(&self, input: &Input) -> Result<Conversion, Refusal> {
        let sources = Sources::open(input, &self.options.read())?;
        let errors = match pipeline::convert(&sources, &self.options) {
            Ok(conversion) => return Ok(conversion),
            Err(errors) => errors,
        };
        let part = self.options.auto_cut.then(|| pipeline::largest_part(&sources, &self.options, &errors));
        match part.flatten() {
            Some(part) => {
                let options = part.apply(&self.options);
                let mut conversion = pipeline::convert(&sources, &options)?;
                conversion.warnings.insert(0, part.describe_cut());
                Ok(conversion)
            }
            None => Err(Refusal::new(errors, &sources, &self.options)),
        }
    }

    pub(crate) fn from_options(options: Options) -> Converter {
        Converter { options }
    }

    /// Returns a converter of a part of a model, with the options of this one that concern its inputs.
    pub(super) fn part(&self, link: &Link) -> Converter {
        let mut options = self.options.clone();
        options.input_shapes.retain(|(name, _)| link.inputs.contains(name));
        options.set.retain(|(name, _)| link.inputs.contains(name));
        options.inputs.clone_from(&link.inputs);
        options.outputs.clone_from(&link.outputs);
        Converter { options }
    }

    /// Simplifies a model: read, cut, infer, fold, rewrite. Options of the net and further files have no
    /// effect.
    ///
    /// The result is an ONNX model that computes the same, with the same inputs and outputs. Unknown
    /// operators, and all that depends on them, stay as they are; so do free sizes, and nodes that make large
    /// constants of small ones.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn simplify(&self, input: &Input) -> Result<Simplified, Errors> {
        let sources = Sources::open(input, &self.options.read())?;
        Ok(Simplified::new(pipeline::simplify(&sources, &self.options)?))
    }

    /// Returns a part of a model with further values as outputs, for comparison with a simplified model or a
    /// net. Names of values that the model does not compute are ignored. No node permits onnxruntime to round
    /// its inputs.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn expose(&self, input: &Input, values: &BTreeSet<String>) -> Result<Simplified, Errors> {
        Ok(Simplified::new(self.exposed(input, values)?))
    }

    /// Returns the requested part of a model as it was read, with the values that are set, and with further
    /// values as outputs.
    pub(super) fn exposed(&self, input: &Input, values: &BTreeSet<String>) -> Result<SimplifiedModel, Error> {
        let sources = Sources::open(input, &self.options.read())?;
        pipeline::expose(&sources, &self.options, values)
    }

    /// Reads a model and counts its operators, parameters and multiply-adds.
    ///
    /// # Errors
    ///
    /// The model cannot be read or breaks the specification.
    pub fn inspect(&self, input: &Input) -> Result<Inspection, Errors> {
        let sources = Sources::open(input, &self.options.read())?;
        Ok(pipeline::inspect(&sources, &self.options)?)
    }
}
