//! What the folder of an exporter holds.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{Conversion, Converter};
use crate::error::{Error, Result};
use crate::onnx::{Input, models_in};
use crate::tensor::Dim;

/// The names of models of decoders, the preferred ones first, in the folder or in its folder `onnx`.
const MODELS: [&str; 4] =
    ["decoder_model_merged.onnx", "model.onnx", "decoder_with_past_model.onnx", "decoder_model.onnx"];

/// The files of tokenizers.
const TOKENIZER: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
];

/// The ends of the names of architectures that continue a text.
const DECODERS: [&str; 3] = ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration"];

/// A folder.
pub(super) struct Folder {
    pub path: PathBuf,
    models: Vec<PathBuf>,
    /// The name of the class of transformers, if `config.json` has one.
    architecture: Option<String>,
    pub model_type: Option<String>,
    pub vocabulary: Option<i64>,
    pub begin: Option<i64>,
    /// The tokens that end a text.
    pub ends: Vec<i64>,
    /// The text of the first token and of the last one, for templates.
    pub begin_text: String,
    pub end_text: String,
    pub sampling: Sampling,
    /// The template of chats.
    pub chat: Option<String>,
    /// The names of the files of the tokenizer.
    pub tokenizer: Vec<String>,
}

/// The numbers of sampling, as `generation_config.json` has them.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Sampling {
    pub do_sample: Option<bool>,
    pub temperature: Option<f64>,
    pub top_k: Option<i64>,
    pub top_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
}

impl Folder {
    /// Reads the files around the models.
    ///
    /// # Errors
    ///
    /// `Usage` if `config.json`, the tokenizer or a model is missing; `Io` or `Usage` if a file cannot be
    /// read.
    pub fn read(path: &Path) -> Result<Folder> {
        let mut models = models_in(path);
        models.extend(models_in(&path.join("onnx")));
        models.sort();
        let Some(config) = json(path, "config.json")? else {
            let what = "config.json is missing: it says what the model is, and its exporter writes it";
            return Err(listed(Error::usage(what).in_file(path), &models));
        };
        let generation = json(path, "generation_config.json")?.unwrap_or(Value::Null);
        let tokenizer_config = json(path, "tokenizer_config.json")?.unwrap_or(Value::Null);
        // Models of pictures and texts have the numbers of the decoder in a part.
        let of_text = |key: &str| config.get(key).or_else(|| config.get("text_config")?.get(key));
        let either =
            |key: &str| generation.get(key).filter(|value| !value.is_null()).or_else(|| of_text(key));
        let is_there = |name: &&str| path.join(name).is_file();
        let tokenizer: Vec<String> =
            TOKENIZER.iter().filter(|name| is_there(name)).map(|name| (*name).to_owned()).collect();
        if !tokenizer.iter().any(|name| name == "tokenizer.json") {
            let help = "save it with AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)";
            return Err(Error::usage("tokenizer.json is missing").in_file(path).help(help));
        }
        let sampling = Sampling::deserialize(&generation).unwrap_or_default();
        Ok(Folder {
            path: path.to_owned(),
            models,
            architecture: config.pointer("/architectures/0").and_then(Value::as_str).map(str::to_owned),
            model_type: config.get("model_type").and_then(Value::as_str).map(str::to_owned),
            vocabulary: of_text("vocab_size").and_then(Value::as_i64),
            begin: either("bos_token_id").and_then(Value::as_i64),
            ends: either("eos_token_id").map(integers).unwrap_or_default(),
            begin_text: token(&tokenizer_config, "bos_token"),
            end_text: token(&tokenizer_config, "eos_token"),
            sampling,
            chat: chat_template(path, &tokenizer_config)?,
            tokenizer,
        })
    }

    /// Returns the model of a decoder.
    ///
    /// # Errors
    ///
    /// `Usage` if the folder has none, or needs several nets.
    pub fn decoder(&self, converter: &Converter) -> Result<PathBuf> {
        let has = |name: &str| self.models.iter().any(|model| model.ends_with(name));
        if has("encoder_model.onnx") || has("vision_encoder.onnx") {
            let what = "the model has an encoder: a bundle has one decoder so far";
            return Err(listed(Error::usage(what).in_file(&self.path), &self.models));
        }
        let is_decoder = |name: &str| DECODERS.iter().any(|end| name.ends_with(end));
        if let Some(other) = self.architecture.as_deref().filter(|name| !is_decoder(name)) {
            let what = format!("{other} continues no text: a bundle has a decoder so far");
            return Err(listed(Error::usage(what).in_file(&self.path.join("config.json")), &self.models));
        }
        let find = |name: &&str| self.models.iter().find(|model| model.ends_with(name));
        let only = || self.models.first().filter(|_| self.models.len() == 1);
        let Some(model) = MODELS.iter().find_map(find).or_else(only) else {
            let what = format!("no model is named {}", MODELS.join(", "));
            return Err(listed(Error::usage(what).in_file(&self.path), &self.models));
        };
        let inspection = converter.inspect(&Input::from(model.as_path()));
        let inspection = inspection.map_err(|errors| match errors.iter().next() {
            Some(error) => Error::usage(error.to_string()).in_file(model),
            None => Error::usage("the model cannot be read").in_file(model),
        })?;
        let reads = |name: &str| inspection.inputs.iter().any(|input| input.name == name);
        let gives = |name: &str| inspection.outputs.iter().any(|output| output.name == name);
        if !reads("input_ids") || !gives("logits") {
            let what = "no decoder of texts: it has no input \"input_ids\" or no output \"logits\"";
            return Err(listed(Error::usage(what).in_file(model), &self.models));
        }
        Ok(model.clone())
    }

    /// Compares the files with the model.
    ///
    /// # Errors
    ///
    /// `Usage` if they are of another model.
    pub fn check(&self, conversion: &Conversion, model: &Path) -> Result<()> {
        let logits = conversion.outputs.iter().find(|port| port.name == "logits");
        let scores = logits.and_then(|port| port.shape.last()).and_then(Dim::known);
        match (self.vocabulary, scores) {
            (Some(vocabulary), Some(scores)) if vocabulary != scores => {
                let what = format!(
                    "config.json has a vocabulary of {vocabulary} tokens, and the model of {scores}: they \
                    are of two exports"
                );
                Err(Error::usage(what).in_file(model))
            }
            _ => Ok(()),
        }
    }
}

/// Adds the models that can be converted one by one.
fn listed(error: Error, models: &[PathBuf]) -> Error {
    let names: Vec<String> = models.iter().map(|path| path.display().to_string()).collect();
    match names.is_empty() {
        true => error.help("it has no file that ends in .onnx"),
        false => error.help(format!("each model can be converted by itself: {}", names.join(", "))),
    }
}

/// Reads a file of JSON, if it exists.
fn json(folder: &Path, name: &str) -> Result<Option<Value>> {
    let path = folder.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read(&path).map_err(|error| Error::io("the file cannot be read", error).in_file(&path))?;
    let invalid = |error: serde_json::Error| Error::usage(format!("no JSON: {error}")).in_file(&path);
    serde_json::from_slice(&text).map(Some).map_err(invalid)
}

/// Returns one integer, or all integers of a list.
fn integers(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_i64).collect(),
        other => other.as_i64().into_iter().collect(),
    }
}

/// Returns the text of a special token: a string, or the content of an object.
fn token(config: &Value, key: &str) -> String {
    let value = config.get(key).map(|value| value.get("content").unwrap_or(value));
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the template of chats: a file, an entry of the tokenizer, or the default one of several.
fn chat_template(folder: &Path, tokenizer: &Value) -> Result<Option<String>> {
    let path = folder.join("chat_template.jinja");
    if path.is_file() {
        let failed = |error| Error::io("the file cannot be read", error).in_file(&path);
        return fs::read_to_string(&path).map(Some).map_err(failed);
    }
    let template = tokenizer.get("chat_template");
    let is_default = |item: &&Value| item.get("name").and_then(Value::as_str) == Some("default");
    let listed = || template?.as_array()?.iter().find(is_default)?.get("template");
    let text = template.filter(|template| template.is_string()).or_else(listed);
    Ok(text.and_then(Value::as_str).map(str::to_owned))
}
