//! Operations on a model that the fuzz targets share, and mutations of models.

pub mod edit;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

use onnx2ncnn::error::ErrorKind;
use onnx2ncnn::{Converter, Input, Refusal, Storage};
use prost::Message;

pub mod proto {
    //! The messages of ONNX.
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

/// The maximum bytes of a model.
const MAX_SIZE: u64 = 1 << 20;

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

/// The models of the fixtures.
pub static FIXTURES: LazyLock<Vec<proto::ModelProto>> = LazyLock::new(|| {
    let mut models = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")];
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("model.onnx") {
                models.extend(proto::ModelProto::decode(fs::read(path).unwrap().as_slice()));
            }
        }
    }
    models
});

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
    let Ok(mut model) = proto::ModelProto::decode(model) else { return };
    edit::give_inputs(&mut model);
    let folded = converter().simplify(&input(&model.encode_to_vec()));
    judge(folded.and_then(|model| Ok(model.write(&file("folded.onnx"), &Storage::AsNeeded)?)));
}

/// Converts a model, and writes the net if there is one.
pub fn convert_bytes(model: &[u8]) {
    let net = converter().convert(&input(model));
    judge(net.and_then(|net| Ok(net.write(file("param"), file("bin"))?)));
}
