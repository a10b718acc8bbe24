//! Faults during a conversion: no file is lost or incomplete, and the reason is reported.

#![cfg(all(target_os = "linux", feature = "cli"))]
#![allow(clippy::as_conversions, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;

use room::{Room, expect};

/// A room with a model whose constant of `floats` elements is in an external file.
fn room_with_data(floats: u64) -> Room {
    let room = Room::new();
    room.put("m.onnx", &onnx::external("m.data", floats));
    File::create(room.path("m.data")).unwrap().set_len(4 * floats).unwrap();
    room
}

/// A room with a model with an embedded constant of `count` float16 elements.
fn room_with_halves(count: u64) -> Room {
    let room = Room::new();
    let head = onnx::halves(count);
    room.put("m.onnx", &head);
    let file = OpenOptions::new().append(true).open(room.path("m.onnx")).unwrap();
    file.set_len(head.len() as u64 + 2 * count).unwrap();
    room
}

/// Waits until a running process is in a state; `false` if it ends before.
fn wait_for(child: &mut Child, ready: impl Fn(u32) -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if ready(child.id()) {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    panic!("nothing happens");
}

/// Whether a process has mapped a file of this name.
fn has_mapped(process: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/maps")).is_ok_and(|maps| maps.contains(name))
}

/// Whether a process has opened a file without a name.
fn writes_unnamed(process: u32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().ends_with("(deleted)"))
}

/// Lets a command write files of `bytes` at most: then writing fails, as on a full disk.
fn limit_files(command: &mut Command, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: two system calls that are safe in a signal handler. Without the signal, writing fails.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

#[test]
fn a_full_disk_keeps_the_old_files() {
    let room = room_with_data(1 << 20);
    room.put("m.ncnn.param", b"old");
    let mut command = room.command("m.onnx");
    limit_files(&mut command, 1 << 16);
    let text = expect(&command.output().unwrap(), "a full disk", 2, "copying from");
    assert!(text.contains("m.ncnn.bin"), "{text}");
    assert_eq!(room.names(), ["m.data", "m.ncnn.param", "m.onnx"]);
    assert_eq!(fs::read(room.path("m.ncnn.param")).unwrap(), b"old");
}

#[test]
fn a_chain_is_written_whole_or_not_at_all() {
    let room = Room::new();
    room.put("m.ncnn.1.param", b"old");
    let mut command =
        room.command(&format!("{} -o m.ncnn.param --split-at r2", room::fixture("network/digits")));
    // The first net is smaller, the second one larger.
    limit_files(&mut command, 1 << 15);
    expect(&command.output().unwrap(), "a full disk", 2, "m.ncnn.2.bin");
    assert_eq!(room.names(), ["m.ncnn.1.param"]);
    assert_eq!(fs::read(room.path("m.ncnn.1.param")).unwrap(), b"old");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let room = room_with_data(4);
    // No user can create files there.
    let text = room.expect("m.onnx /proc/a.param", 2, "the folder is not writable");
    assert!(text.contains("/proc"), "{text}");
    assert_eq!(room.names(), ["m.data", "m.onnx"]);
}

#[test]
fn a_run_that_is_killed_leaves_nothing() {
    for (model, line) in [
        (onnx::external("m.data", FLOATS), "m.onnx"),
        (onnx::external_sum("m.data", FLOATS), "m.onnx --split-at r"),
    ] {
        let room = room_with_data(FLOATS);
        room.put("m.onnx", &model);
        is_killed_without_a_trace(&room, line);
    }
}

/// So many that a run can be killed while it writes them.
const FLOATS: u64 = 1 << 26;

fn is_killed_without_a_trace(room: &Room, line: &str) {
    room.put("m.ncnn.param", b"old");
    let mut killed = false;
    for _ in 0..5 {
        let mut child = room.command(line).stderr(Stdio::null()).spawn().unwrap();
        if wait_for(&mut child, writes_unnamed) {
            std::thread::sleep(Duration::from_millis(2));
            child.kill().unwrap();
        }
        if child.wait().unwrap().signal() == Some(libc::SIGKILL) {
            killed = true;
            break;
        }
        room.names().into_iter().filter(|name| name.starts_with("m.ncnn.")).for_each(|name| {
            fs::remove_file(room.path(&name)).unwrap();
        });
        room.put("m.ncnn.param", b"old");
    }
    assert!(killed, "every run ended before it could be killed");
    assert_eq!(room.names(), ["m.data", "m.ncnn.param", "m.onnx"]);
    assert_eq!(fs::read(room.path("m.ncnn.param")).unwrap(), b"old");
}

#[test]
fn a_hard_link_to_the_model_is_replaced() {
    let room = room_with_data(16);
    fs::hard_link(room.path("m.data"), room.path("a.bin")).unwrap();
    room.expect("m.onnx a.param a.bin", 0, "");
    assert_eq!(fs::read(room.path("m.data")).unwrap(), [0; 64]);
    std::os::unix::fs::symlink("m.data", room.path("b.bin")).unwrap();
    room.expect("m.onnx b.param b.bin", 2, "would overwrite data of the model");
    room.expect("m.onnx b.param m.data", 2, "would overwrite data of the model");
    assert_eq!(fs::read(room.path("m.data")).unwrap(), [0; 64]);
}

#[test]
fn a_truncated_model_is_reported() {
    let room = room_with_halves(1 << 25);
    let mut child = room.command("m.onnx").stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait_for(&mut child, |process| has_mapped(process, "m.onnx")), "it was not mapped");
    OpenOptions::new().write(true).open(room.path("m.onnx")).unwrap().set_len(4096).unwrap();
    expect(&child.wait_with_output().unwrap(), "a model that is truncated", 2, "became shorter");
    assert_eq!(room.names(), ["m.onnx"]);
}

#[test]
fn a_changed_model_is_reported() {
    let room = room_with_halves(1 << 25);
    let mut child = room.command("m.onnx").stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait_for(&mut child, |process| has_mapped(process, "m.onnx")), "it was not mapped");
    OpenOptions::new().append(true).open(room.path("m.onnx")).unwrap().write_all(&[0; 2]).unwrap();
    expect(
        &child.wait_with_output().unwrap(),
        "a model that is changed",
        2,
        "was changed after it was opened",
    );
    assert_eq!(room.names(), ["m.onnx"]);
}

/// Standard output on a full disk.
#[test]
fn results_that_are_lost_are_an_error() {
    let room = room_with_data(1000);
    for line in
        ["batch m.onnx -o out --json-lines", "m.onnx a.param --message-format json", "check out/m.ncnn.param"]
    {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = room.command(line).stdout(full).output().unwrap();
        expect(&output, line, 2, "standard output cannot be written: No space left on device");
    }
}

#[test]
fn concurrent_runs_leave_consistent_files() {
    let room = Room::new();
    let sizes = [1000_u64, 2000, 3000, 4000];
    for floats in sizes {
        room.put(&format!("{floats}.onnx"), &onnx::external(&format!("{floats}.data"), floats));
        File::create(room.path(&format!("{floats}.data"))).unwrap().set_len(4 * floats).unwrap();
    }
    for _ in 0..10 {
        let start = |floats: u64| {
            room.command(&format!("{floats}.onnx a.param a.bin")).stderr(Stdio::null()).spawn().unwrap()
        };
        let children: Vec<Child> = sizes.into_iter().map(start).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let floats = fs::metadata(room.path("a.bin")).unwrap().len() / 4;
        let param = fs::read_to_string(room.path("a.param")).unwrap();
        assert!(param.contains(&format!(" 0={floats}")), "{floats} floats beside {param}");
    }
    assert_eq!(room.names().len(), 2 * sizes.len() + 2);
}
