//! `onnx2ncnn batch`: selection, up-to-date results, and models that fail.

#![cfg(feature = "cli")]
#![allow(clippy::as_conversions, clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, expect};

/// A bound on every wait of the tests.
const LONG: Duration = Duration::from_secs(60);

/// Another version of the model.
fn changed() -> Vec<u8> {
    onnx::chain(&["Sigmoid"], &["1", "3", "8", "8"])
}

fn refused() -> Vec<u8> {
    onnx::chain(&["NoSuchOperator"], &["1", "3", "8", "8"])
}

/// A room with models in `models`, which may have folders in their names.
fn room_with(models: &[(&str, Vec<u8>)]) -> Room {
    let room = Room::new();
    for (name, bytes) in models {
        let path = room.path("models").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    settle();
    room
}

/// Waits for the clock of the file system to advance: a model that changes during its conversion is converted
/// again.
fn settle() {
    sleep(Duration::from_millis(30));
}

/// Every file below `out` but for locks and records, with its bytes.
fn results(room: &Room, out: &str) -> Vec<(String, Vec<u8>)> {
    let (root, mut found) = (room.path(out), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.ends_with(".onnx2ncnn") {
                continue;
            }
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let name = entry.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read(entry).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn names(room: &Room, out: &str) -> Vec<String> {
    results(room, out).into_iter().map(|(name, _)| name).collect()
}

/// The number of unfinished results.
fn unfinished(room: &Room, out: &str) -> usize {
    let folders = fs::read_dir(room.path(out).join(".onnx2ncnn")).unwrap();
    folders.filter(|folder| folder.as_ref().unwrap().path().join("work").exists()).count()
}

#[test]
fn options_by_names_come_from_a_file() {
    let room = room_with(&[("a.onnx", onnx::relu()), ("wide/b.onnx", onnx::relu())]);
    room.put("onnx2ncnn.toml", b"[[model]]\nmatch = \"wide/*\"\ninput-shape = \"1,3,16,16\"\n");
    room.expect("batch models -o out", 0, "2 converted, 0 up to date");
    let sizes = |name: &str| {
        let param = fs::read_to_string(room.path(name)).unwrap();
        let input = param.lines().find(|line| line.starts_with("Input")).unwrap().to_owned();
        input.split_whitespace().find_map(|word| word.strip_prefix("0=").map(str::to_owned)).unwrap()
    };
    assert_eq!([sizes("out/a.ncnn.param"), sizes("out/wide/b.ncnn.param")], ["8", "16"]);
    // The options of the file belong to what is up to date; those of the command line replace them.
    room.expect("batch models -o out", 0, "0 converted, 2 up to date");
    room.put(
        "other.toml",
        b"[options]\nfp16 = true\n[[model]]\nmatch = \"wide/*\"\ninput-shape = \"1,3,16,16\"\n",
    );
    room.expect(
        "batch models -o out --config other.toml --input-shape 1,3,4,4",
        0,
        "2 converted, 0 up to date",
    );
    assert_eq!(sizes("out/wide/b.ncnn.param"), "4");
    // So do the contents of files that options name.
    let declared = "[[layer]]\noperator = \"a.B\"\ntype = \"B\"\nelementwise = true\n";
    room.put("own.toml", declared.as_bytes());
    let line = "batch models -o own --config other.toml --custom-layers own.toml";
    room.expect(line, 0, "2 converted, 0 up to date");
    room.expect(line, 0, "0 converted, 2 up to date");
    room.put("own.toml", format!("{declared}since = 20260113\n").as_bytes());
    room.expect(line, 0, "2 converted, 0 up to date");
    room.put("onnx2ncnn.toml", b"[options]\nfp61 = true\n");
    room.expect("batch models -o out", 2, "onnx2ncnn.toml: line 2: fp61 is not an option");
    room.put("onnx2ncnn.toml", b"[options]\nncnn-version = 1\n");
    let said = room.expect("batch models -o out", 2, "onnx2ncnn.toml: ");
    assert!(!said.contains("\\n"), "{said}");
    room.put("onnx2ncnn.toml", b"[[model]]\nmatch = [\"a*\", \"none/*\"]\nfp16 = true\n");
    let said = room.expect("batch models -o out", 0, "warning: no model matches the pattern \"none/*\"");
    assert_eq!(said.matches("no model matches").count(), 1, "{said}");
    room.put("onnx2ncnn.toml", b"[options]\nfp16 = true\n\n[model.onnx]\nfp16 = true\n");
    room.expect("batch models -o out", 2, "onnx2ncnn.toml: line 4: ");
    room.expect("batch models -o out --config none.toml", 2, "none.toml");
}

#[test]
fn results_equal_those_of_single_runs() {
    let room =
        room_with(&[("a.onnx", onnx::relu()), ("b/c.v2.onnx", changed()), (".hidden/d.onnx", onnx::relu())]);
    let network = fs::read("fixtures/network/transformer_block/model.onnx").unwrap();
    fs::write(room.path("models/b/network.onnx"), network).unwrap();
    room.put("models/notes.txt", b"no model");
    let text = room.expect("batch models -o out --jobs 2", 0, "3 converted, 0 up to date of 3 models");
    for line in ["[1/3] converted", "[3/3] converted", "b/c.v2  "] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let files = ["a", "b/c.v2", "b/network"].map(|name| {
        room.expect(&format!("models/{name}.onnx alone.param alone.bin"), 0, "");
        let read = |ending| fs::read(room.path(&format!("alone.{ending}"))).unwrap();
        [(format!("{name}.ncnn.bin"), read("bin")), (format!("{name}.ncnn.param"), read("param"))]
    });
    assert_eq!(results(&room, "out"), files.concat());
    assert_eq!(unfinished(&room, "out"), 0);
}

#[test]
fn patterns_lists_and_single_models_have_the_same_names() {
    let room = room_with(&[("a.onnx", onnx::relu()), ("b/c.onnx", onnx::relu()), ("b/d.pb", onnx::relu())]);
    room.expect("batch models/*.onnx models/b/*.pb -o one", 0, "2 models");
    assert_eq!(names(&room, "one"), ["a.ncnn.bin", "a.ncnn.param", "d.pb.ncnn.bin", "d.pb.ncnn.param"]);
    room.expect("batch models/**/c.onnx -o two", 0, "1 model");
    assert_eq!(names(&room, "two"), ["b/c.ncnn.bin", "b/c.ncnn.param"]);
    room.put("list.txt", b"models/a.onnx\n\n./models/b/../b/d.pb\nmodels/a.onnx\n");
    room.expect("batch list.txt -o three", 0, "2 models");
    let three =
        ["models/a.ncnn.bin", "models/a.ncnn.param", "models/b/d.pb.ncnn.bin", "models/b/d.pb.ncnn.param"];
    assert_eq!(names(&room, "three"), three);
    room.expect("batch list.txt -o four --base models", 0, "");
    assert_eq!(names(&room, "four")[0], "a.ncnn.bin");
}

#[test]
fn results_that_are_up_to_date_stay() {
    let room =
        room_with(&[("a.onnx", onnx::relu()), ("b.onnx", onnx::external("w", 4)), ("c.onnx", onnx::relu())]);
    room.put("models/w", &[1; 16]);
    settle();
    let run = |options: &str, said: &str| room.expect(&format!("batch models -o out {options}"), 0, said);
    run("", "3 converted, 0 up to date");
    let made = results(&room, "out");
    run("", "0 converted, 3 up to date");
    assert_eq!(results(&room, "out"), made);
    run("--force", "3 converted");

    room.put("models/a.onnx", &changed());
    settle();
    assert!(run("", "1 converted, 2 up to date").contains("converted   a"));
    room.put("models/w", &[2; 16]);
    settle();
    assert!(run("", "1 converted, 2 up to date").contains("converted   b"));
    assert_ne!(results(&room, "out"), made);
    // The same bytes again are the same model.
    room.put("models/w", &[2; 16]);
    run("", "0 converted, 3 up to date");

    fs::remove_file(room.path("out/a.ncnn.bin")).unwrap();
    room.put("out/c.ncnn.param", b"edited");
    run("", "2 converted, 1 up to date");
    run("--fp16", "3 converted");
    run("--fp16", "3 up to date");
    run("--fp16 --also param-bin,id-header", "3 converted");
    assert!(room.path("out/a.ncnn.id.h").exists() && room.path("out/a.ncnn.param.bin").exists());
    run("", "3 converted");
}

#[test]
fn a_failing_model_does_not_stop_the_others() {
    let room = room_with(&[
        ("a.onnx", refused()),
        ("b.onnx", onnx::relu()),
        ("c.onnx", b"no model at all".to_vec()),
        ("d.onnx", onnx::relu()),
    ]);
    let text =
        room.expect("batch models -o out --jobs 1", 1, "2 converted, 0 up to date, 2 refused of 4 models");
    assert!(text.contains("NoSuchOperator") && text.contains("[4/4] converted   d"), "{text}");
    assert_eq!(names(&room, "out"), ["b.ncnn.bin", "b.ncnn.param", "d.ncnn.bin", "d.ncnn.param"]);
    room.expect("batch models -o reports --also report,html", 1, "2 refused");
    let reports = names(&room, "reports").into_iter().filter(|name| name.ends_with(".report.json")).count();
    assert_eq!((reports, names(&room, "reports").len()), (4, 4 + 4 + 4), "of each model, converted or not");

    // A refused model is tried again, and older results stay until there are new ones.
    room.put("models/b.onnx", &refused());
    room.put("models/a.onnx", &onnx::relu());
    settle();
    let older = fs::read(room.path("out/b.ncnn.param")).unwrap();
    room.expect("batch models -o out", 1, "1 converted, 1 up to date, 2 refused");
    assert_eq!(fs::read(room.path("out/b.ncnn.param")).unwrap(), older);
    // So does the report of the net.
    room.expect("batch models -o reports --also report,html", 1, "2 refused");
    let report = fs::read_to_string(room.path("reports/b.ncnn.report.json")).unwrap();
    assert!(report.contains("\"status\": \"converted\"") && !report.contains("refused"), "{report}");

    room.put("list", b"models/d.onnx\nmodels/none.onnx\nmodels/a.onnx\n");
    let text = room.expect("batch list -o other", 2, "2 converted, 0 up to date, 1 failed");
    assert!(text.contains("none.onnx"), "{text}");
    let quiet = room.expect("batch -q list -o other", 2, "none.onnx");
    assert!(!quiet.contains("up to date  "), "{quiet}");
}

#[test]
fn each_model_is_a_line_of_json() {
    let room =
        room_with(&[("a.onnx", onnx::relu()), ("b/c.onnx", refused()), ("d.onnx", b"not a model".to_vec())]);
    for status in ["converted", "up to date"] {
        let output = room.run("batch models -o out --json-lines --quiet");
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        let mut rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.sort_by_key(|row| row["name"].to_string());
        let of = |field: &str| rows.iter().map(|row| row[field].clone()).collect::<Vec<_>>();
        assert_eq!(of("name"), ["a", "b/c", "d"]);
        assert_eq!(of("status"), [status, "refused", "refused"]);
        assert_eq!(rows[0]["layers"].as_u64(), Some(2));
        assert!(rows[0]["bytes"].as_u64() > Some(0) && rows[1]["bytes"].is_null(), "{text}");
        assert_eq!(rows[0]["seconds"].is_number(), status == "converted");
        assert_eq!(rows[0]["diagnostics"], serde_json::json!([]));
        assert_eq!(rows[0]["files"], serde_json::json!(["a.ncnn.bin", "a.ncnn.param"]));
        assert_eq!(
            (&rows[0]["warnings"], &rows[1]["files"]),
            (&serde_json::json!([]), &serde_json::json!([]))
        );
        assert_eq!(rows[1]["remedies"], serde_json::json!([]));
        assert_eq!(rows[1]["diagnostics"][0]["at"]["node"]["op_type"], "NoSuchOperator");
        assert_eq!(rows[2]["diagnostics"][0]["kind"], "parse");
        assert!(rows[1]["output"].as_str().unwrap().contains("NoSuchOperator"), "{text}");
    }
}

#[test]
fn parts_are_a_partition() {
    let models: Vec<(String, Vec<u8>)> =
        (0..12).map(|i| (format!("f{}/m{i}.onnx", i % 2), onnx::relu())).collect();
    let models: Vec<(&str, Vec<u8>)> =
        models.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let room = room_with(&models);
    let mut all = Vec::new();
    for part in 0..3 {
        room.expect(&format!("batch models -o part{part} --shard {part}/3"), 0, "");
        all.extend(names(&room, &format!("part{part}")));
    }
    all.sort();
    assert_eq!(all.len(), 24);
    room.expect("batch models -o whole", 0, "12 models");
    assert_eq!(names(&room, "whole"), all);
    // A part does not depend on the other models.
    let first = names(&room, "part0");
    fs::remove_dir_all(room.path("models/f1")).unwrap();
    room.expect("batch models -o again --shard 0/3", 0, "");
    let left: Vec<String> = first.into_iter().filter(|name| name.starts_with("f0/")).collect();
    assert_eq!(names(&room, "again"), left);
}

#[test]
fn commands_after_refusals_write_results() {
    let model = fs::read(room::fixture("refused/pooling_that_skips_elements_of_a_free_axis")).unwrap();
    let room = room_with(&[("b/m.onnx", model)]);
    let text = room.expect("batch models -o out", 1, "this converts the whole model");
    let mut words = text.lines().filter_map(|line| line.trim().strip_prefix("onnx2ncnn "));
    room.expect(words.next().unwrap(), 0, "");
    assert!(room.path("out/b/m.ncnn.bin").exists(), "{text}");
}

#[test]
fn invalid_arguments_are_refused_first() {
    let room = room_with(&[("a.onnx", onnx::relu()), ("b/a.onnx", onnx::relu())]);
    room.put("x.ncnn.bin", &onnx::relu());
    room.put("x.onnx", &onnx::relu());
    room.put("bytes", &onnx::relu());
    let here = room.path("models").canonicalize().unwrap();
    fs::create_dir(room.path("elsewhere")).unwrap();
    let list = format!("{0}/a.onnx\n{0}/b/a.onnx\n", here.display());
    fs::write(room.path("elsewhere/list"), &list).unwrap();
    for (line, said) in [
        ("batch models/a.onnx models/b/a.onnx -o out", "would have the same result, \"a\""),
        ("batch none -o out", "none: the folder or list of models cannot be found"),
        ("batch none.onnx models -o out", "none.onnx: the model cannot be found"),
        ("batch none/*.onnx -o out", "no matching file"),
        ("batch elsewhere -o out", "there are no models"),
        ("batch models -o out --shard 3/3", "I from 0 to N-1"),
        ("batch models -o out --also table", "--dequantize"),
        ("batch x.onnx list2 -o .", "would overwrite this model"),
        ("batch bytes -o out", "list"),
    ] {
        room.put("list2", b"x.ncnn.bin\n");
        room.expect(line, 2, said);
        assert!(!room.path("out").exists(), "{line}");
    }
    let mut elsewhere = room.command("batch list -o out");
    elsewhere.current_dir(room.path("elsewhere"));
    expect(&elsewhere.output().unwrap(), "list", 2, "--base");
    elsewhere.arg("--base").arg(&here);
    expect(&elsewhere.output().unwrap(), "list", 0, "2 converted");
}

#[test]
fn data_of_the_model_are_not_overwritten() {
    let room = room_with(&[("m.onnx", onnx::external("m.ncnn.bin", 4))]);
    room.put("models/m.ncnn.bin", &[3; 16]);
    room.expect("batch models -o models", 2, "would overwrite data of the model");
    assert_eq!(fs::read(room.path("models/m.ncnn.bin")).unwrap(), [3; 16]);
}

#[test]
fn results_are_not_selected_as_models() {
    let room = room_with(&[("a.onnx", onnx::relu()), ("out/b.onnx", onnx::relu())]);
    room.expect("batch models -o models --also onnx", 0, "2 converted");
    room.expect("batch models -o models --also onnx", 0, "2 up to date of 2 models");
    room.expect("batch models -o models/out --also onnx", 0, "1 converted, 0 up to date of 1 model");
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < LONG, "{what}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn concurrent_runs_share_the_work() {
    let models: Vec<(String, Vec<u8>)> = (0..8).map(|i| (format!("m{i}.onnx"), onnx::relu())).collect();
    let models: Vec<(&str, Vec<u8>)> =
        models.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let room = room_with(&models);
    let start = || room.command("batch models -o out --jobs 2").stderr(Stdio::piped()).spawn().unwrap();
    let runs = [start(), start()].map(|run| run.wait_with_output().unwrap());
    let lines = |said: &str| {
        let count = |run: &std::process::Output| expect(run, "batch", 0, "8 models").matches(said).count();
        runs.iter().map(count).sum::<usize>()
    };
    assert_eq!((lines("] converted "), lines("] up to date ")), (8, 8), "each model is converted once");
    assert_eq!(names(&room, "out").len(), 16);
}

#[test]
fn conversion_options_are_passed_on() {
    let room = room_with(&[("a.onnx", onnx::relu())]);
    room.expect(
        "batch models -o out --rename x=data --input-shape 1,3,H,W --outputs y --skip eliminate_identity",
        0,
        "",
    );
    let param = fs::read_to_string(room.path("out/a.ncnn.param")).unwrap();
    assert!(param.contains(" data"), "{param}");
    let text = room.expect("batch models -o out -v --outputs none", 2, "none");
    assert!(text.contains("1 failed"), "{text}");
}

/// Pipes, signals, limits and links of Unix.
#[cfg(unix)]
mod unix {
    use super::*;

    /// Entries of a folder that cannot be read are separate failures.
    #[test]
    fn unreadable_entries_do_not_stop_the_others() {
        use std::os::unix::ffi::OsStrExt;
        let room = room_with(&[("a.onnx", onnx::relu()), ("b.onnx", onnx::relu())]);
        let folder = room.path("models");
        fs::write(folder.join(std::ffi::OsStr::from_bytes(b"\xff.onnx")), onnx::relu()).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join("link.onnx")).unwrap();
        std::os::unix::fs::symlink("a.onnx", folder.join("other.onnx")).unwrap();
        assert!(
            std::process::Command::new("mkfifo").arg(folder.join("pipe.onnx")).status().unwrap().success()
        );
        let text = room.expect("batch models -o out", 2, "3 converted, 0 up to date, 3 failed of 6 models");
        for reason in ["not valid UTF-8", "the model cannot be found", "not a regular file"] {
            assert!(text.contains(reason), "{text}");
        }
    }

    /// A limit on the size of files kills a process that writes more.
    #[test]
    fn killed_conversions_are_reported() {
        let network = fs::read("fixtures/network/transformer_block/model.onnx").unwrap();
        let room = room_with(&[("a.onnx", network), ("b.onnx", onnx::relu())]);
        let batch = room.command("batch models -o out");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]).arg(batch.get_program()).args(batch.get_args());
        let output = shell.current_dir(room.path("")).output().unwrap();
        let text = expect(&output, "batch", 3, "1 converted, 0 up to date, 1 broken off of 2 models");
        assert!(text.contains("the conversion ended with signal"), "{text}");
        assert_eq!(names(&room, "out"), ["b.ncnn.bin", "b.ncnn.param"]);
        assert_eq!(unfinished(&room, "out"), 0);
        room.expect("batch models -o out", 0, "1 converted, 1 up to date");
    }

    /// A conversion from a pipe waits until the pipe is written to.
    #[test]
    fn killed_runs_are_resumed() {
        let room = room_with(&[("a.onnx", onnx::relu()), ("c.onnx", onnx::relu())]);
        let pipe = room.path("models/b.pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        room.put("list", b"models/a.onnx\nmodels/b.pipe\nmodels/c.onnx\n");
        let start = || {
            let mut command = room.command("batch list -o out --base models --jobs 1");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command.stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut first = start();
        // Opening waits for a reader: the process that converts the second model.
        let writer = fs::File::options().write(true).open(&pipe).unwrap();
        assert_eq!(unfinished(&room, "out"), 1);
        assert_eq!(names(&room, "out"), ["a.ncnn.bin", "a.ncnn.param"]);

        // The process that converts the second model still waits. The next run postpones that model and
        // converts the third.
        let mut second = start();
        wait_for("the third model is done", || room.path("out/c.ncnn.param").exists());
        assert!(second.try_wait().unwrap().is_none(), "the second model is waited for");
        first.kill().unwrap();
        first.wait().unwrap();
        // Its conversions end with it on Linux. Their end of the pipe is open until then: data written before
        // that is lost. A zombie process has no open files.
        let signal = if cfg!(target_os = "linux") { "-0" } else { "-9" };
        let wait =
            "kill $1 -$0 2>&-; for i in $(seq 100); do kill -0 -$0 2>&- || exit 0; sleep 0.05; done; exit 1";
        let wait = ["-c", wait, &first.id().to_string(), signal];
        assert!(std::process::Command::new("sh").args(wait).status().unwrap().success());
        // Opening waits for the next reader. Until that has the model, the first writer keeps the pipe open.
        fs::write(&pipe, onnx::relu()).unwrap();
        drop(writer);
        let output = second.wait_with_output().unwrap();
        let text = expect(&output, "second", 0, "2 converted, 1 up to date of 3 models");
        assert!(text.contains("[1/3] up to date  a") && text.contains("[3/3] converted   b.pipe"), "{text}");
        assert!(fs::read_to_string(room.path("out/b.pipe.ncnn.param")).unwrap().contains("ReLU"));
        assert_eq!(unfinished(&room, "out"), 0);
    }

    /// A conversion from a pipe waits until the pipe is written to.
    #[test]
    fn slow_conversions_are_stopped() {
        let room = room_with(&[("a.onnx", onnx::relu())]);
        assert!(
            std::process::Command::new("mkfifo").arg(room.path("models/b.pipe")).status().unwrap().success()
        );
        room.put("list", b"models/a.onnx\nmodels/b.pipe\n");
        let text = room.expect(
            "batch list -o out --base models --timeout 1.5",
            3,
            "1 converted, 0 up to date, 1 timed out",
        );
        assert!(text.contains("the conversion was stopped after 1.5 s"), "{text}");
        assert_eq!(names(&room, "out"), ["a.ncnn.bin", "a.ncnn.param"]);
        assert_eq!(unfinished(&room, "out"), 0);
    }
}
