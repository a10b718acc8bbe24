//! An encoder of protobuf models with few kinds of nodes.

#![allow(clippy::as_conversions)] // The lowest bits are what is meant.
#![allow(dead_code)] // No test uses all of it.

fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

fn number(field: u64, n: u64) -> Vec<u8> {
    [varint(field << 3), varint(n)].concat()
}

fn message(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let body = parts.concat();
    [varint(field << 3 | 2), varint(body.len() as u64), body].concat()
}

fn text(field: u64, s: &str) -> Vec<u8> {
    message(field, &[s.as_bytes().to_vec()])
}

/// A float32 value; sizes are numbers or symbols.
fn value(field: u64, name: &str, shape: &[&str]) -> Vec<u8> {
    let dim = |size: &&str| match size.parse() {
        Ok(n) => message(1, &[number(1, n)]),
        Err(_) => message(1, &[text(2, size)]),
    };
    let dims: Vec<Vec<u8>> = shape.iter().map(dim).collect();
    message(field, &[text(1, name), message(2, &[message(1, &[number(1, 1), message(2, &dims)])])])
}

/// A node; its attributes are integers.
pub fn node(op_type: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, u64)]) -> Vec<u8> {
    let attribute = |(name, i): &(&str, u64)| message(5, &[text(1, name), number(3, *i), number(20, 2)]);
    encoded_node(op_type, inputs, outputs, &attributes.iter().map(attribute).collect::<Vec<_>>())
}

/// A node with the attribute `mode`.
pub fn node_of_mode(op_type: &str, inputs: &[&str], output: &str, mode: &str) -> Vec<u8> {
    let attribute = message(5, &[text(1, "mode"), text(4, mode), number(20, 3)]);
    encoded_node(op_type, inputs, &[output], &[attribute])
}

fn encoded_node(op_type: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let names =
        |field, names: &[&str]| names.iter().map(|name| text(field, name)).collect::<Vec<_>>().concat();
    message(1, &[names(1, inputs), names(2, outputs), text(4, op_type), attributes.concat()])
}

/// A loop of `trip` iterations over `v`, while `go`; its body reads `v` and returns `w`.
pub fn repeat(trip: &str, go: &str, input: &str, output: &str, body: &[Vec<u8>]) -> Vec<u8> {
    let scalar = |field, name, dtype| {
        message(field, &[text(1, name), message(2, &[message(1, &[number(1, dtype), message(2, &[])])])])
    };
    let ends = [scalar(11, "i", 7), scalar(11, "c", 9), value(11, "v", &["4"])];
    let kept = node("Identity", &["c"], &["d"], &[]);
    let graph =
        [text(2, "body"), ends.concat(), body.concat(), kept, scalar(12, "d", 9), value(12, "w", &["4"])];
    let body = message(5, &[text(1, "body"), message(6, &graph), number(20, 5)]);
    let names = [text(1, trip), text(1, go), text(1, input), text(2, output), text(4, "Loop")];
    message(1, &[names.concat(), body])
}

/// A node of a constant list of floats.
pub fn constant_node(name: &str, list: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = list.iter().flat_map(|n| n.to_le_bytes()).collect();
    let tensor = message(5, &[number(1, list.len() as u64), number(2, 1), message(9, &[raw])]);
    let value = message(5, &[text(1, "value"), tensor, number(20, 4)]);
    message(1, &[text(2, name), text(4, "Constant"), value])
}

/// A constant: the code of its type, its sizes, its bytes.
pub fn constant(name: &str, dtype: u64, shape: &[u64], raw: &[u8]) -> Vec<u8> {
    let dims: Vec<Vec<u8>> = shape.iter().map(|size| number(1, *size)).collect();
    message(5, &[dims.concat(), number(2, dtype), text(8, name), message(9, &[raw.to_vec()])])
}

/// A constant list of integers.
pub fn ints(name: &str, list: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = list.iter().flat_map(|n| n.to_le_bytes()).collect();
    constant(name, 7, &[list.len() as u64], &raw)
}

/// A model of these parts of a graph, from `x` of a shape to `y`.
pub fn model(shape: &[&str], parts: &[Vec<u8>]) -> Vec<u8> {
    let output = message(12, &[text(1, "y")]);
    let graph = [text(2, "graph"), value(11, "x", shape), output, parts.concat()];
    [number(1, 8), message(8, &[text(1, ""), number(2, 19)]), message(7, &graph)].concat()
}

/// The beginning of a model whose only output is a constant of `count` float16 elements; only their bytes
/// follow.
pub fn halves(count: u64) -> Vec<u8> {
    let head = |field: u64, rest: &[u8], behind: u64| {
        [varint(field << 3 | 2), varint(rest.len() as u64 + behind), rest.to_vec()].concat()
    };
    let raw = head(9, &[], 2 * count);
    let tensor = head(5, &[number(1, count), number(2, 10), text(8, "y"), raw].concat(), 2 * count);
    let graph = [text(2, "halves"), message(12, &[text(1, "y")]), tensor].concat();
    [number(1, 8), message(8, &[text(1, ""), number(2, 17)]), head(7, &graph, 2 * count)].concat()
}

/// A model whose only output is a constant of float32 elements in an external file.
pub fn external(location: &str, floats: u64) -> Vec<u8> {
    let entry = message(13, &[text(1, "location"), text(2, location)]);
    let tensor = [number(1, floats), number(2, 1), text(8, "k"), entry, number(14, 1)];
    let graph = [text(2, "external"), message(5, &tensor), value(12, "k", &[&floats.to_string()])];
    [number(1, 8), message(8, &[text(1, ""), number(2, 17)]), message(7, &graph)].concat()
}

/// A Relu, whose result is `r`, and a sum of it with a constant of float32 elements in an external file.
pub fn external_sum(location: &str, floats: u64) -> Vec<u8> {
    let entry = message(13, &[text(1, "location"), text(2, location)]);
    let tensor = [number(1, floats), number(2, 1), text(8, "k"), entry, number(14, 1)];
    let relu = [text(1, "x"), text(2, "r"), text(4, "Relu")];
    let sum = [text(1, "r"), text(1, "k"), text(2, "y"), text(4, "Add")];
    let shape = floats.to_string();
    let ends = [value(11, "x", &[&shape]), value(12, "y", &[&shape])].concat();
    let graph = [text(2, "sum"), message(1, &relu), message(1, &sum), message(5, &tensor), ends];
    [number(1, 8), message(8, &[text(1, ""), number(2, 17)]), message(7, &graph)].concat()
}

/// A chain of operators from `x` to `y`; without operators, `x` is the output.
pub fn chain(op_types: &[&str], shape: &[&str]) -> Vec<u8> {
    chain_of(op_types, shape, &|i| format!("node{i}"))
}

/// A Relu of a picture.
pub fn relu() -> Vec<u8> {
    chain(&["Relu"], &["1", "3", "8", "8"])
}

/// A chain with these names of nodes.
pub fn chain_of(op_types: &[&str], shape: &[&str], node: &dyn Fn(usize) -> String) -> Vec<u8> {
    let name = |i: usize| match i {
        0 => "x".to_owned(),
        _ if i == op_types.len() => "y".to_owned(),
        _ => format!("t{i}"),
    };
    let mut graph = vec![text(2, "chain"), value(11, "x", shape), value(12, &name(op_types.len()), shape)];
    graph.extend((1..op_types.len()).map(|i| value(13, &name(i), shape)));
    for (i, op_type) in op_types.iter().enumerate() {
        let names = [text(1, &name(i)), text(2, &name(i + 1)), text(3, &node(i))];
        graph.push(message(1, &[names.concat(), text(4, op_type)]));
    }
    [number(1, 8), message(8, &[text(1, ""), number(2, 17)]), message(7, &graph)].concat()
}

/// The sum of `x` and an input `c` with a value in the model.
pub fn defaulted(ir_version: u64) -> Vec<u8> {
    let one = [number(1, 1), number(2, 1), text(8, "c"), message(9, &[1.0_f32.to_le_bytes().to_vec()])];
    let add = [text(1, "x"), text(1, "c"), text(2, "y"), text(4, "Add")];
    let values = [value(11, "x", &["4"]), value(11, "c", &["1"]), value(12, "y", &["4"])];
    let graph = [message(1, &add), text(2, "defaulted"), message(5, &one), values.concat()];
    [number(1, ir_version), message(8, &[text(1, ""), number(2, 13)]), message(7, &graph)].concat()
}
