//! Paths and open files of Windows. `cargo xtask platforms` runs these tests with the command of Windows in
//! an emulator; others do not, since no other command knows such paths.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::Room;

const NET: [&str; 2] = ["net.param", "net.bin"];

#[test]
fn paths_have_drives_and_backslashes() {
    let room = Room::with_net(&onnx::relu());
    let here = format!("Z:{}", room.path("").display());
    let back = here.replace('/', "\\");
    for model in [
        format!("{here}m.onnx"),
        format!("{back}m.onnx"),
        ".\\m.onnx".to_owned(),
        format!(r"\\?\{back}m.onnx"),
    ] {
        room.expect(&format!("{model} -o {back}deep\\er\\"), 0, "deep\\er");
        let written = fs::read(room.path("deep/er/m.ncnn.param")).unwrap();
        assert!(written == fs::read(room.path("net.param")).unwrap(), "{model}");
        fs::remove_dir_all(room.path("deep")).unwrap();
    }
    room.expect("Q:\\m.onnx", 2, "Q:\\");
}

/// Files that a program of Windows has opened, which `ONNX2NCNN_HOLD` runs.
#[test]
fn open_files_all_stay() {
    let room = Room::with_net(&onnx::relu());
    room.put("m.onnx", &onnx::chain(&["Sigmoid"], &["1", "3", "8", "8"]));
    let words = std::env::var("ONNX2NCNN_HOLD").unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    for file in NET {
        let old = NET.map(|name| fs::read(room.path(name)).unwrap());
        let mut holder = Command::new(words[0]);
        holder.args(&words[1..]).arg(file).current_dir(room.path(""));
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let text = room.expect("m.onnx net.param", 2, "");
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        assert!(text.contains(file), "{text}");
        assert!(old == NET.map(|name| fs::read(room.path(name)).unwrap()), "{file}");
        assert_eq!(room.names(), ["m.onnx", "net.bin", "net.param"]);
    }
}
