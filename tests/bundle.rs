//! Folders of exporters become bundles: a net, a program that runs it, and all files that it needs.

#![cfg(feature = "cli")]
#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/packages.rs"]
mod packages;
#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use room::Room;
use serde_json::Value;

/// What programs that read texts import.
const TEXTS: (&str, &[&str]) = ("texts", &["tokenizers==0.22.2", "jinja2==3.1.6", "markupsafe==3.0.4"]);

/// Makes the folder of a decoder or an encoder.
fn exported(room: &Room, python: &Path, kind: &str) {
    let mut make = Command::new(python);
    make.env("PYTHONPATH", packages::packages(python, packages::PICTURES));
    support::run(make.arg("tests/programs/bundle.py").arg(room.path("exported")).arg(kind));
}

/// Runs the program of a bundle; returns what it prints.
fn printed(room: &Room, python: &Path, bundle: &str, words: &[&str]) -> String {
    let mut run = Command::new(python);
    run.env("PYTHONPATH", packages::packages(python, TEXTS));
    let output = run.arg(room.path(&format!("{bundle}/run.py"))).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Returns the description of a bundle.
fn described(room: &Room, bundle: &str) -> Value {
    serde_json::from_slice(&fs::read(room.path(&format!("{bundle}/bundle.json"))).unwrap()).unwrap()
}

#[test]
fn a_decoder_continues_a_text() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "decoder");
    let said = room.expect("exported -o bundle", 0, "to run it:");
    let model = Path::new("exported").join("onnx").join("model.onnx");
    assert!(said.contains(&format!("decoder: {}\n", model.display())), "{said}");
    let files = [
        "README.md",
        "bundle.json",
        "chat_template.jinja",
        "decoder.bin",
        "decoder.param",
        "decoder.report.json",
        "run.py",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    let mut names: Vec<_> =
        fs::read_dir(room.path("bundle")).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, files);
    let program = |words: &[&str]| printed(&room, &python, "bundle", words);
    // The text ends before a token that ends it.
    let expected: Vec<String> = (8..20).map(|n| n.to_string()).collect();
    assert_eq!(program(&["5", "7"]), expected.join(" ") + "\n");
    assert_eq!(program(&["--chat", "3"]), expected.join(" ") + "\n");
    // One is drawn of those that have nine tenths of the probability: a few, as their scores are equal.
    let text = fs::read_to_string(room.path("bundle/run.py")).unwrap();
    assert!(text.contains("TEMPERATURE, TOP_K, TOP_P = 0, 3, 0.9\n"), "{text}");
    fs::write(room.path("bundle/run.py"), text.replace("TOP_P = 0, 3, 0.9", "TOP_P = 0.01, 3, 0.9")).unwrap();
    assert_eq!(program(&["5", "7"]), expected.join(" ") + "\n");
    room.expect(&format!("verify {} bundle/decoder.param", model.display()), 0, "verified");
    let bundle = described(&room, "bundle");
    assert_eq!(bundle["tokens"]["end"], serde_json::json!([20, 40]));
    assert_eq!(bundle["nets"][0]["inputs"][2]["blob"], "past_key_values.0.key");
}

#[test]
fn an_encoder_makes_vectors_of_texts() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "encoder");
    let said = room.expect("exported -o mean", 0, "encoder: ");
    assert!(said.contains("run.py \"a cat sleeps\""), "{said}");
    // The mean of [3, 10] and [5, 10], and [40, 10].
    let compared = |bundle: &str| printed(&room, &python, bundle, &["3 5", "40"]);
    let text = compared("mean");
    assert!(
        text.contains("2 vectors of 2 numbers") && text.ends_with(" 1.0000  3 5\n 0.5855  40\n"),
        "{text}"
    );
    assert!(room.path("mean/vectors.npy").exists());
    let modules = r#"[{"path": "p", "type": "s.Pooling"}, {"path": "n", "type": "s.Normalize"}]"#;
    room.put("exported/modules.json", modules.as_bytes());
    fs::create_dir(room.path("exported/p")).unwrap();
    room.put("exported/p/config.json", br#"{"pooling_mode_cls_token": true}"#);
    room.expect("exported -o first", 0, "");
    let text = compared("first");
    assert!(text.ends_with(" 0.5111  40\n"), "{text}");
    let bundle = described(&room, "first");
    assert_eq!(bundle["task"], "feature-extraction");
    assert_eq!(bundle["pooling"]["kind"], "first");
    assert_eq!(bundle["pooling"]["is_normalized"], true);
    room.put("exported/p/config.json", br#"{"pooling_mode_max_tokens": true}"#);
    room.expect("exported -o other", 2, "a pooling other than");
    room.put("exported/modules.json", br#"[{"path": "d", "type": "s.Dense"}]"#);
    room.expect("exported -o other", 2, "the module s.Dense has no program");
    room.expect(
        &format!("verify {} first/encoder.param", Path::new("exported/onnx/model.onnx").display()),
        0,
        "verified",
    );
}

#[test]
fn a_decoder_makes_a_text_of_another_one() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "text");
    let said = room.expect("exported -o bundle", 0, "to run it:");
    let model = |name: &str| Path::new("exported").join("onnx").join(format!("{name}_model.onnx"));
    let keys = format!("keys: {} with --outputs present.0.encoder.key\n", model("decoder").display());
    assert!(said.contains(&keys), "{said}");
    // From the largest number on, without 6, with which no text begins.
    let counted: Vec<String> = [5].into_iter().chain(7..20).map(|n| n.to_string()).collect();
    assert_eq!(printed(&room, &python, "bundle", &["3", "5"]), counted.join(" ") + "\n");
    for net in ["encoder", "keys", "decoder"] {
        let model = match net {
            "encoder" => model("encoder"),
            "keys" => model("decoder"),
            _ => model("decoder_with_past"),
        };
        room.expect(&format!("verify {} bundle/{net}.param", model.display()), 0, "verified");
    }
    let bundle = described(&room, "bundle");
    assert_eq!(bundle["task"], "text2text-generation");
    let links = serde_json::json!([["past_key_values.0.encoder.key", "present.0.encoder.key"]]);
    assert_eq!(bundle["sequence"]["links"], links);
    assert_eq!(bundle["sequence"]["suppressed_first"], serde_json::json!([6]));
    fs::remove_file(room.path("exported/onnx/decoder_with_past_model.onnx")).unwrap();
    room.expect("exported -o other", 2, "the decoder has no caches");
    assert!(!room.path("other").exists());
}

#[test]
fn a_decoder_that_reads_more_than_a_program_knows_is_refused() {
    let python = support::python();
    for (kind, what) in [
        ("scaled", "the decoder reads scale: a program knows tokens, masks, positions and caches"),
        ("prompted", "the keys of the encoder also depend on the input input_ids"),
    ] {
        let room = Room::new();
        exported(&room, &python, kind);
        room.expect("exported -o bundle", 2, what);
        assert!(!room.path("bundle").exists());
    }
}

#[test]
fn a_decoder_makes_a_text_of_a_sound() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "speech");
    room.expect("exported -o bundle", 0, "run.py sound.wav");
    let mut make = Command::new(&python);
    let sound = "
import sys, wave
import numpy as np

times = np.arange(1000) / 8000
samples = (12000 * np.sin(2 * np.pi * (300 + 4000 * times) * times)).astype('<i2')
for name, rate in (('sound', 8000), ('fast', 16000)):
    with wave.open(f'{sys.argv[1]}/{name}.wav', 'wb') as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
";
    support::run(make.args(["-c", sound]).arg(room.path("")));
    let path = |name: &str| room.path(name).display().to_string();
    let counted: Vec<String> = (3..20).map(|n| n.to_string()).collect();
    let said = printed(&room, &python, "bundle", &[&path("sound.wav")]);
    assert_eq!(said, counted.join(" ") + "\n");
    // The numbers are those of transformers 4.57.
    let mut run = Command::new(&python);
    run.env("PYTHONPATH", packages::packages(&python, TEXTS)).current_dir(room.path("bundle"));
    let compare = format!(
        "
import numpy as np, run

part, = run.parts({:?})
expected = [[0.67236, 0.74491, -0.11205, -1.25468], [0.36593, 0.43507, 0.71219, -1.25468],
            [0.06328, -0.69468, 0.56835, -1.25468], [-0.11468, -1.1827, -0.8139, -1.25468]]
features = run.features(part)
assert features.shape == (4, 100) and np.abs(features[:, [0, 10, 50, 99]] - expected).max() < 2e-5
",
        path("sound.wav")
    );
    support::run(run.args(["-c", &compare]));
    let mut wrong = Command::new(&python);
    wrong.env("PYTHONPATH", packages::packages(&python, TEXTS));
    let refused = wrong.arg(room.path("bundle/run.py")).arg(path("fast.wav")).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("-ar 8000 -ac 1"), "{said}");
    let config = room.path("exported/preprocessor_config.json");
    fs::write(&config, "{\"sampling_rate\": 8000, \"feature_extractor_type\": \"Other\"}").unwrap();
    room.expect("exported -o other", 2, "features other than those of WhisperFeatureExtractor");
    fs::remove_file(config).unwrap();
    room.expect("exported -o other", 2, "preprocessor_config.json is missing");
}

#[test]
fn a_classifier_names_the_class_of_a_text() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "classes");
    room.expect("exported -o bundle", 0, "run.py \"I like it.\"");
    // The means of [11, 10, 0] and [13, 10, 0], and the same with 21 for each token of a second text.
    let said = printed(&room, &python, "bundle", &["11 13"]);
    assert_eq!(said, "first  0.881\nmiddle  0.119\nlast  0.000\n");
    let said = printed(&room, &python, "bundle", &["11", "13"]);
    assert_eq!(said, "first  0.736\nlast  0.164\nmiddle  0.100\n");
    let bundle = described(&room, "bundle");
    assert_eq!(bundle["task"], "text-classification");
    assert_eq!(bundle["classes"]["labels"], serde_json::json!(["first", "middle", "last"]));
}

#[test]
fn a_classifier_names_the_classes_of_a_picture() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "picture");
    let said = room.expect("exported -o bundle", 0, "run.py picture.jpg");
    assert!(said.contains("with --input-shape pixel_values:1,3,8,8"), "{said}");
    assert!(!room.path("bundle/decoder.param").exists());
    let run = |command: &mut Command| {
        let output =
            command.env("PYTHONPATH", packages::packages(&python, packages::PICTURES)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let picture = room.path("picture.png");
    // An orange middle with a blue border, which is cut off.
    let draw = "
import sys
from PIL import Image

image = Image.new('RGB', (64, 32), (0, 0, 255))
image.paste((255, 128, 0), (20, 0, 44, 32))
image.save(sys.argv[1])
";
    run(Command::new(&python).args(["-c", draw]).arg(&picture));
    let said = run(Command::new(&python).arg(room.path("bundle/run.py")).arg(&picture));
    assert_eq!(said, "first  0.664\nmiddle  0.246\nlast  0.090\n");
    let bundle = described(&room, "bundle");
    assert_eq!(bundle["task"], "image-classification");
    let config = room.path("exported/preprocessor_config.json");
    let text = fs::read_to_string(&config).unwrap();
    for (from, to, message) in [
        ("MobileNetV2Image", "OtherImage", "the processor \"OtherImageProcessor\" has no program"),
        ("\"shortest_edge\"", "\"longest_edge\"", "neither a height and a width"),
        ("[0.5, 0.5, 0.5]", "[0.5]", "\"image_mean\" is not a list of three numbers"),
        ("\"do_center_crop\"", "\"do_resize\": false, \"do_center_crop\"", "\"do_resize\" is false"),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&config, text.replace(from, to)).unwrap();
        room.expect("exported -o other", 2, message);
    }
    fs::remove_file(config).unwrap();
    room.expect("exported -o other", 2, "preprocessor_config.json is missing");
}

#[test]
fn folders_are_refused_as_a_whole() {
    let (room, python) = (Room::new(), support::python());
    exported(&room, &python, "decoder");
    room.expect("exported", 2, "-o DIR makes a bundle");
    room.expect("exported -o bundle --dry-run", 2, "a folder becomes a folder of fixed files");
    let put = |name: &str, bytes: &[u8]| room.put(&format!("exported/{name}"), bytes);
    let read = |name: &str| fs::read(room.path(&format!("exported/{name}"))).unwrap();
    let config = read("config.json");
    put("config.json", b"{\"vocab_size\": 12}");
    room.expect("exported -o bundle", 2, "a vocabulary of 12, and the model has 1000");
    put("config.json", b"{\"architectures\": [\"BertForMaskedLM\"]}");
    room.expect("exported -o bundle", 2, "BertForMaskedLM continues no text, and gives no vectors");
    put("config.json", b"{");
    room.expect("exported -o bundle", 2, "config.json: no JSON");
    fs::remove_file(room.path("exported/config.json")).unwrap();
    room.expect("exported -o bundle", 2, "config.json is missing");
    put("config.json", &config);
    put("onnx/encoder_model.onnx", b"");
    room.expect("exported -o bundle", 2, "the decoder has no caches");
    fs::remove_file(room.path("exported/onnx/encoder_model.onnx")).unwrap();
    let tokenizer = read("tokenizer.json");
    fs::remove_file(room.path("exported/tokenizer.json")).unwrap();
    room.expect("exported -o bundle", 2, "tokenizer.json is missing");
    put("tokenizer.json", &tokenizer);
    let model = read("onnx/model.onnx");
    put("onnx/model.onnx", b"");
    room.expect("exported -o bundle", 2, "model.onnx");
    assert!(!room.path("bundle").exists());
    put("onnx/model.onnx", &model);
    fs::create_dir(room.path("bundle")).unwrap();
    room.put("bundle/mine", b"");
    room.expect("exported -o bundle", 2, "the folder has files: name a new one");
    fs::remove_file(room.path("bundle/mine")).unwrap();
    room.expect("exported -o bundle --quiet", 0, "");
}
