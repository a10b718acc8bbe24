//! Operations on a model that the fuzz targets share, and their mutations of models.

pub mod models;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

use fastrand::Rng;
use models::{FIXTURES, edit, options, oracle, pick};
use onnx2ncnn::error::ErrorKind;
use onnx2ncnn::{Converter, Input, Refusal, Storage};
use prost::Message;
use proto::tensor_shape_proto::dimension::Value as Size;
use proto::type_proto::Value as Kind;
use proto::{ModelProto, TensorProto};

pub mod proto {
    //! The messages of ONNX.
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

/// The maximum bytes of a model.
const MAX_SIZE: u64 = 1 << 20;

/// The free sizes of constants instead of inputs, and the maximum number of their elements.
const FREE_SIZE: i64 = 3;
const MAX_GIVEN: usize = 1 << 16;

/// The maximum bytes of memory of a run: a model of some kilobytes must not take a gigabyte.
const MAX_HELD: usize = 1 << 30;

/// Ends the process at a larger allocation.
struct Bounded;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > MAX_HELD {
            eprintln!("{} bytes more than may be held", layout.size());
            process::abort();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// A file of this process.
fn file(ending: &str) -> PathBuf {
    env::temp_dir().join(format!("onnx2ncnn-fuzz-{}.{ending}", process::id()))
}

fn input(model: &[u8]) -> Input {
    let path = file("onnx");
    fs::write(&path, model).unwrap();
    Input::Path(path)
}

fn converter() -> Converter {
    Converter::new().max_size(MAX_SIZE).check(true)
}

/// Errors are valid results, except for internal ones.
fn judge<T>(done: Result<T, impl Into<Refusal>>) {
    let refusal: Option<Refusal> = done.err().map(Into::into);
    for error in refusal.iter().flat_map(Refusal::iter) {
        assert!(error.kind() != ErrorKind::Internal, "{error:?}");
    }
}

/// Reads a model and writes it unchanged, with its constants.
pub fn read_bytes(model: &[u8]) {
    let whole = converter().expose(&input(model), &BTreeSet::new());
    judge(whole.and_then(|model| Ok(model.write(&file("read.onnx"), &Storage::AsNeeded)?)));
}

/// Infers types and shapes.
pub fn infer_model(model: &[u8]) {
    judge(converter().inspect(&input(model)));
}

/// Folds a model with constant inputs, and writes the rest.
pub fn fold_model(model: &[u8]) {
    let Ok(mut model) = ModelProto::decode(model) else { return };
    give_inputs(&mut model);
    let folded = converter().simplify(&input(&model.encode_to_vec()));
    judge(folded.and_then(|model| Ok(model.write(&file("folded.onnx"), &Storage::AsNeeded)?)));
}

/// Converts a model, and writes the net if there is one.
pub fn convert_bytes(model: &[u8]) {
    let net = converter().convert(&input(model));
    judge(net.and_then(|net| Ok(net.write(file("param"), file("bin"))?)));
}

/// Converts a model, with random options in one of three cases, and proves that the net computes the same.
pub fn prove_bytes(model: &[u8]) {
    let Ok(decoded) = ModelProto::decode(model) else { return };
    let sum = model.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let mut rng = Rng::with_seed(sum);
    let options = if rng.u8(0..3) == 0 { options::options(&decoded, &mut rng) } else { "{}".to_owned() };
    let faults = oracle::judge(model.to_vec(), &options, &mut oracle::Tally::default());
    assert!(faults.is_empty(), "with {options}: {}", faults.join("\n"));
}

/// libFuzzer's mutation of an input: of the parts of a model, if it is one, and sometimes of any bytes.
/// Fixtures and random graphs are mutated, too.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    let bytes = data.get(..size).unwrap_or_default();
    let model = match rng.u8(0..16) {
        0 => None,
        1 => pick(&FIXTURES, &mut rng).cloned(),
        2 => Some(models::random(&mut rng)),
        _ => ModelProto::decode(bytes).ok(),
    };
    let changed = model.map(|model| edit::edited(model, &mut rng).encode_to_vec());
    match changed {
        Some(changed) if changed.len() <= max_size => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
}

/// Makes every input a constant: small numbers, or ones and zeros.
fn give_inputs(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else { return };
    for input in std::mem::take(&mut graph.input) {
        let kind = input.r#type.as_ref().and_then(|kind| kind.value.as_ref());
        let Some(Kind::TensorType(kind)) = kind else { continue };
        let sizes = kind.shape.iter().flat_map(|shape| &shape.dim).map(|dim| match &dim.value {
            Some(Size::DimValue(size)) => *size,
            _ => FREE_SIZE,
        });
        let dims: Vec<i64> = sizes.collect();
        let count = dims.iter().try_fold(1_i64, |n, size| n.checked_mul(*size));
        let Some(count) = count.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= MAX_GIVEN) else {
            continue;
        };
        let element = |i: usize| match kind.elem_type {
            Some(1) => (i as f32 * 0.37).sin().to_le_bytes().to_vec(),
            Some(7) => (i as i64 % 5).to_le_bytes().to_vec(),
            Some(6) => (i as i32 % 5).to_le_bytes().to_vec(),
            Some(10) => vec![i as u8, 0x3c],
            Some(11) => (i as f64 * 0.37).sin().to_le_bytes().to_vec(),
            _ => vec![u8::from(i % 3 == 0)],
        };
        graph.initializer.push(TensorProto {
            name: input.name.clone(),
            dims,
            data_type: kind.elem_type,
            raw_data: Some((0..count).flat_map(element).collect()),
            ..TensorProto::default()
        });
    }
}
