//! `--report` and `--html`: the contents of reports, and their display.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/browser.rs"]
mod browser;
#[path = "support/words.rs"]
mod onnx;
#[path = "support/room.rs"]
mod room;
#[path = "support/schema.rs"]
mod schema;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use onnx2ncnn::{Converter, Input};
use room::{Room, fixture};
use serde_json::Value;

fn read(room: &Room, name: &str) -> Value {
    let value = serde_json::from_slice(&fs::read(room.path(name)).unwrap()).unwrap();
    schema::check(&value);
    value
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("{name} of {value}"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn conversions_are_reported() {
    let room = Room::new();
    let line = format!("{} out.param --report r.json --html r.html", fixture("network/convolutional"));
    let said = room.expect(&line, 0, "r.json");
    assert!(said.contains("r.html"), "{said}");
    assert_eq!(room.names(), ["out.bin", "out.param", "r.html", "r.json"]);
    let report = read(&room, "r.json");
    assert_eq!(report["status"], "converted");
    assert_eq!(report["model"]["file"], fixture("network/convolutional"));
    let net = &report["net"];
    assert_eq!(net["oldest_ncnn"], 20_240_410);
    assert_eq!(net["inputs"][0]["shape"], serde_json::json!([1, 3, 16, 16]));
    assert_eq!(net["inputs"][0]["axes"], serde_json::json!({"w": 16, "h": 16, "c": 3}));
    assert_eq!(net["bin_bytes"], fs::metadata(room.path("out.bin")).unwrap().len());
    assert_eq!(net["param_bytes"], fs::metadata(room.path("out.param")).unwrap().len());
    assert_eq!(net["multiply_adds"], report["model"]["multiply_adds"]);
    let conv = list(net, "layers").iter().find(|layer| layer["type"] == "Convolution").unwrap();
    let param = list(conv, "params").iter().find(|param| param["name"] == "kernel_w").unwrap();
    assert_eq!((param["id"].as_u64(), param["value"].as_u64()), (Some(1), Some(3)));

    // The previous layer applies the function, so both nodes are in it.
    let relu = list(&report, "nodes").iter().find(|node| node["op_type"] == "Relu").unwrap();
    assert_eq!(relu["becomes"], "fused");
    let layer = list(net, "layers").iter().find(|layer| layer["name"] == relu["layers"][0]).unwrap();
    assert_eq!(layer["type"], "Convolution");
    let step = list(&report, "passes").iter().find(|step| step["name"] == "fuse_layer_activation").unwrap();
    assert!(step["after"].as_u64() < step["before"].as_u64() && step["of"] == "layers");

    let again = Room::new();
    again.expect(&line, 0, "r.json");
    for name in ["r.json", "r.html"] {
        assert_eq!(fs::read(room.path(name)).unwrap(), fs::read(again.path(name)).unwrap(), "{name}");
    }
}

#[test]
fn float16_is_reported() {
    let room = Room::new();
    room.expect(&format!("{} out.param --fp16 --report r.json", fixture("network/convolutional")), 0, "");
    let report = read(&room, "r.json");
    let storage = report["net"]["storage"].as_object().unwrap();
    assert_eq!(storage.keys().collect::<Vec<_>>(), ["float16", "float32"]);
    let bytes: u64 = storage.values().map(|sum| sum["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, fs::metadata(room.path("out.bin")).unwrap().len());
}

#[test]
fn assumptions_are_reported() {
    let room = Room::new();
    room.expect(
        &format!("{} out.param --report r.json", fixture("assumption/rows_of_a_long_table")),
        0,
        "assumed",
    );
    let found = &read(&room, "r.json")["diagnostics"][0];
    assert_eq!((&found["severity"], &found["kind"]), (&"assumption".into(), &"not_negative".into()));
    assert_eq!(
        (&found["at"]["part"], &found["at"]["node"]["op_type"]),
        (&"value \"ids\"".into(), &"Gather".into())
    );
}

#[test]
fn conditions_are_reported() {
    let room = Room::new();
    room.expect(&format!("{} out.param --report r.json", fixture("condition/blocks")), 0, "valid if");
    let found = &read(&room, "r.json")["diagnostics"][0];
    assert_eq!((&found["severity"], &found["reason"]), (&"condition".into(), &"H is a multiple of 2".into()));
}

#[test]
fn refusals_are_reported() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu", "NoSuchOperator", "Relu"], &["N", "3"]));
    room.put("out.param", b"old");
    room.expect("m.onnx out.param --report r.json --html r.html", 1, "NoSuchOperator");
    assert_eq!(room.names(), ["m.onnx", "out.param", "r.html", "r.json"]);
    assert_eq!(fs::read(room.path("out.param")).unwrap(), b"old");
    let report = read(&room, "r.json");
    assert_eq!((&report["status"], &report["net"]), (&"refused".into(), &Value::Null));
    assert_eq!(report["model"]["inputs"][0]["shape"], serde_json::json!(["N", 3]));
    assert_eq!(report["model"]["operators"], serde_json::json!({"NoSuchOperator": 1, "Relu": 2}));
    let found = &report["diagnostics"][0];
    assert_eq!((&found["severity"], &found["kind"]), (&"error".into(), &"unsupported".into()));
    assert!(found["reason"].as_str().unwrap().contains("NoSuchOperator"));
    assert!(found["help"].as_str().is_some_and(|help| help.contains("--custom-layers: layer = [{")));
    let node = serde_json::json!({"index": 1, "name": "node1", "op_type": "NoSuchOperator", "version": 17});
    assert_eq!(found["at"]["node"], node);
    let before = serde_json::json!({"options": {"outputs": ["t1"]}, "words": ["--outputs", "t1"], "percent": 33, "counted": "weights and nodes"});
    assert_eq!(report["remedies"][0], before);
    let becomes: Vec<&Value> = list(&report, "nodes").iter().map(|node| &node["becomes"]).collect();
    assert_eq!(becomes, [&Value::Null, &"refused".into(), &Value::Null]);
    assert_eq!(report["nodes"][0]["shapes"], serde_json::json!([["N", 3]]));
}

#[test]
fn convertible_sizes_are_proposed() {
    let room = Room::new();
    let model = fixture("refused/pooling_that_skips_elements_of_a_free_axis");
    room.expect(&format!("{model} out.param --report r.json"), 1, "--input-shape x:1,4,64\n");
    let proposed = &read(&room, "r.json")["remedies"][0];
    assert_eq!(proposed["options"], serde_json::json!({"input_shapes": {"x": [1, 4, 64]}}));
    room.expect(&format!("{model} out.param --input-shape x:1,4,64"), 0, "");
}

#[test]
fn failures_are_reported() {
    let room = Room::new();
    room.expect("none.onnx out.param --report r.json", 2, "none.onnx");
    assert_eq!(room.names(), ["r.json"]);
    let report = read(&room, "r.json");
    assert_eq!((&report["status"], &report["model"]), (&"failed".into(), &Value::Null));
    assert_eq!(report["diagnostics"][0]["kind"], "io");
    assert_eq!(list(&report["diagnostics"][0], "causes").len(), 1);
    room.put("text.onnx", b"This is a text and no model at all.\n");
    room.expect("text.onnx out.param --report r.json", 1, "not an ONNX model");
    assert_eq!(read(&room, "r.json")["status"], "refused");
    // An unwritable path is found before the model is read.
    room.expect("text.onnx out.param --report none/../r.json", 2, "none");
    room.expect("text.onnx out.param --html text.onnx", 2, "would overwrite the model itself");
    room.expect("text.onnx r.json x.bin --report r.json", 2, "would overwrite the .param file");
}

#[test]
fn inspect_reports_the_same() {
    let room = Room::new();
    room.expect(&format!("inspect {} --report r.json", fixture("network/free_sizes")), 0, "can be converted");
    let report = read(&room, "r.json");
    assert_eq!((&report["status"], &report["net"]), (&"convertible".into(), &Value::Null));
    room.put("m.onnx", &onnx::chain(&["Relu", "NoSuchOperator"], &["N", "3"]));
    room.expect("inspect m.onnx --report r.json", 0, "NoSuchOperator");
    assert_eq!(read(&room, "r.json")["status"], "refused");
    room.expect("inspect m.onnx --report m.onnx", 2, "would overwrite the model itself");
}

/// All models among the fixtures.
fn fixtures() -> Vec<PathBuf> {
    let folders = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let families = folders(&root).filter(|path| path.is_dir());
    let mut models: Vec<PathBuf> = families
        .flat_map(|family| folders(&family).collect::<Vec<_>>())
        .map(|case| case.join("model.onnx"))
        .filter(|model| model.is_file())
        .collect();
    models.sort();
    assert!(models.len() > 100, "{}", models.len());
    models
}

#[test]
fn every_node_and_layer_has_its_counterpart() {
    let room = Room::new();
    let mut converted = 0;
    for model in fixtures() {
        let report = match Converter::new().explain(true).convert(&Input::from(model.clone())) {
            Ok(conversion) => {
                converted += 1;
                let written = conversion.write(room.path("out.param"), room.path("out.bin")).unwrap();
                conversion.report(&written).unwrap()
            }
            Err(errors) => errors.report(),
        };
        let report: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        schema::check(&report);
        if report["status"] == "converted" {
            check_counterparts(&report, &model.display().to_string());
            check_integers(&report, &model.display().to_string());
        }
    }
    assert!(converted > 100, "{converted}");
}

/// An assumption about integers is not said of the elements of an input that has floats.
fn check_integers(report: &Value, model: &str) {
    let floats = list(&report["model"], "inputs").iter().filter(|input| {
        let dtype = input["dtype"].as_str().unwrap();
        dtype.contains("float") || dtype == "double"
    });
    let floats: BTreeSet<String> = floats.map(|input| format!("value {}", input["name"])).collect();
    let integers =
        list(report, "diagnostics").iter().filter(|diagnostic| diagnostic["kind"] == "exact_integer");
    for diagnostic in integers {
        let part = diagnostic["at"]["part"].as_str().unwrap_or_default();
        assert!(!floats.contains(part), "{model}: {part} has no integers");
    }
}

fn check_counterparts(report: &Value, model: &str) {
    let (nodes, layers) = (list(report, "nodes"), list(&report["net"], "layers"));
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let mut of_layers = BTreeSet::new();
    for layer in layers {
        let name = layer["name"].as_str().unwrap();
        of_layers.extend(list(layer, "nodes").iter().map(|node| (number(node), name)));
        let is_added = ["Input", "Split"].contains(&layer["type"].as_str().unwrap());
        // An input in several forms has a Reshape without a node, as have constants that are outputs.
        let glue = nodes.is_empty() || layer["type"] == "Reshape" || layer["type"] == "MemoryData";
        assert!(
            is_added || glue || !list(layer, "nodes").is_empty(),
            "{model}: {name} does the work of no node"
        );
    }
    let mut of_nodes = BTreeSet::new();
    for (index, node) in nodes.iter().enumerate() {
        of_nodes.extend(texts(&node["layers"]).into_iter().map(|layer| (index, layer)));
        let empty = list(node, "layers").is_empty();
        match node["becomes"].as_str().unwrap() {
            "layers" | "fused" => assert!(!empty, "{model}: {node}"),
            "nothing" => assert!(empty, "{model}: {node}"),
            _ => {}
        }
    }
    assert_eq!(of_layers, of_nodes, "{model}");
    // The outputs are the work of some layer, unless they are inputs or constants.
    for output in list(&report["net"], "outputs") {
        let node = nodes.iter().find(|node| list(node, "outputs").contains(&output["name"]));
        if node.is_some_and(|node| node["becomes"] == "nothing") {
            assert_eq!(origin(layers, &output["blob"])["type"], "Input", "{model}: {output}");
        }
    }
}

/// The layer that computes a blob, also through a Split.
fn origin<'a>(layers: &'a [Value], blob: &Value) -> &'a Value {
    let layer = layers.iter().find(|layer| list(layer, "tops").contains(blob)).unwrap();
    if layer["type"] == "Split" { origin(layers, &layer["bottoms"][0]) } else { layer }
}

/// Opens a page of this net with `probe.js`, and returns its result; `None` if there is no browser.
fn probe(room: &Room, page: &str, find: &str) -> Option<Value> {
    let probe = include_str!("support/probe.js").replace("FIND", &serde_json::to_string(find).unwrap());
    browser::open(&fs::read_to_string(room.path(page)).unwrap(), &probe)
}

#[test]
fn the_page_shows_a_network() {
    let room = Room::new();
    room.expect(
        &format!("{} out.param --report r.json --html r.html", fixture("network/convolutional")),
        0,
        "",
    );
    let report = read(&room, "r.json");
    let layers = list(&report["net"], "layers");
    let convolution = layers.iter().find(|layer| layer["type"] == "Convolution").unwrap();
    let find = convolution["name"].as_str().unwrap();
    let Some(seen) = probe(&room, "r.html", find) else { return };
    assert_eq!(seen["errors"], serde_json::json!([]));
    assert_eq!(seen["requests"], serde_json::json!([]));
    assert_eq!(seen["boxes"], layers.len() + list(&report["net"], "outputs").len());
    assert!(seen["drawn"].as_u64().unwrap() > 3 && seen["pixels"].as_u64().unwrap() > 2000, "{seen}");
    assert_eq!(seen["resized"], true);
    assert!(seen["moved"].as_bool().unwrap() && seen["zoomed"].as_bool().unwrap(), "{seen}");
    assert_eq!(seen["chosen"], find);
    assert!(seen["details"].as_str().unwrap().contains("kernel_w"), "{seen}");
    // The graph of the model, with an input and an output, marks the nodes of the layer.
    assert_eq!(seen["nodes"], list(&report, "nodes").len() + 2);
    assert_eq!(seen["linked"], list(convolution, "nodes").len());
    assert_ne!(seen["walked"], seen["chosen"]);
    assert_eq!(seen["rows"], layers.len());
    let most = layers.iter().max_by_key(|layer| layer["multiply_adds"].as_u64()).unwrap();
    assert_eq!(seen["sorted"], most["name"]);
    assert_eq!(seen["wider"], false);
}

#[test]
fn nets_have_small_drawings() {
    let report = |model: &str| {
        let conversion = Converter::new().convert(&Input::from(PathBuf::from(model))).unwrap();
        conversion.report(conversion.written().unwrap()).unwrap()
    };
    let drawn = |report: &onnx2ncnn::report::Report| {
        let net = report.net.as_ref().unwrap();
        let boxes = net.layers.iter().filter(|layer| layer.type_name != "Split").count();
        let svg = report.to_svg().unwrap();
        assert_eq!(svg.matches("<rect").count(), boxes, "{svg}");
        svg
    };
    let svg = drawn(&report(&fixture("network/digits")));
    assert!(svg.contains(">InnerProduct</text>") && svg.contains("<title>Convolution c1"), "{svg}");
    // Long names of types and many layers have no words, and the drawing is as wide as before.
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Sin"; 300], &["1", "3"]));
    let svg = drawn(&report(room.path("m.onnx").to_str().unwrap()));
    assert!(!svg.contains("<text") && svg.contains("width=\"960\""), "{svg}");
    room.put("m.onnx", &onnx::chain(&["Sin"; 3000], &["1", "3"]));
    assert!(report(room.path("m.onnx").to_str().unwrap()).to_svg().is_none());
    let names = ["<script>alert(1)</script>"];
    room.put("m.onnx", &onnx::chain_of(&["Exp"], &["1", "3"], &|i| names[i].to_owned()));
    assert!(!report(room.path("m.onnx").to_str().unwrap()).to_svg().unwrap().contains("<script"));
}

#[test]
fn hostile_names_are_escaped() {
    let room = Room::new();
    let names = [
        "</script><script>document.title='taken'</script>",
        "\"'<img src=x onerror=alert(1)>&amp;",
        "übermäßig\u{202e}gnol",
    ];
    room.put("m.onnx", &onnx::chain_of(&["Exp", "Sin", "Cos"], &["1", "3"], &|i| names[i].to_owned()));
    room.expect("m.onnx out.param --html r.html --report r.json", 0, "");
    let report = read(&room, "r.json");
    let found: Vec<&str> = list(&report, "nodes").iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(found, names);
    let Some(seen) = probe(&room, "r.html", "onerror") else { return };
    assert_eq!((&seen["errors"], &seen["requests"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert_eq!(seen["title"], "m.onnx");
    assert!(seen["details"].as_str().unwrap().contains(names[1]), "{seen}");
    assert_eq!(seen["images"], 0);
}

#[test]
fn the_page_shows_a_refusal() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Relu", "NoSuchOperator"], &["N", "3"]));
    room.expect("m.onnx out.param --html r.html", 1, "NoSuchOperator");
    let Some(seen) = probe(&room, "r.html", "nosuch") else { return };
    assert_eq!(seen["errors"], serde_json::json!([]));
    // The input, two nodes and the output; the second node has a diagnostic.
    assert_eq!(
        (&seen["boxes"], &seen["chosen"], &seen["sorted"]),
        (&4.into(), &"node1".into(), &"node1".into())
    );
    assert!(seen["details"].as_str().unwrap().contains("unknown operator NoSuchOperator"), "{seen}");
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("refused") && text.contains("node 1 \"node1\" NoSuchOperator-17"), "{text}");
    assert!(text.contains("--outputs"), "{text}");
}

#[test]
fn a_page_of_thousands_of_layers_is_ready_at_once() {
    let room = Room::new();
    room.put("m.onnx", &onnx::chain(&["Sin"; 5000], &["1", "3"]));
    room.expect("m.onnx out.param --html r.html", 0, "");
    let Some(seen) = probe(&room, "r.html", "node4321") else { return };
    assert_eq!((&seen["errors"], &seen["chosen"]), (&serde_json::json!([]), &"node4321".into()));
    // Only visible rows are in the document.
    assert!(seen["in_document"].as_u64().unwrap() < 200 && seen["rows"] == 5001, "{seen}");
    assert_eq!((&seen["boxes"], &seen["nodes"]), (&5002.into(), &5002.into()));
    assert!(seen["ready"].as_f64().unwrap() < 20_000.0, "{seen}");
}
