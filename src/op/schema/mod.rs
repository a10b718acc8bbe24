//! What the specification declares of an operator: its versions, the numbers of its inputs and outputs, its
//! attributes with their defaults, and the types of its inputs.

mod table;

use crate::graph::Attribute;

pub(crate) use table::SCHEMAS;

/// Facts, each with the version that introduces it, in the order of the versions.
type History<T> = &'static [(i64, T)];

/// The declaration of an operator.
pub(crate) struct Schema {
    /// The domain; empty for the domain of ONNX.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The versions that change the operator, all of which are handled.
    pub since: &'static [i64],
    /// The least and the largest number of inputs.
    inputs: History<(usize, usize)>,
    /// The least and the largest number of outputs.
    outputs: History<(usize, usize)>,
    /// The attributes by name.
    attributes: &'static [(&'static str, History<Kind>)],
    /// For each input, the first one of the same type parameter, and the kinds of types that any version
    /// allows. The last entry is for all inputs of a list; [`MANY`] if they may have different types.
    types: &'static [(usize, u8)],
}

/// Kinds of types, as bits of a set.
pub(crate) mod kinds {
    use crate::tensor::DType;

    pub const B: u8 = 1;
    pub const C: u8 = 2;
    pub const F: u8 = 4;
    pub const I: u8 = 8;
    pub const S: u8 = 16;
    /// Floats of fewer than 16 bits.
    pub const E: u8 = 32;
    /// Integers of fewer than 8 bits.
    pub const N: u8 = 64;
    pub const ANY: u8 = u8::MAX;

    /// Returns the kind of a type.
    pub fn of(dtype: DType) -> u8 {
        match dtype {
            DType::Bool => B,
            DType::C64 | DType::C128 => C,
            DType::String => S,
            _ if dtype.is_float() => {
                if dtype.bits() < 16 {
                    E
                } else {
                    F
                }
            }
            _ => {
                if dtype.bits() < 8 {
                    N
                } else {
                    I
                }
            }
        }
    }

    /// Returns the names of the kinds of a set.
    pub fn names(set: u8) -> String {
        let names = [
            (B, "bool"),
            (C, "complex"),
            (F, "float"),
            (E, "float of fewer than 16 bits"),
            (I, "integer"),
            (N, "integer of fewer than 8 bits"),
            (S, "string"),
        ];
        let names: Vec<&str> =
            names.iter().filter(|(kind, _)| set & kind != 0).map(|(_, name)| *name).collect();
        names.join(", ")
    }
}

/// The type of an attribute, with its default, if it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Float(Option<f32>),
    Floats(Option<&'static [f32]>),
    Graph,
    Int(Option<i64>),
    Ints(Option<&'static [i64]>),
    SparseTensor,
    String(Option<&'static str>),
    Strings(Option<&'static [&'static str]>),
    Tensor,
    TypeProto,
    /// The version has no such attribute.
    Gone,
}

impl Kind {
    /// Returns the name of the type in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Float(_) => "FLOAT",
            Kind::Floats(_) => "FLOATS",
            Kind::Graph => "GRAPH",
            Kind::Int(_) => "INT",
            Kind::Ints(_) => "INTS",
            Kind::String(_) => "STRING",
            Kind::Strings(_) => "STRINGS",
            // Sparse tensors are read as tensors.
            Kind::SparseTensor | Kind::Tensor => "TENSOR",
            Kind::TypeProto => "TYPE_PROTO",
            Kind::Gone => "UNDEFINED",
        }
    }

    /// Returns whether an attribute is the default, where that is a number or a word.
    pub fn is_default(self, attribute: &Attribute) -> bool {
        match (self, attribute) {
            (Kind::Float(Some(default)), Attribute::Float(value)) => default == *value,
            (Kind::Int(Some(default)), Attribute::Int(value)) => default == *value,
            (Kind::String(Some(default)), Attribute::String(value)) => default.as_bytes() == &value[..],
            _ => false,
        }
    }
}

/// See [`Kind::Gone`].
const GONE: Kind = Kind::Gone;

/// The largest number of inputs or outputs of an operator that takes any number of them.
pub(crate) const MANY: usize = usize::MAX;

/// A line of the table.
const fn schema(
    domain: &'static str,
    name: &'static str,
    since: &'static [i64],
    inputs: History<(usize, usize)>,
    outputs: History<(usize, usize)>,
    attributes: &'static [(&'static str, History<Kind>)],
    types: &'static [(usize, u8)],
) -> Schema {
    Schema { domain, name, since, inputs, outputs, attributes, types }
}

impl Schema {
    /// Returns the declaration of an operator. Rows are constants, so one without a declaration does not
    /// compile.
    pub const fn of(domain: &str, name: &str) -> &'static Schema {
        let mut rest = SCHEMAS;
        loop {
            assert!(!rest.is_empty(), "src/op/schema/make.py has to write the schema of this operator");
            if let [schema, others @ ..] = rest {
                if is_equal(schema.domain, domain) && is_equal(schema.name, name) {
                    return schema;
                }
                rest = others;
            }
        }
    }

    /// Returns the since-version that a node of version `opset` of the operator set follows.
    pub fn since_version(&self, opset: i64) -> Option<i64> {
        self.since.iter().copied().filter(|since| *since <= opset).max()
    }

    /// Returns the largest number of inputs in version `opset` of the operator set.
    pub fn most_inputs(&self, opset: i64) -> usize {
        at(self.inputs, opset).map_or(MANY, |(_, most)| most)
    }

    /// Returns the largest number of outputs in version `opset` of the operator set.
    pub fn most_outputs(&self, opset: i64) -> usize {
        at(self.outputs, opset).map_or(MANY, |(_, most)| most)
    }

    /// Returns the number of the first outputs that a node must name, even if nothing reads them: all outputs
    /// of a list.
    pub fn required_outputs(&self, opset: i64) -> usize {
        at(self.outputs, opset).map_or(MANY, |(least, most)| if most == MANY { MANY } else { least })
    }

    /// Returns the type and default of an attribute in version `opset` of the operator set; `Gone` or `None`
    /// if the version has no such attribute.
    pub fn declared(&self, name: &str, opset: i64) -> Option<Kind> {
        at(self.history(name)?, opset)
    }

    /// Returns the type and default of an attribute. A version without it takes them from the nearest version
    /// with it: later versions introduce attributes with defaults that change nothing.
    pub fn attribute(&self, name: &str, opset: i64) -> Option<Kind> {
        let history = self.history(name)?;
        let mut declared = history.iter().filter(|(_, kind)| *kind != Kind::Gone);
        let before = declared.clone().rev().find(|(since, _)| *since <= opset);
        before.or(declared.next()).map(|(_, kind)| *kind)
    }

    /// Returns the first input of the type parameter of input `index`, and the kinds of types that it allows;
    /// `None` if any type is allowed.
    pub fn type_of_input(&self, index: usize) -> Option<(usize, u8)> {
        self.types.get(index).or(self.types.last()).copied().filter(|(_, allowed)| *allowed != kinds::ANY)
    }

    /// Returns the attributes of all versions.
    #[cfg(test)]
    pub fn attribute_names(&self) -> impl Iterator<Item = &'static str> {
        self.attributes.iter().map(|(name, _)| *name)
    }

    fn history(&self, name: &str) -> Option<History<Kind>> {
        self.attributes.iter().find(|(declared, _)| *declared == name).map(|(_, history)| *history)
    }
}

/// Returns the fact of version `opset`.
fn at<T: Copy>(history: History<T>, opset: i64) -> Option<T> {
    history.iter().rev().find(|(since, _)| *since <= opset).map(|(_, fact)| *fact)
}

const fn is_equal(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
        if *first != *other {
            return false;
        }
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}
