//! A model in memory, and the operations on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use js_sys::Uint8Array;
use onnx2ncnn::report::Report;
use onnx2ncnn::{Input, ModelBytes};
use wasm_bindgen::prelude::{JsError, wasm_bindgen};

use crate::chain::Chain;
use crate::conversion::{Conversion, Files, Simplified};
use crate::failure::{Result, thrown};
use crate::options;

/// The bytes of a file, which are added in parts.
#[wasm_bindgen]
pub struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// Returns the bytes.
    #[cfg(feature = "verify")]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[wasm_bindgen]
impl Buffer {
    /// Reserves memory for a file.
    #[wasm_bindgen(constructor)]
    pub fn new(size: usize) -> Result<Buffer> {
        let mut bytes = Vec::new();
        let full = |_| JsError::new("the file does not fit the 4 GB of memory that WebAssembly has");
        bytes.try_reserve_exact(size).map_err(full)?;
        Ok(Buffer { bytes })
    }

    /// Adds the next part.
    pub fn append(&mut self, part: &Uint8Array) -> Result<()> {
        let at = self.bytes.len();
        let end = at.saturating_add(usize::try_from(part.length())?);
        self.bytes.resize(end, 0);
        if let Some(target) = self.bytes.get_mut(at..) {
            part.copy_to(target);
        }
        Ok(())
    }
}

/// A model and its external data.
#[wasm_bindgen]
pub struct Model {
    name: String,
    model: Bytes,
    external_data: BTreeMap<String, Bytes>,
}

#[wasm_bindgen]
impl Model {
    /// Takes the bytes of a model. Reports have the name.
    #[wasm_bindgen(constructor)]
    pub fn new(name: String, model: Buffer) -> Model {
        Model { name, model: model.bytes.into(), external_data: BTreeMap::new() }
    }

    /// Returns the locations of the external data to which the model refers.
    #[wasm_bindgen(js_name = dataLocations)]
    pub fn data_locations(&self) -> Result<Vec<String>> {
        Ok(self.bytes().data_locations().map_err(thrown)?.into_iter().collect())
    }

    /// Adds a file of external data.
    #[wasm_bindgen(js_name = addData)]
    pub fn add_data(&mut self, location: String, data: Buffer) {
        self.external_data.insert(location, data.bytes.into());
    }

    /// Converts the model. `options` is JSON.
    pub fn convert(&self, options: &str) -> Result<Conversion> {
        let converter = options::converter(options)?;
        Ok(Conversion::new(converter.convert(&self.input()).map(Arc::new), self.files()))
    }

    /// Converts the model as a chain of nets. `cuts` is JSON: a list of lists of names.
    #[wasm_bindgen(js_name = convertChain)]
    pub fn convert_chain(&self, cuts: &str, options: &str) -> Result<Chain> {
        let cuts: Vec<Vec<String>> = serde_json::from_str(cuts).map_err(thrown)?;
        let chain = options::converter(options)?.convert_chain(&self.input(), &cuts).map_err(thrown)?;
        Ok(Chain::new(chain, self.files()))
    }

    /// Simplifies the model. `options` is JSON.
    pub fn simplify(&self, options: &str) -> Result<Simplified> {
        let simplified = options::converter(options)?.simplify(&self.input()).map_err(thrown)?;
        Ok(Simplified::new(simplified))
    }

    /// Returns the report on the contents of the model as JSON, and whether it can be converted.
    pub fn inspect(&self, options: &str) -> Result<String> {
        let converter = options::converter(options)?;
        let report = match converter.convert(&self.input()) {
            Ok(conversion) => Report::convertible(&conversion.inspection().map_err(thrown)?),
            Err(refusal) => refusal.report(),
        };
        self.files().name(report).to_json().map_err(thrown)
    }
}

impl Model {
    fn bytes(&self) -> ModelBytes {
        let model = ModelBytes::new(self.model.clone());
        let data = self.external_data.iter();
        data.fold(model, |model, (location, bytes)| model.external_data(location, bytes.clone()))
    }

    /// Returns the model as the library reads it.
    pub fn input(&self) -> Input {
        Input::from(self.bytes())
    }

    fn files(&self) -> Files {
        Files { model: self.name.clone(), data: self.external_data.keys().cloned().collect() }
    }
}
