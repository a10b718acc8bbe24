//! The command as a shell runs it: exit codes, output streams, and files.

#![cfg(feature = "cli")]
#![allow(clippy::as_conversions, clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, expect, fixture};

/// A room with a converted model.
fn room_with_model() -> Room {
    let room = Room::new();
    room.put("m.onnx", &good());
    room
}

fn good() -> Vec<u8> {
    onnx::chain(&[], &["1", "3", "8", "8"])
}

fn refused() -> Vec<u8> {
    onnx::chain(&["NoSuchOperator", "NoSuchOperator"], &["1", "3", "8", "8"])
}

fn is_param(path: &Path) -> bool {
    fs::read_to_string(path).unwrap().starts_with("7767517\n")
}

#[test]
fn values_after_spaces_are_no_files() {
    let room = Room::new();
    let model = fixture("elementwise/celu");
    let text = room.expect(&format!("{model} 0.5 0.6"), 2, "a number instead of the .param file");
    assert!(text.contains("commas separate") && room.names().is_empty(), "{text}");
}

#[test]
fn a_folder_is_answered_with_its_models() {
    let room = Room::new();
    std::fs::create_dir(room.path("exported")).unwrap();
    room.expect("exported", 2, "it has no file that ends in .onnx");
    for name in ["encoder.onnx", "decoder.onnx"] {
        room.put(&format!("exported/{name}"), b"");
        let said = format!("exported{}decoder.onnx", std::path::MAIN_SEPARATOR);
        if name == "decoder.onnx" {
            room.expect("exported", 2, &said);
        }
    }
}

#[test]
fn results_are_written_next_to_the_model_or_as_named() {
    let room = room_with_model();
    room.expect("m.onnx", 0, "layer");
    assert_eq!(room.names(), ["m.ncnn.bin", "m.ncnn.param", "m.onnx"]);
    room.expect("m.onnx out.param", 0, "");
    room.expect("m.onnx a b", 0, "");
    assert_eq!(room.names(), ["a", "b", "m.ncnn.bin", "m.ncnn.param", "m.onnx", "out.bin", "out.param"]);
    for name in ["m.ncnn.param", "out.param", "a"] {
        assert!(is_param(&room.path(name)), "{name}");
    }
}

#[test]
fn models_that_runtimes_refuse_are_named() {
    let room = Room::new();
    fs::copy(fixture("shape/squeeze_of_a_long_axis"), room.path("m.onnx")).unwrap();
    room.expect(
        "m.onnx",
        0,
        "warning: node 1 Squeeze-17: its constant \"axes\" = [1] does not fit its input",
    );
}

#[test]
fn inputs_and_outputs_are_printed_unless_quiet() {
    let room = room_with_model();
    let text = room.expect("m.onnx", 0, "");
    for words in ["input", "output", "\"x\"", "[1, 3, 8, 8]", "w=8 h=8 c=3"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("first axis"), "{text}");
    room.expect("-v m.onnx", 0, "first axis");
    assert_eq!(room.expect("-q m.onnx", 0, ""), "");
    assert!(room.expect("-v m.onnx", 0, "").len() > text.len());
}

#[test]
fn inputs_with_constant_values_are_reported() {
    let room = Room::new();
    room.put("new.onnx", &onnx::defaulted(8));
    room.put("old.onnx", &onnx::defaulted(3));
    let warning = "warning: inputs with a value in the model keep that value: 1 such as \"c\"";
    room.expect("new.onnx", 0, warning);
    assert!(!room.expect("old.onnx", 0, "").contains(warning), "old models list all constants so");
}

#[test]
fn precise_nets_compute_in_float32() {
    let room = Room::new();
    let model = fixture("network/convolutional");
    let masks = |room: &Room| {
        let text = fs::read_to_string(room.path("out.param")).unwrap();
        text.lines()
            .skip(2)
            .filter(|line| !line.starts_with("Input"))
            .map(|line| line.contains(" 31=1 "))
            .collect::<Vec<_>>()
    };
    room.expect(&format!("{model} out.param"), 0, "out.param");
    assert!(!masks(&room).contains(&true));
    room.expect(&format!("{model} out.param --precise"), 0, "out.param");
    assert!(!masks(&room).contains(&false));
}

#[test]
fn careful_nets_avoid_a_transform() {
    let room = Room::new();
    let model = fixture("spatial/conv_in_large_tiles");
    let mask = |options: &str| {
        room.expect(&format!("{model} out.param {options}"), 0, "out.param");
        let text = fs::read_to_string(room.path("out.param")).unwrap();
        text.split_whitespace().find_map(|word| word.strip_prefix("31=").map(str::to_owned))
    };
    assert_eq!(mask(""), None);
    assert_eq!(mask("--careful").as_deref(), Some("64"));
    room.expect(&format!("{model} out.param --careful --precise"), 2, "cannot be used with");
    room.expect(&format!("{model} out.param --careful -v"), 0, "careful: 1 convolution without Winograd");
}

#[test]
fn results_of_named_nodes_stay_in_float32() {
    let room = Room::new();
    let model = fixture("network/convolutional");
    room.expect(&format!("{model} out.param --float32 logits,x --float32 c1"), 0, "out.param");
    let text = fs::read_to_string(room.path("out.param")).unwrap();
    let float32 = text.lines().filter(|line| line.contains(" 31=23 "));
    let types: Vec<&str> = float32.filter_map(|line| line.split(' ').next()).collect();
    let expected = ["Convolution", "Split", "ConvolutionDepthWise", "BinaryOp", "InnerProduct", "Softmax"];
    assert_eq!(types, expected, "{text}");
    let room = Room::new();
    let said = "no node, no result of a node and no input of the model has the name \"c3\", \"c4\"";
    room.expect(&format!("{model} out.param --float32 c1,c4,c3"), 2, said);
    assert_eq!(room.names(), [""; 0]);
}

#[test]
fn assumptions_are_printed_and_can_be_refused() {
    let room = Room::new();
    let model = fixture("assumption/sum_of_integers");
    let said = room.expect(
        &format!("{model} out.param"),
        0,
        "assumed: elements of \"a\", \"b\" and 1 further value",
    );
    assert_eq!(said.matches("assumed").count(), 1);
    room.expect(
        &format!("{model} out.param -v"),
        0,
        "elements of \"a\", \"b\", \"y\" are between -2^24 and 2^24",
    );
    let strict = Room::new();
    strict.expect(
        &format!("{model} out.param --strict"),
        1,
        "the elements of \"a\" are not known to be between",
    );
    assert_eq!(strict.names(), [""; 0]);
    for proved in ["rows_by_arg_max", "integers_times_zero"] {
        let model = fixture(&format!("assumption/{proved}"));
        strict.expect(&format!("{model} out.param --strict"), 0, "out.param");
    }
    let said =
        room.expect(&format!("{} out.param", fixture("assumption/integers_shifted_far")), 0, "\"x\" are");
    assert_eq!(said.matches("assumed").count(), 1);
}

#[test]
fn random_numbers_become_inputs() {
    let (room, model) = (Room::new(), fixture("refused/noise"));
    room.expect(&format!("{model} out.param"), 1, "out.param --random-as-input");
    let said = room.expect(&format!("{model} out.param --random-as-input"), 0, "input   \"n\"");
    assert!(said.contains("float  [1, 3, 4]  ->  w=4 h=3"), "{said}");
    room.expect(&format!("simplify {model} simple.onnx --random-as-input"), 0, "");
    let said = room.expect("inspect simple.onnx", 0, "\"n\"");
    assert!(!said.contains("RandomNormalLike"), "{said}");
}

#[test]
fn inputs_become_constants() {
    let room = Room::new();
    let model = fixture("control/if_on_a_rate");
    room.expect(&format!("{model} out.param"), 1, "out.param --set rate=16000");
    for (value, size) in [("16000", 4), ("8000", 8), ("16000.0", 4)] {
        let said = room.expect(&format!("{model} out.param --set rate={value}"), 0, &format!("w={size}"));
        assert!(!said.contains("\"rate\""), "{said}");
    }
    room.expect(&format!("{model} out.param --set rate=0.5"), 2, "0.5 is not a value of type int64");
    room.expect(&format!("{model} out.param --set rate=1,2"), 2, "the input has the shape []");
    room.expect(&format!("{model} out.param --set sr=1"), 2, "the inputs are \"x\", \"rate\"");
    room.expect(&format!("{model} out.param --set rate"), 2, "expected NAME=VALUE");
    room.expect(&format!("simplify {model} simple.onnx --set rate=8000"), 0, "");
    let said = room.expect("inspect simple.onnx", 0, "Concat");
    assert!(!said.contains("rate") && !said.contains("Relu"), "{said}");
}

#[test]
fn finite_inputs_are_expected_and_not_assumed() {
    let room = Room::new();
    let model = fixture("network/convolutional");
    for options in ["", "--strict"] {
        let said = room.expect(&format!("{model} out.param {options}"), 0, "loads in ncnn");
        assert!(!said.contains("assumed") && !said.contains("finite"), "{said}");
    }
    room.expect(&format!("{model} out.param -v"), 0, "expected: elements of \"x\" are finite, and so");
    room.expect(&format!("{model} out.param --report r.json"), 0, "r.json");
    let report = fs::read_to_string(room.path("r.json")).unwrap();
    assert!(report.contains("\"expectation\"") && !report.contains("\"assumption\""), "{report}");
}

#[test]
fn conditions_on_free_sizes_are_printed() {
    let room = Room::new();
    let said = room.expect(
        &format!("{} out.param", fixture("condition/pools_of_three")),
        0,
        "valid if: H and W are at least 7, for example H = 64, W = 64",
    );
    assert_eq!(said.matches("valid if").count(), 1);
    room.expect(
        &format!("{} out.param -v", fixture("condition/pools_of_three")),
        0,
        "valid if: H >= 7; W >= 7",
    );
    let warning = "warning: the free size \"S\" is set to 48, its only valid value";
    room.expect(&format!("{} out.param", fixture("condition/product_of_rows")), 0, warning);
}

#[test]
fn first_axes_that_are_named_or_scanned_stay_free() {
    let room = Room::new();
    let model = fixture("network/free_batch");
    room.expect(&format!("{model} --dry-run"), 0, "is set to 1");
    let text = room.expect(&format!("{model} --dry-run --input-shape x:N,3,16,16"), 0, "h=N");
    assert!(!text.contains("is set to 1"), "{text}");
    let scan = fixture("refused/scan_of_free_length");
    let text = room.expect(&format!("{scan} --dry-run"), 1, "the length of the sequence");
    assert!(!text.contains("is set to 1"), "{text}");
}

#[test]
fn blobs_are_renamed() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu", "Abs"], &["1", "3", "8", "8"]));
    let text = room.expect("m.onnx --rename x=data --rename y=prob --rename t1=hidden", 0, "\"data\" w=8");
    assert!(text.contains("\"prob\" w=8"), "{text}");
    let param = fs::read_to_string(room.path("m.ncnn.param")).unwrap();
    for wires in [" 0 1 data", " 1 1 data hidden", " 1 1 hidden prob"] {
        assert!(param.contains(wires), "{wires} in {param}");
    }
    room.expect("m.onnx --rename none=z", 2, "the net has no blob \"none\"");
    room.expect("m.onnx --rename x=y", 2, "two blobs would be called \"y\"");
}

#[test]
fn the_oldest_release_is_printed_and_can_be_set() {
    let room = room_with_model();
    room.expect("m.onnx", 0, "loads in ncnn 20240410 and later");
    room.expect("m.onnx --ncnn-version 1.0.20260526", 0, "loads in ncnn 20240410 and later");
    room.put("none.onnx", &good());
    room.expect("none.onnx --ncnn-version 20230816", 2, "20240410 is the oldest supported release");
    assert_eq!(room.names(), ["m.ncnn.bin", "m.ncnn.param", "m.onnx", "none.onnx"]);
}

#[test]
fn a_contradiction_after_input_shape_names_the_option() {
    let room = Room::new();
    room.put("m.onnx", &fs::read("fixtures/network/convolutional/model.onnx").unwrap());
    let text = room.expect("m.onnx --input-shape x:1,4,16,16", 2, "usage error: 4 channels do not fit");
    assert!(text.contains("help: the sizes of --input-shape contradict the model"), "{text}");
    room.expect("m.onnx --input-shape 3,16,16", 2, "help: with the batch: --input-shape 1,3,16,16");
}

#[test]
fn free_sizes_may_require_a_newer_release() {
    let room = Room::new();
    room.put("free.onnx", &fs::read("fixtures/free/plane_of_rows/model.onnx").unwrap());
    room.expect("free.onnx --ncnn-version 20240410", 1, "--input-shape x:1,4,");
    assert_eq!(room.names(), ["free.onnx"]);
    room.expect("free.onnx", 0, "loads in ncnn 20250428 and later");
    room.expect("free.onnx --input-shape 1,4,6,10", 0, "loads in ncnn 20240410 and later");
}

#[test]
fn further_files_are_written_with_the_others_or_not_at_all() {
    let room = room_with_model();
    let all = "m.onnx n.param --param-bin n.param.bin --id-header n.id.h --mem-header n.mem.h";
    let text = room.expect(all, 0, "n.mem.h");
    assert!(text.contains("n.param.bin") && text.contains("n.id.h"), "{text}");
    assert_eq!(room.names(), ["m.onnx", "n.bin", "n.id.h", "n.mem.h", "n.param", "n.param.bin"]);
    assert!(fs::read(room.path("n.param.bin")).unwrap().starts_with(&7_767_517_u32.to_le_bytes()));

    let room = room_with_model();
    room.put("bad.onnx", &refused());
    room.expect("bad.onnx n.param --param-bin n.param.bin --mem-header n.mem.h", 1, "NoSuchOperator");
    room.expect("m.onnx n.param --param-bin n.param", 2, "would overwrite the .param file");
    room.expect(
        "m.onnx n.param --id-header n.h --mem-header n.h",
        2,
        "would overwrite the header of indices",
    );
    assert_eq!(room.names(), ["bad.onnx", "m.onnx"]);
}

#[test]
fn passes_are_listed() {
    let room = Room::new();
    let output = room.run("--list-passes");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().map(|line| line.split_once("  ").unwrap().0.trim()).collect();
    assert!(names.contains(&"eliminate_identity"), "{text}");
    room.put("m.onnx", &good());
    room.expect(&format!("m.onnx --skip {}", names.join(",")), 0, "");
    room.expect("m.onnx --skip no_such_pass", 2, "--list-passes");
}

#[test]
fn fusions_that_do_not_apply_have_a_reason() {
    let room = Room::new();
    for (name, reason) in [
        ("gelu_sum_is_read", "fuse_gelu does not apply to node "),
        ("layer_norm_mean_is_read", "fuse_layer_norm does not apply to node "),
    ] {
        room.put("m.onnx", &fs::read(format!("fixtures/fuse/{name}/model.onnx")).unwrap());
        let text = room.expect("m.onnx -v", 0, reason);
        assert!(text.contains(" is needed outside of the pattern"), "{text}");
        assert!(!room.expect("m.onnx", 0, "").contains(reason));
    }
}

#[test]
fn invalid_command_lines_exit_with_2() {
    let room = room_with_model();
    for (line, said) in [
        ("", "MODEL"),
        ("m.onnx a b c", "unexpected"),
        ("m.onnx --input_shape 1,3", "--input-shape"),
        ("m.onnx --input-shape 1,0", "is not a size"),
        ("m.onnx --max-size lots", "unit"),
        ("m.onnx -q -v", "cannot be used with"),
        ("-", "no name"),
        ("m.onnx a a", "overwrite"),
        ("m.onnx m.onnx b", "overwrite"),
        ("m.onnx a.param a.bin --emit-onnx m.onnx", "overwrite"),
        ("m.onnx m.onnx/a b", "m.onnx"),
        ("m.onnx a .", "file"),
        ("none.onnx", "none.onnx"),
        (".", "directory"),
        ("none/m.onnx a b", "none"),
    ] {
        room.expect(line, 2, said);
    }
    assert_eq!(room.names(), ["m.onnx"]);
}

#[test]
fn a_file_that_ends_early_is_told() {
    let room = Room::new();
    let model = fs::read(fixture("network/digits")).unwrap();
    let lengths = (1..20).map(|part| model.len() * part / 20);
    for length in lengths {
        room.put("m.onnx", &model[..length]);
        let text = room.expect("m.onnx", 1, &format!("the file ends early, after {length} bytes"));
        assert!(text.contains("help: download or copy it again"), "{text}");
    }
    // The closing list of a batch has the help too.
    fs::create_dir(room.path("a")).unwrap();
    room.put("a/m.onnx", &model[..100]);
    room.put("a/n.onnx", b"<html>");
    let text = room.expect("batch a -o out", 1, "2 refused");
    let end = text.rsplit_once("nothing was written").unwrap().1;
    assert!(end.contains("help: download or copy it again") && end.contains("help: it is a page"), "{end}");
    // Other bytes are not a model.
    for bytes in [&b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\x08\x0a\x07", b"\x3a\x7f\x00"]
    {
        room.put("m.onnx", bytes);
        let text = room.expect("m.onnx", 1, "not an ONNX model");
        assert!(!text.contains("ends early"), "{text}");
    }
}

#[test]
fn files_that_are_not_models_exit_with_1() {
    let room = Room::new();
    room.put("text", b"This is a text and no model at all.\n");
    room.put("empty", b"");
    room.put("pickle", b"PK\x03\x04 archive/data.pkl");
    for name in ["text", "empty", "pickle"] {
        room.expect(&format!("{name} a b"), 1, "nothing was written");
    }
    for (bytes, said) in [
        (&b"\n<!DOCTYPE html>\n<html>"[..], "a page of HTML"),
        (b"\xef\xbb\xbf<html><body>", "a page of HTML"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "compressed with gzip"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00", "a ZIP archive"),
        (b"\xfd7zXZ\x00\x00\x04", "compressed with xz"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
    ] {
        room.put("other", bytes);
        room.expect("other a b", 1, said);
        fs::remove_file(room.path("other")).unwrap();
    }
    let model = good();
    for cut in 1..model.len() {
        room.put("cut", &model[..cut]);
        let output = room.run("cut a b");
        assert_eq!(output.status.code(), Some(1), "{cut} of {} bytes", model.len());
    }
    assert_eq!(room.names(), ["cut", "empty", "pickle", "text"]);
}

#[test]
fn refusals_name_every_node_and_write_nothing() {
    let room = Room::new();
    room.put("m.onnx", &refused());
    let text = room.expect("m.onnx", 1, "NoSuchOperator");
    for words in ["2 nodes", "node0", "node1", "-17"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(last[0], "error: 2 nodes cannot be converted; nothing was written");
    assert_eq!(last[1], "codes: E0009; see onnx2ncnn explain E0009");
    assert_eq!(room.names(), ["m.onnx"]);
    for name in ["a.param", "a.bin"] {
        room.put(name, b"mine");
    }
    room.expect("m.onnx a.param a.bin", 1, "");
    for name in ["a.param", "a.bin"] {
        assert_eq!(fs::read(room.path(name)).unwrap(), b"mine");
    }
    assert_eq!(room.names(), ["a.bin", "a.param", "m.onnx"]);
}

/// The options of the first command that a refusal prints.
fn proposed(text: &str, line: &str) -> Option<String> {
    let before = format!("  onnx2ncnn {line} ");
    let options = text.lines().find_map(|line| line.strip_prefix(&before));
    options.map(|options| options.replace('"', ""))
}

#[test]
fn refusals_propose_a_convertible_part() {
    for (op_types, options) in [
        (&["Relu", "Abs", "NoSuchOperator", "Relu"][..], Some("--outputs t2")),
        (&["NoSuchOperator", "Relu"], Some("--inputs t1")),
        (&["Relu", "NoSuchOperator"], Some("--outputs t1")),
        (&["NoSuchOperator"], None),
        (&["NoSuchOperator", "Relu", "NoSuchOperator"], Some("--inputs t1 --outputs t2")),
    ] {
        let room = Room::new();
        room.put("m.onnx", &onnx::chain(op_types, &["1", "3", "8", "8"]));
        let text = room.expect("m.onnx a b", 1, "NoSuchOperator");
        let found = proposed(&text, "m.onnx a b");
        assert_eq!(found.as_deref(), options, "{op_types:?}: {text}");
        if let Some(options) = options {
            room.expect(&format!("m.onnx a b {options}"), 0, "");
            assert_eq!(room.names(), ["a", "b", "m.onnx"]);
        }
    }
}

#[test]
fn proposed_options_of_fixtures_convert() {
    let mut tried = Vec::new();
    let families = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")).unwrap();
    let families = families.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    for case in families.flat_map(|family| fs::read_dir(family).unwrap()) {
        let case = case.unwrap().path();
        if !case.join("expected.err").exists() {
            continue;
        }
        let model = case.join("model.onnx");
        let room = Room::new();
        let line = format!("{} a b", model.display());
        let output = room.run(&line);
        let Some(options) = proposed(&String::from_utf8_lossy(&output.stderr), &line) else { continue };
        assert_eq!(output.status.code(), Some(1), "{line}");
        room.expect(&format!("{line} {options}"), 0, "");
        tried.push((case.file_name().unwrap().to_owned(), options));
    }
    assert!(tried.contains(&("several_nodes".into(), "--outputs a".to_owned())), "{tried:?}");
}

#[test]
fn existing_results_are_replaced() {
    let room = room_with_model();
    room.put("a.param", &[b'x'; 9999]);
    room.put("a.bin", &[b'x'; 9999]);
    room.expect("m.onnx a.param", 0, "");
    assert!(is_param(&room.path("a.param")));
    assert!(fs::metadata(room.path("a.bin")).unwrap().len() < 9999);
    assert_eq!(room.names(), ["a.bin", "a.param", "m.onnx"]);
}

#[test]
fn standard_input_is_read() {
    let room = Room::new();
    let mut child = room.command("- a b").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&good()).unwrap();
    expect(&child.wait_with_output().unwrap(), "- a b", 0, "");
    assert_eq!(room.names(), ["a", "b"]);
    room.expect("- c d", 1, "nothing was written");
    room.put("m.onnx", &good());
    let file = fs::File::open(room.path("m.onnx")).unwrap();
    let output = room.command("- c d").stdin(file).output().unwrap();
    expect(&output, "- c d < m.onnx", 0, "");
    assert_eq!(fs::read(room.path("a")).unwrap(), fs::read(room.path("c")).unwrap());
}

#[test]
fn closed_pipes_do_not_matter() {
    let room = room_with_model();
    room.put("bad.onnx", &refused());
    for (line, code) in [("m.onnx a b", 0), ("bad.onnx c d", 1), ("--help", 0), ("--nonsense", 2)] {
        let closed = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        };
        let status = room.command(line).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
    assert_eq!(room.names(), ["a", "b", "bad.onnx", "m.onnx"]);
}

#[test]
fn colours_are_only_for_terminals() {
    let room = Room::new();
    room.put("m.onnx", &refused());
    assert!(!room.expect("m.onnx", 1, "").contains('\u{1b}'));
    assert!(!room.expect("m.onnx --color never", 1, "").contains('\u{1b}'));
    assert!(room.expect("m.onnx --color always", 1, "").contains('\u{1b}'));
}

#[test]
fn control_characters_in_names_are_removed() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&[], &["1", "\u{1b}[2J\u{7}\r", "8", "8"]));
    room.put("bad.onnx", &onnx::chain(&["\u{1b}[2J", "No\nSuch\u{9b}"], &["1"]));
    for (line, code) in [("m.onnx -v", 0), ("bad.onnx -v", 1), ("m.onnx --outputs \u{1b}[2J", 2)] {
        let text = room.expect(line, code, "");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}

#[test]
fn shapes_and_cuts_are_applied() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["NoSuchOperator", "NoSuchOperator"], &["N", "3", "H", "W"]));
    room.expect("m.onnx", 1, "NoSuchOperator");
    room.expect("m.onnx --inputs t1 --outputs t1", 0, "w=W h=H c=3");
    room.expect("m.onnx --inputs t1 --outputs t1 --input-shape t1:1,3,4,5", 0, "w=5 h=4 c=3");
    room.expect("m.onnx --inputs t1 --outputs t1 --input-shape 1,3,4,H", 0, "w=H h=4 c=3");
    room.expect("m.onnx --outputs nowhere", 2, "nowhere");
    room.expect("m.onnx --outputs node0", 2, "\"t1\"");
    room.expect("m.onnx --outputs t1,t1", 2, "twice");
    room.expect("m.onnx --inputs t1 --outputs t1 --input-shape nowhere:1", 2, "inputs are \"t1\"");
    room.expect("m.onnx --inputs t1 --outputs t1 --input-shape 1,3", 2, "the option states");
    room.expect("m.onnx --inputs t1 --outputs t1 --input-shape 1,3,4,5 --input-shape t1:1,3,4,5", 2, "twice");
    // Type and shape of a value after words are inferred.
    room.put("words.onnx", &fs::read("fixtures/refused/words/model.onnx").unwrap());
    room.expect("words.onnx", 1, "string");
    room.expect("words.onnx --inputs i", 0, "int64  [3, 8]");
    // A size that is computed from others is a separate free size.
    room.put("half.onnx", &fs::read("fixtures/free/half_of_a_pooled_height/model.onnx").unwrap());
    room.expect("half.onnx --inputs pooled", 0, "w=pooled_3 h=pooled_2 c=3");
}

#[test]
fn external_data_is_read_and_not_overwritten() {
    let room = Room::new();
    room.put("m.onnx", &onnx::external("w.bin", 4));
    room.put("w.bin", &[0; 16]);
    room.expect("m.onnx", 0, "4 weights");
    room.expect("m.onnx m.param w.bin", 2, "overwrite");
    fs::create_dir(room.path("data")).unwrap();
    fs::rename(room.path("w.bin"), room.path("data/w.bin")).unwrap();
    room.expect("m.onnx a b", 2, "w.bin");
    room.expect("m.onnx a b --data-dir data", 0, "4 weights");
    room.put("m.onnx", &onnx::external("w.bin", 5));
    room.expect("m.onnx c d --data-dir data", 1, "16 bytes");
    assert_eq!(room.names(), ["a", "b", "data", "m.ncnn.bin", "m.ncnn.param", "m.onnx"]);
}

#[test]
fn the_simplified_model_is_written_too() {
    let room = room_with_model();
    room.expect("m.onnx a b --emit-onnx s.onnx", 0, "s.onnx");
    room.expect("s.onnx c d", 0, "");
    for (one, other) in [("a", "c"), ("b", "d")] {
        assert_eq!(fs::read(room.path(one)).unwrap(), fs::read(room.path(other)).unwrap());
    }
    room.put("m.onnx", &refused());
    room.expect("m.onnx --emit-onnx t.onnx", 1, "");
    assert_eq!(room.names(), ["a", "b", "c", "d", "m.onnx", "s.onnx"]);
}

#[test]
fn a_net_that_is_much_larger_than_its_model_is_told() {
    let room = Room::new();
    for (layers, told) in [(2, false), (6, true)] {
        let mut parts = vec![onnx::constant("w", 1, &[1000, 1000], &[1; 4_000_000])];
        for i in 1..=layers {
            let (from, to) = (format!("v{}", i - 1), format!("v{i}"));
            let (from, to) = (if i == 1 { "x" } else { &from }, if i == layers { "y" } else { &to });
            parts.push(onnx::node("MatMul", &[from, "w"], &[to], &[]));
        }
        room.put("shared.onnx", &onnx::model(&["2", "1000"], &parts));
        let said = room.expect("shared.onnx", 0, "");
        assert_eq!(
            said.contains("the weights take 24.0 MB, the model 4.0 MB"),
            told,
            "{layers} layers: {said}"
        );
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn endless_input_is_bounded() {
        let room = Room::new();
        let Ok(zeros) = fs::File::open("/dev/zero") else { return };
        let output = room.command("- a b").stdin(zeros).output().unwrap();
        expect(&output, "- a b < /dev/zero", 1, "no ONNX model begins with the byte 0");
        room.expect("/dev/zero a b", 1, "no ONNX model begins with the byte 0");
        let mut words = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
        let output =
            room.command("- a b --max-size 1MB").stdin(words.stdout.take().unwrap()).output().unwrap();
        words.wait().unwrap();
        expect(&output, "yes | - a b", 1, "nothing was written");
        assert_eq!(room.names(), Vec::<String>::new());
    }

    #[test]
    fn symbolic_links_are_kept() {
        let room = room_with_model();
        room.put("real.param", b"old");
        symlink("real.param", room.path("a.param")).unwrap();
        symlink("m.onnx", room.path("model")).unwrap();
        symlink("gone", room.path("dangling")).unwrap();
        room.expect("model a.param", 0, "");
        assert!(is_param(&room.path("real.param")));
        assert!(fs::symlink_metadata(room.path("a.param")).unwrap().is_symlink());
        room.expect("m.onnx model b", 2, "overwrite");
        room.expect("m.onnx dangling b", 2, "link");
        assert_eq!(fs::read(room.path("m.onnx")).unwrap(), good());
    }

    #[test]
    fn devices_are_not_replaced() {
        let room = room_with_model();
        room.expect("m.onnx /dev/null b", 2, "not a regular file");
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn results_have_the_default_permissions() {
        let room = room_with_model();
        room.expect("m.onnx", 0, "");
        let mode = |name: &str| fs::metadata(room.path(name)).unwrap().permissions().mode() & 0o777;
        // The model was written by this test with the same umask.
        assert_eq!(mode("m.ncnn.param"), mode("m.onnx"));
        assert_eq!(mode("m.ncnn.bin"), mode("m.onnx"));
    }
}
