//! The text of the `.param` file, for `Net::load_param` and `ParamDict::load_param`.

use std::fmt::Write;
use std::iter;

use super::layer::{Param, Params, Trait};
use super::{BlobId, Element, Layer, Net, NetLayer};
use crate::tensor::Dim;

/// The first line of a `.param` file.
pub(super) const MAGIC: u32 = 7_767_517;

/// The id of the sizes of the tops, reserved in every layer.
pub(super) const SHAPE_HINTS: i32 = 30;

/// The id of the features that a layer must not use, reserved in every layer.
pub(super) const FEATURE_MASK: i32 = 31;

/// Disables arithmetic in float16 (`get_masked_option` in `net.cpp`).
pub(super) const FLOAT16_ARITHMETIC: i32 = 1 << 0;

/// Disables float16, bfloat16 and the GPU (`get_masked_option` in `net.cpp`).
pub(super) const HALF_PRECISION: i32 = FLOAT16_ARITHMETIC | 1 << 1 | 1 << 2 | VULKAN;

/// Disables the GPU (`get_masked_option` in `net.cpp`).
pub(super) const VULKAN: i32 = 1 << 4;

/// Disables the transforms of Winograd (`get_masked_option` in `net.cpp`).
pub(crate) const WINOGRAD: i32 = 1 << 6;

/// The id of an array param is written as this minus the id.
pub(super) const ARRAY: i32 = -23300;

/// The maximum length of the first scan of a value, with the quote.
const FIRST_SCAN: usize = 15;

/// The maximum length of the second scan of a string.
const MAX_REST: usize = 240;

/// The width of the columns of types and names.
const COLUMN: usize = 24;

impl Net {
    /// Returns the numbers of layers and blobs.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.layers.len(), self.layers.iter().map(|layer| layer.tops.len()).sum())
    }

    /// Returns the first two lines of the `.param` file.
    pub(super) fn head(&self) -> String {
        let (layers, blobs) = self.counts();
        format!("{MAGIC}\n{layers} {blobs}\n")
    }

    /// Returns the text of the `.param` file.
    pub fn param_text(&self) -> String {
        let mut text = self.head();
        let hints = self.has_shape_hints();
        for layer in &self.layers {
            self.push_line(&mut text, layer, hints);
        }
        text
    }

    /// Appends the line of a layer, with shape hints if the net has them.
    pub(super) fn push_line(&self, text: &mut String, layer: &NetLayer, hints: bool) {
        let NetLayer { name, layer: kind, bottoms, tops, .. } = layer;
        push_padded(text, kind.type_name());
        push_padded(text, name);
        push_int(text, bottoms.len());
        text.push(' ');
        push_int(text, tops.len());
        for blob in bottoms.iter().chain(tops) {
            text.push(' ');
            text.push_str(&self.blob(*blob).name);
        }
        for (id, param) in self.params(layer, hints) {
            text.push(' ');
            push_param(text, id, &param);
        }
        text.push('\n');
    }

    /// Returns the params of a layer, with the ids that are reserved in every layer, shape hints only if the
    /// net has them.
    pub(super) fn params(&self, layer: &NetLayer, hints: bool) -> Params {
        let mut params = layer.layer.params();
        let mask = self.precision_mask(layer) | self.fault_mask(layer);
        match params.iter_mut().find(|(id, _)| *id == FEATURE_MASK) {
            Some((_, Param::Int(present))) => *present |= mask,
            _ if mask != 0 => params.push((FEATURE_MASK, Param::Int(mask))),
            _ => {}
        }
        let hints = hints.then(|| self.shape_hints(layer)).flatten();
        params.extend(hints.map(|hints| (SHAPE_HINTS, Param::Ints(hints))));
        params
    }

    /// Returns the features that a layer must not use because of its numbers, or of the user's wish.
    pub(super) fn precision_mask(&self, layer: &NetLayer) -> i32 {
        if self.reads_integers(layer) || self.is_float32(layer) {
            HALF_PRECISION
        } else if self.precise && !layer.layer.has(Trait::Source) {
            FLOAT16_ARITHMETIC
        } else if self.careful && self.has_rough_transform(layer) {
            WINOGRAD
        } else {
            0
        }
    }

    /// Returns whether a layer must not run on the GPU.
    pub(super) fn avoids_gpu(&self, layer: &NetLayer) -> bool {
        (self.precision_mask(layer) | self.fault_mask(layer)) & VULKAN != 0
    }

    /// Returns whether a layer passes through or reads the bits of 32-bit integers, which half precision
    /// would convert as if they were float32. Embed reads any bits exactly.
    fn reads_integers(&self, layer: &NetLayer) -> bool {
        let integers = |blob: &BlobId| self.blob(*blob).element == Element::I32;
        layer.bottoms.iter().any(integers) && !matches!(layer.layer, Layer::Embed(_))
    }

    /// Returns whether shape hints are written. Some layers on the GPU crash or compute wrong results if they
    /// know only some of their shapes (`reshape_vulkan.cpp`), so either all layers have hints or none has.
    pub(super) fn has_shape_hints(&self) -> bool {
        self.layers.iter().all(|layer| self.shape_hints(layer).is_some())
    }

    /// Returns the sizes of the tops if all are fixed: the number of axes of each, then w, h, c, or w, h, d,
    /// c of a single top of four axes. Releases before 20260526 read four values for each top in any case
    /// (`Net::load_param`) and skip blobs of four axes; hints that they would misread are left out.
    fn shape_hints(&self, layer: &NetLayer) -> Option<Vec<i32>> {
        let int = |size: &Dim| i32::try_from(size.known()?).ok();
        let mut hints = Vec::with_capacity(5 * layer.tops.len());
        for top in &layer.tops {
            match &*self.blob(*top).shape {
                [w] => hints.extend([1, int(w)?, 1, 1]),
                [h, w] => hints.extend([2, int(w)?, int(h)?, 1]),
                [c, h, w] => hints.extend([3, int(w)?, int(h)?, int(c)?]),
                [c, d, h, w] if layer.tops.len() == 1 => {
                    hints.extend([4, int(w)?, int(h)?, int(d)?, int(c)?]);
                }
                _ => return None,
            }
        }
        (!hints.is_empty()).then_some(hints)
    }
}

/// Appends a word padded to [`COLUMN`] characters, and a space.
fn push_padded(text: &mut String, word: &str) {
    text.push_str(word);
    text.extend(iter::repeat_n(' ', COLUMN.saturating_sub(word.chars().count()) + 1));
}

fn push_int(text: &mut String, value: impl itoa::Integer) {
    text.push_str(itoa::Buffer::new().format(value));
}

/// Appends a param as `id=value`, arrays in the form that every release reads.
fn push_param(text: &mut String, id: i32, param: &Param) {
    let is_array = matches!(param, Param::Ints(_) | Param::Floats(_));
    push_int(text, if is_array { ARRAY - id } else { id });
    text.push('=');
    let push_float = |text: &mut String, value: &f32| text.push_str(&format_float(*value));
    match param {
        Param::Int(value) => push_int(text, *value),
        Param::Float(value) => push_float(text, value),
        Param::Ints(values) => push_values(text, values, |text, value| push_int(text, *value)),
        Param::Floats(values) => push_values(text, values, push_float),
        Param::Text(value) => text.extend(["\"", value, "\""]),
    }
}

/// Appends the number of values, and the values.
fn push_values<T>(text: &mut String, values: &[T], push: impl Fn(&mut String, &T)) {
    push_int(text, values.len());
    for value in values {
        text.push(',');
        push(text, value);
    }
}

/// Returns whether the runtime reads a string param correctly. It scans at most 15 characters up to the first
/// comma or space, including the opening quote, and then at most a buffer up to the closing quote. If the
/// first scan ends just before the closing quote, that quote stays unread.
pub(crate) fn is_readable(text: &str) -> bool {
    let first = text.split([',', ' ']).next().map_or(0, str::len);
    let plain = text.chars().all(|c| c.is_ascii_graphic() && c != '"' || c == ' ');
    plain && first > 0 && !(first == text.len() && first == FIRST_SCAN - 1) && text.len() < MAX_REST
}

/// The most bottoms of a layer with expressions, which refer to a bottom by one digit.
pub(crate) const MAX_BOTTOMS: usize = 10;

/// Returns the letter of an axis in expressions.
pub(crate) fn letter(axis: usize, axes: usize) -> Option<char> {
    let letters = match axes {
        1 => "w",
        2 => "hw",
        3 => "chw",
        _ => "cdhw",
    };
    letters.chars().nth(axis)
}

/// Formats a float with an exponent, which distinguishes it from an integer, and as few digits as the runtime
/// reads back as the same float; at most 15 characters, as `-1.23456789e-01`.
pub(super) fn format_float(value: f32) -> String {
    let mut shortest = format!("{value:e}");
    if !is_off_ties(&shortest, value) {
        shortest = format!("{value:.8e}");
    }
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

/// Returns whether a decimal is clearly closer to `value` than to the adjacent floats: `vstr_to_float`
/// computes in float64 with an error of a few units, and the shortest decimal of a float may lie exactly
/// between two.
fn is_off_ties(decimal: &str, value: f32) -> bool {
    let wide = f64::from(value);
    let gap = (wide - f64::from(value.next_down())).min(f64::from(value.next_up()) - wide);
    decimal.parse::<f64>().is_ok_and(|read| (read - wide).abs() < 0.49 * gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the value that `vstr_to_float` in `paramdict.cpp` reads: `u32` digits on both sides of the
    /// point, powers of ten in float64.
    fn read_float(text: &str) -> f32 {
        let (sign, digits) = text.strip_prefix('-').map_or((1.0, text), |digits| (-1.0, digits));
        let (mantissa, exponent) = digits.split_once('e').unwrap();
        let (whole, fraction) = mantissa.split_once('.').unwrap();
        let mut value = f64::from(whole.parse::<u32>().unwrap());
        value += f64::from(fraction.parse::<u32>().unwrap())
            / f64::from(10_u32.pow(u32::try_from(fraction.len()).unwrap()));
        let mut left: i32 = exponent[1..].parse().unwrap();
        let mut scale = 1.0;
        while left >= 8 {
            scale *= 1e8;
            left -= 8;
        }
        while left > 0 {
            scale *= 10.0;
            left -= 1;
        }
        value = if exponent.starts_with('-') { value / scale } else { value * scale };
        num_traits::AsPrimitive::<f32>::as_(sign * value)
    }

    #[test]
    fn floats_have_an_exponent() {
        for (value, text) in [
            (0.0, "0.0e+00"),
            (-0.0, "-0.0e+00"),
            (1.0, "1.0e+00"),
            (-1.5, "-1.5e+00"),
            (1e-5, "1.0e-05"),
            (f32::MAX, "3.4028235e+38"),
            (-f32::MIN_POSITIVE, "-1.1754944e-38"),
            (f32::from_bits(1), "1.0e-45"),
        ] {
            assert_eq!(format_float(value), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn floats_round_trip(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = format_float(value);
            prop_assert!(text.len() <= FIRST_SCAN);
            prop_assert_eq!(read_float(&text).to_bits(), bits, "{}", text);
        }
    }

    #[test]
    fn params_have_the_scanned_form() {
        for (id, param, text) in [
            (0, Param::Int(-233), "0=-233"),
            (2, Param::Float(0.5), "2=5.0e-01"),
            (3, Param::Ints(vec![0, -1]), "-23303=2,0,-1"),
            (10, Param::Floats(vec![0.0, 6.0]), "-23310=2,0.0e+00,6.0e+00"),
            (6, Param::Text("0w,1h".into()), "6=\"0w,1h\""),
        ] {
            let mut written = String::new();
            push_param(&mut written, id, &param);
            assert_eq!(written, text);
        }
    }

    #[test]
    fn axes_have_letters() {
        let word = |axes: usize| (0..axes).filter_map(|axis| letter(axis, axes)).collect::<String>();
        assert_eq!([1, 2, 3, 4].map(word), ["w", "hw", "chw", "cdhw"]);
    }

    #[test]
    fn strings_must_be_readable() {
        let long = "0w,".repeat(80);
        for (text, readable) in [
            ("0w,1h", true),
            ("*(0w,10000000)", true),
            ("floor(sin(0w))", false),
            ("", false),
            (",0w", false),
            (" 0w", false),
            ("0w\"", false),
            ("0w\n", false),
            (&long, false),
        ] {
            assert_eq!(is_readable(text), readable, "{text}");
        }
    }

    #[test]
    fn hints_that_old_releases_misread_are_left_out() {
        use crate::ncnn::BlobIds;
        use crate::ncnn::layer::{Noop, Split};
        use crate::tensor::{Dim, shape};
        let mut net = Net::default();
        let deep = net.push_input("deep", &[2, 3, 4, 5]);
        let flat = net.push_input("flat", &[4, 5]);
        let free = net.push_input("free", &[4, 5]);
        net.blob_mut(free).unwrap().shape = shape![Dim::symbol("h"), 5].into();
        let layer = |layer: crate::ncnn::Layer, tops: &[BlobId]| NetLayer {
            name: String::new(),
            layer,
            bottoms: BlobIds::new(),
            tops: tops.into(),
            float32: false,
            provenance: Default::default(),
        };
        let hints = |l: NetLayer| net.shape_hints(&l);
        assert_eq!(hints(layer(Noop::default().into(), &[deep])), Some(vec![4, 5, 4, 3, 2]));
        assert_eq!(hints(layer(Split::default().into(), &[flat, flat])), Some(vec![2, 5, 4, 1, 2, 5, 4, 1]));
        assert_eq!(hints(layer(Split::default().into(), &[deep, flat])), None);
        assert_eq!(hints(layer(Noop::default().into(), &[free])), None);
    }
}
