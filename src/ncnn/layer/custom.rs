//! A layer of the user, of a type that a program registers.

use super::read::{Settable, StatedParams};
use super::shape::{Sizes, Tops, unknown};
use super::weight::Reads;
use super::{Arity, Facts, Layer, LayerInfo, MANY, OLDEST, Param, Params, Storage, Trait, Weight, Weights};
use crate::common::intern::intern;
use crate::error::{Error, Result, invalid};
use crate::tensor::{Dim, Tensor};

/// The names of weights.
const WEIGHTS: [&str; 16] = [
    "weight_0",
    "weight_1",
    "weight_2",
    "weight_3",
    "weight_4",
    "weight_5",
    "weight_6",
    "weight_7",
    "weight_8",
    "weight_9",
    "weight_10",
    "weight_11",
    "weight_12",
    "weight_13",
    "weight_14",
    "weight_15",
];

/// A layer of a type that the runtime does not have.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Custom {
    /// The type, under which a program registers it.
    pub type_name: &'static str,
    /// The params, sorted by id.
    pub params: Params,
    /// The weights in the order of its `load_model`, with their storage.
    pub weights: Vec<(Storage, Tensor)>,
    /// The first release in which it works; 0 for any.
    pub since: u32,
}

impl Custom {
    /// No registry has such a type.
    pub const TYPE: &'static str = "";
    /// No registry has such an index.
    pub const INDEX: i32 = i32::MIN;
    /// The number of bottoms.
    pub const BOTTOMS: Arity = MANY;
    /// The number of tops.
    pub const TOPS: Arity = MANY;

    /// Creates a layer.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the runtime has the type: a program that registers it would replace all layers of it.
    pub(crate) fn new(
        type_name: &str,
        params: Params,
        weights: Vec<(Storage, Tensor)>,
        since: u32,
    ) -> Result<Custom> {
        if Layer::named(type_name).is_some() {
            let message = format!("ncnn has layers of the type {type_name}");
            return Err(Error::unsupported(message).help("declare the layer under another type"));
        }
        Ok(Custom { type_name: intern(type_name), params, weights, since })
    }

    /// Returns the type.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// Returns the params to write, sorted by id.
    pub fn params(&self) -> Params {
        self.params.clone()
    }

    /// Returns the first release in which the layer works.
    pub fn since(&self) -> u32 {
        self.since.max(OLDEST)
    }

    /// Returns the weights in the order of `load_model`.
    pub fn weights(&self) -> Weights<'_> {
        let named = WEIGHTS.iter().zip(&self.weights);
        named.map(|(name, (storage, tensor))| Weight { name, storage: *storage, tensor }).collect()
    }

    /// Returns the table of a layer without params, which no file has.
    pub fn table() -> LayerInfo {
        LayerInfo { index: Custom::INDEX, type_name: Custom::TYPE, params: Vec::new(), weights: Vec::new() }
    }
}

impl Facts for Custom {
    fn index(&self) -> i32 {
        Custom::INDEX
    }

    fn has(&self, _wanted: Trait) -> bool {
        false
    }

    fn reads(&self, _bottom: &[Dim]) -> Reads {
        Ok(self
            .weights()
            .iter()
            .map(|weight| (weight.name, i64::try_from(weight.tensor.len()).ok()))
            .collect())
    }

    fn top_sizes(&self, bottoms: &[Sizes], tops: usize) -> Result<Tops> {
        unknown(self, bottoms, tops)
    }
}

impl Settable for Custom {
    /// The layer is a copy of the one that was written: a file has the same params.
    fn set(&mut self, params: &StatedParams) -> Result<()> {
        params.check_known(&self.params.iter().map(|(id, _)| *id).collect::<Vec<i32>>())?;
        self.params.iter_mut().try_for_each(|(id, param)| match param {
            Param::Int(value) => params.put(*id, value),
            Param::Float(value) => params.put(*id, value),
            Param::Ints(values) => params.put(*id, values),
            Param::Floats(values) => params.put(*id, values),
            Param::Text(text) => params.put(*id, text),
        })
    }

    fn set_weight(&mut self, name: &str, weight: Tensor) -> Result<()> {
        match WEIGHTS.iter().position(|known| *known == name).and_then(|index| self.weights.get_mut(index)) {
            Some((_, tensor)) => *tensor = weight,
            None => invalid!("it has no weight {name}"),
        }
        Ok(())
    }
}
