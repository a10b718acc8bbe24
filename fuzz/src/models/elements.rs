//! Operators over elements, comparisons, reductions, and arithmetic of integers.

use super::graph::Attr::{Int, Text};
use super::graph::{BOOL, Draw, FLOAT, I8, I32, I64, U8, Value};

#[rustfmt::skip]
pub const OPERATORS: &[fn(&mut Draw) -> Option<()>] = &[
    unary, unary, unary, positive, binary, binary, binary, binary, chained, power, clip, choice, logic,
    logic, several, slope, cast, cast, cumulate, reduce, reduce, reduce, best, best, arithmetic, arithmetic,
    bits, residual, contributed,
];

#[rustfmt::skip]
const UNARY: &[&str] = &[
    "Abs", "Atan", "Asinh", "Celu", "Cos", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish",
    "Identity", "LeakyRelu", "Mish", "Neg", "Relu", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Tanh", "ThresholdedRelu", "Floor", "Ceil", "Round", "Dropout", "Swish", "Cosh",
    "Tan",
];
const ALPHA: &[&str] = &["LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "HardSigmoid", "Selu", "Swish"];
#[rustfmt::skip]
const SUMS: &[&str] = &[
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum",
];
const COMPARED: &[&str] = &["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"];

fn apply(g: &mut Draw, x: &Value) -> Option<Value> {
    let op = g.one(UNARY);
    let mut attributes = Vec::new();
    if ALPHA.contains(&op) && g.rng.bool() {
        attributes.push(("alpha", g.real(0.1, 2.0)));
    }
    if op == "Gelu" {
        attributes.push(("approximate", Text(g.one(&["none", "tanh"]))));
    }
    if op == "Shrink" {
        attributes.extend([("lambd", g.real(0.1, 1.0)), ("bias", g.real(0.0, 1.0))]);
    }
    g.op(op, &[x], &attributes)
}

fn unary(g: &mut Draw) -> Option<()> {
    let x = g.floats(0..=6)?;
    apply(g, &x).map(drop)
}

fn residual(g: &mut Draw) -> Option<()> {
    let x = g.floats(0..=6)?;
    let y = apply(g, &x)?;
    g.op("Add", &[&x, &y], &[]).map(drop)
}

fn positive(g: &mut Draw) -> Option<()> {
    let x = g.floats(0..=6)?;
    let x = g.op("Abs", &[&x], &[])?;
    let least = g.one(&[0.1, 1.0]);
    let x = g.by("Add", &x, least)?;
    let op = g.one(&["Sqrt", "Log", "Reciprocal"]);
    g.op(op, &[&x], &[]).map(drop)
}

fn pair(g: &mut Draw, x: &Value) -> Option<[Value; 2]> {
    let dtype = x.dtype;
    let other = if g.chance(0.4) { g.value(|value| value.dtype == dtype)? } else { g.operand(x) };
    Some(if g.chance(0.7) { [x.clone(), other] } else { [other, x.clone()] })
}

fn binary(g: &mut Draw) -> Option<()> {
    let x = g.floats(0..=6)?;
    let [a, b] = pair(g, &x)?;
    let op = g.one(&["Add", "Sub", "Mul", "Div", "Add", "Mul", "Max", "Min", "Mod"]);
    let attributes: &[_] = if op == "Mod" { &[("fmod", Int(1))] } else { &[] };
    g.op(op, &[&a, &b], attributes).map(drop)
}

/// Consecutive constants, which are merged.
fn chained(g: &mut Draw) -> Option<()> {
    let mut x = g.floats(0..=6)?;
    for _ in 0..g.int(2, 3) {
        let (op, by) = (g.one(&["Add", "Mul", "Sub", "Div"]), 0.5 + 1.5 * g.rng.f64());
        let by = if g.rng.bool() { g.scalar(by) } else { g.operand(&x) };
        x = if g.chance(0.8) { g.op(op, &[&x, &by], &[])? } else { g.op(op, &[&by, &x], &[])? };
    }
    Some(())
}

fn power(g: &mut Draw) -> Option<()> {
    let mut x = g.floats(0..=6)?;
    if g.rng.bool() {
        x = g.op("Abs", &[&x], &[])?;
    }
    let exponent = g.one(&[2.0, 3.0, 0.5, 1.0, 2.5, -1.0, 0.0, -2.0]);
    g.by("Pow", &x, exponent).map(drop)
}

pub fn clip_between(g: &mut Draw, x: &Value, low: f32, high: f32) -> Option<Value> {
    if g.version < 11 {
        return g.op(
            "Clip",
            &[x],
            &[("min", super::graph::Attr::Float(low)), ("max", super::graph::Attr::Float(high))],
        );
    }
    let [low, high] = [low, high].map(|bound| g.constant(x.dtype, &[], &[bound.into()]));
    g.op("Clip", &[x, &low, &high], &[])
}

fn clip(g: &mut Draw) -> Option<()> {
    let x = if g.version >= 12 && g.chance(0.2) { g.integers()? } else { g.floats(0..=6)? };
    let (low, high) = (g.one(&[-1.0, -0.5, 0.0]), g.one(&[0.3, 1.0, 6.0]));
    clip_between(g, &x, low, high).map(drop)
}

fn condition(g: &mut Draw) -> Option<Value> {
    if g.chance(0.3)
        && let Some(x) = g.value(|value| value.dtype == BOOL)
    {
        return Some(x);
    }
    let x = if g.chance(0.3) { g.integers()? } else { g.floats(0..=6)? };
    let by = g.operand(&x);
    let op = g.one(COMPARED);
    g.op(op, &[&x, &by], &[])
}

fn choice(g: &mut Draw) -> Option<()> {
    let condition = condition(g)?;
    let x = if g.chance(0.3) { g.integers()? } else { g.floats(0..=6)? };
    let [a, b] = pair(g, &x)?;
    g.op("Where", &[&condition, &a, &b], &[]).map(drop)
}

/// A selection by several comparisons.
fn logic(g: &mut Draw) -> Option<()> {
    let mut is = condition(g)?;
    for _ in 0..g.int(0, 2) {
        is = if g.chance(0.3) {
            g.op("Not", &[&is], &[])?
        } else {
            let (op, other) = (g.one(&["And", "Or", "Xor"]), condition(g)?);
            g.op(op, &[&is, &other], &[])?
        };
    }
    if g.chance(0.3) {
        let to = i64::from(g.one(&[FLOAT, I32, I64]));
        return g.op("Cast", &[&is], &[("to", Int(to))]).map(drop);
    }
    let x = g.floats(0..=6)?;
    let [a, b] = pair(g, &x)?;
    g.op("Where", &[&is, &a, &b], &[]).map(drop)
}

fn several(g: &mut Draw) -> Option<()> {
    let x = g.floats(0..=6)?;
    let (by, other) = (g.operand(&x), g.floats(0..=6)?);
    let op = g.one(&["Max", "Min", "Mean", "Sum"]);
    g.op(op, &[&x, &by, &other], &[]).map(drop)
}

fn slope(g: &mut Draw) -> Option<()> {
    let x = g.floats(1..=5)?;
    let by = g.operand(&x);
    g.op("PRelu", &[&x, &by], &[]).map(drop)
}

/// Casts between any two types. Those to 8 bits wrap around, and those from floats truncate.
fn cast(g: &mut Draw) -> Option<()> {
    let x = g.value(|_| true)?;
    let float = g.float;
    let to = |dtype: i32| [("to", Int(dtype.into()))];
    let through = g.one(&[I32, I64, BOOL, float]);
    let y = g.op("Cast", &[&x], &to(through))?;
    match g.int(0, 3) {
        0 if y.is_int() => {
            let bytes = g.one(&[I8, U8]);
            let y = g.op("Cast", &[&y], &to(bytes))?;
            g.op("Cast", &[&y], &to(I32)).map(drop)
        }
        1..=2 => g.op("Cast", &[&y], &to(float)).map(drop),
        _ => Some(()),
    }
}

fn cumulate(g: &mut Draw) -> Option<()> {
    let x = if g.chance(0.2) { g.integers()? } else { g.floats(1..=5)? };
    let axis = g.rng.usize(0..x.shape.len().max(1)) as f64;
    let axis = g.constant(I64, &[], &[axis]);
    let attributes = [("reverse", g.flag()), ("exclusive", g.flag())];
    g.op("CumSum", &[&x, &axis], &attributes).map(drop)
}

fn reduce(g: &mut Draw) -> Option<()> {
    let x = if g.chance(0.2) { g.integers()? } else { g.floats(1..=6)? };
    let op = g.one(if x.is_int() { &SUMS[..5] } else { SUMS });
    if x.is_int() && op == "ReduceMean" {
        return None;
    }
    let axes = g.axes(&x);
    let since = if op == "ReduceSum" { 13 } else { 18 };
    let keep = [("keepdims", g.flag())];
    if g.chance(0.15) {
        return g.op(op, &[&x], &keep).map(drop);
    }
    g.listed(op, &x, ("axes", since, &axes), &keep, 1).map(drop)
}

/// Indices and values of the largest elements.
fn best(g: &mut Draw) -> Option<()> {
    let x = if g.chance(0.2) { g.integers()? } else { g.floats(1..=5)? };
    let axis = g.int(0, x.rank() - 1);
    if g.chance(0.4) && x.rank() > 0 {
        let count = g.int(1, x.size(axis));
        let mut attributes = vec![("axis", Int(axis))];
        if g.version >= 11 {
            attributes.push(("largest", g.flag()));
        }
        return g.listed("TopK", &x, ("k", 10, &[count]), &attributes, 2).map(drop);
    }
    let mut attributes = vec![("axis", Int(axis)), ("keepdims", g.flag())];
    if g.version >= 12 {
        attributes.push(("select_last_index", g.flag()));
    }
    let op = g.one(&["ArgMax", "ArgMin"]);
    let place = g.op(op, &[&x], &attributes)?;
    if g.rng.bool() {
        return g.op("Cast", &[&place], &[("to", Int(g.float.into()))]).map(drop);
    }
    let (depth, values) =
        (g.constant(I64, &[], &[x.size(axis) as f64]), g.constant(FLOAT, &[2], &[0.0, 1.5]));
    let axis = g.one(&[-1, 0]);
    g.op("OneHot", &[&place, &depth, &values], &[("axis", Int(axis))]).map(drop)
}

fn arithmetic(g: &mut Draw) -> Option<()> {
    let x = g.integers()?;
    let [a, b] = pair(g, &x)?;
    match g.int(0, 7) {
        0 => {
            let op = g.one(&["Abs", "Neg", "Sign", "Identity"]);
            g.op(op, &[&x], &[]).map(drop)
        }
        1..=2 => {
            let by = g.one(&[2.0, 3.0, -4.0, 7.0, 1.0]);
            let by = g.constant(x.dtype, &[], &[by]);
            let (op, fmod) = g.one(&[("Div", 0), ("Mod", 0), ("Mod", 1)]);
            let attributes = [("fmod", Int(fmod))];
            g.op(op, &[&x, &by], if op == "Mod" { &attributes } else { &[] }).map(drop)
        }
        3 => {
            let op = g.one(COMPARED);
            g.op(op, &[&a, &b], &[]).map(drop)
        }
        _ => {
            let op = g.one(&["Add", "Sub", "Mul", "Max", "Min"]);
            g.op(op, &[&a, &b], &[]).map(drop)
        }
    }
}

fn bits(g: &mut Draw) -> Option<()> {
    let x = g.integers()?;
    let by = g.operand(&x);
    match g.one(&["BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"]) {
        "BitwiseNot" => g.op("BitwiseNot", &[&x], &[]).map(drop),
        op => g.op(op, &[&x, &by], &[]).map(drop),
    }
}

/// Operators of onnxruntime.
fn contributed(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=3)?;
    let (size, alpha) = ([*x.shape.last()?], g.real(0.5, 2.0));
    let [a, b] = std::array::from_fn(|_| g.normal(&size, 1.0));
    match g.int(0, 5) {
        0 => g.op("com.microsoft:BiasGelu", &[&x, &a], &[]),
        1 => g.op("com.microsoft:FastGelu", &[&x, &a], &[]),
        2 => g.op("com.microsoft:QuickGelu", &[&x], &[("alpha", alpha)]),
        3 => g.op("com.microsoft:SkipLayerNormalization", &[&x, &x, &a, &b], &[]),
        4 => {
            let other = super::arrays::turned(g, &x)?;
            let attributes = [("alpha", alpha), ("transB", g.flag())];
            g.op("com.microsoft:FusedMatMul", &[&x, &other], &attributes)
        }
        _ => g.op("com.microsoft:SimplifiedLayerNormalization", &[&x, &a], &[("axis", Int(-1))]),
    }
    .map(drop)
}
