//! Normalization, and scaling and bias along the outermost axis.

use super::shape::{Sizes, Tops, one};
use super::weight::{Reads, affine, if_present, outermost};
use super::{between, exactly, layer, weight_len};
use crate::error::{At, Result, invalid, unsupported};
use crate::tensor::Dim;

/// The rule of a layer over channels, which are those of a blob of three or four axes.
fn same_channels<L>(_: &L, bottoms: &[Sizes], _: usize) -> Result<Tops> {
    match bottoms.at(0)?.as_slice() {
        bottom @ ([_, _, _] | [_, _, _, _]) => one(bottom),
        bottom => unsupported!("a bottom of {} axes", bottom.len()),
    }
}

layer! {
    /// `slope * (x - mean) / sqrt(var + eps) + bias` for each index of the outermost axis.
    2 BatchNorm(exactly(1), exactly(1)) [Gpu] {
        params {
            1 eps: f32 = 0.0,
        }
        derived {
            0 channels = |layer| weight_len(&layer.slope_data),
        }
        weights {
            Raw slope_data,
            Raw mean_data,
            Raw var_data,
            Raw bias_data,
        }
        reads { |_, bottom| Ok(["slope_data", "mean_data", "var_data", "bias_data"].map(|name| (name, outermost(bottom))).to_vec()) }
    }

    /// `x + bias` for each index of the outermost axis.
    3 Bias(exactly(1), exactly(1)) {
        derived {
            0 bias_data_size = |layer| weight_len(&layer.bias_data),
        }
        weights {
            Raw bias_data,
        }
        reads { |_, bottom| Ok(vec![("bias_data", outermost(bottom))]) }
    }

    /// Normalization of groups of channels, the outermost axis.
    75 GroupNorm(exactly(1), exactly(1)) [Gpu] {
        params {
            0 group: i32 = 1,
            1 channels: i32 = 0,
            2 eps: f32 = 0.001,
        }
        derived {
            3 affine (1) = |layer| i32::from(layer.gamma_data.is_some()),
        }
        weights {
            Raw gamma_data,
            Raw beta_data,
        }
        reads { GroupNorm::reads }
    }

    /// Normalization of each channel.
    53 InstanceNorm(exactly(1), exactly(1)) [Gpu] {
        params {
            0 channels: i32 = 0,
            1 eps: f32 = 0.001,
        }
        derived {
            2 affine (1) = |layer| i32::from(layer.gamma_data.is_some()),
        }
        weights {
            Raw gamma_data,
            Raw beta_data,
        }
        reads { |l, _| affine(&l.gamma_data, l.channels) }
        tops { same_channels }
    }

    /// Normalization over the last axes, `affine_size` elements at a time.
    76 LayerNorm(exactly(1), exactly(1)) [Gpu] {
        params {
            0 affine_size: i32 = 0,
            1 eps: f32 = 0.001,
        }
        derived {
            2 affine (1) = |layer| i32::from(layer.gamma_data.is_some()),
        }
        weights {
            Raw gamma_data,
            Raw beta_data,
        }
        reads { |l, _| affine(&l.gamma_data, l.affine_size) }
    }

    /// `x * (bias + alpha * mean of squares) ^ -beta` over adjacent elements.
    18 LRN(exactly(1), exactly(1)) [Gpu] {
        params {
            /// 0 across channels, 1 within each.
            0 region_type: i32 = 0,
            1 local_size: i32 = 5,
            2 alpha: f32 = 1.0,
            3 beta: f32 = 0.75,
            4 bias: f32 = 1.0,
        }
        tops { same_channels }
    }

    /// Subtraction of the mean, and optionally division by the standard deviation.
    20 MVN(exactly(1), exactly(1)) {
        params {
            0 normalize_variance: i32 = 0,
            1 across_channels: i32 = 0,
            2 eps: f32 = 0.0001,
        }
        tops { same_channels }
    }

    /// Division by the root of the sum of squares, times `scale_data`, which is required.
    46 Normalize(exactly(1), exactly(1)) [Gpu] {
        params {
            0 across_spatial: i32 = 0,
            1 channel_shared: i32 = 0,
            2 eps: f32 = 0.0001,
            4 across_channel: i32 = 1,
            /// 0: `eps` added inside the root; 1: lower bound of the root; 2: lower bound inside the root.
            9 eps_mode: i32 = 0,
        }
        derived {
            3 scale_data_size = |layer| weight_len(&layer.scale_data),
        }
        weights {
            Raw scale_data,
        }
        reads { |l, bottom| Ok(vec![("scale_data", if l.channel_shared != 0 { Some(1) } else { outermost(bottom) })]) }
    }

    /// Division by the root of the mean of squares over the last axes, `affine_size` elements at a time.
    104 RMSNorm(exactly(1), exactly(1)) [Gpu] {
        params {
            0 affine_size: i32 = 0,
            1 eps: f32 = 0.001,
        }
        derived {
            2 affine (1) = |layer| i32::from(layer.gamma_data.is_some()),
        }
        weights {
            Raw gamma_data,
        }
        reads { |l, _| Ok(if_present(&l.gamma_data, &[("gamma_data", Some(l.affine_size.into()))])) }
        since { |_| 20240820 }
    }

    /// `scale * x + bias` for each index of the outermost axis.
    /// Without `scale_data` the second bottom is the scale.
    29 Scale(between(1, 2), exactly(1)) [Gpu] {
        derived {
            0 scale_data_size = |layer| match layer.scale_data {
                Some(_) => weight_len(&layer.scale_data),
                None => -233,
            },
            1 bias_term = |layer| i32::from(layer.bias_data.is_some()),
        }
        weights {
            Raw scale_data,
            Raw bias_data,
        }
        reads { |l, bottom| {
            let bias = if_present(&l.bias_data, &[("bias_data", outermost(bottom))]);
            let scale = if_present(&l.scale_data, &[("scale_data", outermost(bottom))]);
            Ok(if scale.is_empty() { scale } else { [scale, bias].concat() })
        } }
    }
}

impl GroupNorm {
    fn reads(&self, bottom: &[Dim]) -> Reads {
        if self.group < 1
            || self.channels % self.group != 0
            || outermost(bottom).is_some_and(|n| n != i64::from(self.channels))
        {
            invalid!("{} channels in {} groups", self.channels, self.group);
        }
        affine(&self.gamma_data, self.channels)
    }
}
