//! The differences of two nets: layers, params, wiring, weights, and the names of inputs and outputs.
//!
//! Layers Split are seen through, and the order of independent layers has no meaning. Names of layers and of
//! inner blobs are free: no program depends on them.

#[cfg(feature = "verify")]
mod deviation;
mod pairs;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::contents::{LayerName, element_name};
use super::layer::{LayerInfo, Missing, Param, Weight};
use super::{BlobId, Layer, Net, NetLayer};
use crate::error::Result;
#[cfg(feature = "verify")]
pub(crate) use deviation::Deviations;
use pairs::{Origin, Side};

/// The name of the param that says whether a layer computes in float32, which every layer has.
const FLOAT32: &str = "float32";

/// A difference of two nets. A layer that both have is described as in the first net.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Difference {
    /// A layer that only the first net has.
    Removed {
        /// The layer.
        layer: LayerName,
    },
    /// A layer that only the second net has.
    Added {
        /// The layer.
        layer: LayerName,
    },
    /// A layer of another type with the same name.
    Type {
        /// The layer.
        layer: LayerName,
        /// The type in the second net.
        new: &'static str,
    },
    /// A param with another value.
    Param {
        /// The layer.
        layer: LayerName,
        /// The name of the param in ncnn's operator table.
        param: &'static str,
        /// The value in the first net, which may be a default.
        old: String,
        /// The value in the second net.
        new: String,
    },
    /// A layer that reads the tops of other layers.
    Wiring {
        /// The layer.
        layer: LayerName,
        /// The names of its bottoms in the first net, before layers Split.
        old: Vec<String>,
        /// The names of its bottoms in the second net.
        new: Vec<String>,
    },
    /// A weight with other elements.
    Weight {
        /// The layer.
        layer: LayerName,
        /// The name of the weight.
        weight: &'static str,
        /// What differs.
        change: WeightChange,
    },
    /// Inputs that only one of the nets has, by their names.
    Inputs {
        /// The inputs of the first net alone.
        old: Vec<String>,
        /// The inputs of the second net alone.
        new: Vec<String>,
    },
    /// Outputs that only one of the nets has, by their names.
    Outputs {
        /// The outputs of the first net alone.
        old: Vec<String>,
        /// The outputs of the second net alone.
        new: Vec<String>,
    },
}

/// How a weight differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "differs", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WeightChange {
    /// The number of elements; 0 if the weight is absent.
    Length {
        /// In the first net.
        old: usize,
        /// In the second net.
        new: usize,
    },
    /// Elements, or their type alone.
    Elements {
        /// The number of elements that differ.
        count: usize,
        /// The number of all elements.
        of: usize,
        /// The largest difference of two elements.
        largest: f64,
        /// The largest magnitude of an element in the first net.
        magnitude: f64,
        /// The index of the first element that differs.
        first: Option<usize>,
        /// The element type in the first net, as in [`Contents`](super::Contents).
        old: &'static str,
        /// The element type in the second net.
        new: &'static str,
    },
}

/// The comparison of two nets.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NetComparison {
    /// The differences, in the order of the layers of the first net; then what only the second one has.
    pub differences: Vec<Difference>,
    /// The number of layers that both nets have, without layers Split.
    pub same_layers: usize,
    /// The layers of them with another name in the second net, and that name.
    pub renamed: Vec<(String, String)>,
}

impl Net {
    /// Compares the net with another one, layer by layer. Layers are matched by their names, or else by type,
    /// params, and their position between layers that are matched.
    ///
    /// # Errors
    ///
    /// If a weight cannot be read.
    pub fn compare(&self, other: &Net) -> Result<NetComparison> {
        let (old, new) = (Side::of(self), Side::of(other));
        let pairs = pairs::pairs(&old, &new);
        let tables: BTreeMap<&str, LayerInfo> =
            Layer::tables().into_iter().map(|table| (table.type_name, table)).collect();
        let mut comparison = NetComparison { differences: Vec::new(), same_layers: 0, renamed: Vec::new() };
        let found = &mut comparison.differences;
        for (index, layer) in old.layers() {
            let Some((of_new, counterpart)) = pairs.get(&index).and_then(|new_index| {
                other.layers.get(*new_index).map(|counterpart| (*new_index, counterpart))
            }) else {
                found.push(Difference::Removed { layer: LayerName::of(layer) });
                continue;
            };
            comparison.same_layers += 1;
            if layer.name != counterpart.name {
                comparison.renamed.push((layer.name.clone(), counterpart.name.clone()));
            }
            if layer.layer.type_name() == counterpart.layer.type_name() {
                compare_params(layer, counterpart, &tables, found);
                compare_weights(layer, counterpart, found)?;
            } else {
                let new = counterpart.layer.type_name();
                found.push(Difference::Type { layer: LayerName::of(layer), new });
            }
            let (reads, reads_new) = (old.bottoms(index), new.bottoms(of_new));
            let is_same =
                |(a, b): (&Origin, &Origin)| pairs.get(&a.layer) == Some(&b.layer) && a.top == b.top;
            if reads.len() != reads_new.len() || !reads.iter().zip(reads_new).all(is_same) {
                let layer = LayerName::of(layer);
                found.push(Difference::Wiring { layer, old: old.names(reads), new: new.names(reads_new) });
            }
        }
        let paired: BTreeSet<usize> = pairs.values().copied().collect();
        let added = new.layers().filter(|(index, _)| !paired.contains(index));
        found.extend(added.map(|(_, layer)| Difference::Added { layer: LayerName::of(layer) }));
        if let Some((old, new)) = only_in_one(names(self, &self.inputs), names(other, &other.inputs)) {
            found.push(Difference::Inputs { old, new });
        }
        let outputs = |net: &Net| net.outputs.iter().map(|output| output.name.clone()).collect();
        if let Some((old, new)) = only_in_one(outputs(self), outputs(other)) {
            found.push(Difference::Outputs { old, new });
        }
        Ok(comparison)
    }
}

/// Returns the names of blobs.
fn names(net: &Net, blobs: &[BlobId]) -> BTreeSet<String> {
    blobs.iter().map(|blob| net.blob(*blob).name.clone()).collect()
}

/// Returns the names that only one side has; `None` if both have the same.
fn only_in_one(old: BTreeSet<String>, new: BTreeSet<String>) -> Option<(Vec<String>, Vec<String>)> {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect();
    (old != new).then(|| (only(&old, &new), only(&new, &old)))
}

/// Compares the values of all params, with the defaults of those that are not written.
fn compare_params(
    old: &NetLayer,
    new: &NetLayer,
    tables: &BTreeMap<&str, LayerInfo>,
    found: &mut Vec<Difference>,
) {
    let Some(table) = tables.get(old.layer.type_name()) else { return };
    let (before, after) = (values(old, table), values(new, table));
    for (param, old_value) in before {
        let new_value = after.get(param).cloned().unwrap_or_default();
        if old_value != new_value {
            let layer = LayerName::of(old);
            found.push(Difference::Param { layer, param, old: old_value, new: new_value });
        }
    }
}

/// Returns the values of all params by their names, as texts.
fn values(layer: &NetLayer, table: &LayerInfo) -> BTreeMap<&'static str, String> {
    let written = layer.layer.params();
    let mut values: BTreeMap<&'static str, String> = BTreeMap::new();
    // Params stand before those whose default they are.
    for info in &table.params {
        let value = match (written.iter().find(|(id, _)| *id == info.id), &info.missing) {
            (Some((_, param)), _) | (None, Missing::Value(param)) => display(param),
            (None, Missing::SameAs(name)) => values.get(name).cloned().unwrap_or_default(),
            (None, Missing::Other) => String::new(),
        };
        values.insert(info.name, value);
    }
    values.insert(FLOAT32, layer.float32.to_string());
    values
}

/// Returns a value as text; lists are in brackets.
fn display(param: &Param) -> String {
    match param {
        Param::Int(value) => value.to_string(),
        Param::Float(value) => format!("{value:?}"),
        Param::Ints(values) => format!("{values:?}"),
        Param::Floats(values) => format!("{values:?}"),
        Param::Text(text) => format!("\"{text}\""),
    }
}

/// Compares the weights of two layers of a type, one at a time.
fn compare_weights(old: &NetLayer, new: &NetLayer, found: &mut Vec<Difference>) -> Result<()> {
    let (before, after) = (old.layer.weights(), new.layer.weights());
    let mut add = |weight: &'static str, change: WeightChange| {
        found.push(Difference::Weight { layer: LayerName::of(old), weight, change });
    };
    for weight in &before {
        let len = weight.tensor.len();
        match after.iter().find(|other| other.name == weight.name) {
            Some(other) if other.tensor.len() == len => {
                if let Some(change) = compare_elements(weight, other)? {
                    add(weight.name, change);
                }
            }
            other => {
                let new = other.map_or(0, |other| other.tensor.len());
                add(weight.name, WeightChange::Length { old: len, new });
            }
        }
    }
    for weight in &after {
        if !before.iter().any(|other| other.name == weight.name) {
            add(weight.name, WeightChange::Length { old: 0, new: weight.tensor.len() });
        }
    }
    Ok(())
}

/// Compares as many elements of two weights; `None` if they are the same.
fn compare_elements(old: &Weight, new: &Weight) -> Result<Option<WeightChange>> {
    let types = (element_name(old.tensor.dtype()), element_name(new.tensor.dtype()));
    if types.0 == types.1 && old.tensor.to_raw()? == new.tensor.to_raw()? {
        return Ok(None);
    }
    let (before, after) = (old.tensor.load()?.float_list()?, new.tensor.load()?.float_list()?);
    let (mut count, mut largest, mut magnitude, mut first) = (0_usize, 0.0_f64, 0.0_f64, None);
    for (index, (a, b)) in before.iter().zip(&after).enumerate() {
        magnitude = magnitude.max(f64::from(a.abs()));
        if a.to_bits() != b.to_bits() {
            count += 1;
            let difference = (f64::from(*a) - f64::from(*b)).abs();
            largest = if difference.is_nan() { f64::INFINITY } else { largest.max(difference) };
            first = first.or(Some(index));
        }
    }
    let (old, new) = types;
    let of = before.len();
    Ok(Some(WeightChange::Elements { count, of, largest, magnitude, first, old, new }))
}
