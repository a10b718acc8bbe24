//! Access to the attributes of a node.

use super::schema::kinds;
use super::{Call, Kind};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph};
use crate::tensor::{DType, Tensor};

/// Integer attributes that are flags, in the order of their names.
pub(crate) const FLAGS: &[&str] = &[
    "align_corners",
    "allowzero",
    "antialias",
    "broadcast",
    "causal",
    "ceil_mode",
    "channels_last",
    "count_include_pad",
    "detect_negative",
    "detect_positive",
    "do_rotary",
    "elements_first",
    "exclude_outside",
    "exclusive",
    "fmod",
    "hides_all",
    "input_forget",
    "interleaved",
    "inverse",
    "is_causal",
    "is_inner_broadcast",
    "is_packed_batching",
    "is_test",
    "keepdims",
    "largest",
    "layout",
    "linear_before_reset",
    "new_axis",
    "noop_with_empty_axes",
    "normalize_routing_weights",
    "normalized",
    "one_class",
    "onesided",
    "past_present_share_buffer",
    "periodic",
    "qk_l2_norm",
    "reverse",
    "rotary_interleaved",
    "saturate",
    "select_last_index",
    "sliding_window_cache",
    "sorted",
    "spatial",
    "storage_order",
    "training_mode",
    "transA",
    "transB",
    "transBatchA",
    "transBatchB",
    "unidirectional",
    "upper",
    "use_sparse_mixer",
    "zeroes_nan",
    "zeros",
];

/// Returns the value of a flag. A kernel of onnxruntime takes another number than 0 and 1 for one of them,
/// and kernels differ: 2 is no `keepdims`, but `transA`.
fn truth(name: &str, flag: i64) -> Result<bool> {
    match flag {
        0 => Ok(false),
        1 => Ok(true),
        other => {
            let message =
                format!("found {other}, expected 0 or 1: onnxruntime takes other numbers for either");
            Err(Error::unsupported(message).at_part(format!("attribute {name}")))
        }
    }
}

impl Call<'_> {
    /// Returns the largest number of inputs that the operator takes.
    pub fn most_inputs(&self) -> usize {
        self.op().schema.most_inputs(self.node().version)
    }

    /// Returns the operator.
    pub fn op_type(&self) -> &'static str {
        self.op().schema.name
    }

    /// Returns the since-version that the node follows.
    pub fn since(&self) -> i64 {
        self.op().since_version(self.node().version).unwrap_or(self.node().version)
    }

    /// Returns the number of outputs, including omitted ones.
    pub fn output_count(&self) -> usize {
        self.node().outputs.len()
    }

    /// Returns whether output `index` is present and named.
    pub fn has_output(&self, index: usize) -> bool {
        self.node().outputs.get(index).is_some_and(Option::is_some)
    }

    /// Returns one of [`FLAGS`], or the default of the schema.
    pub fn flag(&self, name: &str) -> Result<bool> {
        truth(name, self.int(name)?)
    }

    /// Returns one of [`FLAGS`], false if the node does not have it.
    pub fn flag_or_false(&self, name: &str) -> Result<bool> {
        truth(name, self.optional_int(name)?.unwrap_or(0))
    }

    /// Refuses attributes that the version of the operator does not declare, attributes of another type, and
    /// flags other than 0 and 1.
    pub fn check_attributes(&self) -> Result<()> {
        if self.node().custom.is_some() {
            return Ok(());
        }
        for (name, attribute) in &self.node().attributes {
            let at = |error: Error| error.at_part(format!("attribute {name}"));
            match self.op().schema.declared(name, self.node().version) {
                None | Some(Kind::Gone) => {
                    let message = format!("{}-{} has no such attribute", self.node().op_type, self.since());
                    return Err(at(Error::unsupported(message)));
                }
                Some(kind) if kind.name() != attribute.kind() => {
                    return Err(at(misfit(attribute, kind.name())));
                }
                Some(_) => {}
            }
            if let Attribute::Int(flag) = attribute
                && FLAGS.binary_search(&&**name).is_ok()
            {
                truth(name, *flag)?;
            }
        }
        Ok(())
    }

    /// Refuses inputs of types that the operator does not take, and inputs of one type parameter whose types
    /// are of different kinds, as a float and an integer: no runtime loads such a node, and its meaning is
    /// open. Types of one kind, as floats of 16 and 32 bits, have one meaning.
    pub fn check_types(&self) -> Result<()> {
        let dtype_of = |index: usize| self.value(index)?.dtype;
        for index in 0..self.input_count() {
            let Some((first, allowed)) = self.op().schema.type_of_input(index) else { continue };
            let Some(dtype) = dtype_of(index) else { continue };
            let kind = kinds::of(dtype);
            if kind & allowed == 0 {
                let (label, expected) = (self.label(index), kinds::names(allowed));
                return Err(mistyped(format!("{label} is {dtype}, expected {expected}")));
            }
            if first != index
                && let Some(other) = dtype_of(first).filter(|other| kinds::of(*other) != kind)
            {
                let (first, second) = (self.label(first), self.label(index));
                let message = format!("{first} is {other}, and {second} is {dtype}: one type is expected");
                return Err(mistyped(message));
            }
        }
        Ok(())
    }
}

/// The error of a node whose inputs have other types than the operator takes.
fn mistyped(message: String) -> Error {
    Error::invalid(message).help(
        "no runtime loads the model: insert a Cast, or give the source of the value a type (in PyTorch, \
        torch.arange(.., dtype=torch.float32))",
    )
}

/// The error of an attribute of another type.
fn misfit(attribute: &Attribute, expected: &str) -> Error {
    Error::invalid(format!("found {}, expected {expected}", attribute.kind()))
}

/// Readers of the attributes of a type: of one that the node may have; of one that it must have, unless the
/// schema has a default; and of one with a default that the schema does not know.
macro_rules! readers {
    ($(
        $kind:literal $type:ty, $optional:ident: $attribute:pat => $value:expr
        $(, [$read:ident: $declared:pat => $default:expr])?
        $(, ($or:ident))?;
    )*) => {
        impl<'a> Call<'a> {
            $(
                #[doc = concat!("Returns an attribute of type ", $kind, ", if the node has it.")]
                pub fn $optional(&self, name: &str) -> Result<Option<$type>> {
                    let Some(attribute) = self.node().attributes.get(name) else { return Ok(None) };
                    let value = match attribute {
                        $attribute => $value,
                        _ => None,
                    };
                    let misfit = || misfit(attribute, $kind).at_part(format!("attribute {name}"));
                    value.map(Some).ok_or_else(misfit)
                }

                $(
                    #[doc = concat!("Returns an attribute of type ", $kind, ", or the default of the schema.")]
                    pub fn $read(&self, name: &str) -> Result<$type> {
                        let default = || match self.op().schema.attribute(name, self.node().version)? {
                            $declared => $default,
                            _ => None,
                        };
                        required(self.$optional(name)?.or_else(default), name)
                    }
                )?

                $(
                    #[doc = concat!("Returns an attribute of type ", $kind, ", or a default.")]
                    pub fn $or(&self, name: &str, default: $type) -> Result<$type> {
                        Ok(self.$optional(name)?.unwrap_or(default))
                    }
                )?
            )*
        }
    };
}

readers! {
    "INT" i64, optional_int: Attribute::Int(i) => Some(*i), [int: Kind::Int(i) => i], (int_or);
    "FLOAT" f32, optional_float: Attribute::Float(f) => Some(*f), [float: Kind::Float(f) => f], (float_or);
    "STRING" &'a str, optional_string: Attribute::String(s) => std::str::from_utf8(s).ok(),
        [string: Kind::String(s) => s], (string_or);
    "INTS" Vec<i64>, optional_ints: Attribute::Ints(i) => Some(i.clone()),
        [ints: Kind::Ints(i) => i.map(<[i64]>::to_vec)];
    "FLOATS" Vec<f32>, optional_floats: Attribute::Floats(f) => Some(f.clone()),
        [floats: Kind::Floats(f) => f.map(<[f32]>::to_vec)];
    "STRINGS" Vec<&'a str>, optional_strings:
        Attribute::Strings(list) => list.iter().map(|s| std::str::from_utf8(s).ok()).collect();
    "TENSOR" &'a Tensor, optional_tensor: Attribute::Tensor(t) => Some(t), [tensor: Kind::Gone => None];
    "GRAPH" &'a Graph, optional_body: Attribute::Graph(g) => Some(g.as_ref()), [body: Kind::Gone => None];
}

impl Call<'_> {
    /// Returns the element type of which an attribute is the number, if the node has it.
    pub fn optional_element_type(&self, name: &str) -> Result<Option<DType>> {
        self.optional_int(name)?.map(|number| element_type(name, number)).transpose()
    }

    /// Returns the element type of which an attribute is the number.
    pub fn element_type(&self, name: &str) -> Result<DType> {
        element_type(name, self.int(name)?)
    }

    /// Returns the meaning of an attribute that is one of these words.
    pub fn word<T: Clone>(&self, name: &str, words: &[(&str, T)]) -> Result<T> {
        meaning(name, self.string(name)?, words)
    }

    /// Returns the meaning of an attribute that is one of these words, or of a default.
    pub fn word_or<T: Clone>(&self, name: &str, default: &'static str, words: &[(&str, T)]) -> Result<T> {
        meaning(name, self.optional_string(name)?.unwrap_or(default), words)
    }
}

fn element_type(name: &str, number: i64) -> Result<DType> {
    let unknown = || Error::invalid(format!("unknown element type {number}"));
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    dtype.ok_or_else(|| unknown().at_part(format!("attribute {name}")))
}

/// Returns the meaning of a word, the value of an attribute.
pub(crate) fn meaning<T: Clone>(name: &str, word: &str, words: &[(&str, T)]) -> Result<T> {
    let found = words.iter().find(|(known, _)| *known == word).map(|(_, meaning)| meaning.clone());
    found.ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(known, _)| format!("\"{known}\"")).collect();
        let message = format!("found \"{word}\", expected {}", known.join(" or "));
        Error::invalid(message).at_part(format!("attribute {name}"))
    })
}

/// Returns an attribute that must be present.
pub(crate) fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value
        .ok_or_else(|| Error::invalid("a required attribute is missing").at_part(format!("attribute {name}")))
}
