//! Layers that convert no node: nets of other converters have them, above all detectors.

use super::shape::unknown;
use super::{Arity, MANY, between, exactly, layer, weight_len};

/// One blob, or two.
const ONE_OR_TWO: Arity = between(1, 2);

layer! {
    /// Boxes of default sizes over the elements of a feature map, for a picture; `[2, n * 4]`.
    48 PriorBox(ONE_OR_TWO, exactly(1)) [Gpu] {
        params {
            0 min_sizes: Vec<f32> = Vec::new(),
            1 max_sizes: Vec<f32> = Vec::new(),
            2 aspect_ratios: Vec<f32> = Vec::new(),
            3 variances_0: f32 = 0.1,
            4 variances_1: f32 = 0.1,
            5 variances_2: f32 = 0.2,
            6 variances_3: f32 = 0.2,
            7 flip: i32 = 1,
            8 clip: i32 = 0,
            9 image_width: i32 = 0,
            10 image_height: i32 = 0,
            11 step_width: f32 = -233.0,
            12 step_height: f32 = -233.0,
            13 offset: f32 = 0.0,
            14 step_mmdetection: i32 = 0,
            15 center_mmdetection: i32 = 0,
        }
        tops { unknown }
    }

    /// Rows of class, score and box from offsets, scores and the boxes of [`PriorBox`].
    49 DetectionOutput(between(3, 4), exactly(1)) [] {
        params {
            0 num_class: i32 = 0,
            1 nms_threshold: f32 = 0.05,
            2 nms_top_k: i32 = 300,
            3 keep_top_k: i32 = 100,
            4 confidence_threshold: f32 = 0.5,
            5 variances_0: f32 = 0.1,
            6 variances_1: f32 = 0.1,
            7 variances_2: f32 = 0.2,
            8 variances_3: f32 = 0.2,
        }
        tops { unknown }
    }

    /// Rows of class, score and box from the maps of YOLO versions 1 and 2.
    56 YoloDetectionOutput(MANY, exactly(1)) [] {
        params {
            0 num_class: i32 = 20,
            1 num_box: i32 = 5,
            2 confidence_threshold: f32 = 0.01,
            3 nms_threshold: f32 = 0.45,
            4 biases: Vec<f32> = Vec::new(),
        }
        tops { unknown }
    }

    /// Rows of class, score and box from the maps of YOLO version 3.
    59 Yolov3DetectionOutput(MANY, exactly(1)) [] {
        params {
            0 num_class: i32 = 20,
            1 num_box: i32 = 5,
            2 confidence_threshold: f32 = 0.01,
            3 nms_threshold: f32 = 0.45,
            4 biases: Vec<f32> = Vec::new(),
            5 mask: Vec<f32> = Vec::new(),
            6 anchors_scale: Vec<f32> = Vec::new(),
        }
        tops { unknown }
    }

    /// Boxes that may have an object, from the scores and offsets of anchors and the size of the picture.
    24 Proposal(exactly(3), ONE_OR_TWO) [] {
        params {
            0 feat_stride: i32 = 16,
            1 base_size: i32 = 16,
            #[allow(non_snake_case)]
            2 pre_nms_topN: i32 = 6000,
            #[allow(non_snake_case)]
            3 after_nms_topN: i32 = 300,
            4 nms_thresh: f32 = 0.7,
            5 min_size: i32 = 16,
        }
        tops { unknown }
    }

    /// Averages over the bins of a region, each of separate channels.
    60 PSROIPooling(exactly(2), exactly(1)) [] {
        params {
            0 pooled_width: i32 = 7,
            1 pooled_height: i32 = 7,
            2 spatial_scale: f32 = 0.0625,
            3 output_dim: i32 = 0,
        }
        tops { unknown }
    }

    /// The indices of the largest elements, or the elements themselves.
    1 ArgMax(exactly(1), exactly(1)) [] {
        params {
            0 out_max_val: i32 = 0,
            1 topk: i32 = 1,
        }
        tops { unknown }
    }

    /// One half of an axis times the sigmoid of the other.
    94 GLU(exactly(1), exactly(1)) [] {
        params {
            0 axis: i32 = 0,
        }
        tops { unknown }
    }

    /// The same elements, packed by another number along the outermost axis.
    62 Packing(exactly(1), exactly(1)) [Gpu] {
        params {
            0 out_elempack: i32 = 1,
            1 use_padding: i32 = 0,
            2 cast_type_from: i32 = 0,
            3 cast_type_to: i32 = 0,
        }
    }

    /// int8 of float32 times a scale, rounded.
    57 Quantize(exactly(1), exactly(1)) [Gpu] {
        derived {
            0 scale_data_size(1) = |layer| weight_len(&layer.scale_data),
        }
        weights {
            Raw scale_data,
        }
        reads { |_, _| Ok(vec![("scale_data", Some(1))]) }
    }

    /// int8 of 32-bit integers times a scale, after a bias and an activation.
    63 Requantize(exactly(1), exactly(1)) [Gpu] {
        params {
            3 activation_type: i32 = 0,
            4 activation_params: Vec<f32> = Vec::new(),
        }
        derived {
            0 scale_in_data_size(1) = |layer| weight_len(&layer.scale_in_data),
            1 scale_out_data_size(1) = |layer| weight_len(&layer.scale_out_data),
            2 bias_data_size = |layer| weight_len(&layer.bias_data),
        }
        weights {
            Raw scale_in_data,
            Raw scale_out_data,
            Raw bias_data,
        }
        reads { |_, _| Ok(vec![("scale_in_data", Some(1)), ("scale_out_data", Some(1))]) }
    }

    /// Pools over grids of 1, 4, 16 and more cells, as one axis.
    34 SPP(exactly(1), exactly(1)) [] {
        params {
            0 pooling_type: i32 = 0,
            1 pyramid_height: i32 = 1,
        }
        tops { unknown }
    }

    /// Means, and standard deviations, over the inner axes.
    72 StatisticsPooling(exactly(1), exactly(1)) [] {
        params {
            0 include_stddev: i32 = 0,
        }
        tops { unknown }
    }
}
