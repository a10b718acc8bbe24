//! The tables of ncnn's layers against facts taken from its source.

use std::collections::BTreeMap;
use std::path::Path;

use onnx2ncnn::ncnn::layer::{Layer, Missing, Param, Storage};

/// Params of the runtime that this program leaves at their defaults: reduced precision, sizes that follow from paddings, layouts of
/// the result, caches, and batched Mats.
const LEFT_OUT: [&str; 16] = [
    "int8_scale_term",
    "quantize_term",
    "output_w",
    "output_h",
    "output_d",
    "output_N1M",
    "output_elempack",
    "output_elemtype",
    "output_transpose",
    "constant_TILE_M",
    "constant_TILE_N",
    "constant_TILE_K",
    "load_type",
    "kv_cache",
    "input_batch_axis",
    "output_batch_axis",
];

/// `layer` to `number name default` of its params and `number name storage` of its weights.
type Facts = BTreeMap<String, BTreeMap<(String, String), (String, String)>>;

fn facts() -> Facts {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ncnn_layers.tsv");
    let mut facts = Facts::new();
    for line in std::fs::read_to_string(path).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let [layer, kind, number, name, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let entry = facts.entry(layer.to_owned()).or_default();
        if kind != "none" {
            entry.insert((kind.to_owned(), number.to_owned()), (name.to_owned(), value.to_owned()));
        }
    }
    facts
}

fn agrees(missing: &Missing, fact: &str) -> bool {
    match missing {
        Missing::Value(Param::Int(value)) => fact.parse() == Ok(*value),
        Missing::Value(Param::Float(value)) => fact.parse() == Ok(*value),
        Missing::Value(Param::Ints(values)) => fact == "[]" && values.is_empty(),
        Missing::Value(Param::Floats(values)) => fact == "[]" && values.is_empty(),
        Missing::Value(Param::Text(text)) => fact == "\"\"" && text.is_empty(),
        Missing::SameAs(name) => fact == *name,
        Missing::Other => fact.contains('/'),
    }
}

#[test]
fn layers_are_those_of_the_runtime() {
    let facts = facts();
    let mut wrong = Vec::new();
    for layer in Layer::tables() {
        let name = layer.type_name;
        let Some(known) = facts.get(name) else {
            wrong.push(format!("{name} is no layer of ncnn"));
            continue;
        };
        let mut left = known.clone();
        for param in &layer.params {
            match left.remove(&("param".into(), param.id.to_string())) {
                // `type` is no name of a field in Rust.
                Some((fact, default))
                    if fact == param.name.trim_end_matches('_') && agrees(&param.missing, &default) => {}
                fact => wrong.push(format!("{name} {param:?}: {fact:?}")),
            }
        }
        for (number, (weight, storage)) in layer.weights.iter().enumerate() {
            let storage = if *storage == Storage::Tagged { "tagged" } else { "raw" };
            match left.remove(&("weight".into(), number.to_string())) {
                Some(fact) if fact == (weight.to_string(), storage.to_owned()) => {}
                fact => wrong.push(format!("{name} {number} {weight} {storage}: {fact:?}")),
            }
        }
        wrong.extend(
            left.iter()
                .filter(|(_, (fact, _))| !LEFT_OUT.contains(&fact.as_str()))
                .map(|fact| format!("{name} lacks {fact:?}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
