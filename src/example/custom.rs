//! Stubs of the layers of the user, which a program registers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Language;
use crate::ncnn::Net;
use crate::ncnn::layer::{Param, Storage};

/// What a file of layers of the user states.
#[derive(Debug, Serialize)]
pub(super) struct CustomFacts {
    pub custom: Vec<CustomText>,
}

/// A type of layers.
#[derive(Debug, Serialize)]
pub(super) struct CustomText {
    type_name: &'static str,
    bottoms: usize,
    tops: usize,
    /// Whether each layer has one bottom and one top.
    is_single: bool,
    params: Vec<ParamText>,
    weights: Vec<WeightText>,
}

/// A param of the first layer of a type.
#[derive(Debug, Serialize)]
struct ParamText {
    id: i32,
    /// `number`, `list` or `text`.
    kind: &'static str,
    is_int: bool,
    value: String,
}

/// A weight of the first layer of a type.
#[derive(Debug, Serialize)]
struct WeightText {
    name: &'static str,
    length: usize,
    is_raw: bool,
}

impl CustomText {
    /// Returns the types of a net, in the order of their first layers.
    pub fn all(net: &Net) -> Vec<CustomText> {
        let mut types: Vec<CustomText> = Vec::new();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for (layer, custom) in net.custom_layers() {
            let is_single = layer.bottoms.len() == 1 && layer.tops.len() == 1;
            let index = *known.entry(custom.type_name).or_insert(types.len());
            if let Some(text) = types.get_mut(index) {
                text.is_single &= is_single;
                continue;
            }
            let weights = custom.weights();
            types.push(CustomText {
                type_name: custom.type_name,
                bottoms: layer.bottoms.len(),
                tops: layer.tops.len(),
                is_single,
                params: custom.params.iter().map(|(id, param)| ParamText::of(*id, param)).collect(),
                weights: weights
                    .iter()
                    .map(|weight| WeightText {
                        name: weight.name,
                        length: weight.tensor.len(),
                        is_raw: weight.storage == Storage::Raw,
                    })
                    .collect(),
            });
        }
        types
    }
}

impl ParamText {
    fn of(id: i32, param: &Param) -> ParamText {
        let (kind, is_int, value) = match param {
            Param::Int(value) => ("number", true, value.to_string()),
            Param::Float(value) => ("number", false, value.to_string()),
            Param::Ints(values) => ("list", true, format!("{values:?}")),
            Param::Floats(values) => ("list", false, format!("{values:?}")),
            Param::Text(text) => ("text", false, text.clone()),
        };
        ParamText { id, kind, is_int, value }
    }
}

/// Returns the file of the layers of the user next to a program; `None` if the language registers none.
pub(super) fn file(language: Language, program: &Path) -> Option<PathBuf> {
    let name = match language {
        Language::Python => "custom_layers.py",
        Language::Cpp => "custom_layers.h",
        Language::Kotlin => return None,
    };
    Some(program.with_file_name(name))
}
