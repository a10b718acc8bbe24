//! `--custom-layers`: operators and functions that layers of the user compute, in programs with the layers
//! filled in.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;
use std::process::Command;

use room::Room;

/// Writes `model.onnx`, with a function that scales channels, shifts them by an attribute, and repeats rows and
/// columns; and an input with its output in onnxruntime. With `--unknown` the function is missing.
const MODEL: &str = r#"
import sys
import numpy as np, onnx
from onnx import helper, numpy_helper, parser
random = np.random.default_rng(0)
graph = parser.parse_graph("""
network (float[1, 8, 12, 10] x) => (float[1, 4, 24, 20] y) {
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
    b = my.ops.Lift <scale = 2, shift = 0.5> (a, table)
    c = Relu(b)
    y = Conv <kernel_shape = [1, 1]> (c, v)
}""")
for name, shape in {"w": (16, 8, 3, 3), "v": (4, 16, 1, 1), "table": (16,)}.items():
    graph.initializer.append(numpy_helper.from_array(random.standard_normal(shape, np.float32), name))
node = lambda op, inputs, outputs, **named: helper.make_node(op, inputs, outputs, **named)
shift = onnx.AttributeProto(name="value_float", ref_attr_name="shift", type=onnx.AttributeProto.FLOAT)
constant = node("Constant", [], ["by"])
constant.attribute.append(shift)
nodes = [
    node("Constant", [], ["shape"], value_ints=[1, 16, 1, 1]),
    node("Reshape", ["table", "shape"], ["factors"]),
    node("Mul", ["x", "factors"], ["scaled"]),
    constant,
    node("Add", ["scaled", "by"], ["shifted"]),
    node("Constant", [], ["sizes"], value_floats=[1.0, 1.0, 2.0, 2.0]),
    node("Resize", ["shifted", "", "sizes"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
]
imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
function = helper.make_function("my.ops", "Lift", ["x", "table"], ["y"], nodes, imports[:1], ["shift", "scale"])
functions = [] if "--unknown" in sys.argv else [function]
onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions), "model.onnx")
x = random.standard_normal((1, 8, 12, 10), np.float32)
np.save("x.npy", x)
if functions:
    import onnxruntime
    np.save("y.npy", onnxruntime.InferenceSession("model.onnx").run(None, {"x": x})[0])
"#;

const DECLARED: &[u8] = br#"
[[layer]]
operator = "my.ops.Lift"
type = "Lift"
params = { 0 = "scale", 1 = "shift" }
weights = [1]
inputs = ["N, C, H, W"]
outputs = ["N, C, scale*H, scale*W"]
"#;

/// Fills the stub in Python, and compares the net with onnxruntime.
const RUN: &str = r#"
import numpy as np
import custom_layers
import ncnn
import run

def forward(self, bottom, top, options):
    x = np.array(bottom) * self.weight_0[:, None, None] + self.param_1
    x = x.repeat(self.param_0, axis=1).repeat(self.param_0, axis=2).astype(np.float32)
    top.clone_from(ncnn.Mat(x), options.blob_allocator)
    return 0

custom_layers.Lift.forward = forward
results = run.run(run.load(), {"x": np.load("x.npy")[0]})
expected = np.load("y.npy")[0]
assert results["y"].shape == expected.shape, results["y"].shape
error = np.abs(results["y"] - expected).max() / np.abs(expected).max()
assert error < 1e-5, error
print("equal")
"#;

fn made(arguments: &[&str]) -> Room {
    let room = Room::new();
    room.put("own.toml", DECLARED);
    let mut command = Command::new(support::python());
    let status = command.args(["-c", MODEL]).args(arguments).current_dir(room.path("")).status();
    assert!(status.unwrap().success());
    room
}

#[test]
fn a_function_that_is_kept_whole_is_a_layer() {
    let room = made(&[]);
    // Without the declaration, its nodes are converted.
    let text = room.expect("model.onnx", 0, "loads in ncnn");
    assert!(!text.contains("of your own"), "{text}");
    let line = "model.onnx net.param --custom-layers own.toml --example run.py --verify";
    let text = room.expect(line, 0, "layers of your own, declared and not checked: Lift");
    assert!(text.contains("verified: ") && text.contains("not covered: 1"), "{text}");
    let param = fs::read_to_string(room.path("net.param")).unwrap();
    let layer = param.lines().find(|line| line.starts_with("Lift")).unwrap();
    assert!(layer.contains(" 0=2 1=5.0e-01 ") && layer.ends_with("=4,3,20,24,16"), "{layer}");
    let text = room.expect("verify model.onnx net.param --custom-layers own.toml -v", 0, "verified: ");
    assert!(text.contains("declared by the user, and not checked"), "{text}");

    // The stub says what is missing; filled in, it is right, and the next conversion leaves it.
    let run = |words: &[&str]| {
        let output = Command::new(support::python()).args(words).current_dir(room.path("")).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_done, printed) = run(&["run.py"]);
    assert!(!is_done && printed.contains("Lift.forward is to be written in custom_layers.py"), "{printed}");
    assert_eq!(run(&["-c", RUN]), (true, "equal\n".to_owned()));
    fs::write(room.path("custom_layers.py"), "# mine\n").unwrap();
    room.expect(line, 0, "");
    assert_eq!(fs::read_to_string(room.path("custom_layers.py")).unwrap(), "# mine\n");
}

#[test]
fn an_unknown_operator_prints_a_declaration_that_is_accepted() {
    let room = made(&["--unknown"]);
    let text = room.expect("model.onnx", 1, "unknown operator my.ops.Lift");
    let declaration = text.split("in a file for --custom-layers: ").nth(1).unwrap().lines().next().unwrap();
    room.put("printed.toml", declaration.as_bytes());
    // The output has the shape of the input, which the model contradicts.
    let text =
        room.expect("model.onnx net.param --custom-layers printed.toml", 0, "declared and not checked");
    assert!(text.contains("the model declares \"y\" as [1, 4, 24, 20], but it is [1, 4, 12, 10]"), "{text}");
    let whole = declaration.replace("outputs = [\"N, C, H, W\"]", "outputs = [\"N, C, 2*H, 2*W\"]");
    room.put("printed.toml", whole.as_bytes());
    room.expect("model.onnx net.param --custom-layers printed.toml --verify", 0, "verified: ");
    room.expect("model.onnx free.param --custom-layers own.toml --input-shape 1,8,H,W", 0, "2*H");
    // An app in Kotlin registers no layers.
    room.expect("model.onnx net.param --custom-layers own.toml --example App.kt", 2, "Kotlin");
    for option in ["--emit-onnx a.onnx", "--param-bin a.bin"] {
        room.expect(&format!("model.onnx net.param --custom-layers own.toml {option}"), 2, "of your own");
    }
}

#[test]
fn mistakes_in_declarations_are_reported() {
    let room = made(&["--unknown"]);
    let declared = String::from_utf8_lossy(DECLARED).into_owned();
    for (before, after, said) in [
        ("type = \"Lift\"", "type = \"My Lift\"", "as in the name of a class"),
        ("type = \"Lift\"", "type = \"Convolution\"", "ncnn has layers of the type Convolution"),
        ("type", "kind", "line 4: unknown field `kind`"),
        ("0 = \"scale\"", "30 = \"scale\"", "expected ids from 0 to 29, not \"30\""),
        ("outputs = [\"N, C, scale*H, scale*W\"]", "", "expected a shape for each output"),
        ("scale*W\"]", "scale*\"]", "\"scale*\" is not a size"),
        ("weights = [1]", "weights = [0]", "it must be a constant"),
        (
            "inputs = [\"N, C, H, W\"]",
            "inputs = [\"N, C\"]",
            "its shape is [1, 16, 12, 10], and the layer declares",
        ),
        ("scale*H", "factor*H", "is not a size"),
        ("1 = \"shift\"", "1 = { input = 0 }", "all inputs of the layer are constants"),
        ("operator = \"my.ops.Lift\"", "operator = \"my.ops.Other\"", "unknown operator my.ops.Lift"),
    ] {
        assert!(declared.contains(before), "{before}");
        room.put("own.toml", declared.replace(before, after).as_bytes());
        let output = room.run("model.onnx net.param --custom-layers own.toml");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(said), "{after}: {text}");
        assert!(!room.path("net.param").exists(), "{after}");
    }
}
