//! The command line as people meet it: verbs, help, streams, and locations of results.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

use std::fs;
use std::process::Output;

use serde_json::Value;

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, fixture};

/// The commands, other than `help`.
const VERBS: [&str; 12] = [
    "convert",
    "inspect",
    "verify",
    "check",
    "diff",
    "simplify",
    "quantize",
    "batch",
    "explain",
    "runner",
    "completions",
    "man",
];

/// A room with a model.
fn room_with_model() -> Room {
    let room = Room::new();
    room.put("m.onnx", &onnx::relu());
    room
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The standard output of a command that succeeds and says nothing else.
#[track_caller]
fn printed(room: &Room, line: &str) -> String {
    let Output { status, stdout, stderr } = room.run(line);
    assert!(status.success() && stderr.is_empty(), "{line}: {}", text(&stderr));
    text(&stdout)
}

#[test]
fn a_conversion_may_be_named() {
    let room = room_with_model();
    room.expect("m.onnx a.param", 0, "a.param");
    room.expect("convert m.onnx b.param --fp16", 0, "b.param");
    assert_eq!(fs::read(room.path("a.param")).unwrap(), fs::read(room.path("b.param")).unwrap());
}

#[test]
fn every_verb_has_a_short_and_a_long_help() {
    let room = Room::new();
    for verb in VERBS {
        let short = printed(&room, &format!("{verb} -h"));
        let long = printed(&room, &format!("{verb} --help"));
        assert_eq!(printed(&room, &format!("help {verb}")), long, "{verb}");
        assert!(short.contains("Usage:") && short.lines().count() <= long.lines().count(), "{verb}");
    }
    let (short, long) = (printed(&room, "-h"), printed(&room, "--help"));
    assert_eq!(printed(&room, "help"), long);
    let output = room.run("");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), short.clone()));
    assert!(short.lines().count() < 86 && long.lines().count() > 150, "{short}");
    assert!(VERBS.iter().all(|verb| short.contains(&format!("\n  {verb} "))), "{short}");
    for rare in ["--mem-header", "--data-dir", "Exit codes"] {
        assert!(long.contains(rare) && !short.contains(rare), "{rare}");
    }
    // In the order of use.
    let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
    let headings: Vec<&str> = long.lines().filter(is_heading).collect();
    let expected = [
        "Commands, as a first word:",
        "Arguments:",
        "Options:",
        "Model:",
        "Result:",
        "Half precision:",
        "Comparison:",
        "Further files:",
        "Messages:",
        "Examples:",
        "Exit codes:",
    ];
    assert_eq!(headings, expected);
    assert!(printed(&room, "--version").contains(env!("CARGO_PKG_VERSION")));
}

/// Each example of the help is a command line that is understood.
#[test]
fn examples_can_be_pasted() {
    let room = Room::new();
    let mut tried = 0;
    for verb in ["", "verify", "check", "diff", "simplify", "quantize", "batch", "inspect"] {
        let help = printed(&room, &format!("{verb} --help"));
        let wide = help.lines().find(|line| line.starts_with("  onnx2ncnn ") && line.len() > 80);
        assert_eq!(wide, None, "narrow terminals wrap it");
        let help = help.replace("\\\n", "");
        let after = help.lines().skip_while(|line| *line != "Examples:");
        let examples = after.take_while(|line| *line != "Exit codes:");
        for line in examples.filter_map(|line| line.strip_prefix("  onnx2ncnn ")) {
            let line =
                line.split(" | ").next().unwrap().replace("$JOB_COMPLETION_INDEX", "0").replace('\'', "");
            let said = text(&room.run(&line).stderr);
            // The model is missing, not an argument.
            assert!(!said.contains("Usage:") && !said.contains("For more information"), "{line}: {said}");
            tried += 1;
        }
    }
    assert!(tried > 18, "{tried} examples");
}

#[test]
fn near_verbs_are_suggested() {
    let room = room_with_model();
    for (line, verb) in [
        ("inspct m.onnx", "inspect"),
        ("verfy m.onnx a.param a.bin", "verify"),
        ("simplfy m.onnx s.onnx --check 1", "simplify"),
        ("conver m.onnx", "convert"),
        ("help inspct", "inspect"),
    ] {
        room.expect(line, 2, &format!("a similar subcommand exists: '{verb}'"));
    }
    let said = room.expect("model", 2, "model: the model cannot be opened");
    assert!(!said.contains("subcommand"), "{said}");
    // A file with such a name is a model.
    room.put("inspct", &onnx::chain(&["Relu"], &["1", "3"]));
    room.expect("inspct", 0, "inspct.ncnn.param");
}

#[test]
fn results_go_to_standard_output_and_messages_to_standard_error() {
    let room = room_with_model();
    assert!(printed(&room, "inspect m.onnx").contains("it can be converted"));
    assert!(printed(&room, "--list-passes").contains("eliminate_identity"));
    assert!(printed(&room, "explain").contains("E0012  "));
    let output = room.run("m.onnx");
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("m.ncnn.param"));
    // Tables that were asked for are results.
    let output = room.run("m.onnx -v");
    let (tables, said) = (text(&output.stdout), text(&output.stderr));
    assert!(tables.contains("input   \"x\"") && tables.contains("read "), "{tables}");
    assert!(said.contains("m.ncnn.param") && !said.contains("input   "), "{said}");
    let output = room.run("simplify m.onnx s.onnx -v");
    assert!(text(&output.stdout).contains("infer and fold") && text(&output.stderr).contains("s.onnx"));
}

#[test]
fn results_are_piped() {
    let room = room_with_model();
    room.expect("m.onnx a.param a.bin --emit-onnx e.onnx --report r.json", 0, "");
    let param = text(&fs::read(room.path("a.param")).unwrap());
    for line in ["m.onnx - b.bin", "m.onnx /dev/stdout b.bin", "m.onnx - b.bin -v"] {
        let output = room.run(line);
        assert_eq!(text(&output.stdout), param, "{line}");
        assert!(text(&output.stderr).contains("  b.bin"), "{line}");
    }
    for line in ["simplify m.onnx -", "simplify m.onnx /dev/stdout -v"] {
        assert_eq!(room.run(line).stdout, fs::read(room.path("e.onnx")).unwrap(), "{line}");
    }
    let output = room.run("m.onnx c.param --report -");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["status"], "converted");
    room.expect("m.onnx - -", 2, "two results would go to standard output");
    room.expect("m.onnx -", 2, "name both files");
    room.expect("simplify m.onnx - --external-data w.bin", 2, "not next to standard output");
    room.put("bad.onnx", &onnx::chain(&["NoSuchOperator"], &["1", "3"]));
    assert!(room.run("bad.onnx - d.bin").stdout.is_empty());
    let names = ["a.bin", "a.param", "b.bin", "bad.onnx", "c.bin", "c.param", "e.onnx", "m.onnx", "r.json"];
    assert_eq!(room.names(), names);
}

#[test]
fn results_have_a_location_by_an_option() {
    let room = room_with_model();
    for (line, file) in [
        ("m.onnx -o deep/er/", "deep/er/m.ncnn.param"),
        ("convert m.onnx --out folder", "folder/m.ncnn.bin"),
        ("m.onnx -o a/b.param --report new/r.json", "new/r.json"),
        ("m.onnx c/d.param", "c/d.bin"),
        ("simplify m.onnx -o s/t.onnx", "s/t.onnx"),
        ("simplify m.onnx -o folder", "folder/m.onnx"),
        ("inspect m.onnx --report i/r.json", "i/r.json"),
        ("man -o pages/man1", "pages/man1/onnx2ncnn-simplify.1"),
    ] {
        room.expect(line, 0, "");
        assert!(room.path(file).is_file(), "{line}");
    }
    for file in ["a.onnx", "a.bin"] {
        room.expect(&format!("m.onnx -o {file}"), 2, "the name does not end in .param");
    }
    room.expect("m.onnx a.param -o folder", 2, "cannot be used with");
    room.expect("simplify m.onnx", 2, "OUT");
    room.expect("simplify m.onnx s.onnx -o folder", 2, "cannot be used with");
}

#[test]
fn folders_are_made_only_for_results() {
    let room = room_with_model();
    room.put("bad.onnx", &onnx::chain(&["NoSuchOperator"], &["1", "3"]));
    room.expect("bad.onnx -o new/folder/", 1, "nothing was written");
    room.expect("m.onnx --dry-run -o new/", 0, "nothing was written");
    if !room::is_of_windows() {
        room.expect("m.onnx new/../a.param", 2, "the folder cannot be opened");
    }
    room.expect("m.onnx m.onnx/a.param", 2, "this is not a folder");
    assert_eq!(room.names(), ["bad.onnx", "m.onnx"]);
    // The report of a refused model is a result.
    room.expect("bad.onnx -o new/ --report reports/r.json", 1, "");
    assert_eq!(room.names(), ["bad.onnx", "m.onnx", "reports"]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let room = room_with_model();
    let line = "m.onnx --dry-run --emit-onnx e.onnx --report r.json --html r.html";
    let said = room.expect(line, 0, "dry run");
    assert!(said.contains("layers") && said.contains("loads in ncnn"), "{said}");
    room.expect("simplify m.onnx s.onnx --dry-run", 0, "nothing was written");
    room.put("bad.onnx", &onnx::chain(&["NoSuchOperator"], &["1", "3"]));
    room.expect("bad.onnx --dry-run --report r.json", 1, "NoSuchOperator");
    assert_eq!(room.names(), ["bad.onnx", "m.onnx"]);
}

#[test]
fn messages_are_lines_of_json_if_asked_for() {
    let room = room_with_model();
    let lines = |line: &str, code: i32| -> Vec<Value> {
        let Output { status, stdout, stderr } = room.run(line);
        assert_eq!((status.code(), text(&stderr)), (Some(code), String::new()), "{line}");
        text(&stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let json = "--message-format json";
    let model = fixture("condition/pools_of_three");
    let told = lines(&format!("{model} a.param {json}"), 0);
    let conditions = told.iter().filter(|line| line["severity"] == "condition");
    let conditions: Vec<&str> = conditions.filter_map(|line| line["reason"].as_str()).collect();
    assert_eq!(conditions, ["H >= 7", "W >= 7"]);
    let done = &told.last().unwrap()["done"];
    assert!(done["files"][0].as_str().unwrap().ends_with("a.param") && done["layers"] == 3, "{done}");
    let told = lines(&format!("simplify m.onnx s.onnx {json}"), 0);
    assert_eq!(told.last().unwrap()["done"]["nodes"], 1);
    room.put("bad.onnx", &onnx::chain(&["Relu", "NoSuchOperator"], &["1", "3"]));
    let told = lines(&format!("bad.onnx {json}"), 1);
    assert_eq!((&told[0]["severity"], &told[0]["code"]), (&"error".into(), &"E0009".into()));
    assert_eq!(told[0]["at"]["node"]["index"], 1);
    let remedy = &told[1]["remedy"];
    assert_eq!(remedy["options"]["outputs"].as_array().map(Vec::len), Some(1), "{told:?}");
    let words: Vec<&str> =
        remedy["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    room.expect(&format!("bad.onnx {}", words.join(" ")), 0, "loads in ncnn");
    assert_eq!(lines(&format!("none.onnx {json}"), 2)[0]["code"], "E0001");
}

#[test]
fn names_that_do_not_exist_have_near_ones() {
    let room = Room::new();
    let model = fixture("simplify/concats_of_concats");
    for (line, near) in [
        (format!("{model} a.param --outputs G"), "near names are \"g\""),
        (format!("{model} a.param --float32 C"), "near names are \"c\""),
        (format!("{model} a.param --rename Y=out"), "near names are \"y\"; or make a value"),
    ] {
        room.expect(&line, 2, near);
    }
    assert!(room.names().is_empty());
}

#[test]
fn codes_are_explained() {
    let room = Room::new();
    let list = printed(&room, "explain");
    for (code, title) in list.lines().map(|line| line.split_once("  ").unwrap()) {
        let told = printed(&room, &format!("explain {code}"));
        assert!(told.starts_with(&format!("{code}: {title}\n\n")) && told.lines().count() > 2, "{told}");
        assert!(told.lines().all(|line| line.len() <= 100), "{told}");
    }
    room.expect("explain E9999", 2, "unknown code");
    for (model, code) in [
        ("refused/several_nodes", "E0009"),
        ("refused/text", "E0016"),
        ("refused/noise", "E0013"),
        ("refused/bounds_that_exclude_each_other", "E0015"),
        ("quantized/network", "E0012"),
        ("assumption/sum_of_integers --strict", "E0011"),
    ] {
        let (model, options) = model.split_once(' ').unwrap_or((model, ""));
        let said = room.expect(&format!("{} a.param {options}", fixture(model)), 1, code);
        assert!(said.contains("; see onnx2ncnn explain E"), "{said}");
    }
}

#[test]
fn shapes_have_several_spellings() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu"], &["N", "3", "H", "W"]));
    for shape in ["1,3,4,5", "x:1x3x4x5", "1x3x4x5", "[1,3,4,5]", "x:[1,3,4,5]"] {
        room.expect(&format!("m.onnx --input-shape {shape}"), 0, "w=5 h=4 c=3");
    }
    room.expect("m.onnx --input-shape 1x3xHx5", 0, "w=5 h=H c=3");
}

#[test]
fn completions_and_manual_pages_are_complete() {
    let room = Room::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = printed(&room, &format!("completions {shell}"));
        assert!(VERBS.iter().all(|verb| text.contains(verb)) && text.contains("input-shape"), "{shell}");
        assert!(!text.contains("answer"), "{shell}");
    }
    room.expect("completions no_such_shell", 2, "bash");
    // Every page that another one names exists.
    let main = printed(&room, "man");
    room.expect("man -o man1", 0, "");
    for verb in VERBS {
        assert!(main.contains(&format!("onnx2ncnn\\-{verb}(1)")), "{verb} in {main}");
        let page = printed(&room, &format!("man {verb}"));
        assert!(page.contains(&format!(".TH onnx2ncnn-{verb} 1")), "{page}");
        assert!(room.path(&format!("man1/onnx2ncnn-{verb}.1")).is_file(), "{verb}");
    }
    assert!(main.contains("Also write a C header with these indices"), "rare options have texts, too");
    room.expect("man none", 2, "the commands are convert, ");
}
