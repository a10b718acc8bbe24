//! `onnx2ncnn simplify`: the written model, and the unchanged parts of it.

#![cfg(feature = "cli")]
#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;
use std::process::Command;

use room::Room;

#[test]
fn unknown_operators_stay() {
    let room = Room::new();
    room.put(
        "m.onnx",
        &onnx::chain(&["Identity", "NoSuchOperator", "Identity", "Relu"], &["N", "3", "H", "W"]),
    );
    room.expect("simplify m.onnx s.onnx", 0, "2 of 4 nodes left");
    room.expect("simplify s.onnx t.onnx", 0, "2 of 2 nodes left");
    assert_eq!(fs::read(room.path("s.onnx")).unwrap(), fs::read(room.path("t.onnx")).unwrap());
    room.expect("simplify m.onnx u.onnx --skip eliminate_identity", 0, "4 of 4");
    room.expect("simplify m.onnx v.onnx --inputs t2 --input-shape 1,3,4,5", 0, "1 of");
}

#[test]
fn what_stays_of_a_scale_fits_an_old_model() {
    let room = Room::new();
    let fixture = "simplify/before_scale_and_shift_of_an_old_model";
    let model = format!("{}/fixtures/{fixture}/model.onnx", env!("CARGO_MANIFEST_DIR"));
    fs::copy(model, room.path("m.onnx")).unwrap();
    room.expect("simplify m.onnx s.onnx", 0, "fuse_affine_before_conv");
}

#[test]
fn a_model_may_have_the_name_of_a_command() {
    let room = Room::new();
    room.put("simplify", &onnx::chain(&[], &["1", "3", "8", "8"]));
    room.expect("simplify", 2, "MODEL");
    room.expect("./simplify out.param", 0, "layer");
    room.expect("simplify simplify out.onnx", 0, "0 of 0 nodes left");
    assert_eq!(room.names(), ["out.bin", "out.onnx", "out.param", "simplify"]);
}

#[test]
fn errors_leave_no_files() {
    let room = Room::new();
    room.put("m.onnx", &onnx::external("w.bin", 4));
    room.put("w.bin", &[0; 16]);
    room.expect("simplify m.onnx m.onnx", 2, "overwrite");
    room.expect("simplify m.onnx w.bin", 2, "overwrite");
    if !room::is_of_windows() {
        room.expect("simplify m.onnx none/../s.onnx", 2, "none");
    }
    room.expect("simplify m.onnx s.onnx --skip no_such_pass", 2, "no_such_pass");
    room.put("m.onnx", b"This is a text and no model at all.\n");
    room.expect("simplify m.onnx s.onnx", 1, "nothing was written");
    assert_eq!(room.names(), ["m.onnx", "w.bin"]);
}

/// A room with the models of `simplify/make.py`.
fn room_with_models() -> Room {
    let room = Room::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simplify/make.py");
    let made = Command::new(support::python()).arg(script).arg(room.path("")).status().unwrap();
    assert!(made.success());
    room
}

/// Returns the text of a model by onnx's printer.
fn printed(room: &Room, name: &str) -> String {
    let code = "import onnx, sys; print(onnx.printer.to_text(onnx.load(sys.argv[1])))";
    let output = Command::new(support::python()).args(["-c", code]).arg(room.path(name)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn folding_does_not_enlarge_the_file() {
    let room = room_with_models();
    for (model, nodes, stays) in [
        ("tile", "2 of 2", Some("Tile")),
        ("expand", "2 of 2", Some("Expand")),
        ("filled", "2 of 2", Some("ConstantOfShape")),
        ("both_ways", "3 of 3", Some("Transpose")),
        ("one_way", "1 of 2", None),
        ("cut_up", "2 of 3", None),
    ] {
        room.expect(&format!("simplify {model}.onnx s.onnx --check-passes"), 0, nodes);
        let len = |name: &str| fs::metadata(room.path(name)).unwrap().len();
        assert!(len("s.onnx") < len(&format!("{model}.onnx")) + 200, "{model}");
        let text = printed(&room, "s.onnx");
        for op_type in ["Tile", "Expand", "ConstantOfShape", "Transpose", "Split"] {
            assert_eq!(text.contains(&format!("{op_type} ")), stays == Some(op_type), "{model}: {text}");
        }
        room.expect("simplify s.onnx t.onnx", 0, "");
        assert_eq!(fs::read(room.path("s.onnx")).unwrap(), fs::read(room.path("t.onnx")).unwrap(), "{model}");
    }
}

#[test]
fn tidying_passes_can_be_disabled() {
    let room = room_with_models();
    let simplified = |options: &str| {
        room.expect(&format!("simplify untidy.onnx s.onnx --check-passes {options}"), 0, "left");
        room.expect(&format!("simplify s.onnx t.onnx {options}"), 0, "left");
        assert_eq!(
            fs::read(room.path("s.onnx")).unwrap(),
            fs::read(room.path("t.onnx")).unwrap(),
            "{options}"
        );
        printed(&room, "s.onnx")
    };
    let tidied = simplified("");
    for (pass, kept) in [
        ("eliminate_deadend", "Exp ("),
        ("eliminate_unused_initializer", "unread"),
        ("extract_constant_to_initializer", "Constant <"),
    ] {
        assert!(!tidied.contains(kept), "{tidied}");
        assert!(simplified(&format!("--skip {pass}")).contains(kept), "{pass}");
    }
    for (options, nodes) in [("", "1 of 2"), ("--skip fold_cast_of_initializer", "2 of 2")] {
        room.expect(&format!("simplify half.onnx s.onnx {options}"), 0, nodes);
    }
}

#[test]
fn declared_shapes_are_checked() {
    let room = room_with_models();
    let said = "the model declares \"m\" as [N, 5], but it is [N, 4]";
    room.expect("simplify untidy.onnx s.onnx", 0, said);
    room.expect("untidy.onnx a b", 0, "as [1, 5], but it is [1, 4]");
}

#[test]
fn metadata_is_kept() {
    let room = room_with_models();
    room.expect("simplify own_words.onnx s.onnx --check-passes", 0, "left");
    let text = printed(&room, "s.onnx");
    for words in [
        "ir_version: 8",
        "\"\" : 17",
        "\"com.example\" : 1",
        "domain: \"example\"",
        "model_version: 7",
        "doc_string: \"a model\"",
        "\"classes\": \"cat,dog\"",
        "com.example.Twice",
        "float[N,4] x",
        "float[M] y, float[N,4] z",
        "576",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("Shape (") && !text.contains("ReduceSum"), "{text}");
}

#[test]
fn weights_are_written_next_to_the_model() {
    let room = room_with_models();
    let with = |options: &str| room.expect(&format!("simplify one_way.onnx s.onnx {options}"), 0, "s.onnx");
    with("--external-data w.bin");
    let len = |name: &str| fs::metadata(room.path(name)).unwrap().len();
    assert_eq!(len("w.bin"), 64 * 512 * 4);
    assert!(len("s.onnx") < 1000);
    room.expect("s.onnx a b --input-shape N,512", 0, "");
    room.expect("one_way.onnx c d --input-shape N,512", 0, "");
    assert_eq!(fs::read(room.path("b")).unwrap(), fs::read(room.path("d")).unwrap());
    fs::remove_file(room.path("w.bin")).unwrap();
    with("--external-data w.bin --size-threshold 1MB");
    assert!(!room.path("w.bin").exists());
    with("--external-data w.bin --one-file-per-tensor");
    assert_eq!(len("w.bin.t"), 64 * 512 * 4);
    for (options, said) in [
        ("--external-data ../w.bin", "folder"),
        ("--external-data s.onnx", "the same file"),
        ("--external-data none/w.bin", "none"),
        ("--size-threshold 5", "--external-data"),
        ("--convert-attributes", "--external-data"),
    ] {
        room.expect(&format!("simplify one_way.onnx t.onnx {options}").replace("s.onnx", "t.onnx"), 2, said);
    }
    assert!(!room.path("t.onnx").exists());
}

#[cfg(unix)]
#[test]
fn external_data_do_not_follow_links_out_of_the_folder() {
    use std::os::unix::fs::symlink;

    let (room, outside) = (room_with_models(), Room::new());
    outside.put("w.bin", b"mine");
    fs::create_dir(room.path("inside")).unwrap();
    room.put("inside/real.bin", b"old");
    for (link, target) in [
        ("w.bin", outside.path("w.bin")),
        ("folder", outside.path("")),
        ("near.bin", room.path("inside/real.bin")),
    ] {
        symlink(target, room.path(link)).unwrap();
    }
    let line = |data: &str| format!("simplify one_way.onnx s.onnx --external-data {data}");
    let said = "a symbolic link leads out of the model's folder";
    for data in ["w.bin", "folder/w.bin", "folder/new.bin"] {
        room.expect(&line(data), 2, said);
        assert!(!room.path("s.onnx").exists(), "{data}");
    }
    assert_eq!(fs::read(outside.path("w.bin")).unwrap(), b"mine");
    assert_eq!(outside.names(), ["w.bin"]);
    room.expect(&line("near.bin"), 0, "near.bin");
    assert_eq!(fs::metadata(room.path("inside/real.bin")).unwrap().len(), 64 * 512 * 4);
    // The model that refers to them can be read.
    room.expect("s.onnx a b --input-shape N,512", 0, "");
}

#[test]
fn the_simplified_model_computes_the_same() {
    let room = room_with_models();
    let same = |model: &str, sizes: &str| {
        room.expect(&format!("simplify {model}.onnx s.onnx --check-passes"), 0, "");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simplify/same.py");
        let mut command = Command::new(support::python());
        command.arg(script).arg(room.path(&format!("{model}.onnx"))).arg(room.path("s.onnx")).arg(sizes);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{model}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for (model, sizes) in [
        ("tile", "2,40000"),
        ("expand", "1,40000"),
        ("filled", "3,40000"),
        ("both_ways", "2,64"),
        ("one_way", "2,512"),
        ("cut_up", "2,32"),
        // The first output of TopK has no reader, but cannot be removed.
        ("ordered", "2,4"),
        ("open", "2,3,4,5"),
        ("open", "1,3,8,2"),
    ] {
        same(model, sizes);
    }
}
