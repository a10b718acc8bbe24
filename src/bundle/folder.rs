//! What the folder of an exporter holds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sequence::{self, ENCODER_MODEL};
use super::{Part, Plan, Task, picture};
use crate::api::{Conversion, Converter};
use crate::common::int::Int;
use crate::error::{Error, Errors, Result};
use crate::example::{Classes, Continuation, Pooling, PoolingKind, Reading, Scale};
use crate::onnx::{Input, models_in};
use crate::pipeline::{Inspection, Remedy};
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

/// The end of the names of architectures that name the classes of a text.
const CLASSIFIER: &str = "ForSequenceClassification";

/// The output that is the vector of a text.
const COMPUTED: &str = "sentence_embedding";

/// The outputs of which a program makes vectors of texts, the preferred ones first.
const VECTORS: [&str; 3] = [COMPUTED, "token_embeddings", "last_hidden_state"];

/// The ends of the names of the modules of sentence-transformers that a program has.
const MODULES: [&str; 3] = [".Transformer", ".Pooling", ".Normalize"];

/// The keys of sentence-transformers for poolings.
const POOLINGS: [(&str, PoolingKind); 3] = [
    ("pooling_mode_cls_token", PoolingKind::First),
    ("pooling_mode_mean_tokens", PoolingKind::Mean),
    ("pooling_mode_lasttoken", PoolingKind::Last),
];

/// A folder.
pub(super) struct Folder {
    pub path: PathBuf,
    models: Vec<PathBuf>,
    config: Value,
    generation: Value,
    /// The name of the class of transformers, if `config.json` has one.
    pub architecture: Option<String>,
    pub model_type: Option<String>,
    /// The maximum number of tokens, as the tokenizer states it.
    most_tokens: Option<i64>,
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
    /// `Usage` if `config.json` is missing; `Io` or `Usage` if a file cannot be read.
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
        let is_there = |name: &&str| path.join(name).is_file();
        let tokenizer: Vec<String> =
            TOKENIZER.iter().filter(|name| is_there(name)).map(|name| (*name).to_owned()).collect();
        Ok(Folder {
            path: path.to_owned(),
            models,
            architecture: config.pointer("/architectures/0").and_then(Value::as_str).map(str::to_owned),
            model_type: config.get("model_type").and_then(Value::as_str).map(str::to_owned),
            most_tokens: tokenizer_config.get("model_max_length").and_then(Value::as_i64),
            begin_text: token(&tokenizer_config, "bos_token"),
            end_text: token(&tokenizer_config, "eos_token"),
            sampling: Sampling::deserialize(&generation).unwrap_or_default(),
            chat: chat_template(path, &tokenizer_config)?,
            tokenizer,
            config,
            generation,
        })
    }

    /// Returns the number of tokens that `config.json` states.
    pub fn vocabulary(&self) -> Option<i64> {
        self.stated_of_text("vocab_size").and_then(Value::as_i64)
    }

    /// Returns the first token of a text.
    pub fn begin(&self) -> Option<i64> {
        self.stated("bos_token_id").and_then(Value::as_i64)
    }

    /// Returns the tokens that end a text.
    pub fn ends(&self) -> Vec<i64> {
        self.stated("eos_token_id").map(integers).unwrap_or_default()
    }

    /// Returns what `config.json` says, of the decoder if the model has several parts.
    fn stated_of_text(&self, key: &str) -> Option<&Value> {
        self.config.get(key).or_else(|| self.config.get("text_config")?.get(key))
    }

    /// Returns what `generation_config.json` says, or else `config.json`.
    pub fn stated(&self, key: &str) -> Option<&Value> {
        let value = self.generation.get(key).filter(|value| !value.is_null());
        value.or_else(|| self.stated_of_text(key)).filter(|value| !value.is_null())
    }

    /// Returns the files of the models, in order.
    pub fn models(&self) -> &[PathBuf] {
        &self.models
    }

    /// Returns the model with a name.
    pub fn find(&self, name: &str) -> Option<&PathBuf> {
        self.models.iter().find(|model| model.ends_with(name))
    }

    /// Reads the inputs and outputs of a model.
    ///
    /// # Errors
    ///
    /// `Usage` if it cannot be read.
    pub fn inspected(&self, converter: &Converter, model: &Path) -> Result<Inspection> {
        let failed = |errors: Errors| match errors.iter().next() {
            Some(error) => Error::usage(error.to_string()).in_file(model),
            None => Error::usage("the model cannot be read").in_file(model),
        };
        converter.inspect(&Input::from(model)).map_err(failed)
    }

    /// Returns the nets, and what they do together.
    ///
    /// # Errors
    ///
    /// `Usage` if the folder has none, or of a kind that no program runs.
    pub fn plan(&self, converter: &Converter) -> Result<Plan> {
        if let Some(plan) = picture::plan(self, converter)? {
            return Ok(plan);
        }
        if !self.tokenizer.iter().any(|name| name == "tokenizer.json") {
            let help = "save it with AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)";
            return Err(Error::usage("tokenizer.json is missing").in_file(&self.path).help(help));
        }
        if self.find(ENCODER_MODEL).is_some() {
            return sequence::plan(self, converter);
        }
        if self.find("vision_encoder.onnx").is_some() {
            let what = "a model with an encoder of pictures has no program";
            return Err(listed(Error::usage(what).in_file(&self.path), &self.models));
        }
        let only = || self.models.first().filter(|_| self.models.len() == 1);
        let Some(model) = MODELS.iter().find_map(|name| self.find(name)).or_else(only) else {
            let what = format!("no model is named {}", MODELS.join(", "));
            return Err(listed(Error::usage(what).in_file(&self.path), &self.models));
        };
        let task = self.task(converter, model)?;
        let name = task.net();
        let may_keep = matches!(task, Task::Continue);
        let part = Part { name, model: model.clone(), added: Remedy::default(), may_keep };
        Ok(Plan { parts: vec![part], task })
    }

    /// Returns what the net of a model does.
    fn task(&self, converter: &Converter, model: &Path) -> Result<Task> {
        let inspection = self.inspected(converter, model)?;
        let reads = |name: &str| inspection.inputs.iter().any(|input| input.name == name);
        let gives = |name: &str| inspection.outputs.iter().any(|output| output.name == name);
        let vectors = VECTORS.iter().find(|name| gives(name));
        if !reads("input_ids") || !gives("logits") && vectors.is_none() {
            let what = format!(
                "neither a decoder nor an encoder of texts: it needs the input \"input_ids\" and an output \"logits\" \
                 or \"{}\"",
                VECTORS.join("\", \"")
            );
            return Err(listed(Error::usage(what).in_file(model), &self.models));
        }
        if gives("logits") && self.architecture.as_deref().is_some_and(|name| name.ends_with(CLASSIFIER)) {
            let labels = self.labels();
            return Ok(Task::Classes(Classes { scale: self.scale(), labels, most_tokens: self.most_tokens }));
        }
        if let Some(output) = vectors.filter(|_| !gives("logits")) {
            return Ok(Task::Vectors(self.pooling(output)?));
        }
        let is_decoder = |name: &str| DECODERS.iter().any(|end| name.ends_with(end));
        match self.architecture.as_deref().filter(|name| !is_decoder(name)) {
            Some(other) => {
                let what = format!("{other} continues no text, and gives no vectors");
                Err(listed(Error::usage(what).in_file(self.path.join("config.json")), &self.models))
            }
            None => Ok(Task::Continue),
        }
    }

    /// Returns the names of the classes, by their indices.
    pub fn labels(&self) -> Vec<String> {
        let labels = self.config.get("id2label").and_then(Value::as_object).into_iter().flatten();
        let label =
            |(index, label): (&String, &Value)| Some((index.parse().ok()?, label.as_str()?.to_owned()));
        let labels: BTreeMap<usize, String> = labels.filter_map(label).collect();
        labels.into_values().collect()
    }

    /// Returns how scores become probabilities, as the pipelines of transformers do.
    pub fn scale(&self) -> Scale {
        match self.config.get("problem_type").and_then(Value::as_str) {
            Some("regression") => Scale::Number,
            Some("multi_label_classification") => Scale::Independent,
            Some("single_label_classification") => Scale::Logits,
            _ if self.labels().len() == 1 => Scale::Independent,
            _ => Scale::Logits,
        }
    }

    /// Returns how a program continues texts.
    pub fn continuation(&self) -> Continuation {
        Continuation {
            ends: self.ends(),
            has_chat: self.chat.is_some(),
            begin: self.begin_text.clone(),
            end: self.end_text.clone(),
            temperature: self.sampling.temperature.unwrap_or(1.0),
            top_k: self.sampling.top_k.unwrap_or(0),
            top_p: self.sampling.top_p.unwrap_or(1.0),
            repetition: self.sampling.repetition_penalty.unwrap_or(1.0),
        }
    }

    /// Returns how an output becomes the vector of a text, as the files of sentence-transformers say; without
    /// them it is the mean, which is their default.
    fn pooling(&self, output: &str) -> Result<Pooling> {
        let modules = json(&self.path, "modules.json")?.unwrap_or(Value::Null);
        let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |module: &Value, key: &str| {
            module.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let find = |end: &str| modules.iter().find(|module| text(module, "type").ends_with(end));
        let is_known = |module: &Value| MODULES.iter().any(|end| text(module, "type").ends_with(end));
        if let Some(other) = modules.iter().find(|module| output != COMPUTED && !is_known(module)) {
            let what = format!("the module {} has no program", text(other, "type"));
            return Err(Error::usage(what).in_file(self.path.join("modules.json")));
        }
        let kind = match find(".Pooling") {
            _ if output == COMPUTED => PoolingKind::Computed,
            None => PoolingKind::Mean,
            Some(module) => pooling_kind(&self.path.join(text(module, "path")))?,
        };
        let sentences = json(&self.path, "sentence_bert_config.json")?.unwrap_or(Value::Null);
        Ok(Pooling {
            output: output.to_owned(),
            kind,
            is_normalized: kind != PoolingKind::Computed && find(".Normalize").is_some(),
            most_tokens: sentences.get("max_seq_length").and_then(Value::as_i64),
        })
    }

    /// Compares the files with the model.
    ///
    /// # Errors
    ///
    /// `Usage` if they are of another model.
    pub fn check(&self, task: &Task, conversion: &Conversion, model: &Path) -> Result<()> {
        let logits = conversion.outputs.iter().find(|port| port.name == "logits");
        let size = |axis: usize| logits.and_then(|port| port.shape.get(axis)).and_then(Dim::known);
        let (found, stated, what) = match task {
            Task::Continue | Task::Sequence { .. } => (size(2), self.vocabulary(), "a vocabulary of"),
            Task::Classes(Classes { labels, .. }) | Task::Picture(Reading { labels, .. }) => {
                let labels = Some(labels.len().int()).filter(|count| *count > 0);
                (size(1), labels, "names of classes:")
            }
            Task::Vectors(_) => return Ok(()),
        };
        match (stated, found) {
            (Some(stated), Some(found)) if stated != found => {
                let what = format!(
                    "config.json has {what} {stated}, and the model has {found}: they are of two exports"
                );
                Err(Error::usage(what).in_file(model))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the pooling of a folder of sentence-transformers.
fn pooling_kind(folder: &Path) -> Result<PoolingKind> {
    let path = folder.join("config.json");
    let config = json(folder, "config.json")?;
    let Some(Value::Object(config)) = config else {
        return Err(Error::usage("the file of the pooling is missing, or no object").in_file(path));
    };
    let modes = config.iter().filter(|(key, value)| key.starts_with("pooling_mode_") && **value == true);
    let modes: Vec<&str> = modes.map(|(key, _)| key.as_str()).collect();
    let kind = |mode: &str| POOLINGS.iter().find(|(key, _)| *key == mode).map(|(_, kind)| *kind);
    let found = match modes.as_slice() {
        [only] => kind(only),
        _ => None,
    };
    found.ok_or_else(|| {
        let what = "a pooling other than the mean, the first or the last token";
        Error::usage(what).in_file(path)
    })
}

/// Adds the models that can be converted one by one.
pub(super) fn listed(error: Error, models: &[PathBuf]) -> Error {
    let names: Vec<String> = models.iter().map(|path| path.display().to_string()).collect();
    match names.is_empty() {
        true => error.help("it has no file that ends in .onnx"),
        false => error.help(format!("each model can be converted by itself: {}", names.join(", "))),
    }
}

/// Reads a file of JSON, if it exists.
pub(super) fn json(folder: &Path, name: &str) -> Result<Option<Value>> {
    let path = folder.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read(&path).map_err(|error| Error::io("the file cannot be read", error).in_file(&path))?;
    let invalid = |error: serde_json::Error| Error::usage(format!("no JSON: {error}")).in_file(&path);
    serde_json::from_slice(&text).map(Some).map_err(invalid)
}

/// Returns one integer, or all integers of a list.
pub(super) fn integers(value: &Value) -> Vec<i64> {
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
