//! The proof without a runtime of every fixture: no part of a right net differs.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use onnx2ncnn::ncnn::Net;
use onnx2ncnn::{Converter, Input, Proof, Quantization, State};

/// The least part of all windows that is covered: fixtures are mostly single operators, some of them rare.
const COVERED: f64 = 0.98;

fn models() -> Vec<PathBuf> {
    let folders = fs::read_dir("fixtures").unwrap().map(|folder| folder.unwrap().path());
    let cases = folders.filter(|path| path.is_dir()).flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut models: Vec<PathBuf> = cases.map(|case| case.unwrap().path().join("model.onnx")).collect();
    models.retain(|path| path.exists());
    models.sort();
    models
}

/// Returns the proofs at each size; `None` for a model that is refused.
fn prove(converter: &Converter, path: PathBuf) -> Option<Vec<Proof>> {
    let model = Input::Path(path.clone());
    let conversion = converter.convert(&model).ok()?;
    let (mut param, mut bin) = (Vec::new(), Vec::new());
    conversion.write_to(&mut param, &mut bin).unwrap();
    let net = Net::read(&param, bin.into()).unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
    assert_eq!(net.layers.len(), conversion.net().layers.len(), "{}", path.display());
    Some(
        conversion
            .prove(converter, &model, &net)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    )
}

#[test]
fn no_part_of_a_right_net_differs() {
    let (models, next) = (models(), AtomicUsize::new(0));
    let (states, wrong) = (Mutex::new(BTreeMap::<State, usize>::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some(path) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
            for window in
                prove(&Converter::new(), path.clone()).into_iter().flatten().flat_map(|proof| proof.windows)
            {
                *states.lock().unwrap().entry(window.state).or_default() += 1;
                if window.state == State::Differs {
                    let text = format!("{}: \"{}\": {}", path.display(), window.value, window.reason);
                    wrong.lock().unwrap().push(text);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (states, wrong) = (states.into_inner().unwrap(), wrong.into_inner().unwrap());
    println!("{states:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let count =
        |state: State| f64::from(u32::try_from(states.get(&state).copied().unwrap_or_default()).unwrap());
    let covered = count(State::Proved) + count(State::Tested);
    assert!(covered >= COVERED * (covered + count(State::NotCovered)), "{states:?}");
}

fn differing(converter: &Converter, path: PathBuf) -> Vec<String> {
    let proofs = prove(converter, path.clone()).into_iter().flatten();
    let windows = proofs.flat_map(|proof| proof.windows).filter(|window| window.state < State::Tested);
    windows.map(|window| format!("{}: \"{}\": {}", path.display(), window.value, window.reason)).collect()
}

/// The steps after the end of a sequence do not change its state.
#[test]
fn weights_of_half_precision_keep_the_state() {
    let path = PathBuf::from("fixtures/recurrent/rnn_of_one_length/model.onnx");
    assert_eq!(differing(&Converter::new().fp16(true), path), [""; 0]);
}

#[test]
fn nets_without_the_rounding_of_the_model_compute_it_but_for_steps() {
    let quantized: Vec<PathBuf> =
        models().into_iter().filter(|path| path.starts_with("fixtures/quantized")).collect();
    for quantization in [Quantization::Float, Quantization::Int8] {
        let converter = Converter::new().quantization(quantization);
        for path in &quantized {
            assert_eq!(differing(&converter, path.clone()), [""; 0]);
        }
    }
    assert!(quantized.len() > 30, "{}", quantized.len());
}
