//! Evaluations in float64 of operators that the engine has not, or not in all versions, from their
//! specification.

mod normalization;
mod program;
mod quantized;
mod recurrent;
mod sampling;
mod source;
mod window;

use ndarray::{Array2, ArrayD};
use num_traits::AsPrimitive;

use crate::error::{Error, Result};
use crate::graph::{Attribute, Node};
use crate::op::{Call, NCNN_DOMAIN};
use crate::tensor::{Array, DType, Elements};

/// The evaluation of a call.
pub(super) type Evaluation = fn(&Call) -> Result<Vec<Array>>;

/// Returns the evaluation of a node whose function the engine approximates; `None` for other operators.
pub(super) fn evaluation(node: &Node) -> Option<Evaluation> {
    let list: [(&str, Evaluation); 9] = [
        ("Softmax", |call| normalization::softmax(call, |x, sum| x / sum)),
        ("LogSoftmax", |call| normalization::softmax(call, |x, sum| libm::log(x / sum))),
        ("LRN", normalization::local_response),
        ("LayerNormalization", normalization::layer_normalization),
        ("GroupNormalization", normalization::group_normalization),
        ("BatchNormalization", normalization::training),
        ("DynamicQuantizeLinear", quantized::dynamic_quantize),
        ("GRU", |call| recurrent::recurrent(call, recurrent::gru)),
        ("RNN", |call| recurrent::recurrent(call, recurrent::rnn)),
    ];
    // The engine has the other BatchNormalization.
    let is_training = matches!(node.attributes.get("training_mode"), Some(Attribute::Int(1)));
    let is_ours = |op_type: &str| node.is(op_type) && (op_type != "BatchNormalization" || is_training);
    found(&list, is_ours)
}

/// Returns the evaluation of a node that the engine may refuse; `None` for other operators.
pub(super) fn further_evaluation(node: &Node) -> Option<Evaluation> {
    let list: [(&str, Evaluation); 17] = [
        ("AveragePool", window::average_pool),
        ("BlackmanWindow", |call| source::cosine_window(call, [0.42, 0.5, 0.08])),
        ("Col2Im", window::columns_to_image),
        ("Conv", window::conv),
        ("ConvInteger", window::conv_integer),
        ("ConvTranspose", window::conv_transpose),
        ("DeformConv", sampling::deform_conv),
        ("GlobalLpPool", window::lp_pool),
        ("GridSample", sampling::grid_sample),
        ("HammingWindow", |call| source::cosine_window(call, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
        ("HannWindow", |call| source::cosine_window(call, [0.5, 0.5, 0.0])),
        ("Hardmax", normalization::hard_max),
        ("InstanceNormalization", normalization::instance_normalization),
        ("LpPool", window::lp_pool),
        ("MaxPool", window::max_pool),
        ("MeanVarianceNormalization", normalization::mean_variance),
        ("Shape", source::shape),
    ];
    // The GridSample of onnxruntime's domain is the same.
    let is_ours = |op_type: &str| node.is(op_type) || (op_type == "GridSample" && node.op_type == op_type);
    found(&list, is_ours)
}

/// Returns the evaluation of a node that only definitions have; `None` for other operators.
pub(super) fn program_evaluation(node: &Node) -> Option<Evaluation> {
    let list: [(&str, Evaluation); 6] = [
        ("Frames", program::frames),
        ("Int8Conv", program::int8_conv),
        ("Int8Linear", program::int8_linear),
        ("Levels", program::levels),
        ("Stored", program::same),
        // The net assumes that there is none.
        ("WithoutPadding", program::same),
    ];
    let is_ours = |op_type: &str| node.domain == NCNN_DOMAIN && node.op_type == op_type;
    found(&list, is_ours)
}

fn found(list: &[(&str, Evaluation)], is_ours: impl Fn(&str) -> bool) -> Option<Evaluation> {
    list.iter().find(|(op_type, _)| is_ours(op_type)).map(|(_, evaluation)| *evaluation)
}

/// Returns a matrix of so many rows.
fn rows(x: ArrayD<f64>, count: usize) -> Result<Array2<f64>> {
    let inner = x.len().checked_div(count).unwrap_or_default();
    x.into_shape_clone((count, inner)).map_err(|_| Error::invalid("an input of another size"))
}

fn shaped(shape: Vec<usize>, elements: Vec<f64>) -> Result<ArrayD<f64>> {
    ArrayD::from_shape_vec(shape, elements).map_err(|_| Error::internal("elements of another shape"))
}

/// Returns an array of the type of the first input.
fn typed(call: &Call, elements: ArrayD<f64>) -> Result<Array> {
    Ok(of_type(call.dtype(0)?, elements))
}

/// Returns an array of a type.
fn of_type(dtype: DType, elements: ArrayD<f64>) -> Array {
    match dtype {
        DType::F64 => Array::new(dtype, Elements::F64(elements)),
        dtype if dtype.is_float() => Array::new(dtype, Elements::F32(elements.mapv(AsPrimitive::<f32>::as_))),
        dtype => Array::new(dtype, Elements::I64(elements.mapv(AsPrimitive::<i64>::as_))),
    }
}
