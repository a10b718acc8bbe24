//! Normalization, and scaling and bias along the outermost axis.

use super::shape::{Sizes, Tops, one, same};
use super::{between, exactly, layer, weight_len};
use crate::error::{At, Result, unsupported};

/// The rule of a layer over channels, which are those of a blob of three or four axes.
fn same_channels<L>(_: &L, bottoms: &[Sizes], _: usize) -> Result<Tops> {
    match bottoms.at(0)?.as_slice() {
        bottom @ ([_, _, _] | [_, _, _, _]) => one(bottom),
        bottom => unsupported!("a bottom of {} axes", bottom.len()),
    }
}

layer! {
    /// `slope * (x - mean) / sqrt(var + eps) + bias` for each index of the outermost axis.
    BatchNorm(exactly(1), exactly(1)) {
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
        tops { same }
    }

    /// `x + bias` for each index of the outermost axis.
    Bias(exactly(1), exactly(1)) {
        derived {
            0 bias_data_size = |layer| weight_len(&layer.bias_data),
        }
        weights {
            Raw bias_data,
        }
        tops { same }
    }

    /// Normalization of groups of channels, the outermost axis.
    GroupNorm(exactly(1), exactly(1)) {
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
        tops { same }
    }

    /// Normalization of each channel.
    InstanceNorm(exactly(1), exactly(1)) {
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
        tops { same_channels }
    }

    /// Normalization over the last axes, `affine_size` elements at a time.
    LayerNorm(exactly(1), exactly(1)) {
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
        tops { same }
    }

    /// `x * (bias + alpha * mean of squares) ^ -beta` over adjacent elements.
    LRN(exactly(1), exactly(1)) {
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
    MVN(exactly(1), exactly(1)) {
        params {
            0 normalize_variance: i32 = 0,
            1 across_channels: i32 = 0,
            2 eps: f32 = 0.0001,
        }
        tops { same_channels }
    }

    /// Division by the root of the sum of squares, times `scale_data`, which is required.
    Normalize(exactly(1), exactly(1)) {
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
        tops { same }
    }

    /// Division by the root of the mean of squares over the last axes, `affine_size` elements at a time.
    RMSNorm(exactly(1), exactly(1)) {
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
        tops { same }
        since { |_| 20240820 }
    }

    /// `scale * x + bias` for each index of the outermost axis.
    /// Without `scale_data` the second bottom is the scale.
    Scale(between(1, 2), exactly(1)) {
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
        tops { same }
    }
}
