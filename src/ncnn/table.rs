//! The table of scales from which `ncnn2int8` makes int8 layers.

use std::fmt::Write;

use super::{Layer, Net};

/// The quantization scales of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    /// The name of the layer before [`Net::name`].
    pub layer: String,
    /// The factor of the weights for each output channel.
    pub weight: Vec<f32>,
    /// The factor of the bottom.
    pub bottom: f32,
}

impl Net {
    /// Returns the scales with the indices of their layers, without those whose layer is not in the net.
    pub(crate) fn layers_of_scales<'a>(&self, scales: &'a [Scales]) -> Vec<(usize, &'a Scales)> {
        let outputs = |layer: &Layer| match layer {
            Layer::Convolution(layer) => Some(layer.num_output),
            Layer::ConvolutionDepthWise(layer) => Some(layer.num_output),
            Layer::InnerProduct(layer) => Some(layer.num_output),
            _ => None,
        };
        let layer_of = |scales: &Scales| {
            let len = i32::try_from(scales.weight.len()).ok();
            let mut found = self.layers.iter().enumerate().filter(|(_, layer)| {
                layer.name == scales.layer && len.is_some() && outputs(&layer.layer) == len
            });
            found.next().filter(|_| found.next().is_none()).map(|(index, _)| index)
        };
        scales.iter().filter_map(|scales| Some((layer_of(scales)?, scales))).collect()
    }

    /// Returns the table of `scales`, with the indices of their layers.
    pub(crate) fn table(&self, scales: &[(usize, &Scales)]) -> Table {
        let (mut weights, mut bottoms) = (String::new(), String::new());
        let mut left_out = Vec::new();
        for (index, scales) in scales {
            let Some(name) = self.layers.get(*index).map(|layer| &layer.name) else { continue };
            let row = weight_row(name, scales);
            if name.contains(WEIGHT) || name.len() + SUFFIX.len() > MAX_KEY || row.len() > MAX_ROW {
                left_out.push(name.clone());
                continue;
            }
            weights.push_str(&row);
            // Writing to a string does not fail.
            let _ = writeln!(bottoms, "{name} {:e}", scales.bottom);
        }
        Table { text: weights + &bottoms, left_out }
    }
}

/// The text for `ncnn2int8`, and the names of the layers that it would misread.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub text: String,
    pub left_out: Vec<String>,
}

/// The suffix of the name of a layer in the row of its weights.
const SUFFIX: &str = "_param_0";

/// The text that marks a row of weights at any position in its key (`ncnn2int8.cpp`, `read_int8scale_table`).
const WEIGHT: &str = "_param_";

/// The maximum length of the key of a row in `ncnn2int8`, in bytes.
const MAX_KEY: usize = 255;

/// The maximum length of a row in `ncnn2int8`, in bytes with the line end.
const MAX_ROW: usize = 10_239_999;

fn weight_row(name: &str, scales: &Scales) -> String {
    let mut row = format!("{name}{SUFFIX}");
    for scale in &scales.weight {
        let _ = write!(row, " {scale:e}");
    }
    row.push('\n');
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::Softmax;

    #[test]
    fn rows_that_ncnn2int8_misreads_are_left_out() {
        let mut net = Net::default();
        let mut blob = net.push_input("x", &[4]);
        let (longest, longer) = ("l".repeat(247), "l".repeat(248));
        let names = ["a", "a_param_b", &longest, &longer, "a_param"];
        for name in names {
            blob = net.push(name, Softmax { axis: 0, fixbug0: 1 }, &[blob], &[4]);
        }
        let scales = Scales { layer: String::new(), weight: vec![2.0, 0.5], bottom: 3.0 };
        // Layer 0 is the input.
        let indexed: Vec<(usize, &Scales)> = (1..=names.len()).map(|index| (index, &scales)).collect();
        let Table { text, left_out } = net.table(&indexed);
        assert_eq!(left_out, ["a_param_b", &longer]);
        let weights = ["a", &longest, "a_param"].map(|name| format!("{name}_param_0 2e0 5e-1\n"));
        let bottoms = ["a", &longest, "a_param"].map(|name| format!("{name} 3e0\n"));
        assert_eq!(text, weights.concat() + &bottoms.concat());
        let wide = Scales { weight: vec![1.0; MAX_ROW / 4 + 1], ..scales };
        assert_eq!(net.table(&[(1, &wide)]).left_out, ["a"]);
    }
}
