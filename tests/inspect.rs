//! `onnx2ncnn inspect`: the description of a model.

#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, fixture};

#[test]
fn a_model_is_described() {
    let room = Room::new();
    let model = fixture("network/convolutional");
    let text = room.expect(&format!("inspect {model}"), 0, "it can be converted");
    for words in [
        "opset ",
        "IR version",
        "input   \"x\"  float  [1, 3, 16, 16]",
        "output  \"y\"",
        "Conv",
        "multiply-adds",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("free sizes") && room.names().is_empty(), "{text}");
    let model = fixture("network/free_sizes");
    room.expect(&format!("inspect {model}"), 0, "nodes of free sizes");
}

#[test]
fn products_are_counted() {
    let room = Room::new();
    for (name, counted) in [
        // 6 x 7 x 5 outputs of 2 x 3 x 3 products each.
        ("conv/conv_groups", "3.78 K multiply-adds"),
        // 4 x 9 x 7 inputs with 3 x 3 x 3 products each.
        ("conv/transpose_plain", "6.80 K multiply-adds"),
    ] {
        let text = room.expect(&format!("inspect {}", fixture(name)), 0, counted);
        assert!(text.contains("108 parameters in 432 bytes"), "{text}");
    }
}

#[test]
fn refused_nodes_are_printed() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu", "NoSuchOperator"], &["N", "3"]));
    let text = room.expect("inspect m.onnx", 0, "unknown operator NoSuchOperator");
    assert!(text.contains("--outputs \"t1\"") && text.contains("     1  NoSuchOperator"), "{text}");
    room.put("text", b"This is a text and no model at all.\n");
    room.expect("inspect text", 1, "not an ONNX model");
    room.expect("inspect none", 2, "none");
}
