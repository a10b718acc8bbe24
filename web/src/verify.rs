//! The comparison of a net with its model, without a runtime.

use onnx2ncnn::Proof;
use onnx2ncnn::ncnn::Net;
use serde_json::json;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::failure::{Result, thrown};
use crate::model::{Buffer, Model};
use crate::options;

#[wasm_bindgen]
impl Model {
    /// Compares the net in the files, or else the net that the options (JSON) convert, with the model.
    /// Returns JSON: `{"verdict": ..., "proofs": [...]}`, with a proof for each of the sizes that were tried.
    pub fn verify(&self, options: &str, param: Option<String>, bin: Option<Buffer>) -> Result<String> {
        let (converter, input) = (options::converter(options)?, self.input());
        let conversion = converter.convert(&input).map_err(thrown)?;
        let (param, bin) = match (param, bin) {
            (Some(param), Some(bin)) => (param.into_bytes(), bin.into_bytes()),
            (None, None) => {
                let (mut param, mut bin) = (Vec::new(), Vec::new());
                conversion.write_to(&mut param, &mut bin).map_err(thrown)?;
                (param, bin)
            }
            _ => return Err(thrown("a net has both files")),
        };
        let net = conversion.read_net(&param, bin.into()).map_err(thrown)?;
        let proofs = conversion.prove(&converter, &input, &net).map_err(thrown)?;
        Ok(json!({ "verdict": Proof::verdict(&proofs), "proofs": proofs }).to_string())
    }
}
