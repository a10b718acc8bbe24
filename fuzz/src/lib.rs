//! What the fuzz targets share: models made from the fixtures, and the conversion of bytes.

pub mod edit;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs, process};

use onnx2ncnn::error::{ErrorKind, Errors};
use onnx2ncnn::{Converter, Input};
use prost::Message;

pub mod proto {
    //! The messages of ONNX.
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

/// Largest model that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

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

/// Converts a model, and writes the net where there is one. An error is as good as a net, unless the converter says that it is at fault.
pub fn convert_bytes(model: &[u8]) {
    let file = |ending: &str| env::temp_dir().join(format!("onnx2ncnn-fuzz-{}.{ending}", process::id()));
    let [path, param, bin] = ["onnx", "param", "bin"].map(file);
    fs::write(&path, model).unwrap();
    let errors = match Converter::new().max_size(MAX_SIZE).check(true).convert(&Input::Path(path)) {
        Ok(conversion) => conversion.write(&param, &bin).err().map(Errors::from),
        Err(errors) => Some(errors),
    };
    for error in errors.iter().flat_map(Errors::iter) {
        assert!(error.kind() != ErrorKind::Internal, "{error:?}");
    }
}
