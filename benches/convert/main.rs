//! Converts large models with the command and copies the same bytes with `cp`, in turns: times, their ratio, peak memory. And converts
//! chains of 100,000 nodes beside those of 10,000.
//!
//! Conversion is meant to be a copy: what needs no change goes from file to file, and nothing holds all weights.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]
// `wait4` waits for the child; the lint knows the standard library's way alone.
#![allow(clippy::zombie_processes)]

mod chain;
mod message;
mod model;
mod run;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chain::Link;
use model::{Model, Operator, Place};
use run::{Run, run};

fn main() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    println!("{:<24}{:>10}{:>10}{:>8}{:>10}", "", "convert", "cp", "ratio", "peak");
    let model = |operator, layers, place| Model { operator, layers, place };
    compare("1 GB in the model", &folder, &model(Operator::Conv, 27, Place::Inside));
    compare("1 GB that is transposed", &folder, &model(Operator::MatMul, 27, Place::Inside));
    compare("4 GB of external data", &folder, &model(Operator::Conv, 108, Place::External));
    println!("\n{:<24}{:>10}{:>10}{:>8}{:>10}", "", "100,000", "10,000", "ratio", "peak");
    for (name, link) in [
        ("Relu", Link::Relu),
        ("Conv", Link::Conv),
        ("Add of constants", Link::Add),
        ("Add and Relu", Link::Residual),
    ] {
        grow(name, &folder, link);
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Prints what a chain takes, and what one of a tenth of the nodes takes: the large one once and the small one ten times, in some rounds,
/// and the medians. The machine is another one from second to second, and both meet all of it. Only the [second] time counts.
fn grow(name: &str, folder: &Path, link: Link) {
    const ROUNDS: usize = 7;
    const TIMES: usize = 10;
    let [small, large] = [10_000, 100_000].map(|nodes| link.write(folder, nodes));
    let [param, bin] = ["net.param", "net.bin"].map(|name| folder.join(name));
    let convert = |onnx: &Path| {
        let paths = [onnx, param.as_path(), bin.as_path()];
        run(Command::new(env!("CARGO_BIN_EXE_onnx2ncnn")).arg("--quiet").args(paths))
    };
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for time in 0..TIMES {
            of_small.push(second(|| convert(&small)));
            if time == TIMES / 2 {
                of_large.push(second(|| convert(&large)));
            }
        }
    }
    print(name, &of_large, &of_small);
    for path in [small, large] {
        fs::remove_file(path).unwrap();
    }
}

/// Prints the medians of some rounds, in which one command goes first and the other in turns. Before each run all that was written has
/// reached the disk: none pays for another's. Only the [second] time counts.
fn compare(name: &str, folder: &Path, model: &Model) {
    const ROUNDS: usize = 8;
    let (onnx, weights) = model.write(folder);
    let [param, bin, copy] = ["net.param", "net.bin", "copy"].map(|name| folder.join(name));
    let convert = || {
        run(&mut Command::new("sync"));
        let conversion =
            run(Command::new(env!("CARGO_BIN_EXE_onnx2ncnn")).arg("--quiet").args([&onnx, &param, &bin]));
        assert!(fs::metadata(&bin).unwrap().len() >= model.weight_bytes());
        for file in [&param, &bin] {
            fs::remove_file(file).unwrap();
        }
        conversion
    };
    let cp = || {
        run(&mut Command::new("sync"));
        let copying = run(Command::new("cp").args([&weights, &copy]));
        fs::remove_file(&copy).unwrap();
        copying
    };
    let (mut conversions, mut copyings) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            conversions.push(second(convert));
            copyings.push(second(cp));
        } else {
            copyings.push(second(cp));
            conversions.push(second(convert));
        }
    }
    print(name, &conversions, &copyings);
    fs::remove_file(&onnx).unwrap();
    let _ = fs::remove_file(&weights);
}

/// Prints the median times of both, their ratio, and the most memory of the first.
fn print(name: &str, runs: &[Run], others: &[Run]) {
    let [time, other] = [runs, others].map(|runs| median(runs).as_secs_f64());
    let peak = runs.iter().map(|run| run.peak_bytes).max().unwrap() / 1_000_000;
    println!("{name:<24}{time:>8.3} s{other:>8.3} s{:>8.2}{peak:>7} MB", time / other);
}

/// What something gives the second time, when it takes the memory that it gave back the first time. What lies free in a virtual machine
/// may have gone back to the host, and whoever takes it then waits for longer than a gigabyte is copied.
fn second<T>(does: impl Fn() -> T) -> T {
    does();
    does()
}

fn median(runs: &[Run]) -> Duration {
    let mut times: Vec<Duration> = runs.iter().map(|run| run.time).collect();
    times.sort();
    times[times.len() / 2]
}
