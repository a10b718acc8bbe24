//! A converted, refused or simplified model.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use js_sys::Function;
use onnx2ncnn::Refusal;
use onnx2ncnn::report::Report;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::failure::{Result, thrown};
use crate::sink::Sink;

/// The names of the files of a model.
#[derive(Clone)]
pub struct Files {
    pub model: String,
    pub data: Vec<String>,
}

impl Files {
    /// Puts the names into a report: the library has bytes without names.
    pub fn name(&self, mut report: Report) -> Report {
        if let Some(model) = &mut report.model {
            model.file.clone_from(&self.model);
            model.data_files.clone_from(&self.data);
        }
        report
    }
}

/// The result of a conversion: a net, or a refusal.
#[wasm_bindgen]
pub struct Conversion {
    result: std::result::Result<Arc<onnx2ncnn::Conversion>, Refusal>,
    files: Files,
}

impl Conversion {
    /// Wraps a result of the library.
    pub fn new(result: std::result::Result<Arc<onnx2ncnn::Conversion>, Refusal>, files: Files) -> Conversion {
        Conversion { result, files }
    }

    fn converted(&self) -> Result<&onnx2ncnn::Conversion> {
        self.result.as_deref().map_err(thrown)
    }

    fn full_report(&self) -> Result<Report> {
        let report = match &self.result {
            Ok(conversion) => {
                conversion.written().and_then(|written| conversion.report(written)).map_err(thrown)?
            }
            Err(refusal) => refusal.report(),
        };
        Ok(self.files.name(report))
    }
}

#[wasm_bindgen]
impl Conversion {
    /// Whether the model was converted. A refused one has only a report.
    #[wasm_bindgen(getter)]
    pub fn done(&self) -> bool {
        self.result.is_ok()
    }

    /// Returns the text of the `.param` file.
    pub fn param(&self) -> Result<String> {
        Ok(self.converted()?.net().param_text())
    }

    /// The bytes of the `.bin` file, if they are known before it is written.
    #[wasm_bindgen(js_name = binBytes)]
    pub fn bin_bytes(&self) -> Result<Option<u64>> {
        self.converted()?.net().bin_bytes().map_err(thrown)
    }

    /// Passes the bytes of the `.bin` file to a function, in parts.
    #[wasm_bindgen(js_name = writeBin)]
    pub fn write_bin(&self, receive: &Function) -> Result<()> {
        let mut bin = Sink::new(receive);
        self.converted()?.write_to(io::sink(), &mut bin).map_err(thrown)?;
        bin.flush().map_err(thrown)
    }

    /// Passes the bytes of the simplified model to a function, in parts, if the options ask for it.
    #[wasm_bindgen(js_name = writeOnnx)]
    pub fn write_onnx(&self, receive: &Function) -> Result<()> {
        let mut onnx = Sink::new(receive);
        self.converted()?.write_onnx_to(&mut onnx).map_err(thrown)?;
        onnx.flush().map_err(thrown)
    }

    /// Returns a program that runs the net, and the files that it needs next to it, as a JSON object of names
    /// and texts. The ending of its name tells the language: `.py`, `.cpp` or `.kt`.
    pub fn program(&self, name: &str, param: &str, bin: &str) -> Result<String> {
        let [name, param, bin] = [name, param, bin].map(Path::new);
        let files = self.converted()?.program(name, param, bin).map_err(thrown)?;
        let files = files.into_iter().map(|(path, text)| (path.display().to_string(), text));
        serde_json::to_string(&files.collect::<BTreeMap<_, _>>()).map_err(thrown)
    }

    /// Returns what the model says about its use as YAML, which ultralytics reads next to a net with the option
    /// `numbered`; nothing if it cannot run the net.
    pub fn metadata(&self) -> Result<Option<String>> {
        let net = self.converted()?;
        net.reads_one_picture().then(|| net.metadata().map_err(thrown)).transpose()
    }

    /// Returns the report as JSON.
    pub fn report(&self) -> Result<String> {
        self.full_report()?.to_json().map_err(thrown)
    }

    /// Returns the report as a page.
    pub fn html(&self) -> Result<String> {
        self.full_report()?.to_html().map_err(thrown)
    }
}

/// A simplified model.
#[wasm_bindgen]
pub struct Simplified {
    simplified: Arc<onnx2ncnn::Simplified>,
}

impl Simplified {
    /// Wraps a simplified model of the library.
    pub fn new(simplified: impl Into<Arc<onnx2ncnn::Simplified>>) -> Simplified {
        Simplified { simplified: simplified.into() }
    }
}

#[wasm_bindgen]
impl Simplified {
    /// The warnings.
    #[wasm_bindgen(getter)]
    pub fn warnings(&self) -> Vec<String> {
        self.simplified.warnings.clone()
    }

    /// Passes the bytes of the model to a function, in parts.
    pub fn write(&self, receive: &Function) -> Result<()> {
        let mut onnx = Sink::new(receive);
        self.simplified.write_to(&mut onnx).map_err(thrown)?;
        onnx.flush().map_err(thrown)
    }
}
