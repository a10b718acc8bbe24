//! The cost of converting a small model is bounded, whatever the model contains.

#![cfg(all(unix, feature = "cli"))]
#![allow(clippy::as_conversions, clippy::unwrap_used)] // A test may fail where it stands.

use std::os::unix::process::CommandExt;

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use onnx::{constant, ints, model, node, node_of_mode, repeat};
use room::Room;

/// The maximum bytes of the models here.
const SMALL: usize = 1024;
/// The maximum memory of a conversion.
const MEMORY: u64 = 1 << 30;
/// The maximum seconds of processor time, in an unoptimized build.
const SECONDS: u64 = 60;

/// Converts a small model with little memory, and returns the output.
fn convert(name: &str, model: &[u8]) -> String {
    convert_with(name, model, "")
}

fn convert_with(name: &str, model: &[u8], options: &str) -> String {
    assert!(model.len() <= SMALL, "{name} has {} bytes", model.len());
    let room = Room::new();
    room.put("m.onnx", model);
    let mut command = room.command(&format!("m.onnx {options}"));
    let limits = [(libc::RLIMIT_AS, MEMORY), (libc::RLIMIT_CPU, SECONDS)];
    // SAFETY: system calls on values of the right type.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || {
            limits.iter().try_for_each(|(what, most)| {
                let limit = libc::rlimit { rlim_cur: *most, rlim_max: *most };
                match libc::setrlimit(*what, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        });
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {} {text}", output.status);
    assert!(!text.contains("internal error"), "{name}: {text}");
    text
}

/// `count` nodes, each reading the previous result twice, from a constant of `shape`; the largest element of
/// the result, plus `x`.
fn doubled(op_type: &str, shape: &[i64], count: usize) -> Vec<u8> {
    let mut parts = vec![ints("n", shape), node("ConstantOfShape", &["n"], &["b0"], &[])];
    for i in 0..count {
        let (from, to) = (format!("b{i}"), format!("b{}", i + 1));
        parts.push(node(op_type, &[&from, &from], &[&to], &[]));
    }
    parts.push(node("ReduceMax", &[&format!("b{count}")], &["s"], &[("keepdims", 0)]));
    parts.push(node("Add", &["x", "s"], &["y"], &[]));
    model(&["4"], &parts)
}

#[test]
fn repeated_evaluation_is_limited() {
    convert("sums", &doubled("Add", &[20_000], 40));
}

#[test]
fn evaluation_of_many_constants_is_limited() {
    let mut parts = vec![ints("n", &[1 << 22]), node("ConstantOfShape", &["n"], &["b0"], &[])];
    for i in 0..8 {
        parts.push(node("Tan", &[&format!("b{i}")], &[&format!("b{}", i + 1)], &[]));
    }
    // Each of these evaluates all previous ones.
    let mut sum = "x".to_owned();
    for i in 0..11 {
        let (largest, next) = (format!("m{i}"), if i == 10 { "y".to_owned() } else { format!("s{i}") });
        parts.push(node("ReduceMax", &["b8"], &[&largest], &[("keepdims", 0)]));
        parts.push(node("Add", &[&sum, &largest], &[&next], &[]));
        sum = next;
    }
    let text = convert("again", &model(&["4"], &parts));
    assert!(text.contains("limit exceeded: ") && text.contains("the evaluation of constants"), "{text}");
}

#[test]
fn constants_side_by_side_are_not_all_in_memory() {
    let functions = ["Sin", "Cos", "Tan", "Atan", "Exp", "Tanh", "Sigmoid", "Erf"];
    let mut parts = vec![ints("n", &[1 << 25]), node("ConstantOfShape", &["n"], &["c"], &[])];
    parts.extend(functions.iter().map(|name| node(name, &["c"], &[name], &[])));
    parts.push(node("Sum", &functions, &["sum"], &[]));
    parts.push(node("ReduceMax", &["sum"], &["s"], &[("keepdims", 0)]));
    parts.push(node("Add", &["x", "s"], &["y"], &[]));
    // The unfolded node is refused because of its axis.
    let text = convert("siblings", &model(&["4"], &parts));
    assert!(text.contains("limit exceeded: an axis of size 33554432"), "{text}");
}

#[test]
fn one_weight_of_many_layers_does_not_fill_the_disk() {
    let mut parts = vec![ints("n", &[1 << 14, 1 << 14]), node("ConstantOfShape", &["n"], &["w"], &[])];
    for i in 0..20 {
        let (from, to) = (format!("v{i}"), format!("v{}", i + 1));
        let from = if i == 0 { "x" } else { &from };
        parts.push(node("MatMul", &[from, "w"], &[if i == 19 { "y" } else { &to }], &[]));
    }
    let text = convert_with("shared", &model(&["2", "16384"], &parts), "--skip share_weights");
    assert!(text.contains("limit exceeded: the net has 5368709120 elements of weights"), "{text}");
}

#[test]
fn large_weights_of_two_convolutions_are_copied() {
    let parts = [
        ints("n", &[1024, 1024, 3, 3]),
        node("ConstantOfShape", &["n"], &["zeros"], &[]),
        node("Cos", &["zeros"], &["w"], &[]),
        node("Conv", &["x", "w"], &["a"], &[]),
        node("Conv", &["a", "w"], &["y"], &[]),
    ];
    let text = convert("twice", &model(&["1", "1024", "8", "8"], &parts));
    assert!(text.contains("18.8 M weights"), "{text}");
}

#[test]
fn repeats_by_a_free_size_take_no_memory() {
    let parts = [
        node("Shape", &["x"], &["sizes"], &[]),
        ints("zero", &[0]),
        node("Gather", &["sizes", "zero"], &["size"], &[]),
        ints("many", &[i64::from(i32::MAX)]),
        node("Concat", &["size", "many"], &["times"], &[("axis", 0)]),
        ints("n", &[3, 4]),
        node("ConstantOfShape", &["n"], &["c"], &[]),
        node("Tile", &["c", "times"], &["y"], &[]),
    ];
    convert("repeats", &model(&["K", "4"], &parts));
}

#[test]
fn long_lists_are_not_shapes() {
    let parts = [
        ints("n", &[1 << 24]),
        node("ConstantOfShape", &["n"], &["zeros"], &[]),
        ints("axis", &[0]),
        node("CumSum", &["zeros", "axis"], &["sums"], &[]),
        node("Cast", &["sums"], &["shape"], &[("to", 7)]),
        node("Expand", &["x", "shape"], &["y"], &[]),
    ];
    let text = convert("sums", &model(&["4"], &parts));
    assert!(text.contains("limit exceeded: 16777216 sizes"), "{text}");
}

#[test]
fn large_expansions_are_refused() {
    let filled = |shape: &[i64]| {
        model(
            &["1"],
            &[
                ints("n", shape),
                node("ConstantOfShape", &["n"], &["c"], &[]),
                node("Add", &["x", "c"], &["y"], &[]),
            ],
        )
    };
    let expanded = model(&["1"], &[ints("n", &[1 << 31]), node("Expand", &["x", "n"], &["y"], &[])]);
    let stretched = model(&["W"], &[ints("n", &[1 << 30]), node("Expand", &["x", "n"], &["y"], &[])]);
    let padded = model(&["W"], &[ints("p", &[i64::MIN, 0]), node("Pad", &["x", "p"], &["y"], &[])]);
    let sizes = ints("sizes", &[1, 1, 1 << 24, 4]);
    let resized =
        model(&["1", "1", "4", "4"], &[sizes, node("Resize", &["x", "", "", "sizes"], &["y"], &[])]);
    let empty = constant("e", 1, &[0, 1 << 30, 3], &[]);
    let empty = model(
        &["4"],
        &[empty, node("ReduceL1", &["e"], &["s"], &[("keepdims", 0)]), node("Add", &["x", "s"], &["y"], &[])],
    );
    let axes = ["1"; 65];
    for (name, model, words) in [
        ("filled", filled(&[1 << 29]), "repeated elements"),
        ("expanded", expanded, "a blob has at most"),
        ("stretched", stretched, "1073741824 ones"),
        ("padded", padded, "padded by -9223372036854775808"),
        ("resized", resized, "an axis is resized"),
        ("empty", empty, "a tensor of shape [0, 1073741824, 3]"),
        ("axes", model(&axes, &[node("Relu", &["x"], &["y"], &[])]), "a tensor of 65 axes"),
    ] {
        let text = convert(name, &model);
        assert!(text.contains("limit exceeded") && text.contains(words), "{name}: {text}");
    }
}

#[test]
fn nested_loops_are_limited() {
    let relu = node("Relu", &["v"], &["w"], &[]);
    let inner = repeat("n", "go", "v", "w", &[relu]);
    let middle = repeat("n", "go", "v", "w", &[inner]);
    let outer = repeat("n", "go", "x", "y", &[middle]);
    let parts = [constant("n", 7, &[], &3000_i64.to_le_bytes()), constant("go", 9, &[], &[1]), outer];
    let text = convert("loops", &model(&["4"], &parts));
    assert!(text.contains("the model expands to"), "{text}");
}

/// Cells of recurrent networks are found by their formulas.
#[test]
fn long_formulas_in_loops_are_not_followed() {
    let room = Room::new();
    let name = |k: usize| if k == 0 { "v".to_owned() } else { format!("a{k}") };
    let add = |k: usize| node("Add", &[&name(k), "v"], &[&name(k + 1)], &[]);
    let mut body: Vec<Vec<u8>> = (0..20_000).map(add).collect();
    body.push(node("Tanh", &["a20000"], &["w"], &[]));
    let parts = [
        constant("n", 7, &[], &1_i64.to_le_bytes()),
        constant("go", 9, &[], &[1]),
        repeat("n", "go", "x", "y", &body),
    ];
    room.put("m.onnx", &model(&["1", "4"], &parts));
    room.expect("m.onnx", 0, "layers");
}

/// The runtime recurses over the layers of a path.
#[test]
fn long_paths_are_limited() {
    let tanh = node("Tanh", &["v"], &["w"], &[]);
    for (count, expected) in [
        (35_000_i64, "a path of 35001 layers takes 7110 KB of the stack"),
        (37_000, "a path of 37001 layers: the runtime recurses over them"),
    ] {
        let parts = [
            constant("n", 7, &[], &count.to_le_bytes()),
            constant("go", 9, &[], &[1]),
            repeat("n", "go", "x", "y", std::slice::from_ref(&tanh)),
        ];
        let text = convert("path", &model(&["4"], &parts));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn long_axes_are_not_listed() {
    let reversed = |i: usize| {
        let (from, to) = (if i == 0 { "x".to_owned() } else { format!("r{i}") }, format!("r{}", i + 1));
        node("ReverseSequence", &[&from, "x"], &[if i == 7 { "y" } else { &to }], &[])
    };
    let parts: Vec<Vec<u8>> = (0..8).map(reversed).collect();
    convert("reversed", &model(&["16777217", "1"], &parts));
}

#[test]
fn repeated_elements_take_no_memory() {
    let parts = [ints("p", &[0, 0, 1, 2, 0, 0, 2, 1]), constant("v", 1, &[], &f32::INFINITY.to_le_bytes())];
    let parts = [&parts[..], &[node("Pad", &["x", "p", "v"], &["y"], &[])]].concat();
    let text = convert("infinite", &model(&["1", "16777216", "6", "8"], &parts));
    assert!(text.contains("167 M weights"), "{text}");
    let mean = |from: &str, to: &str| node("ReduceMean", &[from, "a"], &[to], &[]);
    let parts = [
        ints("a", &[2, 3]),
        constant("e", 1, &[], &1e-5_f32.to_le_bytes()),
        mean("x", "m"),
        node("Sub", &["x", "m"], &["c"], &[]),
        node("Mul", &["c", "c"], &["s"], &[]),
        mean("s", "v"),
        node("Add", &["v", "e"], &["w"], &[]),
        node("Sqrt", &["w"], &["d"], &[]),
        node("Div", &["c", "d"], &["y"], &[]),
    ];
    let text = convert("normal", &model(&["1", "134000000", "2", "2"], &parts));
    assert!(text.contains("2 layers, 268 M weights"), "{text}");
}

#[test]
fn copies_for_the_evaluation_of_constants_are_counted() {
    let reductions =
        ["ReduceSum", "ReduceL2", "ReduceLogSumExp", "ReduceProd"].map(|name| (name, &["c"][..], &["s"][..]));
    for (op_type, inputs, outputs) in [&reductions[..], &[("TopK", &["c", "k"], &["s", "i"])]].concat() {
        let parts = [
            ints("n", &[100_000_000]),
            ints("k", &[1]),
            node("ConstantOfShape", &["n"], &["c"], &[]),
            node(op_type, inputs, outputs, &[]),
            node("Add", &["x", "s"], &["y"], &[]),
        ];
        let text = convert(op_type, &model(&["4"], &parts));
        assert!(text.contains("limit exceeded: an axis of size 100000000"), "{op_type}: {text}");
    }
}

#[test]
fn sources_of_padding_are_not_listed() {
    for mode in ["reflect", "wrap"] {
        let pads = ints("p", &[1_000_000_000, 1_000_000_000]);
        let text = convert(mode, &model(&["4"], &[pads, node_of_mode("Pad", &["x", "p"], "y", mode)]));
        assert!(text.contains("limit exceeded: 2000000004 indices"), "{mode}: {text}");
    }
}

#[test]
fn indices_beyond_float32_are_refused() {
    let parts = [node("Hardmax", &["x"], &["y"], &[])];
    let text = convert("largest", &model(&["1", "16777217"], &parts));
    assert!(text.contains("the positions of an axis of size 16777217"), "{text}");
}

#[test]
fn lengths_of_names_are_limited() {
    let room = Room::new();
    let long = "n".repeat(5000);
    room.put(
        "m.onnx",
        &model(&["4"], &[node("Relu", &["x"], &[&long], &[]), node("Relu", &[&long], &["y"], &[])]),
    );
    let text = room.expect("m.onnx", 1, "a name has 5000 bytes");
    assert!(text.len() < 2000, "{text}");
}
