//! Operators with weights, normalizations, and patterns that are fused to them.

use super::graph::Attr::{Float, Int, Ints, Text};
use super::graph::{Draw, I8, Value};

#[rustfmt::skip]
pub const OPERATORS: &[fn(&mut Draw) -> Option<()>] = &[
    convolution, convolution, convolution, batch_norm, pool, pool, product, product, gemm, layer_norm, layer_norm, other_norm, other_norm, softmax, gate, gate, resize, resize,
    sample, quantized, quantized, regions,
];

fn activate(g: &mut Draw, x: &Value) -> Option<Value> {
    match g.int(0, 8) {
        0..=4 => {
            let op = g.one(&["Relu", "LeakyRelu", "Sigmoid", "HardSwish", "HardSigmoid", "Mish", "Tanh"]);
            g.op(op, &[x], &[])
        }
        5 => super::elements::clip_between(g, x, 0.0, 6.0),
        6 => {
            let y = g.op("Sigmoid", &[x], &[])?;
            g.op("Mul", &[x, &y], &[])
        }
        _ => Some(x.clone()),
    }
}

fn convolution(g: &mut Draw) -> Option<()> {
    let mut x = g.floats(3..=5)?;
    let (channels, spatial) = (x.size(1), x.shape.len() - 2);
    let group = if g.chance(0.2) { channels } else { g.divisor(channels) };
    let out = group * g.int(1, 3);
    let mut list =
        |low: i64, high: i64, count: usize| -> Vec<i64> { (0..count).map(|_| g.int(low, high)).collect() };
    let (kernel, strides) = (list(1, 3, spatial), list(1, 2, spatial));
    let (pads, dilations, extra) = (list(0, 2, 2 * spatial), list(1, 2, spatial), list(0, 1, spatial));
    let kernel: Vec<i64> =
        kernel.iter().zip(&x.shape[2..]).map(|(kernel, size)| (*kernel).min(*size)).collect();
    let mut attributes = vec![("group", Int(group)), ("strides", Ints(strides))];
    match g.int(0, 9) {
        0..=5 => attributes.push(("pads", Ints(pads))),
        6..=7 => attributes.push(("auto_pad", Text(g.one(&["SAME_UPPER", "SAME_LOWER", "VALID"])))),
        _ => {}
    }
    if g.chance(0.25) {
        attributes.push(("dilations", Ints(dilations)));
    }
    let is_transposed = g.chance(0.25);
    let ends = if is_transposed { [channels, out / group] } else { [out, channels / group] };
    let weight = g.normal(&[&ends[..], &kernel].concat(), 0.5);
    if is_transposed && g.chance(0.3) {
        attributes.push(("output_padding", Ints(extra)));
    }
    if !is_transposed && g.chance(0.15) {
        x = super::arrays::padded(g, &x, (0, 1))?;
    }
    let bias = if g.chance(0.6) { g.normal(&[out], 1.0) } else { Value::default() };
    let op = if is_transposed { "ConvTranspose" } else { "Conv" };
    let mut y = g.op(op, &[&x, &weight, &bias], &attributes)?;
    if g.chance(0.4) {
        y = normalized(g, &y)?;
    }
    if g.chance(0.3) {
        let by = g.normal(&[&[1, out][..], &vec![1; spatial]].concat(), 1.0);
        let op = g.one(&["Mul", "Add", "Sub", "Div"]);
        y = g.op(op, &[&y, &by], &[])?;
    }
    activate(g, &y).map(drop)
}

fn normalized(g: &mut Draw, x: &Value) -> Option<Value> {
    let size = [x.size(1)];
    let [scale, bias, mean, root] = std::array::from_fn(|_| g.normal(&size, 1.0));
    let variance = g.op("Abs", &[&root], &[])?;
    let epsilon = Float(g.one(&[1e-5, 1e-3]));
    g.op("BatchNormalization", &[x, &scale, &bias, &mean, &variance], &[("epsilon", epsilon)])
}

fn batch_norm(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=5)?;
    normalized(g, &x).map(drop)
}

fn pool(g: &mut Draw) -> Option<()> {
    let x = g.floats(3..=5)?;
    let p = ("p", Int(g.int(1, 3)));
    match g.int(0, 9) {
        0..=1 => return g.op("GlobalAveragePool", &[&x], &[]).map(drop),
        2 => return g.op("GlobalMaxPool", &[&x], &[]).map(drop),
        3 => return g.op("GlobalLpPool", &[&x], &[p]).map(drop),
        _ => {}
    }
    let kernel: Vec<i64> = x.shape[2..].iter().map(|size| g.int(1, 3.min(*size))).collect();
    let strides = kernel.iter().map(|_| g.int(1, 3)).collect();
    let pads: Vec<i64> = [&kernel[..], &kernel].concat().iter().map(|k| g.int(0, k - 1)).collect();
    let dilations = kernel.iter().map(|_| g.int(1, 2)).collect();
    let mut attributes = vec![("kernel_shape", Ints(kernel)), ("strides", Ints(strides))];
    match g.int(0, 5) {
        0..=2 => attributes.push(("pads", Ints(pads))),
        3 => attributes.push(("auto_pad", Text(g.one(&["SAME_UPPER", "SAME_LOWER", "VALID"])))),
        _ => {}
    }
    if g.version >= 10 {
        attributes.push(("ceil_mode", g.flag()));
    }
    if g.chance(0.15) {
        attributes.push(("dilations", Ints(dilations)));
    }
    match g.int(0, 4) {
        0..=1 => g.op("MaxPool", &[&x], &attributes).map(drop),
        2 => g.op("LpPool", &[&x], &[attributes, vec![p]].concat()).map(drop),
        _ => {
            attributes.push(("count_include_pad", g.flag()));
            g.op("AveragePool", &[&x], &attributes).map(drop)
        }
    }
}

fn product(g: &mut Draw) -> Option<()> {
    let x = g.floats(1..=5)?;
    let inner = *x.shape.last()?;
    if g.chance(0.3) {
        let turned = super::arrays::turned(g, &x)?;
        let sides = if g.rng.bool() { [&x, &turned] } else { [&turned, &x] };
        return g.op("MatMul", &sides, &[]).map(drop);
    }
    let out = g.int(1, 6);
    let batch = if g.chance(0.15) { x.shape[..x.shape.len() - 1].split_last()?.1 } else { &[] };
    let weight = g.normal(&[batch, &[inner, out]].concat(), 0.5);
    let mut y = g.op("MatMul", &[&x, &weight], &[])?;
    if g.chance(0.6) {
        let bias = g.normal(&[out], 1.0);
        let sides = if g.rng.bool() { [&y, &bias] } else { [&bias, &y] };
        y = g.op("Add", &sides, &[])?;
    }
    activate(g, &y).map(drop)
}

fn gemm(g: &mut Draw) -> Option<()> {
    let x = g.floats(1..=5)?;
    let axis = g.int(0, x.rank());
    let flat = g.op("Flatten", &[&x], &[("axis", Int(axis))])?;
    let [left, right] = [g.int(0, 1), g.int(0, 1)];
    let (inner, out) = (flat.size(1 - left), g.int(1, 6));
    let weight = g.normal(&if right == 1 { [out, inner] } else { [inner, out] }, 0.3);
    let bias = match g.int(0, 3) {
        0..=1 => g.normal(&[out], 1.0),
        2 => g.operand(&Value { shape: vec![flat.size(left), out], ..flat.clone() }),
        _ => Value::default(),
    };
    let [alpha, beta] = [Float(g.one(&[1.0, 0.5])), Float(g.one(&[1.0, 2.0]))];
    let attributes = [("transA", Int(left)), ("transB", Int(right)), ("alpha", alpha), ("beta", beta)];
    let y = g.op("Gemm", &[&flat, &weight, &bias], &attributes)?;
    activate(g, &y).map(drop)
}

fn layer_norm(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=4)?;
    let size = [*x.shape.last()?];
    let [scale, bias] = std::array::from_fn(|_| g.normal(&size, 1.0));
    if g.chance(0.4) {
        let op = g.one(&["LayerNormalization", "LayerNormalization", "RMSNormalization"]);
        let bias = if op == "RMSNormalization" { Value::default() } else { bias };
        return g.op(op, &[&x, &scale, &bias], &[("axis", Int(-1))]).map(drop);
    }
    let is_centered = g.chance(0.7);
    let mean =
        |g: &mut Draw, x: &Value| Some(g.listed("ReduceMean", x, ("axes", 18, &[-1]), &[], 1)?.remove(0));
    let centered = if is_centered {
        let mean = mean(g, &x)?;
        g.op("Sub", &[&x, &mean], &[])?
    } else {
        x
    };
    let two = g.scalar(2.0);
    let square = if g.rng.bool() { ("Pow", &two) } else { ("Mul", &centered) };
    let square = g.op(square.0, &[&centered, square.1], &[])?;
    let variance = mean(g, &square)?;
    let variance = g.by("Add", &variance, 1e-5)?;
    let deviation = g.op("Sqrt", &[&variance], &[])?;
    let y = g.op("Div", &[&centered, &deviation], &[])?;
    let y = g.op("Mul", &[&y, &scale], &[])?;
    if is_centered { g.op("Add", &[&y, &bias], &[]).map(drop) } else { Some(()) }
}

fn other_norm(g: &mut Draw) -> Option<()> {
    let x = g.floats(3..=5)?;
    let channels = x.size(1);
    let size = [channels];
    let [scale, bias] = std::array::from_fn(|_| g.normal(&size, 1.0));
    match g.int(0, 5) {
        0..=1 => g.op("InstanceNormalization", &[&x, &scale, &bias], &[]).map(drop),
        2 => {
            let groups = g.divisor(channels);
            let size = [if g.version >= 21 { channels } else { groups }];
            let [scale, bias] = std::array::from_fn(|_| g.normal(&size, 1.0));
            g.op("GroupNormalization", &[&x, &scale, &bias], &[("num_groups", Int(groups))]).map(drop)
        }
        3 => {
            let attributes = [("axis", Int(g.int(0, x.rank() - 1))), ("p", Int(g.int(1, 2)))];
            g.op("LpNormalization", &[&x], &attributes).map(drop)
        }
        4 => {
            let attributes =
                [("size", Int(g.int(1, 5))), ("alpha", g.real(0.0, 1.0)), ("bias", g.real(0.5, 2.0))];
            g.op("LRN", &[&x], &attributes).map(drop)
        }
        _ => {
            let axes = g.axes(&x);
            g.op("MeanVarianceNormalization", &[&x], &[("axes", Ints(axes))]).map(drop)
        }
    }
}

fn softmax(g: &mut Draw) -> Option<()> {
    let x = g.floats(1..=5)?;
    let (op, axis) =
        (g.one(&["Softmax", "Softmax", "LogSoftmax", "Hardmax"]), g.int(-x.rank(), x.rank() - 1));
    g.op(op, &[&x], &[("axis", Int(axis))]).map(drop)
}

/// Activations that are written as several operators.
fn gate(g: &mut Draw) -> Option<()> {
    let x = g.floats(1..=5)?;
    let y = match g.int(0, 5) {
        0 => g.op("Sigmoid", &[&x], &[])?,
        1 => {
            let part = g.by("Div", &x, 2.0_f64.sqrt())?;
            let part = g.op("Erf", &[&part], &[])?;
            let part = g.by("Add", &part, 1.0)?;
            g.by("Mul", &part, 0.5)?
        }
        2 => g.op("HardSigmoid", &[&x], &[("alpha", Float(1.0 / 6.0)), ("beta", Float(0.5))])?,
        3 => {
            let part = g.op("Softplus", &[&x], &[])?;
            g.op("Tanh", &[&part], &[])?
        }
        4 => {
            let part = g.by("Add", &x, 3.0)?;
            let part = super::elements::clip_between(g, &part, 0.0, 6.0)?;
            g.by("Div", &part, 6.0)?
        }
        _ => {
            let part = g.by("Mul", &x, 1.702)?;
            g.op("Sigmoid", &[&part], &[])?
        }
    };
    g.op("Mul", &[&x, &y], &[]).map(drop)
}

fn resize(g: &mut Draw) -> Option<()> {
    let x = g.floats(3..=5)?;
    let mode = g.one(&["nearest", "nearest", "linear", "cubic"]);
    let scales: Vec<f64> = x
        .shape
        .iter()
        .enumerate()
        .map(|(axis, _)| if axis < 2 { 1.0 } else { g.one(&[0.5, 1.0, 1.5, 2.0, 3.0, 0.6]) })
        .collect();
    let scales = g.constant(super::graph::FLOAT, &[x.rank()], &scales);
    if g.version < 11 {
        let op = if g.version == 10 { "Resize" } else { "Upsample" };
        return g.op(op, &[&x, &scales], &[("mode", Text(mode))]).map(drop);
    }
    let coordinates =
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"];
    let nearest = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"];
    let attributes = [
        ("mode", Text(mode)),
        ("coordinate_transformation_mode", Text(g.one(&coordinates))),
        ("nearest_mode", Text(g.one(&nearest))),
        ("cubic_coeff_a", Float(g.one(&[-0.75, -0.5]))),
        ("exclude_outside", Int(i64::from(mode == "cubic" && g.chance(0.2)))),
        ("antialias", g.flag()),
    ];
    let count = if g.version >= 18 && g.chance(0.3) { 6 } else { 5 };
    let none = g.constant(super::graph::FLOAT, &[0], &[]);
    let roi = if g.version >= 13 && g.rng.bool() { Value::default() } else { none.clone() };
    if g.chance(0.3) {
        let sizes: Vec<i64> =
            [x.shape[..2].to_vec(), x.shape[2..].iter().map(|_| g.int(1, 9)).collect()].concat();
        let sizes = g.ints(&sizes);
        let scales = if g.version >= 13 { Value::default() } else { none };
        return g.op("Resize", &[&x, &roi, &scales, &sizes], &attributes[..count]).map(drop);
    }
    g.op("Resize", &[&x, &roi, &scales], &attributes[..count]).map(drop)
}

fn sample(g: &mut Draw) -> Option<()> {
    let x = g.floats(4..=4)?;
    let grid = [x.size(0), g.int(1, 4), g.int(1, 4), 2];
    let grid = g.normal(&grid, 0.8);
    let modes =
        if g.version >= 20 { ["linear", "cubic", "nearest"] } else { ["bilinear", "bicubic", "nearest"] };
    let attributes = [
        ("mode", Text(g.one(&modes))),
        ("padding_mode", Text(g.one(&["zeros", "border", "reflection"]))),
        ("align_corners", g.flag()),
    ];
    g.op("GridSample", &[&x, &grid], &attributes).map(drop)
}

/// Rounding to 8 bits and back, of a value and of a weight.
fn quantized(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=4)?;
    let rounded = |g: &mut Draw, x: &Value| {
        let (scale, zero) = (g.scalar(0.05), g.int(-3, 3) as f64);
        let scale = Value { shape: Vec::new(), ..scale };
        let zero = g.constant(I8, &scale.shape, &[zero]);
        let levels = g.op("QuantizeLinear", &[x, &scale, &zero], &[])?;
        g.op("DequantizeLinear", &[&levels, &scale, &zero], &[])
    };
    let x = rounded(g, &x)?;
    let (out, is_conv) = (g.int(1, 4), x.rank() == 4 && g.chance(0.7));
    let shape = if is_conv { vec![out, x.size(1), 1, 1] } else { vec![*x.shape.last()?, out] };
    let count = usize::try_from(shape.iter().product::<i64>()).ok()?;
    let levels: Vec<f64> = (0..count).map(|_| g.int(-127, 127) as f64).collect();
    let (levels, scale) = (g.constant(I8, &shape, &levels), g.constant(g.float, &[], &[0.01]));
    let weight = g.op("DequantizeLinear", &[&levels, &scale], &[])?;
    let y = g.op(if is_conv { "Conv" } else { "MatMul" }, &[&x, &weight], &[])?;
    if g.rng.bool() { rounded(g, &y).map(drop) } else { Some(()) }
}

fn regions(g: &mut Draw) -> Option<()> {
    let x = g.floats(4..=4)?;
    let count = g.int(1, 3);
    let mut boxes = Vec::new();
    for _ in 0..count {
        let (left, top) = (g.int(0, 4) as f64 / 2.0, g.int(0, 4) as f64 / 2.0);
        boxes.extend([left, top, left + g.int(1, 6) as f64 / 2.0, top + g.int(1, 6) as f64 / 2.0]);
    }
    let boxes = g.constant(g.float, &[count, 4], &boxes);
    let batch = g.ints(&vec![0; usize::try_from(count).ok()?]);
    let attributes = [
        ("output_height", Int(g.int(1, 3))),
        ("output_width", Int(g.int(1, 3))),
        ("sampling_ratio", Int(g.int(0, 2))),
        ("spatial_scale", Float(g.one(&[1.0, 0.5]))),
        ("mode", Text(g.one(&["avg", "max"]))),
    ];
    g.op("RoiAlign", &[&x, &boxes, &batch], &attributes).map(drop)
}
