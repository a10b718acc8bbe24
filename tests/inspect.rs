//! `onnx2ncnn inspect`: the description of a model.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, fixture};

/// Queries, keys and values have products with each other, and with the weight of com.microsoft's Attention.
const ATTENTION: [(&str, &str); 5] = [
    // 2 heads of 5 queries and 6 keys, each with 8 elements for the score and 8 for the result.
    ("attention/attention", "960 multiply-adds"),
    // 4 heads of 5 queries and 6 keys, with 6 and 4 elements.
    ("attention/attention_merged_heads", "1.20 K multiply-adds"),
    // 3 rows times a weight of 8 by 24, and 3 queries and keys with 16 elements.
    ("contributed/ms_attention", "720 multiply-adds"),
    ("contributed/ms_cross_attention", "240 multiply-adds"),
    ("attention/flexattention", "144 multiply-adds"),
];

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
    room.expect(&format!("inspect {model}"), 0, "nodes have free sizes; --input-shape fixes sizes");
}

#[test]
fn products_are_counted() {
    let room = Room::new();
    for (name, counted) in [
        // 6 x 7 x 5 outputs of 2 x 3 x 3 products each.
        ("spatial/conv_groups", "3.78 K multiply-adds"),
        // 4 x 9 x 7 inputs with 3 x 3 x 3 products each.
        ("spatial/transpose_plain", "6.80 K multiply-adds"),
    ] {
        let text = room.expect(&format!("inspect {}", fixture(name)), 0, counted);
        assert!(text.contains("108 parameters in 432 bytes"), "{text}");
    }
}

#[test]
fn products_of_attention_are_counted() {
    let room = Room::new();
    for (name, counted) in ATTENTION {
        room.expect(&format!("inspect {}", fixture(name)), 0, counted);
    }
}

#[test]
fn constants_in_nodes_are_counted() {
    let room = Room::new();
    let constant = onnx::constant_node("c", &[1.0, 2.0, 3.0]);
    let add = onnx::node("Add", &["x", "c"], &["y"], &[]);
    room.put("m.onnx", &onnx::model(&["2", "3"], &[constant, add]));
    room.expect("inspect m.onnx", 0, "3 parameters in 12 bytes");
    room.put("one.onnx", &onnx::defaulted(8));
    room.expect("inspect one.onnx", 0, "1 parameter in 4 bytes");
}

#[test]
fn columns_are_aligned_and_numbers_agree_with_nouns() {
    let room = Room::new();
    let text = room.expect(&format!("inspect {}", fixture("quantized/operators")), 0, "input");
    let rows = text.lines().filter(|line| line.starts_with("input") || line.starts_with("output"));
    let columns: Vec<Option<usize>> = rows.map(|row| row.rfind("  [")).collect();
    assert!(columns.len() > 1 && columns.windows(2).all(|pair| pair == [columns[0]; 2]), "{text}");
    room.put("m.onnx", &onnx::model(&["N", "3"], &[onnx::constant("w", 1, &[3, 1], &[0; 12]), product()]));
    room.expect("inspect m.onnx", 0, "multiply-adds are not known: 1 node has free sizes");
}

fn product() -> Vec<u8> {
    onnx::node("MatMul", &["x", "w"], &["y"], &[])
}

#[test]
fn an_inspection_goes_to_standard_output() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu", "NoSuchOperator"], &["N", "3"]));
    for (line, words) in
        [("inspect m.onnx", "unknown operator"), ("inspect m.onnx --report -", "\"refused\"")]
    {
        let output = room.run(line);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty() && text.contains(words),
            "{line}: {text}"
        );
    }
    let output = room.run("inspect m.onnx --json");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["model"]["operators"]["Relu"], 1);
    assert_eq!(report["diagnostics"][0]["code"], "E0009");
}

#[test]
fn refused_nodes_are_printed() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu", "NoSuchOperator"], &["N", "3"]));
    let text = room.expect("inspect m.onnx", 0, "unknown operator NoSuchOperator");
    assert!(text.contains("--outputs t1") && text.contains("     1  NoSuchOperator"), "{text}");
    room.put("text", b"This is a text and no model at all.\n");
    room.expect("inspect text", 1, "not an ONNX model");
    room.expect("inspect none", 2, "none");
}

/// A warning names the node that takes most of the layers, where layers do the work of several nodes.
#[test]
fn layers_are_those_of_the_node_that_takes_most() {
    let room = Room::new();
    let model = fixture("indexing/top_k_of_probabilities");
    let text = room.expect(&format!("{model} --dry-run"), 0, "takes less over fewer elements");
    let warning = text.lines().find(|line| line.contains("times the work")).unwrap();
    assert!(warning.contains("TopK-17: its ") && warning.contains("BinaryOp, "), "{warning}");
    assert!(!text.contains("Sigmoid-17"), "{text}");
    let text = room.expect(&format!("inspect {model}"), 0, "it can be converted");
    assert!(text.contains("TopK and 2 other nodes"), "{text}");
}
