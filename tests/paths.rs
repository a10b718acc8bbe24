//! Names of files that are unusual. `cargo xtask platforms` runs these tests with the commands of other
//! systems.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

use std::fs;
use std::path::Path;

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, expect, is_of_windows};

/// Converts `model`, whose results are next to it, and compares them.
#[track_caller]
fn converts(room: &Room, model: &Path) {
    fs::create_dir_all(model.parent().unwrap()).unwrap();
    fs::write(model, onnx::relu()).unwrap();
    expect(&room.command("").arg(model).output().unwrap(), &model.display().to_string(), 0, "");
    let written = fs::read(model.with_extension("ncnn.param")).unwrap();
    assert!(written == fs::read(room.path("net.param")).unwrap(), "{}", model.display());
}

#[test]
fn names_may_have_spaces_and_any_letters() {
    let room = Room::with_net(&onnx::relu());
    for name in
        ["a model.onnx", "模型.onnx", "größe é.onnx", "x'y.onnx", "%TEMP%.onnx", "a.b.onnx", "🦀.onnx"]
    {
        converts(&room, &room.path(name));
        converts(&room, &room.path("ein Ordner/文件夹").join(name));
    }
}

#[test]
fn names_and_paths_may_be_long() {
    let room = Room::with_net(&onnx::relu());
    converts(&room, &room.path(&format!("{}.onnx", "n".repeat(200))));
    // Longer than the 260 letters that programs of Windows had, in a folder that is not.
    converts(&room, &room.path(&"folder/".repeat(18)).join(format!("{}.onnx", "n".repeat(200))));
    // Wine does not name the real path of a folder that is as long.
    if !is_of_windows() {
        converts(&room, &room.path(&"folder/".repeat(60)).join("m.onnx"));
    }
}

#[test]
fn lists_may_have_the_lines_of_windows() {
    let room = Room::with_net(&onnx::relu());
    fs::create_dir(room.path("ein Ordner")).unwrap();
    room.put("ein Ordner/größe.onnx", &onnx::relu());
    room.put("list.txt", "m.onnx\r\nein Ordner/größe.onnx\r\n\r\n".as_bytes());
    room.expect("batch list.txt --out out", 0, "");
    for result in ["out/m.ncnn.param", "out/ein Ordner/größe.ncnn.param"] {
        assert!(
            fs::read(room.path(result)).unwrap() == fs::read(room.path("net.param")).unwrap(),
            "{result}"
        );
    }
}
