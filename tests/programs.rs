//! Programs of `--example`: those in Python run, and print what the models say. `tests/programs.sh` does the
//! same in C++.

#![cfg(feature = "cli")]
#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/packages.rs"]
mod packages;
#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;
use std::process::Command;

use room::{Room, fixture};

#[test]
fn programs_in_python_print_what_the_models_say() {
    let python = support::python();
    let room = Room::new();
    let mut command = Command::new(&python);
    command.args(["tests/programs/run.py", env!("CARGO_BIN_EXE_onnx2ncnn")]).arg(room.path("programs"));
    let output = command.env("PYTHONPATH", packages::packages(&python, packages::PICTURES)).output().unwrap();
    room::expect(&output, "tests/programs/run.py", 0, "programs print what they should");
}

#[test]
fn programs_compute_the_rest_of_a_model() {
    let python = support::python();
    let room = Room::new();
    let mut command = Command::new(&python);
    command.env("PYTHONPATH", packages::packages(&python, packages::PICTURES));
    command.args(["tests/programs/rest.py", env!("CARGO_BIN_EXE_onnx2ncnn")]).arg(room.path("rest"));
    let names = ["detector", "selection_by_a_mask", "selection_of_levels"];
    command.args(names.map(|name| fixture(&format!("remedy/{name}"))));
    room::expect(&command.output().unwrap(), "tests/programs/rest.py", 0, "3 programs compute");
}

#[test]
fn pixels_are_scaled_in_the_net() {
    let room = Room::new();
    let mut command = Command::new(support::python());
    command.args(["tests/programs/pixels.py", env!("CARGO_BIN_EXE_onnx2ncnn")]).arg(room.path("pixels"));
    room::expect(
        &command.output().unwrap(),
        "tests/programs/pixels.py",
        0,
        "pixels become what the models read",
    );
    // Programs give such a net pixels.
    let model = fixture("network/digits");
    let line = format!("{model} a.param --example run.py --quiet");
    room.expect(&format!("{line} --scale 1/16"), 0, "");
    let text = fs::read_to_string(room.path("run.py")).unwrap();
    assert!(text.contains("MEAN, NORM = [0.0], [1.0]"), "{text}");
    room.expect(&format!("{line} --mean 1,2"), 2, "--mean has 2 numbers, and the pictures have 1 channels");
    room.expect(&format!("{line} --scale 0"), 2, "finite numbers other than 0");
    room.expect(&format!("{line} --scale a"), 2, "expected numbers such as 0.5 or 1/255");
    room.expect(&format!("{} b.param --bgr", fixture("network/transformer_block")), 2, "no input is one");
    room.expect(&format!("{model} b.param --chw"), 2, "pictures whose last axis is their channels");
}

#[test]
fn programs_find_their_files() {
    let room = Room::new();
    let model = fixture("network/digits");
    room.expect(&format!("{model} -o net --example other/run.py --quiet"), 0, "");
    let text = fs::read_to_string(room.path("other/run.py")).unwrap();
    let param = room.path("net/model.ncnn.param").canonicalize().unwrap();
    assert!(text.contains(&format!("PARAM = FOLDER / \"{}\"", param.display())), "{text}");
    room.expect(&format!("{model} -o net --example net/run.cpp --quiet"), 0, "");
    let text = fs::read_to_string(room.path("net/run.cpp")).unwrap();
    assert!(text.contains("PARAM = \"model.ncnn.param\";"), "{text}");
    // A program in C++ has a build file next to it, unless the folder has one.
    fs::write(room.path("net/CMakeLists.txt"), "# mine").unwrap();
    let said = room.expect(&format!("{model} -o net --example net/run.cpp"), 0, "net/run.cpp\n");
    assert!(!said.contains("CMakeLists.txt"), "{said}");
    assert_eq!(fs::read_to_string(room.path("net/CMakeLists.txt")).unwrap(), "# mine");
    // A class in Kotlin has files next to it, which are listed.
    let line = format!("{model} -o net --example app/digit-reader.kt");
    let companions = ["NcnnNet.kt", "Results.kt", "Drawing.kt", "ncnn_net.cpp", "CMakeLists.txt"];
    let listed: String = companions.iter().map(|name| format!("  app/{name}\n")).collect();
    room.expect(&line, 0, &format!("app/digit-reader.kt\n{listed}"));
    let text = fs::read_to_string(room.path("app/digit-reader.kt")).unwrap();
    assert!(text.contains("\nclass Digit_reader(private val net: NcnnNet)"), "{text}");
    assert!(text.contains("assets.open(\"model.ncnn.param\")"), "{text}");
    // A build file for another language does not build this program.
    room.expect(
        &format!("{model} -o net --example app/run.cpp"),
        2,
        "it builds programs in another language",
    );
    room.expect(&format!("{model} -o net --example app/NcnnNet.kt"), 2, "would overwrite the program");
    room.expect(
        &format!("{model} -o net --example run.js"),
        2,
        "the ending of its name is that of no language",
    );
    assert!(!room.path("run.js").exists());
}

#[test]
fn the_folder_of_ultralytics_has_its_names() {
    let room = Room::new();
    let model = fixture("network/digits");
    room.expect(&format!("{model} --ultralytics digits_ncnn_model"), 0, "\"in0\"");
    let read = |name: &str| fs::read_to_string(room.path("digits_ncnn_model").join(name)).unwrap();
    let param = read("model.ncnn.param");
    assert!(param.contains(" in0") && param.contains(" out0"), "{param}");
    let metadata = read("metadata.yaml");
    assert!(metadata.starts_with("task: \"classify\"\nnames:\n  0: \"zero\"\n  1: \"one\"\n"), "{metadata}");
    assert_eq!(fs::read_dir(room.path("digits_ncnn_model")).unwrap().count(), 3);
    // Names that the user gives stay.
    room.expect(&format!("{model} a.param --numbered --rename picture=p"), 0, "\"out0\"");
    let param = fs::read_to_string(room.path("a.param")).unwrap();
    assert!(param.contains(" p") && !param.contains("in0"), "{param}");
    room.expect(&format!("{model} a.param --ultralytics b"), 2, "cannot be used with");
    // The ending by which ultralytics recognizes the folder.
    for (folder, made) in [("b", "b_ncnn_model"), ("c/", "c_ncnn_model"), ("d.e", "d.e_ncnn_model")] {
        room.expect(&format!("{model} --ultralytics {folder}"), 0, made);
        assert!(room.path(made).join("metadata.yaml").exists() && !room.path(folder).exists(), "{folder}");
    }
    // Nets that it cannot run.
    room.expect(&format!("{model} --ultralytics f --auto-cut"), 2, "cannot be used with");
    let text = fixture("network/spectrum_of_a_sound");
    room.expect(&format!("{text} --ultralytics f"), 2, "gives a net one picture");
    // The command for a part of a refused model writes a plain net.
    let text = room.expect(
        &format!("{} --ultralytics f", fixture("remedy/selection_by_a_mask")),
        1,
        "--outputs boxes,scores,classes\n",
    );
    assert!(!text.contains("--ultralytics") && !room.path("f_ncnn_model").exists(), "{text}");
}

#[test]
fn a_program_has_the_nodes_behind_the_net() {
    let room = Room::new();
    let model = fixture("remedy/selection_by_a_mask");
    room.expect(
        &format!("{model} a.param --outputs boxes,scores,classes --example a.py"),
        0,
        "onnx_operators.py\n",
    );
    let program = fs::read_to_string(room.path("a.py")).unwrap();
    assert!(program.contains("op.greater(scores, "), "{program}");
    room.expect(&format!("{model} a.param --outputs boxes --example onnx_operators.py"), 2, "next to it");
    // If a net ends earlier, the program leaves out the convolutions that follow.
    let detector = fixture("remedy/two_stage_detector");
    room.expect(&format!("{detector} a.param --auto-cut --example a.py"), 0, "a.py");
}

#[test]
fn what_a_model_says_is_inspected() {
    let room = Room::new();
    let model = fixture("network/digits");
    let text = room.expect(&format!("inspect {model}"), 0, "task: classify\n");
    assert!(text.contains("classes (10): zero, one, two, three, four, five, six, seven, ...\n"), "{text}");
    let json = room.expect(&format!("inspect {model} --json"), 0, "\"metadata\"");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["model"]["metadata"]["classes"][9], "nine");
}
