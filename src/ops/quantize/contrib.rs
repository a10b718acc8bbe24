//! onnxruntime's operators on quantised values, of the domain `com.microsoft`, computed as its kernels do: the last bit decides where a
//! value in the middle between two steps goes.

use num_traits::AsPrimitive;

use super::level::{
    Levels, Target, constant_int, levels, name_levels, number, read_bounds, round, settle, whole,
};
use super::nearest::{Exception, First, Line, Plane};
use super::product::{Places, multiply};
use super::{cast, difference, matrix_parameter, quotient, rescaled};
use crate::error::{At, Error, Result, unsupported};
use crate::graph::{Attribute, AttributeMap};
use crate::ops::matmul::matmul_shape;
use crate::ops::{Call, Fact, OWN_DOMAIN, Op};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, broadcast_shapes};

use super::MICROSOFT as DOMAIN;

/// A row twice: as models have it, and as this program makes it of other nodes, with the bounds of an activation.
const fn row(name: &'static str, infer: super::super::Infer, expand: super::super::ExpandNode) -> Op {
    Op::new(name, &[1], infer).expand(expand).rounds().exact()
}

const ADD: Op = row("QLinearAdd", infer_binary, expand_add)
    .becomes("BinaryOp on the differences to the zero points, QuantizeLinear");
const MUL: Op = row("QLinearMul", infer_binary, expand_mul)
    .becomes("BinaryOp on the differences to the zero points, QuantizeLinear");
const CONCAT: Op =
    row("QLinearConcat", infer_concat, expand_concat).becomes("QuantizeLinear of each part, Concat");
const WHERE: Op =
    row("QLinearWhere", infer_where, expand_where).becomes("QuantizeLinear of both operands, Where");
const POOL: Op = row("QLinearGlobalAveragePool", infer_global_pool, expand_global_pool)
    .becomes("Reduction, QuantizeLinear")
    .limits("channels_last");
const GEMM: Op = row("QGemm", infer_gemm, expand_gemm)
    .becomes("InnerProduct in int8, or MatMul of the differences to the zero points, QuantizeLinear")
    .limits("an alpha together with c");

const MEAN: Op = row("QLinearAveragePool", infer_pool, expand_pool)
    .becomes("Pooling, QuantizeLinear")
    .limits("channels_last");
/// The exponentials of two runtimes differ in their last bits.
const SOFTMAX: Op = Op::new("QLinearSoftmax", &[1], infer_softmax)
    .expand(expand_softmax)
    .rounds()
    .becomes("Softmax, QuantizeLinear")
    .limits("several axes together, as before operator set 13");

pub(in crate::ops) const OPS: &[Op] = &[
    row("QLinearLeakyRelu", infer_function, expand_leaky_relu)
        .domain(DOMAIN)
        .becomes("LeakyRelu, QuantizeLinear"),
    Op::new("QLinearSigmoid", &[1], infer_function)
        .expand(expand_sigmoid)
        .rounds()
        .domain(DOMAIN)
        .becomes("Sigmoid, QuantizeLinear"),
    MEAN.domain(DOMAIN),
    MEAN.domain(OWN_DOMAIN),
    SOFTMAX.domain(DOMAIN),
    SOFTMAX.domain(OWN_DOMAIN),
    ADD.domain(DOMAIN),
    ADD.domain(OWN_DOMAIN),
    MUL.domain(DOMAIN),
    MUL.domain(OWN_DOMAIN),
    CONCAT.domain(DOMAIN),
    CONCAT.domain(OWN_DOMAIN),
    WHERE.domain(DOMAIN),
    POOL.domain(DOMAIN),
    POOL.domain(OWN_DOMAIN),
    GEMM.domain(DOMAIN),
    GEMM.domain(OWN_DOMAIN),
];

fn infer_binary(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, broadcast_shapes(call.shape(0)?, call.shape(3)?)?)])
}

/// Two operands of a node, with their steps, and the step of the result; none where these are computed at run time.
struct Pair {
    a: Levels,
    b: Levels,
    zeros: [i64; 2],
    scales: [f32; 3],
    target: Target,
}

fn read_pair(x: &mut Expand) -> Result<Option<Pair>> {
    let (Some(a_zero), Some(b_zero)) = (constant_int(x, 2)?, constant_int(x, 5)?) else { return Ok(None) };
    let Some(target) = Target::of_output(x, 7)? else { return Ok(None) };
    let (Some(a_scale), Some(b_scale), Some(scale)) =
        (constant_scale(x, 1)?, constant_scale(x, 4)?, constant_scale(x, 6)?)
    else {
        return Ok(None);
    };
    // Products of longer ones are not exact in singles, and their pairs are too many to try.
    if x.dtype(0)?.bits().max(x.dtype(3)?.bits()) > 8 {
        return Ok(None);
    }
    let (a, b) = (levels(x, 0, a_zero)?, levels(x, 3, b_zero)?);
    Ok(Some(Pair { a, b, zeros: [a_zero, b_zero], scales: [a_scale, b_scale, scale], target }))
}

/// The step that input `index` is, where it is one constant.
fn constant_scale(x: &Call, index: usize) -> Result<Option<f32>> {
    let Some(constant) = x.constant(index) else { return Ok(None) };
    Ok(match constant.load_listed()?.float_list()?.as_slice() {
        [scale] if scale.is_normal() => Some(*scale),
        _ => None,
    })
}

/// Input `index` as a number again, with its step and zero point behind it.
fn dequantised(x: &mut Expand, index: usize) -> Result<Operand> {
    let inputs = [x.operand(index)?, x.operand(index + 1)?, x.operand(index + 2)?];
    x.op("DequantizeLinear", &inputs, &[])
}

/// Output 0 as quantised values of `operand`, with step and zero point at these inputs.
fn quantised(x: &mut Expand, operand: Operand, scale: usize) -> Result<bool> {
    let inputs = [operand, x.operand(scale)?, x.operand(scale + 1)?];
    let result = x.op("QuantizeLinear", &inputs, &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Sums of whole numbers times two ratios, and the zero point (`qladd_avx2.cpp`): fused products in singles.
fn expand_add(x: &mut Expand) -> Result<bool> {
    let Some(pair) = read_pair(x)? else {
        let (a, b) = (dequantised(x, 0)?, dequantised(x, 3)?);
        let sum = x.op("Add", &[a, b], &[])?;
        return quantised(x, sum, 6);
    };
    let base = base(x, pair.target);
    let [a_scale, b_scale, scale] = pair.scales;
    let (plane, exceptions) = Plane {
        ratios: [a_scale / scale, b_scale / scale],
        zeros: pair.zeros.map(|zero| zero + base),
        bounds: [(pair.a.low, pair.a.high), (pair.b.low, pair.b.high)],
        target: moved_target(pair.target, base),
    }
    .solve();
    let mut terms = Vec::new();
    for (levels, ratio) in [(pair.a, plane.ratios[0]), (pair.b, plane.ratios[1])] {
        let ratio = number(x, ratio)?;
        terms.push(x.op("Mul", &[levels.operand, ratio], &[])?);
    }
    terms.push(number(x, plane.zero)?);
    match plane.first {
        First::Products => {}
        First::A => terms.swap(1, 2),
        First::B => terms.rotate_left(1),
    }
    let mut moved = terms.remove(0);
    for term in terms {
        moved = x.op("Add", &[moved, term], &[])?;
    }
    let mut values = round(x, moved, pair.target.at_zero(-base))?;
    for exception in exceptions {
        let by = excepted(x, [pair.a.operand, pair.b.operand], exception)?;
        values = x.op("Add", &[values, by], &[])?;
    }
    let result = name_levels(x, values, pair.target.at_zero(-base))?;
    x.output(0, result)?;
    Ok(true)
}

/// What is added to the values of one pair: 0 elsewhere.
fn excepted(x: &mut Expand, operands: [Operand; 2], exception: Exception) -> Result<Operand> {
    let mut distances = Vec::new();
    for (operand, at) in operands.into_iter().zip(exception.at) {
        let at = whole(x, at)?;
        let difference = x.op("Sub", &[operand, at], &[])?;
        distances.push(x.op("Abs", &[difference], &[])?);
    }
    let distance = x.op("Add", &distances, &[])?;
    let one = whole(x, 1)?;
    let near = x.op("Sub", &[one, distance], &[])?;
    let near = x.op("Relu", &[near], &[])?;
    let by = whole(x, exception.by)?;
    x.op("Mul", &[near, by], &[])
}

/// What signed values are moved by before they are computed with: onnxruntime makes the quantised values of a network with
/// DequantizeLinear and QuantizeLinear unsigned (`qdq_s8_to_u8.cc`), but for processors of ARM.
fn base(x: &Call, target: Target) -> i64 {
    if x.node().domain == OWN_DOMAIN && target.dtype == DType::I8 { 128 } else { 0 }
}

fn moved_target(target: Target, base: i64) -> Target {
    Target { zero: target.zero + base, low: target.low + base, high: target.high + base, ..target }
}

/// As [`settle`], of numbers that the zero point is added to already: halves go to even values, not to even levels.
fn settle_values(x: &mut Expand, operand: Operand, target: Target) -> Result<Operand> {
    let base = base(x, target);
    settle(x, operand, target.at_zero(-base))
}

/// Whole products times a ratio, and the zero point (`qlmul.cpp`).
fn expand_mul(x: &mut Expand) -> Result<bool> {
    let Some(pair) = read_pair(x)? else {
        let (a, b) = (dequantised(x, 0)?, dequantised(x, 3)?);
        let product = x.op("Mul", &[a, b], &[])?;
        return quantised(x, product, 6);
    };
    let [a_scale, b_scale, scale] = pair.scales;
    let product = x.op("Mul", &[pair.a.operand, pair.b.operand], &[])?;
    let ratio = number(x, a_scale * b_scale / scale)?;
    let scaled = x.op("Mul", &[product, ratio], &[])?;
    let base = base(x, pair.target);
    let zero = whole(x, pair.target.zero + base)?;
    let moved = x.op("Add", &[scaled, zero], &[])?;
    let result = settle_values(x, moved, pair.target)?;
    x.output(0, result)?;
    Ok(true)
}

/// Where the parts of QLinearConcat begin: each has a step and a zero point behind it.
const FIRST_PART: usize = 2;

fn infer_concat(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    let axis = super::super::required(call.int("axis")?, "axis")?;
    let mut shape = call.shape(FIRST_PART)?.to_vec();
    let axis = super::resolve_axis(axis, shape.len())?;
    let mut total = Dim::Known(0);
    for part in (FIRST_PART..call.input_count()).step_by(3) {
        let size = call.shape(part)?.get(axis).cloned();
        total = total.add(&size.ok_or_else(|| Error::invalid("parts of different numbers of axes"))?)?;
    }
    if let Some(slot) = shape.get_mut(axis) {
        *slot = total;
    }
    Ok(vec![Fact::new(call.dtype(1)?, shape)])
}

/// Each part in steps of the result (`qlinear_concat.cc`: a table of all values), then all of them.
fn expand_concat(x: &mut Expand) -> Result<bool> {
    let axis = ("axis", Attribute::Int(super::super::required(x.int("axis")?, "axis")?));
    let mut parts = Vec::new();
    for part in (FIRST_PART..x.input_count()).step_by(3) {
        parts.push(stepped_part(x, part, 0)?);
    }
    let result = x.op("Concat", &parts, &[axis])?;
    x.output(0, result)?;
    Ok(true)
}

/// Places of the inputs of QLinearWhere.
mod choice {
    pub const X: usize = 1;
    pub const Y: usize = 4;
    pub const SCALE: usize = 7;
}

fn infer_where(call: &Call) -> Result<Vec<Fact>> {
    let shape = broadcast_shapes(call.shape(choice::X)?, call.shape(choice::Y)?)?;
    Ok(vec![Fact::new(call.dtype(choice::X)?, broadcast_shapes(call.shape(0)?, &shape)?)])
}

/// Both operands in steps of the result (`qlinear_where.cc`: a table of all values), then one of them.
fn expand_where(x: &mut Expand) -> Result<bool> {
    let condition = x.operand(0)?;
    let a = stepped_part(x, choice::X, choice::SCALE)?;
    let b = stepped_part(x, choice::Y, choice::SCALE)?;
    let result = x.op("Where", &[condition, a, b], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// Quantised values at input `part` in steps of the result, which stand at input `scale`.
fn stepped_part(x: &mut Expand, part: usize, scale: usize) -> Result<Operand> {
    if let Some(target) = Target::of_output(x, scale + 1)?
        && let Some(moved) = part_levels(x, part, scale, target)?
    {
        return Ok(moved);
    }
    let number = dequantised(x, part)?;
    let (step, zero) = (x.operand(scale)?, x.operand(scale + 1)?);
    x.op("QuantizeLinear", &[number, step, zero], &[])
}

/// The same where one product gives all values.
fn part_levels(x: &mut Expand, part: usize, scale: usize, target: Target) -> Result<Option<Operand>> {
    let (Some(scale), Some(part_scale), Some(zero)) =
        (constant_scale(x, scale)?, constant_scale(x, part + 1)?, constant_int(x, part + 2)?)
    else {
        return Ok(None);
    };
    if scale == part_scale && zero == target.zero {
        return x.operand(part).map(Some);
    }
    let levels = levels(x, part, zero)?;
    let line = Line { scales: [part_scale, scale], bounds: (levels.low, levels.high), target };
    let Some(ratio) = line.solve() else { return Ok(None) };
    let ratio = number(x, ratio)?;
    let scaled = x.op("Mul", &[levels.operand, ratio], &[])?;
    settle(x, scaled, target).map(Some)
}

fn infer_global_pool(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    if call.flag("channels_last", false)? {
        unsupported!("channels_last");
    }
    let mut shape = call.shape(0)?.to_vec();
    shape.iter_mut().skip(2).for_each(|size| *size = Dim::Known(1));
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// The sum of all levels times a ratio (`qlgavgpool.cpp`).
fn expand_global_pool(x: &mut Expand) -> Result<bool> {
    let count = Dim::product(x.shape(0)?.iter().skip(2))?.known();
    let (Some(count), Some(zero), Some(target), Some(x_scale), Some(scale)) =
        (count, constant_int(x, 2)?, Target::of_output(x, 4)?, constant_scale(x, 1)?, constant_scale(x, 3)?)
    else {
        let number = dequantised(x, 0)?;
        let mean = x.op("GlobalAveragePool", &[number], &[])?;
        return quantised(x, mean, 3);
    };
    let axes: Vec<i64> = (2..i64::try_from(x.shape(0)?.len())?).collect();
    let levels = levels(x, 0, zero)?;
    let axes = x.ints(&axes)?;
    let sum = x.op("ReduceSum", &[levels.operand, axes], &[])?;
    let count: f32 = count.as_();
    let ratio = number(x, x_scale / (scale * count))?;
    let scaled = x.op("Mul", &[sum, ratio], &[])?;
    let result = settle(x, scaled, target)?;
    x.output(0, result)?;
    Ok(true)
}

/// Places of the inputs of QGemm.
mod gemm {
    pub const C: usize = 6;
    pub const Y_SCALE: usize = 7;
    pub const Y_ZERO: usize = 8;
}

fn infer_gemm(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    call.float("alpha")?;
    let seen = |index: usize, transposed: bool| -> Result<Vec<Dim>> {
        let mut shape = call.shape(index)?.to_vec();
        if transposed {
            shape.reverse();
        }
        Ok(shape)
    };
    let (a, b) = (seen(0, call.flag("transA", false)?)?, seen(3, call.flag("transB", false)?)?);
    let dtype = if call.has_input(gemm::Y_ZERO) { call.dtype(gemm::Y_ZERO)? } else { DType::F32 };
    let shape = matmul_shape(&a, &b)?;
    call.check_stretches(gemm::C, &shape)?;
    Ok(vec![Fact::new(dtype, shape)])
}

/// Whole sums, with `c` among them, times a ratio (`quant_gemm.cc`).
fn expand_gemm(x: &mut Expand) -> Result<bool> {
    let alpha = x.float_or("alpha", 1.0)?;
    let (transposed_a, transposed_b) = (x.flag("transA", false)?, x.flag("transB", false)?);
    let places = Places { x: 0, x_zero: 2, weight: 3, weight_zero: 5, bias: Some(gemm::C) };
    let quick = if transposed_a { None } else { multiply(x, places, transposed_b)? };
    let sums = match quick {
        Some(sums) => sums,
        None => {
            let (a_zero, b_zero) = (matrix_parameter(x, 2, false)?, matrix_parameter(x, 5, transposed_b)?);
            let mut a = difference(x, 0, Some(a_zero))?;
            let mut b = difference(x, 3, Some(b_zero))?;
            if transposed_a {
                a = x.transpose(a, &[1, 0])?;
            }
            if transposed_b {
                b = x.transpose(b, &[1, 0])?;
            }
            let product = x.op("MatMul", &[a, b], &[])?;
            if x.has_input(gemm::C) {
                let c = x.operand(gemm::C)?;
                let c = cast(x, c, DType::F32)?;
                x.op("Add", &[product, c], &[])?
            } else {
                product
            }
        }
    };
    let (a_scale, b_scale) = (matrix_parameter(x, 1, false)?, matrix_parameter(x, 4, false)?);
    let alpha = number(x, alpha)?;
    let scale = x.op("Mul", &[alpha, a_scale], &[])?;
    let scale = x.op("Mul", &[scale, b_scale], &[])?;
    if !x.has_input(gemm::Y_SCALE) {
        let result = x.op("Mul", &[sums, scale], &[])?;
        x.output(0, result)?;
        return Ok(true);
    }
    let y_scale = matrix_parameter(x, gemm::Y_SCALE, false)?;
    let scaled = rescaled(x, sums, scale, y_scale, [1, 4, gemm::Y_SCALE])?;
    let Some(target) = Target::of_output(x, gemm::Y_ZERO)? else {
        unsupported!("a zero point of the result that is computed at run time");
    };
    let result = settle(x, scaled, target)?;
    x.output(0, result)?;
    Ok(true)
}

fn infer_function(call: &Call) -> Result<Vec<Fact>> {
    call.float("alpha")?;
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

/// A table of all values (`qlinear_lookup_table.cc`).
fn expand_leaky_relu(x: &mut Expand) -> Result<bool> {
    let alpha = ("alpha", Attribute::Float(x.float_or("alpha", 0.01)?));
    let number = dequantised(x, 0)?;
    let result = x.op("LeakyRelu", &[number], &[alpha])?;
    quantised(x, result, 3)
}

fn expand_sigmoid(x: &mut Expand) -> Result<bool> {
    let number = dequantised(x, 0)?;
    let result = x.op("Sigmoid", &[number], &[])?;
    quantised(x, result, 3)
}

fn infer_pool(call: &Call) -> Result<Vec<Fact>> {
    if call.flag("channels_last", false)? {
        unsupported!("channels_last");
    }
    read_bounds(call)?;
    crate::ops::pool::infer_pool(call)
}

/// What QLinearAveragePool has in common with AveragePool.
const POOLING: [&str; 6] = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];

/// The attributes of AveragePool that computes what QLinearAveragePool does: where padding counts, all places of a window count, those
/// that rounding up adds behind the padding among them (`qlinear_pool.cc`). AveragePool leaves these out, unless they are padding.
pub(crate) fn whole_windows(
    mut attributes: AttributeMap,
    given: &[Dim],
    pooled: &[Dim],
) -> Result<AttributeMap> {
    let flag = |name: &str| matches!(attributes.get(name), Some(Attribute::Int(flag)) if *flag != 0);
    if !flag("ceil_mode") || !flag("count_include_pad") {
        return Ok(attributes);
    }
    let Some(Attribute::Ints(kernel)) = attributes.get("kernel_shape").cloned() else {
        return Ok(attributes);
    };
    let list = |name: &str, default: Vec<i64>| match attributes.get(name) {
        Some(Attribute::Ints(list)) => list.clone(),
        _ => default,
    };
    let strides = list("strides", vec![1; kernel.len()]);
    let mut pads = list("pads", vec![0; 2 * kernel.len()]);
    for (axis, size) in kernel.iter().enumerate() {
        let (Some(given), Some(pooled)) = (given.at(axis + 2)?.known(), pooled.at(axis + 2)?.known()) else {
            unsupported!("ceil_mode where padding counts, of a size that is not fixed");
        };
        let covered = pooled.saturating_sub(1).saturating_mul(*strides.at(axis)?).saturating_add(*size);
        let begin = *pads.at(axis)?;
        if let Some(end) = pads.get_mut(axis + kernel.len()) {
            *end = (*end).max(covered.saturating_sub(given).saturating_sub(begin));
        }
    }
    attributes.insert("pads".into(), Attribute::Ints(pads));
    attributes.insert("ceil_mode".into(), Attribute::Int(0));
    Ok(attributes)
}

/// The mean of numbers over the step, and the zero point, which are rounded together (`qlinear_pool.cc`).
fn expand_pool(x: &mut Expand) -> Result<bool> {
    let mut given = x.node().attributes.clone();
    given.retain(|name, _| POOLING.contains(&name.as_str()));
    let given = whole_windows(given, x.shape(0)?, x.output_shape(0)?)?;
    let attributes: Vec<(&str, Attribute)> =
        given.iter().map(|(name, attribute)| (name.as_str(), attribute.clone())).collect();
    let number = dequantised(x, 0)?;
    let mean = x.op("AveragePool", &[number], &attributes)?;
    let Some(target) = Target::of_output(x, 4)? else {
        return quantised(x, mean, 3);
    };
    let scale = x.operand(3)?;
    let scaled = quotient(x, mean, scale)?;
    let base = base(x, target);
    let zero = whole(x, target.zero + base)?;
    let moved = x.op("Add", &[scaled, zero], &[])?;
    let result = settle_values(x, moved, target)?;
    x.output(0, result)?;
    Ok(true)
}

/// The operator set from which Softmax is along one axis.
const SOFTMAX_ONE_AXIS: i64 = 13;

fn infer_softmax(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    let opset = super::super::required(call.int("opset")?, "opset")?;
    let rank = call.shape(0)?.len();
    let axis = call.int_or("axis", if opset < SOFTMAX_ONE_AXIS { 1 } else { -1 })?;
    if opset < SOFTMAX_ONE_AXIS && super::resolve_axis(axis, rank)? + 1 != rank {
        unsupported!("several axes together");
    }
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

/// Probabilities times the whole part of the steps in 1 (`qlinear_softmax.cc`).
fn expand_softmax(x: &mut Expand) -> Result<bool> {
    let opset = super::super::required(x.int("opset")?, "opset")?;
    let axis = x.int_or("axis", if opset < SOFTMAX_ONE_AXIS { 1 } else { -1 })?;
    let input = dequantised(x, 0)?;
    let result = x.op("Softmax", &[input], &[("axis", Attribute::Int(axis))])?;
    let (Some(target), Some(scale)) = (Target::of_output(x, 4)?, constant_scale(x, 3)?) else {
        return quantised(x, result, 3);
    };
    let steps = number(x, (1.0 / scale).floor())?;
    let scaled = x.op("Mul", &[result, steps], &[])?;
    let result = settle(x, scaled, target)?;
    x.output(0, result)?;
    Ok(true)
}
