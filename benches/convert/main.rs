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

/// Prints what a chain takes, and what one of a tenth of the nodes takes: the large one once and the small one ten times, in some rounds.
/// The machine is another one from second to second, and both meet all of it.
fn grow(name: &str, folder: &Path, link: Link) {
    const ROUNDS: u32 = 7;
    const TIMES: u32 = 10;
    let [small, large] = [10_000, 100_000].map(|nodes| link.write(folder, nodes));
    let [param, bin] = ["net.param", "net.bin"].map(|name| folder.join(name));
    let convert = |onnx: &Path| {
        let paths = [onnx, param.as_path(), bin.as_path()];
        run(Command::new(env!("CARGO_BIN_EXE_onnx2ncnn")).arg("--quiet").args(paths))
    };
    let (mut of_small, mut of_large) = (Duration::ZERO, Duration::ZERO);
    let mut peak = 0;
    for _ in 0..ROUNDS {
        for time in 0..TIMES {
            of_small += convert(&small).time;
            if time == TIMES / 2 {
                let conversion = convert(&large);
                of_large += conversion.time;
                peak = peak.max(conversion.peak_bytes);
            }
        }
    }
    let [of_small, of_large] =
        [of_small / (ROUNDS * TIMES), of_large / ROUNDS].map(|time| time.as_secs_f64());
    println!(
        "{name:<24}{of_large:>8.3} s{of_small:>8.3} s{:>8.1}{:>7} MB",
        of_large / of_small,
        peak / 1_000_000
    );
    for path in [small, large] {
        fs::remove_file(path).unwrap();
    }
}

/// Prints the medians of some rounds, in which one command goes first and the other in turns. Before each, all that was written has
/// reached the disk: none pays for another's.
fn compare(name: &str, folder: &Path, model: &Model) {
    const ROUNDS: usize = 8;
    let (onnx, weights) = model.write(folder);
    let [param, bin, copy] = ["net.param", "net.bin", "copy"].map(|name| folder.join(name));
    let (mut converted, mut copied) = (Vec::new(), Vec::new());
    let mut peak = 0;
    let mut convert = || {
        run(&mut Command::new("sync"));
        let conversion =
            run(Command::new(env!("CARGO_BIN_EXE_onnx2ncnn")).arg("--quiet").args([&onnx, &param, &bin]));
        assert!(fs::metadata(&bin).unwrap().len() >= model.weight_bytes());
        converted.push(conversion.time);
        peak = peak.max(conversion.peak_bytes);
        for file in [&param, &bin] {
            fs::remove_file(file).unwrap();
        }
    };
    let mut copy = || {
        run(&mut Command::new("sync"));
        copied.push(run(Command::new("cp").args([&weights, &copy])).time);
        fs::remove_file(&copy).unwrap();
    };
    for _ in 0..ROUNDS / 2 {
        convert();
        copy();
        copy();
        convert();
    }
    let [converted, copied] = [converted, copied].map(median);
    let ratio = converted.as_secs_f64() / copied.as_secs_f64();
    println!(
        "{name:<24}{:>8.2} s{:>8.2} s{ratio:>8.2}{:>7} MB",
        converted.as_secs_f64(),
        copied.as_secs_f64(),
        peak / 1_000_000
    );
    fs::remove_file(&onnx).unwrap();
    let _ = fs::remove_file(&weights);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
