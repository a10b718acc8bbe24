//! Models of an encoder and a decoder: their nets, and how a program joins them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::folder::{Folder, integers, json, listed};
use super::{DECODER, ENCODER, Part, Plan, Task};
use crate::api::{Conversion, Converter};
use crate::error::{Error, Result};
use crate::example::{Blob, Sequence, SideNet, Sound, is_of_encoder};
use crate::pipeline::{Port, Remedy};
use crate::tensor::Array;

/// The net that makes the keys and values of the decoder.
pub(super) const KEYS: &str = "keys";

/// The names of files of optimum.
pub(super) const ENCODER_MODEL: &str = "encoder_model.onnx";
const FIRST_STEP: &str = "decoder_model.onnx";
const FURTHER_STEPS: &str = "decoder_with_past_model.onnx";
const ANY_STEP: &str = "decoder_model_merged.onnx";

/// The input of a decoder for all steps that says whether it is the first one.
const HAS_PAST: &str = "use_cache_branch";

/// The output of an encoder, and the input of a decoder that reads it.
const HIDDEN: &str = "last_hidden_state";
const READ_HIDDEN: &str = "encoder_hidden_states";

/// Returns the nets of a model.
///
/// # Errors
///
/// `Usage` if a model is missing, or has no inputs and outputs of an encoder and a decoder with caches.
pub(super) fn plan(folder: &Folder, converter: &Converter) -> Result<Plan> {
    let failed = |what: &str| listed(Error::usage(what).in_file(&folder.path), folder.models());
    let encoder = folder.find(ENCODER_MODEL).ok_or_else(|| failed("the model of the encoder is missing"))?;
    let any = folder.find(ANY_STEP);
    let (first, further) = (folder.find(FIRST_STEP).or(any), folder.find(FURTHER_STEPS).or(any));
    let (Some(first), Some(further)) = (first, further) else {
        let what = "the decoder has no caches: export the task whose name ends in -with-past";
        return Err(failed(what));
    };
    let reads = folder.inspected(converter, encoder)?.inputs;
    let source = ["input_ids", "input_features", "input_values"];
    let Some(source) = source.into_iter().find(|name| reads.iter().any(|input| input.name == *name)) else {
        let names: Vec<&str> = reads.iter().map(|input| input.name.as_str()).collect();
        return Err(failed(&format!("an encoder of {} has no program", names.join(", "))));
    };
    let outputs = |model, of_encoder: bool| -> Result<Vec<String>> {
        let names = folder.inspected(converter, model)?.outputs.into_iter().map(|output| output.name);
        Ok(names.filter(|name| is_of_encoder(name) == of_encoder).collect())
    };
    let keys = outputs(first, true)?;
    if keys.is_empty() {
        return Err(failed(&format!("{FIRST_STEP} has no outputs such as present.0.encoder.key")));
    }
    // A model for all steps has the keys of the encoder as outputs in all of them.
    let is_any = |model: &PathBuf| Some(model) == any;
    let has_past = |model, past: i64| match is_any(model) {
        true => vec![(HAS_PAST.to_owned(), Array::i64(ndarray::arr1(&[past]).into_dyn()))],
        false => Vec::new(),
    };
    let part = |name, model: &PathBuf, set, outputs| Part {
        name,
        model: model.clone(),
        added: Remedy { set, outputs, ..Remedy::default() },
        may_keep: name == DECODER,
    };
    let own = if is_any(further) { outputs(further, false)? } else { Vec::new() };
    let parts = vec![
        part(ENCODER, encoder, Vec::new(), Vec::new()),
        part(KEYS, first, has_past(first, 0), keys),
        part(DECODER, further, has_past(further, 1), own),
    ];
    let sound = if source == "input_ids" { None } else { Some(sound(folder, source == "input_values")?) };
    Ok(Plan { parts, task: Task::Sequence { sound } })
}

/// Reads how sounds become features.
fn sound(folder: &Folder, reads_samples: bool) -> Result<Sound> {
    let name = "preprocessor_config.json";
    let config = json(&folder.path, name)?.ok_or_else(|| {
        let what = format!("{name} is missing: it says what the encoder reads of a sound");
        Error::usage(what).in_file(&folder.path)
    })?;
    let number = |key: &str| {
        config.get(key).and_then(Value::as_i64).filter(|n| *n > 0).ok_or_else(|| {
            Error::usage(format!("\"{key}\" is missing, or no positive integer"))
                .in_file(folder.path.join(name))
        })
    };
    let rate = number("sampling_rate")?;
    if reads_samples && config.get("do_normalize") == Some(&Value::Bool(true)) {
        return Err(Error::usage("normalized samples have no program").in_file(folder.path.join(name)));
    }
    if reads_samples {
        return Ok(Sound { rate, bands: 0, window: 0, hop: 0, samples: 0 });
    }
    if config.get("feature_extractor_type").and_then(Value::as_str) != Some("WhisperFeatureExtractor") {
        let what = "features other than those of WhisperFeatureExtractor have no program";
        return Err(Error::usage(what).in_file(folder.path.join(name)));
    }
    let (bands, window, hop) = (number("feature_size")?, number("n_fft")?, number("hop_length")?);
    Ok(Sound { rate, bands, window, hop, samples: number("n_samples")? })
}

/// Returns how a program joins the nets.
///
/// # Errors
///
/// `Usage` if a net reads what no other one computes.
pub(super) fn sequence(
    folder: &Folder,
    sound: Option<&Sound>,
    [encoder, keys, decoder]: [&Conversion; 3],
) -> Result<Sequence> {
    let blob = |port: &Port| Blob { name: port.name.clone(), blob: port.blob.clone(), int32: port.int32 };
    let inputs = |conversion: &Conversion, is_read: &dyn Fn(&str) -> bool| -> Vec<Blob> {
        conversion.inputs.iter().filter(|port| is_read(&port.name)).map(blob).collect()
    };
    let failed = |what: String| Error::usage(what).in_file(&folder.path);
    let output = |conversion: &Conversion, name: &str| {
        conversion.outputs.iter().find(|port| port.name == name).map(|port| port.blob.clone())
    };
    let hidden =
        output(encoder, HIDDEN).ok_or_else(|| failed(format!("the encoder has no output {HIDDEN}")))?;
    let (mut links, mut mask, mut read) = (Vec::new(), None, None);
    for port in decoder.inputs.iter().filter(|port| is_of_encoder(&port.name)) {
        let made = output(keys, &port.name.replace("past_key_values", "present"));
        match (port.name.as_str(), made) {
            (READ_HIDDEN, _) => read = Some(port.blob.clone()),
            (name, None) if name.ends_with("_mask") => mask = Some(blob(port)),
            (_, Some(made)) => links.push((port.blob.clone(), made)),
            (name, None) => return Err(failed(format!("no net computes the input {name} of the decoder"))),
        }
    }
    // An input that a part of the model does not read is an input of its net.
    let unread = keys.unread_inputs();
    let is_read = |port: &&Port| !unread.contains(&port.name);
    if let Some(port) = keys.inputs.iter().filter(is_read).find(|port| port.name != READ_HIDDEN) {
        return Err(failed(format!("the keys of the encoder also depend on the input {}", port.name)));
    }
    let side = |name: &str, inputs, outputs| SideNet { name: name.to_owned(), inputs, outputs };
    let tokens = |key: &str| folder.stated(key).map(integers).unwrap_or_default();
    let is_token = |token: &i64| *token >= 0;
    let lists =
        folder.stated("bad_words_ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let words = lists.iter().map(integers).filter(|word| word.len() == 1).flatten();
    let begin = folder.stated("decoder_start_token_id").and_then(Value::as_i64).or(folder.begin());
    let mut start: Vec<i64> = begin.into_iter().chain(tokens("forced_bos_token_id")).collect();
    let languages = languages(folder);
    let task = folder.stated("task_to_id").and_then(|tasks| tasks.get("transcribe")?.as_i64());
    let untimed = folder.stated("no_timestamps_token_id").and_then(Value::as_i64);
    let mut after_language = Vec::new();
    match languages.is_empty() {
        true => start.extend(untimed),
        false => after_language.extend(task.into_iter().chain(untimed)),
    }
    if start.is_empty() {
        return Err(failed("\"decoder_start_token_id\" is missing in config.json".to_owned()));
    }
    Ok(Sequence {
        continuation: folder.continuation(),
        start,
        suppressed: tokens("suppress_tokens").into_iter().filter(is_token).chain(words).collect(),
        suppressed_first: tokens("begin_suppress_tokens").into_iter().filter(is_token).collect(),
        languages,
        after_language,
        sound: sound.cloned(),
        encoder: side(ENCODER, inputs(encoder, &|_| true), vec![hidden]),
        keys: side(KEYS, inputs(keys, &|name| name == READ_HIDDEN), Vec::new()),
        links,
        mask,
        hidden: read,
    })
}

/// Returns the tokens of the languages that a recognizer of speech knows, by their short names.
fn languages(folder: &Folder) -> BTreeMap<String, i64> {
    let tokens = folder.stated("lang_to_id").and_then(Value::as_object);
    let is_multilingual = folder.stated("is_multilingual").and_then(Value::as_bool) != Some(false);
    let short = |name: &str| name.trim_start_matches("<|").trim_end_matches("|>").to_owned();
    let tokens = tokens.into_iter().flatten().filter(|_| is_multilingual);
    tokens.filter_map(|(name, token)| Some((short(name), token.as_i64()?))).collect()
}
