//! `--variant`: nets of one model for several sizes, over one `.bin` file.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;

use std::fmt::Write as _;
use std::fs;

use onnx2ncnn::Converter;
use room::{Room, fixture};

/// Returns the shape of each input of a model, with a size in place of the free ones.
fn shapes(model: &str, size: i64) -> Vec<String> {
    let inspection = Converter::new().inspect(&model.into()).unwrap();
    let shapes = inspection.inputs.iter().map(|input| {
        let sizes = input.shape.as_ref().unwrap().iter();
        let sizes = sizes.map(|dim| dim.known().unwrap_or(size).to_string());
        format!("{}:{}", input.name, sizes.collect::<Vec<_>>().join(","))
    });
    shapes.collect()
}

/// Each net reads the whole file, and computes what the model does at its sizes.
#[test]
fn nets_of_two_sizes_share_their_weights() {
    let (mut count, mut skipping) = (0, 0);
    for kind in ["free", "decoder", "resize"] {
        let Ok(folder) = fs::read_dir(format!("{}/fixtures/{kind}", env!("CARGO_MANIFEST_DIR"))) else {
            continue;
        };
        for entry in folder {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".py") {
                continue;
            }
            let model = fixture(&format!("{kind}/{name}"));
            let room = Room::new();
            let mut line = format!("{model} net.param");
            for (variant, size) in [("small", 12), ("large", 16)] {
                for shape in shapes(&model, size) {
                    let _ = write!(line, " --variant {variant}={shape}");
                }
            }
            let output = room.run(&line);
            if !output.status.success() {
                // Other sizes contradict the model.
                assert!(room.names().is_empty(), "{line}: {:?}", room.names());
                continue;
            }
            assert_eq!(room.names(), ["net.large.param", "net.small+large.bin", "net.small.param"], "{line}");
            count += 1;
            skipping += usize::from(String::from_utf8_lossy(&output.stderr).contains("of other nets"));
            for (variant, size) in [("small", 12), ("large", 16)] {
                let mut line = format!("verify {model} net.{variant}.param");
                for shape in shapes(&model, size) {
                    let _ = write!(line, " --input-shape {shape}");
                }
                let text = room.expect(&line, 0, "verified: ");
                assert!(!text.contains("DIFFERS"), "{line}: {text}");
            }
        }
    }
    assert!(count > 50 && skipping > 20, "{count} and {skipping}");
}

/// Converts a fixture with options that are refused, and returns what is printed.
fn refused(name: &str, options: &str, code: i32, said: &str) -> String {
    let room = Room::new();
    let text = room.expect(&format!("{} net.param {options}", fixture(name)), code, said);
    assert!(room.names().is_empty(), "{:?}", room.names());
    text
}

#[test]
fn nets_that_differ_in_many_weights_are_refused() {
    let options = "--variant a=1,100,4 --variant b=1,200,4";
    let said = "lacks 480000 bytes of weights that others have";
    let text = refused("free/rows_by_distance", options, 1, said);
    assert!(text.contains("MemoryData") && text.contains("of \"b\""), "{text}");
}

#[test]
fn a_refusal_names_the_variant() {
    let options = "--variant a=1,100,4 --variant b=200,4";
    let text = refused("free/rows_by_distance", options, 2, "variant \"b\"");
    assert!(!text.contains("variant \"a\""), "{text}");
    // A chain has no variants.
    let text = refused("remedy/both_halves", "--variant a=ids:1,8", 1, "variant \"a\"");
    assert!(!text.contains("--split-at"), "{text}");
}

#[test]
fn wrong_variants_are_refused_before_the_conversion() {
    let room = Room::new();
    let model = fixture("free/rows_by_distance");
    for (options, said) in [
        ("--variant a", "the form is NAME=INPUT:1,3,320,320"),
        ("--variant a/b=1,8,4", "letters, digits, - and _"),
        ("--variant =1,8,4", "letters, digits, - and _"),
        ("--variant a=1,8,x/y", "--variant a=1,8,x/y"),
        ("--variant a=1,8,4 --split-at y", "cannot be used with"),
        ("--variant a=1,8,4 --example run.py", "cannot be used with"),
    ] {
        refused("free/rows_by_distance", options, 2, said);
    }
    room.expect(&format!("{model} net.param --variant a=1,8,4 --dry-run"), 0, "net.a.param");
    assert!(room.names().is_empty(), "{:?}", room.names());
}

/// Nets of other conversions of the model keep their weights.
#[test]
fn no_conversion_replaces_the_weights_of_another() {
    let (room, model) = (Room::new(), fixture("free/rows_by_distance"));
    let lines = [
        "net.param --variant a=1,8,4 --variant b=1,9,4",
        "net.param",
        "net.param --fp16 --variant a=1,8,4",
        "net.param --variant b=1,12,4 --variant c=1,9,4",
    ];
    for line in lines {
        room.expect(&format!("{model} {line}"), 0, "");
    }
    let shared = ["net.a.bin", "net.a+b.bin", "net.b+c.bin", "net.bin"];
    assert!(shared.iter().all(|bin| room.path(bin).exists()), "{:?}", room.names());
    room.expect("check net.param", 0, "");
    room.expect("check net.c.param", 0, "");
    room.expect("check net.b.param net.b+c.bin", 0, "");
}

#[test]
fn the_nets_are_printed_as_json() {
    let (room, model) = (Room::new(), fixture("free/rows_by_distance"));
    let line = format!("{model} net.param --message-format json --variant a=1,8,4 --variant b=1,9,4");
    let output = room.run(&line);
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["done"]["files"][2].as_str().unwrap().ends_with("net.a+b.bin"), "{done}");
    assert_eq!(done["done"]["bytes"], fs::metadata(room.path("net.a+b.bin")).unwrap().len());
    assert_eq!(done["done"]["nets"][1]["skipped"], 8 * 8 * 3 * 4);
}
