//! Operators that layers of the user compute: how their nodes become layers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Attribute, Graph, Node};
use crate::tensor::{DType, Dim};

/// The domain and the operator of nodes that layers of the user compute.
pub(crate) const CUSTOM_DOMAIN: &str = "ncnn";
pub(crate) const CUSTOM_OPERATOR: &str = "CustomLayer";

/// The pattern of an input of any shape.
pub(crate) const ANY_SHAPE: &str = "*";

/// The ids of params that every layer may have begin here.
const FIRST_COMMON_PARAM: u8 = 30;
/// The maximum number of weights of a layer.
const MAX_WEIGHTS: usize = 16;

/// An operator, or a function of the model, that a layer of the user computes. The converter writes the layer
/// as declared, and checks nothing that it computes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CustomLayer {
    /// The operator as messages name it: `domain.Name`, or `Name` in the domain of ONNX.
    pub operator: String,
    /// The type of the layer, under which a program registers it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The params by their ids, from 0 to 29.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, CustomParam>,
    /// The constant inputs that the layer reads from the `.bin` file, in the order of its `load_model`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<CustomWeight>,
    /// The shapes of the first inputs, such as `"N, C, H, W"`, where each name is a size; `"*"` is any shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The shapes of the outputs, such as `"N, C, 2*H, 2*W"`, of sizes of inputs and of attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Whether the only output has the shape of the first input, and the layer accepts any shape.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elementwise: bool,
    /// The oldest release of ncnn in which the layer works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u32>,
}

/// The value of a param.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum CustomParam {
    /// An integer.
    Int(i32),
    /// A float.
    Float(f32),
    /// The attribute of this name; the param is left out of a layer whose node lacks it.
    Attribute(String),
    /// A list of integers.
    Ints(Vec<i32>),
    /// A list of floats.
    Floats(Vec<f32>),
    /// The elements of a constant input.
    Input {
        /// The index of the input.
        input: usize,
    },
}

/// A weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum CustomWeight {
    /// The index of an input whose elements have a tag before them: `mb.load(n, 0)`.
    Tagged(usize),
    /// An input whose elements are written as float32: `mb.load(n, 1)`.
    Raw {
        /// The index of the input.
        raw: usize,
    },
}

impl CustomWeight {
    /// Returns the index of the input.
    pub fn input(self) -> usize {
        let (CustomWeight::Tagged(input) | CustomWeight::Raw { raw: input }) = self;
        input
    }
}

impl CustomLayer {
    /// Reads a declaration in JSON, and checks it.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is expected.
    pub fn from_json(text: &str) -> std::result::Result<CustomLayer, String> {
        let layer: CustomLayer = serde_json::from_str(text).map_err(|error| error.to_string())?;
        layer.check().map(|()| layer)
    }

    /// Returns the domain and the name of the operator.
    pub fn domain_and_name(&self) -> (&str, &str) {
        match self.operator.rsplit_once('.') {
            Some(("ai.onnx", name)) => ("", name),
            Some(parts) => parts,
            None => ("", &self.operator),
        }
    }

    /// Returns the param ids with their values.
    pub(crate) fn numbered_params(&self) -> impl Iterator<Item = (i32, &CustomParam)> {
        self.params.iter().filter_map(|(id, param)| Some((id.parse().ok()?, param)))
    }

    /// Returns the inputs that are params or weights, not bottoms.
    pub(crate) fn constant_inputs(&self) -> BTreeSet<usize> {
        let params = self.params.values().filter_map(|param| match param {
            CustomParam::Input { input } => Some(*input),
            _ => None,
        });
        params.chain(self.weights.iter().map(|weight| weight.input())).collect()
    }

    /// Checks all that does not depend on a model.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is expected.
    pub fn check(&self) -> std::result::Result<(), String> {
        let in_layer = |reason: String| Err(format!("layer of {}: {reason}", self.operator));
        if self.domain_and_name().1.is_empty() {
            return Err("operator: expected the name of an operator, such as my.domain.Name".to_owned());
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !self.type_name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !self.type_name.chars().all(is_word)
        {
            return in_layer(format!(
                "type: expected letters, digits and _, as in the name of a class, not \"{}\"",
                self.type_name
            ));
        }
        for id in self.params.keys() {
            let is_id = id.parse::<u8>().is_ok_and(|n| n < FIRST_COMMON_PARAM && n.to_string() == *id);
            if !is_id {
                let last = FIRST_COMMON_PARAM - 1;
                return in_layer(format!("params: expected ids from 0 to {last}, not \"{id}\""));
            }
        }
        if self.weights.len() > MAX_WEIGHTS {
            return in_layer(format!("weights: at most {MAX_WEIGHTS} are possible"));
        }
        match (self.elementwise, self.outputs.is_empty()) {
            (true, false) => return in_layer("outputs: an elementwise layer has none".to_owned()),
            (false, true) => {
                return in_layer(
                    "outputs: expected a shape for each output, such as \"N, C, H, W\"".to_owned(),
                );
            }
            _ => {}
        }
        let inputs = self.inputs.iter().filter(|text| text.trim() != ANY_SHAPE);
        for text in inputs.chain(&self.outputs) {
            if let Err(reason) = sizes(text, |name| Some(Dim::symbol(name))) {
                return in_layer(format!("\"{text}\": {reason}"));
            }
        }
        Ok(())
    }
}

/// The names of the sizes of a shape, by the number of its axes.
const SIZE_NAMES: [&[&str]; 6] =
    [&[], &["N"], &["N", "C"], &["N", "L", "C"], &["N", "C", "H", "W"], &["N", "C", "D", "H", "W"]];

impl CustomLayer {
    /// Returns a declaration of the operator of a node to start from: each attribute is a param, and each
    /// constant of floats a weight. Outputs of unknown shapes have the shape of the first input.
    pub(crate) fn of_node(graph: &Graph, node: &Node) -> CustomLayer {
        let is_param = |attribute: &Attribute| {
            matches!(
                attribute,
                Attribute::Int(_) | Attribute::Float(_) | Attribute::Ints(_) | Attribute::Floats(_)
            )
        };
        let attributes = node.attributes.iter().filter(|(_, attribute)| is_param(attribute));
        let mut params: Vec<CustomParam> =
            attributes.map(|(name, _)| CustomParam::Attribute(name.to_string())).collect();
        let mut layer = CustomLayer { operator: node.qualified_op_type(), ..CustomLayer::default() };
        let letters = node.op_type.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_');
        layer.type_name = letters.skip_while(|c| !c.is_ascii_alphabetic()).collect();
        let names = |rank: usize| SIZE_NAMES.get(rank).copied();
        let mut first: Option<&[Dim]> = None;
        for (index, id) in node.inputs.iter().enumerate() {
            let Some(value) = id.map(|id| graph.value(id)) else {
                layer.inputs.push(ANY_SHAPE.to_owned());
                continue;
            };
            let is_float = value.dtype.is_some_and(DType::is_float);
            match value.constant {
                Some(_) if is_float => layer.weights.push(CustomWeight::Tagged(index)),
                Some(_) => params.push(CustomParam::Input { input: index }),
                None => {}
            }
            let shape = value.shape.as_deref().filter(|_| value.constant.is_none() && first.is_none());
            first = first.or(shape);
            let pattern = shape.and_then(|shape| Some(names(shape.len())?.join(", ")));
            layer.inputs.push(pattern.unwrap_or_else(|| ANY_SHAPE.to_owned()));
        }
        let of_first = first.and_then(|shape| names(shape.len())).unwrap_or(&["N", "C", "H", "W"]);
        for output in &node.outputs {
            let shape = output.and_then(|id| graph.value(id).shape.as_deref());
            let size = |(axis, size): (usize, &Dim)| {
                let same = first.and_then(|shape| shape.get(axis)).is_some_and(|other| other == size);
                match (of_first.get(axis).filter(|_| same), size.known()) {
                    (Some(name), _) => (*name).to_owned(),
                    (None, Some(number)) => number.to_string(),
                    (None, None) => of_first.get(axis).map_or("1", |name| *name).to_owned(),
                }
            };
            let sizes: Vec<String> = match shape {
                Some(shape) => shape.iter().enumerate().map(size).collect(),
                None => of_first.iter().map(|name| (*name).to_owned()).collect(),
            };
            layer.outputs.push(sizes.join(", "));
        }
        layer.params = params.into_iter().enumerate().map(|(id, param)| (id.to_string(), param)).collect();
        layer
    }

    /// Returns the declaration as a line of a file for `--custom-layers`.
    pub(crate) fn to_line(&self) -> String {
        let text = |text: &str| format!("\"{text}\"");
        let list = |texts: &[String]| texts.iter().map(|one| text(one)).collect::<Vec<_>>().join(", ");
        let param = |(id, param): (&String, &CustomParam)| match param {
            CustomParam::Attribute(name) => format!("{id} = {}", text(name)),
            CustomParam::Input { input } => format!("{id} = {{ input = {input} }}"),
            other => format!("{id} = {other:?}"),
        };
        let mut parts =
            vec![format!("operator = {}", text(&self.operator)), format!("type = {}", text(&self.type_name))];
        if !self.params.is_empty() {
            let params: Vec<String> = self.params.iter().map(param).collect();
            parts.push(format!("params = {{ {} }}", params.join(", ")));
        }
        if !self.weights.is_empty() {
            let weights: Vec<String> = self.weights.iter().map(|weight| weight.input().to_string()).collect();
            parts.push(format!("weights = [{}]", weights.join(", ")));
        }
        parts.push(format!("inputs = [{}]", list(&self.inputs)));
        parts.push(format!("outputs = [{}]", list(&self.outputs)));
        format!("layer = [{{ {} }}]", parts.join(", "))
    }
}

/// The layers of the user by their operators.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomLayers(Arc<[Arc<CustomLayer>]>);

impl CustomLayers {
    /// Lists layers.
    pub fn of(layers: &[CustomLayer]) -> CustomLayers {
        CustomLayers(layers.iter().cloned().map(Arc::new).collect())
    }

    /// Returns the layer of an operator; of several the last one.
    pub fn find(&self, domain: &str, name: &str) -> Option<Arc<CustomLayer>> {
        self.0.iter().rev().find(|layer| layer.domain_and_name() == (domain, name)).cloned()
    }
}

/// Returns the sizes of a shape such as `N, C, 2*H, 2*W`, with the sizes that `named` gives its names.
///
/// # Errors
///
/// The part that is not a size.
pub(crate) fn sizes(
    text: &str,
    named: impl Fn(&str) -> Option<Dim>,
) -> std::result::Result<Vec<Dim>, String> {
    let size = |part: &str| {
        let expected =
            "sizes are numbers, names, and sums, differences, products and floored quotients (//) of them";
        Dim::read(part, &named).ok_or_else(|| format!("\"{part}\" is not a size; {expected}"))
    };
    axes(text).map(size).collect()
}

/// Returns the text of each axis of a shape such as `N, C, 2*H, 2*W`; a scalar has none.
pub(crate) fn axes(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|_| !text.trim().is_empty())
}
