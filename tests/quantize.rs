//! `onnx2ncnn quantize`: quantization by samples.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;

use room::Room;

/// A room with a float model and two samples in the folder `data`.
fn room_with(fixture: &str) -> Room {
    let room = Room::new();
    let folder = format!("{}/fixtures/{fixture}", env!("CARGO_MANIFEST_DIR"));
    fs::copy(format!("{folder}/model.onnx"), room.path("model.onnx")).unwrap();
    fs::create_dir(room.path("data")).unwrap();
    for name in ["a.npz", "b.npz"] {
        fs::copy(format!("{folder}/inputs.npz"), room.path("data").join(name)).unwrap();
    }
    room
}

fn line() -> String {
    format!("quantize model.onnx m.param m.bin --python {}", support::python().display())
}

/// The int8 layers of a `.param` file: their lines, those with a param of integer scales.
fn int8_layers(room: &Room) -> usize {
    let text = fs::read_to_string(room.path("m.param")).unwrap();
    let is_int8 = |line: &&str| [" 8=", " 18=2"].iter().any(|param| line.contains(param));
    text.lines().filter(is_int8).count()
}

/// The cosine of the only output.
fn cosine(text: &str) -> f64 {
    let (_, rest) = text.split_once(": cosine ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_float_model_becomes_int8_layers() {
    let room = room_with("network/convolutional");
    let text =
        room.expect(&format!("{} --data data --depthwise --emit-onnx q.onnx", line()), 0, "on 2 samples");
    assert!(cosine(&text) > 0.99, "{text}");
    let (all, param) = (int8_layers(&room), fs::read(room.path("m.param")).unwrap());
    assert!(all > 2, "{text}");
    assert!(text.contains(&format!("of {all} nodes")), "{text}");
    // The quantized model is one that is converted with --int8.
    room.expect("q.onnx n.param n.bin --int8", 0, "");
    assert!(param == fs::read(room.path("n.param")).unwrap());
    let python = support::python();
    let verify = format!("verify q.onnx m.param m.bin --int8 --python {}", python.display());
    room.expect(&verify, 0, "the same in onnxruntime and ncnn");
    room.expect(&format!("{verify} --tolerance 1e-12"), 4, "DIFFERS");

    let first = text.lines().find_map(|line| line.trim().strip_prefix("0.")).unwrap();
    let (_, name) = first.split_once("  ").unwrap();
    for method in ["min-max", "percentile"] {
        let text = room.expect(
            &format!("{} --data data/a.npz --depthwise --method {method} --keep {name}", line()),
            0,
            "on 1 sample",
        );
        assert!(cosine(&text) > 0.98, "{text}");
        assert_eq!(int8_layers(&room), all - 1);
        assert!(!text.contains(&format!("  {name}\n")), "{text}");
    }
}

/// The rows of the table of nets: the numbers of nodes in float, the bytes of weights, and the losses.
fn trials(text: &str) -> Vec<(String, u64, f64)> {
    let (_, rows) = text.split_once("milliseconds, loss\n").unwrap();
    let rows = rows.lines().take_while(|row| row.starts_with("  "));
    let words = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    words.map(|words| (words[0].to_owned(), words[1].parse().unwrap(), words[3].parse().unwrap())).collect()
}

#[test]
fn the_most_sensitive_nodes_stay_in_float() {
    let room = room_with("network/transformer_block");
    let text = room.expect(&format!("{} --data data --max-loss 0.01", line()), 0, "on 1 sample");
    let rows = trials(&text);
    assert_eq!(rows.iter().map(|(nodes, ..)| nodes.as_str()).collect::<Vec<_>>(), ["0", "all"]);
    let (_, bytes, loss) = rows[0];
    assert!(loss > 0.0 && loss < 0.01 && rows[1].2 < 1e-6, "{text}");
    let text = room.expect(&format!("{} --data data --max-loss {}", line(), 0.7 * loss), 0, "on 1 sample");
    let rows = trials(&text);
    let best = rows.iter().find(|(nodes, _, row)| nodes != "all" && *row <= 0.7 * loss).unwrap();
    assert!(best.1 > bytes && best.1 < rows.last().unwrap().1, "{text}");
    assert_eq!(best.1, fs::metadata(room.path("m.bin")).unwrap().len(), "{text}");
    let names = room.names();
    let said = "no net with int8 layers has a loss of at most 0.000000000001";
    room.expect(&format!("{} --data data --max-loss 1e-12", line()), 2, said);
    assert_eq!(room.names(), names);
}

#[test]
fn depthwise_convolutions_stay_in_float() {
    let room = room_with("network/convolutional");
    room.expect(&format!("{} --data data", line()), 0, "on 2 samples");
    let few = int8_layers(&room);
    room.expect(&format!("{} --data data --depthwise", line()), 0, "on 2 samples");
    assert!(0 < few && few < int8_layers(&room));
}

#[test]
fn products_of_many_rows_are_rounded_by_their_range() {
    let room = room_with("network/transformer_block");
    let text = room.expect(&format!("{} --data data", line()), 0, "cosine");
    assert!(cosine(&text) > 0.99, "{text}");
    assert!(fs::read_to_string(room.path("m.param")).unwrap().contains(" 18=2"), "{text}");
}

#[test]
fn weights_of_recurrent_layers_are_rounded() {
    for (fixture, layers) in [("recurrent/lstm_bidirectional", 1), ("recurrent/gru_bidirectional", 1)] {
        let room = room_with(fixture);
        let text = room.expect(&format!("{} --data data", line()), 0, "cosine");
        assert!(int8_layers(&room) == layers && cosine(&text) > 0.99, "{text}");
    }
    let room = room_with("recurrent/gru_reset_first");
    room.expect(&format!("{} --data data", line()), 2, "no node of the model can be an int8 layer");
    let room = room_with("recurrent/lstm");
    room.expect(&format!("{} --data data --emit-onnx q.onnx", line()), 0, "cosine");
    assert_eq!(int8_layers(&room), 1);
    for options in ["--int8 --ncnn-version 20240410", "--dequantize"] {
        room.expect(&format!("q.onnx m.param m.bin {options}"), 0, "");
        let param = fs::read_to_string(room.path("m.param")).unwrap();
        assert!(int8_layers(&room) == 0 && param.contains("\nLSTM "), "{param}");
    }
}

#[test]
fn samples_choose_the_int8_layers_of_a_quantized_model() {
    let room = room_with("recurrent/lstm");
    room.expect(&format!("{} --data data --emit-onnx q.onnx", line()), 0, "cosine");
    let python = support::python();
    let verify = format!("verify q.onnx m.param m.bin --int8 --python {}", python.display());
    let text = room.expect(&format!("{verify} --tolerance 1e-12"), 4, "by your samples");
    let (_, commands) = text.split_once("by your samples\n").unwrap();
    let commands: Vec<&str> = commands.lines().map(|line| line.trim().split_once(' ').unwrap().1).collect();
    let [float, quantize] = commands.as_slice() else { panic!("{text}") };
    room.expect(float, 0, "");
    let quantize = quantize.replace("--data samples", "--data data");
    let text = room.expect(&format!("{quantize} --python {}", python.display()), 0, "cosine");
    assert!(cosine(&text) > 0.99, "{text}");
}

#[test]
fn what_cannot_be_quantized_is_reported() {
    let room = room_with("network/convolutional");
    let names = room.names();
    fs::create_dir(room.path("empty")).unwrap();
    for (options, said) in [
        ("--data none", "none"),
        ("--data model.onnx", "cannot be read"),
        ("--data data --keep nothing", "\"nothing\""),
        ("--data empty", "no .npz"),
    ] {
        let text = room.expect(&format!("{} {options}", line()), 2, said);
        assert!(!text.contains("pip install"), "{text}");
    }
    fs::remove_dir(room.path("empty")).unwrap();
    room.expect("quantize - m.param m.bin --data data", 2, "standard input");
    room.expect("quantize model.onnx model.onnx m.bin --data data", 2, "overwrite");
    room.expect("quantize model.onnx m.param m.bin --data data --python none", 2, "pip install onnx ");
    assert_eq!(room.names(), names);
    let room = room_with("control/dropout");
    room.expect(&format!("{} --data data", line()), 2, "can be an int8 layer");
}

#[test]
fn forms_are_compared_before_one_is_chosen() {
    let room = room_with("network/convolutional");
    let python = support::python();
    let inspect = format!("inspect model.onnx --data data --python {}", python.display());
    let text = room.expect(&format!("{inspect} --compare fp16,int8,weights-int4"), 0, "form");
    let row = |form: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(form)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    let loss = |form: &str| row(form)[5].parse::<f64>().unwrap();
    assert!(loss("float32") < 1e-6 && loss("fp16") < 1e-5, "{text}");
    // The same net as that of the command of the row.
    let made = room.expect(&format!("{} --data data", line()), 0, "on 2 samples");
    assert!((loss("int8") - (1.0 - cosine(&made))).abs() < 1e-4, "{text}{made}");
    assert!(row("weights-int4").join(" ").contains("nothing could be rounded"), "{text}");
    assert_eq!(room.names(), ["data", "m.bin", "m.param", "model.onnx"]);
    room.expect("inspect model.onnx --compare fp16", 2, "--data");
    room.expect(&format!("{inspect} --compare int3"), 2, "possible values: fp16");
    room.expect("inspect model.onnx --compare fp16 --data none", 2, "none: the samples cannot be read");
}
