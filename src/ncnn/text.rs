//! The `.param` file: a text that `ParamDict::load_param` and `Net::load_param` scan.

use std::fmt::Write;

use super::layer::Param;
use super::{BlobId, Net, NetLayer};

/// The first line of every `.param` file.
const MAGIC: u32 = 7_767_517;

/// Ids of arrays are written as this minus the id.
const ARRAY: i32 = -23300;

impl Net {
    /// The counts in the second line: layers and blobs.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.layers.len(), self.layers.iter().map(|layer| layer.tops.len()).sum())
    }

    /// The head of the `.param` file.
    pub(super) fn head(&self) -> String {
        let (layers, blobs) = self.counts();
        format!("{MAGIC}\n{layers} {blobs}\n")
    }

    /// The line of a layer.
    pub(super) fn line(&self, layer: &NetLayer) -> String {
        let mut line = format!(
            "{:<24} {:<24} {} {}",
            layer.layer.type_name(),
            layer.name,
            layer.bottoms.len(),
            layer.tops.len()
        );
        let name = |blob: &BlobId| &self.blob(*blob).name;
        for blob in layer.bottoms.iter().chain(&layer.tops).map(name) {
            line.push(' ');
            line.push_str(blob);
        }
        for (id, param) in layer.layer.params() {
            line.push(' ');
            line.push_str(&format_param(id, &param));
        }
        line.push('\n');
        line
    }
}

/// A param as `id=value`.
pub(super) fn format_param(id: i32, param: &Param) -> String {
    match param {
        Param::Int(value) => format!("{id}={value}"),
        Param::Float(value) => format!("{id}={}", format_float(*value)),
        Param::Ints(values) => format_array(id, values.iter().map(i32::to_string)),
        Param::Floats(values) => format_array(id, values.iter().copied().map(format_float)),
        Param::Text(text) => format!("{id}=\"{text}\""),
    }
}

/// The form of arrays that every runtime reads.
fn format_array(id: i32, values: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("{}={}", ARRAY - id, values.len());
    for value in values {
        text.push(',');
        text.push_str(&value);
    }
    text
}

/// A float as the runtime tells it from an int, by its `e`; the shortest digits that are read as the same number, at most 15
/// characters: `-1.23456789e-01`.
pub(super) fn format_float(value: f32) -> String {
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "{mantissa}{point}e{sign}{exponent:0>2}");
    text
}
