//! The model to read: a path, or bytes that Python keeps.

use std::path::PathBuf;

use bytes::Bytes;
use onnx2ncnn::{Input, ModelBytes};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// A model, and its external data by location.
#[derive(FromPyObject)]
pub enum Model {
    /// The bytes of an object of Python.
    #[pyo3(transparent)]
    Bytes(PyBackedBytes),
    /// A file.
    #[pyo3(transparent)]
    Path(PathBuf),
    /// Bytes with external data by location.
    Parts(PyBackedBytes, Vec<(String, PyBackedBytes)>),
}

impl From<Model> for Input {
    fn from(model: Model) -> Input {
        match model {
            Model::Bytes(bytes) => Input::from(shared(bytes)),
            Model::Path(path) => Input::from(path),
            Model::Parts(bytes, external) => {
                let model = ModelBytes::new(shared(bytes));
                let add = |model: ModelBytes, (location, bytes)| model.external_data(location, shared(bytes));
                Input::from(external.into_iter().fold(model, add))
            }
        }
    }
}

/// Returns the bytes of an object of Python without a copy; slices of them keep the object alive.
pub fn shared(bytes: PyBackedBytes) -> Bytes {
    Bytes::from_owner(bytes)
}
