//! Compares the conversion of large models with `cp` of the same bytes, in turns: times, their ratio, peak
//! memory; and the conversion of chains of 100,000 nodes with those of 10,000.
//!
//! Conversion should cost as much as a copy: unchanged weights go from file to file, and are never all in
//! memory.

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
use run::run;

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

/// Prints the times of a chain, and of one with a tenth of the nodes: in each round the large one once,
/// between ten runs of the small one. Only the [second] time counts.
fn grow(name: &str, folder: &Path, link: Link) {
    const ROUNDS: usize = 9;
    const TIMES: usize = 10;
    let [small, large] = [10_000, 100_000].map(|nodes| link.write(folder, nodes));
    let [param, bin] = ["net.param", "net.bin"].map(|name| folder.join(name));
    let convert = |onnx: &Path| {
        let paths = [onnx, param.as_path(), bin.as_path()];
        run(Command::new(env!("CARGO_BIN_EXE_onnx2ncnn")).arg("--quiet").args(paths))
    };
    let some_small = || (0..TIMES / 2).map(|_| second(|| convert(&small)).time);
    let mut peak = 0;
    let rounds = (0..ROUNDS).map(|_| {
        let mut of_small: Vec<Duration> = some_small().collect();
        let conversion = second(|| convert(&large));
        of_small.extend(some_small());
        peak = peak.max(conversion.peak_bytes);
        (conversion.time, median(of_small))
    });
    let rounds = rounds.collect();
    print(name, rounds, peak);
    for path in [small, large] {
        fs::remove_file(path).unwrap();
    }
}

/// Prints the times of a conversion and of `cp`, in alternating order. Before each run all written data is
/// flushed. Only the [second] time counts.
fn compare(name: &str, folder: &Path, model: &Model) {
    const ROUNDS: usize = 9;
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
    let mut peak = 0;
    let rounds = (0..ROUNDS).map(|round| {
        let before = (round % 2 == 1).then(|| second(cp));
        let conversion = second(convert);
        let copying = before.unwrap_or_else(|| second(cp));
        peak = peak.max(conversion.peak_bytes);
        (conversion.time, copying.time)
    });
    let rounds = rounds.collect();
    print(name, rounds, peak);
    fs::remove_file(&onnx).unwrap();
    let _ = fs::remove_file(&weights);
}

/// Runs something twice and returns the second result, when memory that the first run freed is reused. Free
/// memory of a virtual machine may have been returned to the host, and getting it back takes longer than
/// copying a gigabyte.
///
/// If the system returns memory during the runs, 4 GB take up to twice as long, also with `cp`. Linux returns
/// free blocks of `page_reporting_order` and above (`/sys/module/page_reporting/parameters`).
fn second<T>(does: impl Fn() -> T) -> T {
    does();
    does()
}

/// Prints the medians of two series, and their ratio.
fn print(name: &str, rounds: Vec<(Duration, Duration)>, peak_bytes: u64) {
    let (ones, others) = rounds.into_iter().unzip();
    let [one, other] = [ones, others].map(|times| median(times).as_secs_f64());
    let (ratio, peak) = (one / other, peak_bytes / 1_000_000);
    println!("{name:<24}{one:>8.3} s{other:>8.3} s{ratio:>8.2}{peak:>7} MB");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
