//! Operators that move elements.

use super::graph::Attr::{Int, Ints, Text};
use super::graph::{BOOL, Draw, I64, Value};

#[rustfmt::skip]
pub const OPERATORS: &[fn(&mut Draw) -> Option<()>] = &[
    reshape, reshape, transpose, transpose, shuffle, squeeze, squeeze, concat, concat, split, split, slices,
    slices, gather, pad, pad, tile, rearrange, triangle, pick, scatter, expand, reversed_part, compress,
    by_shape, flatten, lookup,
];

/// Returns any value of floats, or at times of other types.
fn any(g: &mut Draw) -> Option<Value> {
    if g.chance(0.2) { g.value(|value| value.rank() > 0) } else { g.floats(1..=6) }
}

fn reshape(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let mut size: i64 = x.shape.iter().product();
    let mut sizes = Vec::new();
    while sizes.len() < 5 && g.chance(0.75) {
        let divisor = g.divisor(size);
        sizes.push(divisor);
        size /= divisor;
    }
    let at = g.rng.usize(0..=sizes.len());
    sizes.insert(at, if g.chance(0.3) { -1 } else { size });
    if sizes[0] == x.shape[0] && g.chance(0.3) {
        sizes[0] = 0;
    }
    let sizes = g.ints(&sizes);
    g.op("Reshape", &[&x, &sizes], &[]).map(drop)
}

/// A shape that the graph computes of another one.
fn by_shape(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=5)?;
    let shape = g.op("Shape", &[&x], &[])?;
    let (index, rest) = (g.ints(&[0]), g.ints(&[-1]));
    let first = g.op("Gather", &[&shape, &index], &[("axis", Int(0))])?;
    let sides = if g.chance(0.7) { [&first, &rest] } else { [&rest, &first] };
    let shape = g.op("Concat", &sides, &[("axis", Int(0))])?;
    g.op("Reshape", &[&x, &shape], &[]).map(drop)
}

fn flatten(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let axis = g.int(0, x.rank());
    g.op("Flatten", &[&x], &[("axis", Int(axis))]).map(drop)
}

/// Exchanges the last two axes.
pub fn turned(g: &mut Draw, x: &Value) -> Option<Value> {
    let mut perm: Vec<i64> = (0..x.rank()).collect();
    let count = perm.len().checked_sub(2)?;
    perm[count..].reverse();
    g.op("Transpose", &[x], &[("perm", Ints(perm))])
}

fn transpose(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let mut perm: Vec<i64> = (0..x.rank()).collect();
    g.rng.shuffle(&mut perm);
    let mut back = perm.clone();
    for (place, axis) in perm.iter().enumerate() {
        back[usize::try_from(*axis).ok()?] = i64::try_from(place).ok()?;
    }
    let y = g.op("Transpose", &[&x], &[("perm", Ints(perm))])?;
    if g.chance(0.3) {
        let op = g.one(&["Relu", "Sigmoid", "Abs", "Neg"]);
        let y = g.op(op, &[&y], &[])?;
        g.op("Transpose", &[&y], &[("perm", Ints(back))])?;
    }
    Some(())
}

fn shuffle(g: &mut Draw) -> Option<()> {
    let x = g.floats(4..=4)?;
    let [n, c, h, w] = x.shape[..] else { return None };
    let groups = g.divisor(c);
    let (inside, whole) = (g.ints(&[n, groups, c / groups, h, w]), g.ints(&[n, c, h, w]));
    let y = g.op("Reshape", &[&x, &inside], &[])?;
    let y = g.op("Transpose", &[&y], &[("perm", Ints(vec![0, 2, 1, 3, 4]))])?;
    g.op("Reshape", &[&y, &whole], &[]).map(drop)
}

fn squeeze(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let units: Vec<i64> = (0..x.rank()).filter(|axis| x.size(*axis) == 1).collect();
    let (op, axis) = match units.is_empty() || g.rng.bool() {
        true => ("Unsqueeze", g.int(0, x.rank())),
        false => ("Squeeze", g.one(&units)),
    };
    g.listed(op, &x, ("axes", 13, &[axis]), &[], 1).map(drop)
}

fn concat(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let axis = g.int(0, x.rank() - 1);
    let is_same = |shape: &[i64]| {
        shape.len() == x.shape.len()
            && (0..).zip(shape.iter().zip(&x.shape)).all(|(i, (a, b))| i == axis || a == b)
    };
    let mut parts = vec![x.clone(), g.value(|value| value.dtype == x.dtype && is_same(&value.shape))?];
    if g.chance(0.3) {
        let mut shape = x.shape.clone();
        shape[usize::try_from(axis).ok()?] = g.int(1, 3);
        parts.push(if x.dtype == g.float { g.normal(&shape, 1.0) } else { g.whole(x.dtype, &shape) });
    }
    g.rng.shuffle(&mut parts);
    g.op("Concat", &parts.iter().collect::<Vec<_>>(), &[("axis", Int(axis))]).map(drop)
}

fn split(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let axis = g.int(0, x.rank() - 1);
    let size = x.size(axis);
    let first = g.int(1, size - 1);
    let parts = g.listed("Split", &x, ("split", 13, &[first, size - first]), &[("axis", Int(axis))], 2)?;
    if 2 * first == size && g.rng.bool() {
        let gate = g.op("Sigmoid", &[&parts[1]], &[])?;
        g.op("Mul", &[&parts[0], &gate], &[])?;
    }
    Some(())
}

fn slices(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let axes = g.axes(&x);
    let [mut starts, mut ends, mut steps] = [Vec::new(), Vec::new(), Vec::new()];
    for axis in &axes {
        let size = x.size(axis.rem_euclid(x.rank()));
        let step = if g.version < 10 { 1 } else { g.one(&[1, 1, 1, 2, 3, -1, -2]) };
        let (a, b) = (g.int(0, size), g.int(0, size));
        let (low, high) = (a.min(b), a.max(b));
        starts.push(if step > 0 { low } else { high });
        let end = if step > 0 { high } else { low - size - 1 };
        ends.push(if step > 0 && g.chance(0.3) { (1 << 31) - 1 } else { end });
        steps.push(step);
    }
    if g.version < 10 {
        let attributes = [("starts", Ints(starts)), ("ends", Ints(ends)), ("axes", Ints(axes))];
        return g.op("Slice", &[&x], &attributes).map(drop);
    }
    let [starts, ends, axes, steps] = [starts, ends, axes, steps].map(|list| g.ints(&list));
    g.op("Slice", &[&x, &starts, &ends, &axes, &steps], &[]).map(drop)
}

fn indices(g: &mut Draw, size: i64, shape: &[i64]) -> Value {
    let least = if g.version >= 11 { -size } else { 0 };
    let list: Vec<f64> = (0..shape.iter().product()).map(|_| g.int(least, size - 1) as f64).collect();
    g.constant(I64, shape, &list)
}

fn gather(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let (axis, count) = (g.int(0, x.rank() - 1), g.int(1, 4));
    let shape = if g.chance(0.4) { vec![] } else { vec![count] };
    let indices = indices(g, x.size(axis), &shape);
    g.op("Gather", &[&x, &indices], &[("axis", Int(axis))]).map(drop)
}

/// Pads each spatial axis by numbers between two.
pub fn padded(g: &mut Draw, x: &Value, (low, high): (i64, i64)) -> Option<Value> {
    let half: Vec<i64> = (0..x.rank()).map(|axis| if axis < 2 { 0 } else { g.int(low, high) }).collect();
    with_pads(g, x, [half.clone(), half].concat(), "constant")
}

fn with_pads(g: &mut Draw, x: &Value, pads: Vec<i64>, mode: &'static str) -> Option<Value> {
    let fill = g.one(&[0.0, 0.0, 1.5]);
    if g.version < 11 {
        let attributes =
            [("pads", Ints(pads)), ("mode", Text(mode)), ("value", super::graph::Attr::Float(fill as f32))];
        return g.op("Pad", &[x], &attributes);
    }
    let (pads, fill) = (g.ints(&pads), g.constant(x.dtype, &[], &[fill]));
    let fill = if mode == "constant" && g.chance(0.7) { fill } else { Value::default() };
    g.op("Pad", &[x, &pads, &fill], &[("mode", Text(mode))])
}

fn pad(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let pads = (0..2 * x.rank()).map(|_| g.one(&[0, 0, 0, 1, 2, -1])).collect();
    let mode = g.one(&["constant", "constant", "edge", "reflect", "wrap"]);
    with_pads(g, &x, pads, mode).map(drop)
}

fn tile(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let repeats: Vec<i64> = x.shape.iter().map(|_| g.one(&[1, 1, 2, 3])).collect();
    let repeats = g.ints(&repeats);
    g.op("Tile", &[&x, &repeats], &[]).map(drop)
}

fn rearrange(g: &mut Draw) -> Option<()> {
    let x = g.floats(4..=4)?;
    let size = ("blocksize", Int(g.int(2, 3)));
    if g.rng.bool() {
        return g.op("SpaceToDepth", &[&x], &[size]).map(drop);
    }
    let mode = ("mode", Text(g.one(&["DCR", "CRD"])));
    g.op("DepthToSpace", &[&x], &[size, mode]).map(drop)
}

fn triangle(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=4)?;
    let (from, upper) = (g.int(-2, 2) as f64, g.flag());
    let from = g.constant(I64, &[], &[from]);
    g.op("Trilu", &[&x, &from], &[("upper", upper)]).map(drop)
}

fn pick(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let axis = g.int(0, x.rank() - 1);
    let sizes: Vec<i64> =
        (0..).zip(&x.shape).map(|(i, size)| g.int(1, if i == axis { 4 } else { *size })).collect();
    let indices = indices(g, x.size(axis), &sizes);
    g.op("GatherElements", &[&x, &indices], &[("axis", Int(axis))]).map(drop)
}

fn scatter(g: &mut Draw) -> Option<()> {
    let x = g.floats(1..=5)?;
    let mut places: Vec<i64> = (0..x.shape[0]).collect();
    g.rng.shuffle(&mut places);
    places.truncate(usize::try_from(g.int(1, x.shape[0])).ok()?);
    let count = i64::try_from(places.len()).ok()?;
    let shape = [&[count], &x.shape[1..]].concat();
    let updates = g.normal(&shape, 1.0);
    let reduction =
        if g.version >= 18 { g.one(&["none", "none", "add", "mul", "max", "min"]) } else { "none" };
    let reduction = [("reduction", Text(reduction))];
    let reduction: &[_] = if g.version >= 16 { &reduction } else { &[] };
    let list: Vec<f64> = places.iter().map(|place| *place as f64).collect();
    if g.rng.bool() {
        let rows = g.constant(I64, &[count, 1], &list);
        return g.op("ScatterND", &[&x, &rows, &updates], reduction).map(drop);
    }
    let inner = usize::try_from(x.shape[1..].iter().product::<i64>()).ok()?;
    let list: Vec<f64> = list.iter().flat_map(|place| vec![*place; inner]).collect();
    let rows = g.constant(I64, &shape, &list);
    g.op("ScatterElements", &[&x, &rows, &updates], reduction).map(drop)
}

fn expand(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let mut sizes: Vec<i64> =
        x.shape.iter().map(|size| if *size == 1 { g.int(1, 4) } else { *size }).collect();
    if g.chance(0.3) {
        sizes.insert(0, g.int(1, 2));
    }
    let sizes = g.ints(&sizes);
    g.op("Expand", &[&x, &sizes], &[]).map(drop)
}

fn reversed_part(g: &mut Draw) -> Option<()> {
    let x = g.floats(2..=4)?;
    let (length, batch) = (x.size(0), x.size(1));
    let lengths: Vec<i64> = (0..batch).map(|_| g.int(1, length)).collect();
    let lengths = g.ints(&lengths);
    g.op("ReverseSequence", &[&x, &lengths], &[("time_axis", Int(0)), ("batch_axis", Int(1))]).map(drop)
}

fn compress(g: &mut Draw) -> Option<()> {
    let x = any(g)?;
    let axis = g.int(0, x.rank() - 1);
    let kept: Vec<f64> = (0..x.size(axis)).map(|_| f64::from(u8::from(g.chance(0.6)))).collect();
    let kept = g.constant(BOOL, &[x.size(axis)], &kept);
    g.op("Compress", &[&x, &kept], &[("axis", Int(axis))]).map(drop)
}

/// A table, or a value, that is read at the indices in an input.
fn lookup(g: &mut Draw) -> Option<()> {
    let x = if g.chance(0.6) {
        let shape = [g.one(&[4, 5, 7]), g.int(1, 4)];
        g.normal(&shape, 1.0)
    } else {
        g.floats(1..=4)?
    };
    let axis = if g.chance(0.7) { 0 } else { g.int(0, x.rank() - 1) };
    let shape = (0..g.int(1, 2)).map(|_| g.int(1, 4)).collect();
    let places = g.input(I64, shape);
    g.op("Gather", &[&x, &places], &[("axis", Int(axis))]).map(drop)
}
