//! The number of elements that `load_model` reads of each weight. The `.bin` file has no index: a wrong
//! number shifts all later weights.

use super::is_numeric;
use crate::error::{Error, Result, invalid};
use crate::ncnn::layer::Weight;
use crate::ncnn::{Net, NetLayer};
use crate::tensor::DType;

impl Net {
    /// Checks the weights of a layer; returns their number of elements.
    pub(in crate::ncnn) fn check_weights(&self, layer: &NetLayer) -> Result<usize> {
        let weights = layer.layer.weights();
        let bottom = layer.bottoms.first().map(|blob| &*self.blob(*blob).shape).unwrap_or_default();
        let expected = layer.layer.facts().reads(bottom)?;
        for name in layer.layer.int8_weights() {
            check_integers(&weights, name, DType::I8)?;
        }
        if let Some((_, name)) = layer.layer.block_weight() {
            check_integers(&weights, name, DType::U8)?;
        }
        for weight in &weights {
            if !expected.iter().any(|(name, _)| *name == weight.name) {
                invalid!("ncnn does not read {} with these params", weight.name);
            }
        }
        for (name, count) in expected {
            match weights.iter().find(|weight| weight.name == name) {
                Some(weight) => check_weight(weight, count)?,
                None => invalid!("{name} is missing"),
            }
        }
        Ok(weights.iter().fold(0, |sum, weight| sum.saturating_add(weight.tensor.len())))
    }
}

/// Checks that the weight `name` is of type `dtype`, and that scales of int8 are positive normal numbers.
fn check_integers(weights: &[Weight<'_>], name: &str, dtype: DType) -> Result<()> {
    for weight in weights {
        if weight.name == name && weight.tensor.dtype() != dtype {
            invalid!("{} is of type {} instead of {dtype}", weight.name, weight.tensor.dtype());
        }
        if weight.name.ends_with("_int8_scales") {
            let scales = weight.tensor.load_listed()?.float_list()?;
            if !scales.iter().all(|scale| scale.is_normal() && *scale > 0.0) {
                invalid!("{} has an element that is not a positive normal number", weight.name);
            }
        }
    }
    Ok(())
}

fn check_weight(weight: &Weight<'_>, count: Option<i64>) -> Result<()> {
    let (name, tensor) = (weight.name, weight.tensor);
    if !is_numeric(tensor.dtype()) {
        invalid!("{name} is of type {}", tensor.dtype());
    }
    // ncnn counts elements in an int.
    let Ok(len) = i32::try_from(tensor.len()) else {
        return Err(Error::limit(format!(
            "{name} has {} elements: ncnn supports at most {}",
            tensor.len(),
            i32::MAX
        )));
    };
    if len == 0 {
        invalid!("{name} has no elements");
    }
    if count.is_some_and(|count| count != i64::from(len)) {
        invalid!("{name} has {len} elements instead of {}", count.unwrap_or_default());
    }
    Ok(())
}
