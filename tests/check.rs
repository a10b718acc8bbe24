//! `onnx2ncnn check` and `onnx2ncnn diff`: the faults of nets of any converter, and what differs between two.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;

use std::fs;

use onnx2ncnn::ncnn::layer::Param;
use onnx2ncnn::ncnn::{Layer, Net};
use proptest::prelude::*;
use room::{Room, fixture};
use serde_json::Value;

/// A net with the layers that the tests damage: two convolutions, with their weights.
const SMALL: &str = "\
7767517
5 6
Input     x     0 1 x 0=4 1=4 2=1
Split     two   1 2 x a b
Convolution conv 1 1 a c 0=2 1=3 4=1 5=1 6=18
ReLU      relu  1 1 c y 0=1.0e-01
Clip      clip  1 1 b z 0=0.0 1=6.0
";

/// The `.bin` file of [`SMALL`]: a tag, a weight of 18 elements, and a bias of 2.
fn small_bin() -> Vec<u8> {
    let elements = (0_u8..20).flat_map(|x| f32::from(x).to_le_bytes());
    [0; 4].into_iter().chain(elements).collect()
}

/// A room with `net.param` and `net.bin`.
fn room_with(param: &str, bin: &[u8]) -> Room {
    let room = Room::new();
    room.put("net.param", param.as_bytes());
    room.put("net.bin", bin);
    room
}

/// Returns the lines of JSON that a command prints.
#[track_caller]
fn lines(room: &Room, line: &str, code: i32) -> Vec<Value> {
    let output = room.run(&format!("{line} --message-format json"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn nets_of_the_converter_are_right() {
    for (name, options) in [
        ("network/convolutional", ""),
        ("network/convolutional", "--fp16"),
        ("network/free_sizes", ""),
        ("network/digits", ""),
        ("attention/attention", ""),
        ("blocks/symmetric", "--weights keep"),
        ("quantized/network", "--int8"),
        ("recurrent/gru", ""),
        ("network/spectrum_of_a_sound", ""),
        ("shape/split_unequal", ""),
    ] {
        let room = Room::new();
        let model = fixture(name);
        if !std::path::Path::new(&model).is_file() {
            panic!("{model} is missing");
        }
        room.expect(&format!("{model} net.param --param-bin other.param.bin {options}"), 0, "");
        let text = room.expect("check net.param", 0, "right: ");
        assert!(text.contains("input ") && text.contains("loads in ncnn 20"), "{text}");
        fs::copy(room.path("net.bin"), room.path("other.bin")).unwrap();
        let binary = lines(&room, "check other.param.bin", 0);
        let done = &lines(&room, "check net.param", 0).pop().unwrap()["done"];
        assert_eq!(binary.last().unwrap()["done"]["weights"], done["weights"], "{name}");
        assert_eq!(lines(&room, "diff net.param net.param", 0).pop().unwrap()["done"]["same"], true);
    }
}

#[test]
fn facts_are_told() {
    let room = room_with(SMALL, &small_bin());
    let text = room.expect("check net.param", 0, "right: ");
    for words in [
        "input   \"x\"  [1, 4, 4]\n",
        "output  \"y\"  ?\n",
        "5 layers, 6 blobs\n",
        "weights of float32: 20 elements in 80 bytes\n",
        "loads in ncnn 20240410 and later\n",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(room.expect("check net.param -v", 0, "").contains("     1  Convolution\n"));
    assert_eq!(room.expect("check net.param -q", 0, ""), "");
    let done = &lines(&room, "check net.param", 0)[0]["done"];
    assert_eq!((&done["layers"], &done["weights"]["float32"]["bytes"]), (&5.into(), &80.into()));
    // What needs a newer release, or the processor.
    let newer = SMALL.replace("Clip      clip  1 1 b z 0=0.0 1=6.0", "Flip flip 1 1 b z -23300=1,0 31=23");
    let room = room_with(&newer, &small_bin());
    let text =
        room.expect("check net.param", 0, "loads in ncnn 20250916 and later, for 1 layer (Flip \"flip\")");
    assert!(text.contains("in float32 on phones: 1 layer (Flip \"flip\")"), "{text}");
    assert!(text.contains("not on the GPU: 1 layer (Flip \"flip\")"), "{text}");
    // Blobs that nobody reads.
    let unread = "7767517\n3 5\nInput x 0 1 x\nInput y 0 1 y\nSlice s 1 3 x a b c -23300=3,1,1,1\n";
    let read = format!("{}Clip c 1 1 a z 0=0.0 1=1.0\n", unread.replace("3 5", "4 6"));
    let room = room_with(&read, &[]);
    let text = room.expect("check net.param", 0, "warning: no layer reads the input \"y\"");
    assert!(text.contains("warning: no layer reads \"b\""), "{text}");
    assert!(lines(&room, "check net.param", 0)[0]["severity"] == "warning");
    let text = room_with(unread, &[]).expect("check net.param", 0, "");
    assert!(!text.contains("no layer reads \"b\""), "{text}");
}

#[test]
fn faults_have_their_lines() {
    let bin = small_bin();
    for (old, new, fault) in [
        ("Clip      clip", "Clop      clip", "line 7, Clop \"clip\": the layer type Clop is not known"),
        ("5 6\n", "5 7\n", "the .param file states 7 blobs and has 6"),
        ("5 6\n", "6 6\n", "the .param file states 6 layers and has 5"),
        ("5 6\n", "five\n", "line 2 has no numbers"),
        ("7767517", "7767518", "the .param file does not begin with 7767517"),
        ("1 1 c y", "1 2 c y w", "line 6, ReLU \"relu\": it needs 1 top, and it has 2"),
        ("1 1 b z", "9 1 b z", "line 7: the line ends before"),
        ("0=0.0 1=6.0", "9=1", "line 7, Clip \"clip\": param 9 is not known"),
        ("0=0.0 1=6.0", "99=1", "line 7, Clip \"clip\": param 99 is beyond"),
        ("0=0.0 1=6.0", "0=0.0 1=5e38", "line 7, Clip \"clip\", param 1: \"5e38\" is beyond float32"),
        ("0=0.0 1=6.0", "0=1.0 0=1.0", "line 7, Clip \"clip\": param 0 occurs twice"),
        ("0=1.0e-01", "0=1", "param 0 is the integer 1, and the runtime reads a float"),
        ("0=1.0e-01", "0=x=", "line 6, ReLU \"relu\": param 0 is the text"),
        ("6=18", "6=19", "line 5, Convolution \"conv\""),
        ("1 1 b z", "1 1 a z", "line 7, Clip \"clip\": bottom \"a\" is read by line 5, too"),
        ("1 1 b z", "1 1 q z", "line 7, Clip \"clip\": bottom \"q\" is not a top of an earlier layer"),
        ("1 1 b z", "1 1 b y", "line 7, Clip \"clip\": top \"y\" is a top of an earlier layer"),
    ] {
        let damaged = SMALL.replacen(old, new, 1);
        assert_ne!(damaged, SMALL);
        let room = room_with(&damaged, &bin);
        let text = room.expect("check net.param", 1, fault);
        assert!(text.contains("wrong: "), "{text}");
        assert_eq!(lines(&room, "check net.param", 1)[0]["severity"], "error", "{fault}");
        room.expect("diff net.param net.param", 2, fault);
    }
    for (bin, fault) in [
        (&bin[..50], "line 5, Convolution \"conv\", weight_data: the .bin file has 50 bytes"),
        (&[bin.as_slice(), &[0; 4]].concat(), "the .bin file has 88 bytes, and the layers read 84"),
        (&[], "the .bin file has 0 bytes"),
    ] {
        room_with(SMALL, bin).expect("check net.param", 1, fault);
    }
    // The runtime would scan a longer name as two words.
    room_with(&SMALL.replace("clip", &"c".repeat(300)), &bin).expect(
        "check net.param",
        1,
        "cannot read the name",
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let damaged =
        SMALL.replace("ReLU ", "RuLe ").replace("1 1 b z 0=0.0", "1 1 a z 0=1").replace("6=18", "7=9");
    let text = room_with(&damaged, &small_bin()).expect("check net.param", 1, "wrong: 4 faults");
    for line in ["line 5, ", "line 6, ", "line 7, Clip \"clip\": param 0", "line 7, Clip \"clip\": bottom"] {
        assert!(text.contains(&format!("error: {line}")), "{line} in {text}");
    }
    assert!(text.contains("help: give each reader a top of a layer Split"), "{text}");
    // No fault follows from another one: of a line that cannot be read the blobs are not known.
    let broken = SMALL.replace("Split     two   1 2", "Split     two   1 x");
    room_with(&broken, &small_bin()).expect("check net.param", 1, "wrong: 1 fault\n");
}

#[test]
fn files_that_cannot_be_read_have_their_own_code() {
    let room = room_with(SMALL, &small_bin());
    room.expect("check none.param", 2, "none.param");
    room.expect("check net.param none.bin", 2, "none.bin");
    room.expect("diff net.param none.param", 2, "none.param");
    room.put("binary.param", &[0xFF, 0xFE, 0, 1]);
    room.expect("check binary.param net.bin", 1, "neither text nor its binary form");
}

#[test]
fn other_writers_leave_params_out() {
    let bin = vec![0; 4 * (4 + 4 * (16 + 4))];
    let param = "7767517\n2 2\nInput x 0 1 x\nMultiHeadAttention m 1 1 x y 0=4 1=2 2=16\n";
    let net = Net::read(param.as_bytes(), bin.into()).unwrap();
    let Layer::MultiHeadAttention(layer) = &net.layers[1].layer else { panic!() };
    assert_eq!((layer.scale, net.since()), (1.0 / 2_f32.sqrt(), 20240410));
    for kind in ["Spectrogram", "InverseSpectrogram"] {
        let param = format!("7767517\n2 2\nInput x 0 1 x\n{kind} s 1 1 x y 0=64\n");
        let net = Net::read(param.as_bytes(), Vec::new().into()).unwrap();
        assert!(net.layers[1].layer.params().contains(&(2, Param::Int(16))), "{kind}");
    }
}

#[test]
fn differences_are_told() {
    let bin = small_bin();
    let mut other = bin.clone();
    other[8..12].copy_from_slice(&4.5_f32.to_le_bytes());
    let clip = "Clip \"clip\": ";
    for (old, new, bin, said) in [
        ("0=0.0 1=6.0", "0=0.0 1=7.0", &bin, format!("{clip}max 6.0 -> 7.0\n")),
        ("0=0.0 1=6.0", "0=0.0 1=6.0 31=23", &bin, format!("{clip}float32 false -> true\n")),
        // A default that is written is no difference, and one that is not has a value.
        ("4=1", "4=1 13=1", &bin, "same: 4 layers in both nets\n".into()),
        ("4=1", "4=1 3=2", &bin, "Convolution \"conv\": stride_w 1 -> 2\n".into()),
        ("1 1 c y", "1 1 c renamed", &bin, "outputs \"y\" -> \"renamed\"\n".into()),
        (
            "",
            "",
            &other,
            "conv\": weight_data 1 of 18 elements differ, by at most 3.500e0, the first at 1\n".into(),
        ),
        (
            "Clip      clip  1 1 b z 0=0.0 1=6.0",
            "AbsVal abs 1 1 b z",
            &bin,
            "only in new.param: AbsVal \"abs\"\n".into(),
        ),
        ("Clip      clip  1 1 b z 0=0.0 1=6.0", "AbsVal clip 1 1 b z", &bin, format!("{clip}type AbsVal\n")),
        // Layers of another name at the same place.
        ("relu ", "other ", &bin, "same: 4 layers in both nets, 1 of them with other names\n".into()),
        ("conv ", "other ", &bin, "same: 4 layers".into()),
        ("clip  1 1 b z 0=0.0", "other 1 1 b z 0=1.0", &bin, format!("{clip}min 0.0 -> 1.0\n")),
    ] {
        let room = room_with(SMALL, &small_bin());
        room.put("new.param", SMALL.replacen(old, new, 1).as_bytes());
        room.put("new.bin", bin);
        let code = if said.starts_with("same") { 0 } else { 4 };
        let text = room.expect("diff net.param new.param", code, &said);
        assert!(text.contains(if code == 0 { "same: " } else { "different: " }), "{text}");
        let told = lines(&room, "diff net.param new.param", code);
        assert_eq!(told.len() - 1, text.lines().count() - 1, "{told:?}");
        assert_eq!(told.last().unwrap()["done"]["same"], code == 0);
    }
}

#[test]
fn missing_layers_and_other_wiring_are_told() {
    let room = room_with(SMALL, &small_bin());
    let shorter = SMALL.replace("5 6", "4 5").replace("ReLU      relu  1 1 c y 0=1.0e-01\n", "");
    room.put("new.param", shorter.as_bytes());
    let line = "diff net.param new.param --new-bin net.bin";
    let text = room.expect(line, 4, "only in net.param: ReLU \"relu\"\n");
    assert!(
        text.contains("outputs \"y\" -> \"c\"\n") && text.contains("different: 2 differences; "),
        "{text}"
    );
    assert_eq!(lines(&room, line, 4)[0]["kind"], "removed");
    // Both sides of a Split are the same, and before and after a layer are not.
    let twice = "7767517\n5 7\nInput x 0 1 x\nSplit s 1 3 x a b c\nReLU r 1 1 a d\nBinaryOp o 2 1 d b y\nAbsVal v 1 1 c z\n";
    let room = room_with(twice, &[]);
    room.put("new.param", twice.replace("d b y", "d c y").replace("v 1 1 c", "v 1 1 b").as_bytes());
    room.expect("diff net.param new.param --new-bin net.bin", 0, "same: ");
    room.put("new.param", twice.replace("d b y", "b d y").as_bytes());
    room.expect(
        "diff net.param new.param --new-bin net.bin",
        4,
        "BinaryOp \"o\": reads \"d\", \"x\" -> \"x\", \"d\"\n",
    );
}

#[test]
fn types_of_weights_are_compared() {
    let room = Room::new();
    let model = fixture("network/convolutional");
    room.expect(&format!("{model} a.param"), 0, "");
    room.expect(&format!("{model} b.param --fp16"), 0, "");
    room.expect("diff a.param b.param", 4, "weight_data float32 -> float16, ");
    let first = &lines(&room, "diff a.param b.param", 4)[0];
    assert_eq!((&first["kind"], &first["change"]["differs"]), (&"weight".into(), &"elements".into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Bytes of any kind are a net or an error.
    #[test]
    fn no_bytes_panic(param in proptest::collection::vec(any::<u8>(), 0..200), text in any::<bool>(), bin in proptest::collection::vec(any::<u8>(), 0..64)) {
        let start: &[u8] = if text { b"7767517\n1 1\n" } else { &7_767_517_u32.to_le_bytes() };
        for param in [[start, &param].concat(), param] {
            drop(Net::read(&param, bin.clone().into()));
        }
    }

    /// So are nets with changed bytes, and those that are read have contents, and can be compared.
    #[test]
    fn no_change_panics(changes in proptest::collection::vec((0..SMALL.len(), any::<char>()), 1..5), end in 0..100_usize) {
        let mut text: Vec<char> = SMALL.chars().collect();
        for (at, new) in changes {
            text[at] = new;
        }
        let text: String = text.into_iter().collect();
        let mut bin = small_bin();
        bin.resize(end, 0);
        let right = Net::read(SMALL.as_bytes(), small_bin().into()).unwrap();
        if let Ok(net) = Net::read(text.as_bytes(), bin.into()) {
            net.contents().unwrap();
            right.compare(&net).unwrap();
        }
    }
}
