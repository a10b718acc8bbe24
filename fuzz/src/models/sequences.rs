//! Attention, recurrent networks, and sums of products.

use super::graph::Attr::{Int, Ints, Text};
use super::graph::{Draw, Value};

pub const OPERATORS: &[fn(&mut Draw) -> Option<()>] =
    &[attention, attention, attention_op, recurrent, recurrent, einsum];

/// Attention as exporters write it.
fn attention(g: &mut Draw) -> Option<()> {
    let x = g.floats(3..=3)?;
    let (batch, tokens, width) = (x.size(0), x.size(1), x.size(2));
    let heads = g.divisor(width);
    let part = |g: &mut Draw| {
        let weight = g.normal(&[width, width], 0.4);
        let mut y = g.op("MatMul", &[&x, &weight], &[])?;
        if g.chance(0.7) {
            let bias = g.normal(&[width], 1.0);
            y = g.op("Add", &[&y, &bias], &[])?;
        }
        let shape = g.ints(&[batch, tokens, heads, width / heads]);
        let y = g.op("Reshape", &[&y, &shape], &[])?;
        g.op("Transpose", &[&y], &[("perm", Ints(vec![0, 2, 1, 3]))])
    };
    let (q, k, v) = (part(g)?, part(g)?, part(g)?);
    let turned = g.op("Transpose", &[&k], &[("perm", Ints(vec![0, 1, 3, 2]))])?;
    let mut scores = g.op("MatMul", &[&q, &turned], &[])?;
    let (op, factor) = (g.one(&["Mul", "Div"]), g.scalar(0.7));
    scores = g.op(op, &[&scores, &factor], &[])?;
    if g.chance(0.3) {
        let mask = g.normal(&[tokens, tokens], 1.0);
        scores = g.op("Add", &[&scores, &mask], &[])?;
    }
    let weights = g.op("Softmax", &[&scores], &[("axis", Int(3))])?;
    let y = g.op("MatMul", &[&weights, &v], &[])?;
    let y = g.op("Transpose", &[&y], &[("perm", Ints(vec![0, 2, 1, 3]))])?;
    let shape = g.ints(&[0, 0, -1]);
    let y = g.op("Reshape", &[&y, &shape], &[])?;
    let weight = g.normal(&[width, width], 0.4);
    let y = g.op("MatMul", &[&y, &weight], &[])?;
    g.op("Add", &[&x, &y], &[]).map(drop)
}

/// Attention as one operator, and rotary embeddings.
fn attention_op(g: &mut Draw) -> Option<()> {
    let x = g.floats(3..=4)?;
    let width = *x.shape.last()?;
    if g.chance(0.3) {
        let half = width / 2;
        let [cos, sin] = std::array::from_fn(|_| g.normal(&[x.shape[x.shape.len() - 2], half], 1.0));
        let heads = if x.rank() == 3 { g.divisor(width) } else { 0 };
        let attributes = [("interleaved", g.flag()), ("num_heads", Int(heads))];
        let batch = g.ints(&[0]);
        let [cos, sin] = [g.op("Unsqueeze", &[&cos, &batch], &[])?, g.op("Unsqueeze", &[&sin, &batch], &[])?];
        return g.op("RotaryEmbedding", &[&x, &cos, &sin], &attributes).map(drop);
    }
    let (y, z) = (g.op("Tanh", &[&x], &[])?, g.op("Sigmoid", &[&x], &[])?);
    let heads = Int(if x.rank() == 3 { g.divisor(width) } else { 0 });
    let mut attributes = vec![("is_causal", g.flag())];
    if x.rank() == 3 {
        attributes.extend([("q_num_heads", heads.clone()), ("kv_num_heads", heads)]);
    }
    g.op("Attention", &[&x, &y, &z], &attributes).map(drop)
}

fn recurrent(g: &mut Draw) -> Option<()> {
    let x = g.floats(3..=3)?;
    let (length, batch, width) = (x.size(0), x.size(1), x.size(2));
    let (op, gates) = g.one(&[("LSTM", 4), ("GRU", 3), ("RNN", 1)]);
    let (hidden, direction) = (g.int(1, 4), g.one(&["forward", "reverse", "bidirectional"]));
    let ways = if direction == "bidirectional" { 2 } else { 1 };
    let w = g.normal(&[ways, gates * hidden, width], 0.4);
    let r = g.normal(&[ways, gates * hidden, hidden], 0.4);
    let b = if g.chance(0.7) { g.normal(&[ways, 2 * gates * hidden], 0.4) } else { Value::default() };
    let h = if g.chance(0.3) { g.normal(&[ways, batch, hidden], 0.4) } else { Value::default() };
    let mut attributes = vec![("hidden_size", Int(hidden)), ("direction", Text(direction))];
    if op == "GRU" {
        attributes.push(("linear_before_reset", g.flag()));
    }
    let outputs = g.node(op, &[&x, &w, &r, &b, &Value::default(), &h], &attributes, 2)?;
    let y = &outputs[0];
    if ways == 1 && g.chance(0.6) {
        return g.listed("Squeeze", y, ("axes", 13, &[1]), &[], 1).map(drop);
    }
    let y = g.op("Transpose", &[y], &[("perm", Ints(vec![0, 2, 1, 3]))])?;
    let shape = g.ints(&[length, batch, ways * hidden]);
    g.op("Reshape", &[&y, &shape], &[]).map(drop)
}

fn einsum(g: &mut Draw) -> Option<()> {
    let equations = [
        "ij->ji",
        "ijk,jl->ikl",
        "bij,bjk->bik",
        "bhid,bhjd->bhij",
        "ijk->k",
        "bij,bij->bi",
        "ii->i",
        "abc,cd->abd",
        "abcd->acbd",
        "i,j->ij",
        "bchw,oc->bohw",
    ];
    let equation = g.one(&equations);
    let parts: Vec<&str> = equation.split("->").next()?.split(',').collect();
    let rank = i64::try_from(parts[0].len()).ok()?;
    let x = g.floats(rank..=rank)?;
    let mut sizes: Vec<(char, i64)> = parts[0].chars().zip(x.shape.iter().copied()).collect();
    let mut inputs = vec![x];
    for part in &parts[1..] {
        let mut shape = Vec::new();
        for letter in part.chars() {
            let known = sizes.iter().find(|(other, _)| *other == letter).map(|(_, size)| *size);
            let size = known.unwrap_or_else(|| g.int(1, 4));
            sizes.push((letter, size));
            shape.push(size);
        }
        inputs.push(g.normal(&shape, 0.5));
    }
    g.op("Einsum", &inputs.iter().collect::<Vec<_>>(), &[("equation", Text(equation))]).map(drop)
}
