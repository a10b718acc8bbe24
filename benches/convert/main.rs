//! Converts large models with the command and copies the same bytes with `cp`, in turns: times, their ratio, peak memory.
//!
//! Conversion is meant to be a copy: what needs no change goes from file to file, and nothing holds all weights.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]
// `wait4` waits for the child; the lint knows the standard library's way alone.
#![allow(clippy::zombie_processes)]

mod model;
mod run;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use model::{Model, Operator, Place};
use run::run;

fn main() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    println!("{:<24}{:>10}{:>10}{:>8}{:>10}", "", "convert", "cp", "ratio", "peak");
    let model = |operator, layers, place| Model { operator, layers, place };
    compare("1 GB in the model", &folder, &model(Operator::Conv, 27, Place::Inside), 5);
    compare("1 GB that is transposed", &folder, &model(Operator::MatMul, 27, Place::Inside), 5);
    compare("4 GB of external data", &folder, &model(Operator::Conv, 108, Place::External), 3);
    fs::remove_dir_all(&folder).unwrap();
}

/// Prints the medians of some rounds. Before each command all that was written has reached the disk: none pays for another's.
fn compare(name: &str, folder: &Path, model: &Model, rounds: usize) {
    let (onnx, weights) = model.write(folder);
    let [param, bin, copy] = ["net.param", "net.bin", "copy"].map(|name| folder.join(name));
    let (mut converted, mut copied) = (Vec::new(), Vec::new());
    let mut peak = 0;
    for _ in 0..rounds {
        run(&mut Command::new("sync"));
        let conversion =
            run(Command::new(env!("CARGO_BIN_EXE_onnx2ncnn")).arg("--quiet").args([&onnx, &param, &bin]));
        assert!(fs::metadata(&bin).unwrap().len() >= model.weight_bytes());
        converted.push(conversion.time);
        peak = peak.max(conversion.peak_bytes);
        for file in [&param, &bin] {
            fs::remove_file(file).unwrap();
        }
        run(&mut Command::new("sync"));
        copied.push(run(Command::new("cp").args([&weights, &copy])).time);
        fs::remove_file(&copy).unwrap();
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
