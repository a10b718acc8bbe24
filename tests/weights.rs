//! Weights in blocks: the layers, the files, and the options that exclude each other.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;
use std::path::Path;

use onnx2ncnn::ncnn::{Layer, Written};
use onnx2ncnn::{Conversion, Converter, Input, Weights};
use room::{Room, fixture};

fn converted(name: &str, weights: Weights) -> Conversion {
    let converter = Converter::new().weights(weights).check(true);
    converter.convert(&Input::Path(fixture(name).into())).unwrap()
}

/// Returns the written bytes.
fn written(conversion: &Conversion) -> (Vec<u8>, Written) {
    let mut bytes = Vec::new();
    let written = conversion.write_to(std::io::sink(), &mut bytes).unwrap();
    (bytes, written)
}

/// Returns `quantize_term` of each product, 0 for floats.
fn terms(conversion: &Conversion) -> Vec<i32> {
    let layers = conversion.net().layers.iter();
    layers
        .filter_map(|layer| match &layer.layer {
            Layer::Gemm(gemm) => Some(gemm.quantize_term),
            Layer::InnerProduct(_) => Some(0),
            _ => None,
        })
        .collect()
}

#[test]
fn integers_in_blocks_are_kept() {
    let conversion = converted("blocks/symmetric", Weights::Keep);
    assert_eq!(terms(&conversion), [400, 401, 402, 402, 400]);
    assert_eq!(conversion.net().since(), 20261020);
    assert!(conversion.warnings.iter().any(|warning| warning.contains("the layout of ncnn 20261020")));
    let (bytes, written) = written(&conversion);
    // Rows of 150 bytes, padded as a whole, the bias with a tag, and the inverse scales.
    let sizes: Vec<u64> = written.weights.iter().map(|weight| weight.bytes).collect();
    assert_eq!(sizes, [1052, 280, 900, 28, 120, 752, 60, 600, 48, 1052, 280]);
    assert_eq!(u64::try_from(bytes.len()).unwrap(), sizes.iter().sum::<u64>());
    assert_eq!(conversion.net().bin_bytes().unwrap(), Some(written.bin_bytes));
    assert_eq!(
        (written.weights[0].bits, written.weights[0].elements, written.weights[0].error),
        (4, 2100, None)
    );
    // The sign bits of both integers of a byte are inverted.
    let model = fs::read(fixture("blocks/symmetric")).unwrap();
    let first: Vec<u8> = bytes[..150].iter().map(|byte| byte ^ 0x88).collect();
    assert!(model.windows(first.len()).any(|window| window == first));
}

#[test]
fn the_narrowest_integers_contain_the_differences_to_zero_points() {
    assert_eq!(terms(&converted("blocks/zero_points", Weights::Keep)), [600, 400, 400]);
    assert_eq!(terms(&converted("blocks/other_blocks", Weights::Int8)), [0, 800, 0]);
}

#[test]
fn integers_of_dequantize_linear_are_kept() {
    assert_eq!(terms(&converted("blocks/dequantized", Weights::Keep)), [400, 600, 600, 400, 600, 402]);
    assert_eq!(terms(&converted("blocks/other_dequantized", Weights::Int8)), [800, 0, 0, 0]);
}

#[test]
fn weights_that_are_not_kept_are_told() {
    for (name, reasons) in [
        (
            "blocks/other_blocks",
            &[
                "no blocks of 16",
                "no exact layer for integers from -128 to 127",
                "zero points are not integers",
            ][..],
        ),
        ("blocks/other_tables", &["the indices are computed", "40 columns in blocks of 32"]),
    ] {
        let conversion = converted(name, Weights::Keep);
        assert!(terms(&conversion).iter().all(|term| *term == 0));
        assert_eq!(conversion.warnings.len(), reasons.len() + 1, "{:?}", conversion.warnings);
        for (warning, reason) in conversion.warnings.iter().zip(reasons) {
            assert!(warning.starts_with("node ") && warning.contains(reason), "{warning}");
        }
        assert_eq!(conversion.warnings.last().unwrap(), "no weights are in blocks");
    }
}

#[test]
fn floats_are_rounded_and_the_errors_reported() {
    for (weights, term) in [(Weights::Int8, 801), (Weights::Int6, 601), (Weights::Int4, 401)] {
        let conversion = converted("blocks/floats", weights);
        assert_eq!(terms(&conversion), [term; 5]);
        let (_, written) = written(&conversion);
        let report = conversion.report(&written).unwrap();
        let parts = report.net.as_ref().unwrap().layers.iter().flat_map(|layer| &layer.weights);
        let errors: Vec<f32> = parts.filter_map(|weight| weight.error).collect();
        assert_eq!(errors.len(), 6);
        // These floats are integers of four bits in blocks.
        assert!(errors.iter().all(|error| *error < 1e-6), "{errors:?}");
    }
    let conversion = converted("blocks/other_floats", Weights::Int4);
    assert!(terms(&conversion).iter().all(|term| *term == 0));
}

#[test]
fn other_options_do_not_change() {
    let room = Room::new();
    let model = fixture("blocks/symmetric");
    room.expect(&format!("{model} a.param"), 0, "loads in ncnn 20240410");
    room.expect(&format!("{model} b.param --weights float"), 0, "loads in ncnn 20240410");
    let read = |name: &str| fs::read(room.path(name)).unwrap();
    assert_eq!((read("a.param"), read("a.bin")), (read("b.param"), read("b.bin")));
    room.expect(&format!("{model} c.param --weights keep --fp16 --precise"), 0, "in blocks");
    assert!(read("c.bin").len() * 3 < read("a.bin").len());
    room.expect(&format!("{model} d.param --weights keep --param-bin d.param.bin"), 0, "d.param.bin");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let room = Room::new();
    let model = fixture("blocks/symmetric");
    for (options, said) in [
        ("--weights keep --ncnn-version 20260526", "weights in blocks require ncnn 20261020"),
        ("--weights int4 --int8", "int8 layers have the scales of the model"),
        ("--weights keep --dequantize --table t", "belongs to a net of floats"),
        ("--weights int5", "invalid value 'int5'"),
        ("--weights int8 --data s.npz --max-loss 0.01", "--max-loss is for --weights int4 and int6"),
        ("--weights int4 --data s.npz --max-loss 1", "expected a number between 0 and 1"),
    ] {
        room.expect(&format!("{model} a.param {options}"), 2, said);
    }
    assert_eq!(room.names(), [""; 0]);
    room.expect(&format!("{model} a.param --weights keep --int8"), 0, "in blocks");
}

#[test]
fn weights_are_rounded_by_samples() {
    let room = Room::new();
    let folder = Path::new(&fixture("blocks/floats")).parent().unwrap().to_owned();
    fs::copy(folder.join("model.onnx"), room.path("m.onnx")).unwrap();
    fs::copy(folder.join("inputs.npz"), room.path("samples.npz")).unwrap();
    let line = format!(
        "m.onnx m.param m.bin --weights int4 --python {} --half-error 0.5",
        support::python().display()
    );
    let text = room.expect(&format!("{line} --data samples.npz"), 0, "to the nearest integers");
    // The weights are such integers already.
    assert!(text.contains("rounded by samples, on 1 sample held out\n  0.0000  \"a\", 0.0000"), "{text}");
    let param = fs::read_to_string(room.path("m.param")).unwrap();
    room.expect("m.onnx n.param n.bin --weights int4", 0, "");
    let plain = fs::read_to_string(room.path("n.param")).unwrap();
    for part in [" 18=401", "\nEmbed "] {
        let count = |param: &str| param.matches(part).count();
        assert!(count(&param) > 0 && count(&param) == count(&plain), "{part}: {param}");
    }
    let pixels = format!("{line} --data samples.npz --scale 0.5");
    room.expect(&pixels, 2, "the weights of a model whose input is pixels are not rounded");
}

#[test]
fn a_weight_that_is_not_finite_leaves_no_file() {
    let room = Room::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/blocks/floats/model.onnx");
    let mut model = fs::read(path).unwrap();
    // The bytes of the first element of "table", after its name and the tag of raw data.
    let name = model.windows(5).rposition(|window| window == b"table").unwrap();
    let data = (name..name + 16).find(|at| model[*at] == 0x4a).unwrap();
    let length = model[data + 1..].iter().position(|byte| *byte < 0x80).unwrap() + 1;
    let start = data + 1 + length;
    model[start..start + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    room.put("model.onnx", &model);
    room.expect("model.onnx a.param --weights int4", 1, "a weight of inf is not rounded to integers");
    assert_eq!(room.names(), ["model.onnx"]);
}
