//! Random graphs and mutated fixtures, with random options in a part: their nets compute the same, by the
//! proof without a runtime. [fuzz/README.md](../fuzz/README.md) says how to run more of them.

// The messages have fewer fields here than in the fuzz targets, which share the drawing of models.
#![allow(clippy::needless_update)]
#![allow(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)] // A test may fail where it stands.

#[path = "../fuzz/src/models/mod.rs"]
mod models;

mod proto {
    //! The messages of ONNX.
    #![allow(clippy::all, dead_code, missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, thread};

use models::oracle::{Tally, judge};
use onnx2ncnn::State;

/// The models of a run, and the seed of the first one.
const COUNT: u64 = 4000;
const SEED: u64 = 0;
/// The most reasons of windows that are not covered that are printed.
const REASONS: usize = 20;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Judges the case of a seed, or the model of the environment variable `MODEL` with `OPTIONS`. A model with
/// a fault, or that ends the process, stays in the folder of the environment variable `KEEP`.
fn check(seed: u64, tally: &mut Tally) -> Vec<String> {
    let case = match env::var("MODEL") {
        Ok(path) => {
            let options = env::var("OPTIONS").unwrap_or_else(|_| "{}".to_owned());
            models::Case { model: fs::read(path).unwrap(), options }
        }
        Err(_) => models::case(seed),
    };
    let kept = env::var("KEEP").ok().map(|folder| Path::new(&folder).join(format!("{seed}.onnx")));
    if let Some(path) = &kept {
        fs::write(path, &case.model).unwrap();
    }
    let judged = catch_unwind(AssertUnwindSafe(|| judge(case.model.clone(), &case.options, tally)));
    let faults = judged.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        vec![format!(
            "a panic: {:?}",
            text.or_else(|| payload.downcast_ref().map(|text: &&str| (*text).to_owned()))
        )]
    });
    if let (true, Some(path)) = (faults.is_empty(), kept) {
        fs::remove_file(path).unwrap();
    }
    faults.into_iter().map(|fault| format!("SEED={seed} {}: {fault}", case.options)).collect()
}

#[test]
fn random_nets_compute_their_models() {
    let first = number("SEED", SEED);
    let (next, last) = (AtomicU64::new(first), first + number("COUNT", COUNT));
    let (total, wrong) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= last {
                break;
            }
            let faults = check(seed, &mut tally);
            if env::var("KEEP").is_ok() {
                faults.iter().for_each(|fault| println!("{fault}"));
            }
            wrong.lock().unwrap().extend(faults);
        }
        total.lock().unwrap().add(tally);
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (tally, wrong) = (total.into_inner().unwrap(), wrong.into_inner().unwrap());
    let windows = |state: State| tally.windows.get(&state).copied().unwrap_or_default();
    let states = [State::Proved, State::Tested, State::NotCovered, State::Differs].map(windows);
    let [proved, tested, open, differ] = states;
    println!("{} models are converted, and refused: {:?}", tally.converted, tally.refused);
    println!("windows: {proved} are proved, {tested} tested, {open} not covered, {differ} differ");
    println!("without a proof: {:#?}", most(&tally.unproved));
    println!("not covered: {:#?}", most(&tally.open));
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the most frequent reasons.
fn most(counts: &BTreeMap<String, usize>) -> Vec<(usize, &String)> {
    let mut list: Vec<(usize, &String)> = counts.iter().map(|(reason, count)| (*count, reason)).collect();
    list.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    list.truncate(REASONS);
    list
}
