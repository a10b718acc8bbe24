//! The table of scales that `ncnn2int8` makes int8 layers by: a line a layer.

use std::fmt::Write;

use super::{Layer, Net};

/// The scales of a layer, which stands in the net by the name that it was made with.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    /// The name before [`Net::name`].
    pub layer: String,
    /// What weights are multiplied with, for each output.
    pub weight: Vec<f32>,
    /// What the bottom is multiplied with.
    pub bottom: f32,
}

impl Net {
    /// The places of the layers that scales are of. A layer that is not in the net any more has none.
    pub(crate) fn places<'a>(&self, scales: &'a [Scales]) -> Vec<(usize, &'a Scales)> {
        let outputs = |layer: &Layer| match layer {
            Layer::Convolution(layer) => Some(layer.num_output),
            Layer::ConvolutionDepthWise(layer) => Some(layer.num_output),
            Layer::InnerProduct(layer) => Some(layer.num_output),
            _ => None,
        };
        let place = |scales: &Scales| {
            let len = i32::try_from(scales.weight.len()).ok();
            let mut places = self.layers.iter().enumerate().filter(|(_, layer)| {
                layer.name == scales.layer && len.is_some() && outputs(&layer.layer) == len
            });
            places.next().filter(|_| places.next().is_none()).map(|(place, _)| place)
        };
        scales.iter().filter_map(|scales| Some((place(scales)?, scales))).collect()
    }

    /// The lines of a table, weights first.
    pub(crate) fn table(&self, places: &[(usize, &Scales)]) -> String {
        let mut text = String::new();
        let named = |(place, scales): &(usize, &Scales)| {
            Some((self.layers.get(*place)?.name.clone(), (*scales).clone()))
        };
        let rows: Vec<(String, Scales)> = places.iter().filter_map(named).collect();
        // Writing to a string does not fail.
        for (name, scales) in &rows {
            let _ = write!(text, "{name}_param_0");
            for scale in &scales.weight {
                let _ = write!(text, " {scale:e}");
            }
            text.push('\n');
        }
        for (name, scales) in &rows {
            let _ = writeln!(text, "{name} {:e}", scales.bottom);
        }
        text
    }
}
