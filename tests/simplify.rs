//! `onnx2ncnn simplify`: what is written, and what is left as it is.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use std::fs;

use room::Room;

#[test]
fn what_is_not_known_stays() {
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
fn a_model_may_be_called_like_a_command() {
    let room = Room::new();
    room.put("simplify", &onnx::chain(&[], &["1", "3", "8", "8"]));
    room.expect("simplify", 2, "MODEL");
    room.expect("./simplify out.param", 0, "layer");
    room.expect("simplify simplify out.onnx", 0, "0 of 0 nodes left");
    assert_eq!(room.names(), ["out.bin", "out.onnx", "out.param", "simplify"]);
}

#[test]
fn nothing_is_overwritten_and_nothing_left_after_an_error() {
    let room = Room::new();
    room.put("m.onnx", &onnx::external("w.bin", 4));
    room.put("w.bin", &[0; 16]);
    room.expect("simplify m.onnx m.onnx", 2, "overwrite");
    room.expect("simplify m.onnx w.bin", 2, "overwrite");
    room.expect("simplify m.onnx none/s.onnx", 2, "none");
    room.expect("simplify m.onnx s.onnx --skip no_such_pass", 2, "no_such_pass");
    room.put("m.onnx", b"This is a text and no model at all.\n");
    room.expect("simplify m.onnx s.onnx", 1, "nothing was written");
    assert_eq!(room.names(), ["m.onnx", "w.bin"]);
}
