//! `onnx2ncnn verify` and `simplify --check`: comparison with other runtimes.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;
#[path = "support/schema.rs"]
mod schema;
mod support;

use std::fs;
use std::process::Command;

use room::Room;

/// A room with a fixture, its net and its arrays: `model.onnx`, `m.param`, `m.bin`, `inputs.npz`.
fn room_with(fixture: &str, options: &str) -> Room {
    let room = room_with_model(fixture, options);
    let inputs = format!("{}/fixtures/{fixture}/inputs.npz", env!("CARGO_MANIFEST_DIR"));
    fs::copy(inputs, room.path("inputs.npz")).unwrap();
    room
}

/// A room with a fixture and its net, without arrays.
fn room_with_model(fixture: &str, options: &str) -> Room {
    let room = Room::new();
    let model = format!("{}/fixtures/{fixture}/model.onnx", env!("CARGO_MANIFEST_DIR"));
    fs::copy(model, room.path("model.onnx")).unwrap();
    room.expect(&format!("model.onnx m.param m.bin {options}"), 0, "");
    room
}

/// The Python of the tests.
fn python() -> String {
    format!("--python {}", support::python().display())
}

#[test]
fn a_page_has_the_errors_of_a_comparison() {
    let room = room_with("network/free_sizes", "--rename x=first");
    let line = format!("verify model.onnx m.param m.bin {} --rename x=first", python());
    room.expect(&format!("{line} --layers --html page.html"), 0, "inside are the same");
    let page = fs::read_to_string(room.path("page.html")).unwrap();
    let data = page.split_once("id=\"report\">").unwrap().1.split_once("</script>").unwrap().0;
    let report: serde_json::Value = serde_json::from_str(data).unwrap();
    schema::check(&report);
    let comparison = &report["comparison"];
    let output = &comparison["outputs"][0];
    assert_eq!((&output["same"], &output["blob"]), (&true.into(), &report["net"]["outputs"][0]["blob"]));
    let layers = comparison["layers"].as_array().unwrap();
    let tops: Vec<&serde_json::Value> = report["net"]["layers"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|layer| layer["tops"].as_array().unwrap())
        .collect();
    assert!(layers.len() > 2 && layers.iter().all(|row| tops.contains(&&row["blob"])), "{comparison}");
    for file in ["model.onnx", "m.param", "m.bin"] {
        room.expect(&format!("{line} --html {file}"), 2, "would overwrite a file that is read");
    }
}

#[test]
fn a_net_is_compared_with_its_model() {
    let python = python();
    let room = room_with("network/free_sizes", "");
    let line = format!("verify model.onnx m.param m.bin {python}");
    room.expect(&line, 0, "the same in onnxruntime and ncnn");
    room.expect(&format!("{line} --data inputs.npz --layers"), 0, "inside are the same");
    assert_eq!(room.expect(&format!("{line} -q --rounds 2"), 0, ""), "");
    room.expect(&format!("{line} --data m.bin"), 2, "--data is a file .npz");

    // A changed weight.
    let mut bytes = fs::read(room.path("m.bin")).unwrap();
    let half = bytes.len() / 2;
    bytes[4..half].fill(0);
    room.put("m.bin", &bytes);
    let text = room.expect(&line, 4, "DIFFERS");
    assert!(!text.contains("first blob"), "{text}");
    let text = room.expect(&format!("{line} --layers"), 4, "first blob that differs");
    assert!(text.contains("cosine"), "{text}");
    let row = |label: &str| text.lines().find_map(|line| line.strip_prefix(label)).unwrap().to_owned();
    // Later layers are right for the values that the model computes before them.
    assert_eq!(row("first blob that differs: "), row("largest error alone: "));
    room.put("m.param", b"7767517\n");
    let text = room.expect(&line, 4, "ncnn does not load");
    assert!(!text.contains("usage") && !text.contains("nothing was written"), "{text}");
}

/// A free first axis is an axis of the net, also where it is 1.
#[test]
fn arrays_of_one_element_along_a_kept_axis_are_compared() {
    let room = room_with("free/first_axis_of_one_kept", "");
    let line = format!("verify model.onnx m.param m.bin --data inputs.npz {}", python());
    room.expect(&line, 0, "the same in onnxruntime and ncnn");
}

#[test]
fn the_order_of_nearly_equal_scores_is_named() {
    let python = python();
    let room = room_with("indexing/top_k_of_near_ties", "");
    let line = format!("verify model.onnx m.param m.bin --data inputs.npz {python}");
    room.expect(&line, 0, "the same in onnxruntime and ncnn");
    // The constant of the Add, behind its tag or not: the first two sums are swapped by a rounding.
    let bytes = fs::read(room.path("m.bin")).unwrap();
    let at = bytes.windows(4).position(|four| four == 6.0_f32.to_le_bytes()).unwrap();
    let put = |value: f32| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        room.put("m.bin", &bytes);
    };
    put(5.999_999);
    let text = room.expect(&line, 4, "the order of nearly equal scores, which rounding decides");
    let has_note = |text: &str, name| {
        text.lines().any(|line| line.starts_with(name) && line.contains("nearly equal scores"))
    };
    assert!(has_note(&text, "\"i\"") && !has_note(&text, "\"y\""), "{text}");
    put(-6.0);
    let text = room.expect(&line, 4, "DIFFERS");
    assert!(!has_note(&text, "\"y\""), "{text}");
}

#[test]
fn inputs_that_onnxruntime_rounds_are_not_rounded() {
    let room = room_with_model("quantized/weight_of_blocks_with_rounded_inputs", "");
    let text = room.expect(&format!("verify model.onnx m.param m.bin {}", python()), 0, "(accuracy_level 4)");
    assert!(text.contains("the inputs of 1 node to int8"), "{text}");
}

#[test]
fn outputs_without_numbers_are_named() {
    let room = room_with_model("elementwise/abs", "");
    let data = room.path("zeros.npz");
    let write = "import numpy, sys; numpy.savez(sys.argv[1], x=numpy.zeros(numpy.load(sys.argv[2])['x'].shape, 'float32'))";
    let inputs = format!("{}/fixtures/elementwise/abs/inputs.npz", env!("CARGO_MANIFEST_DIR"));
    let python = support::python();
    let status = std::process::Command::new(&python).args(["-c", write]).arg(&data).arg(inputs).status();
    assert!(status.unwrap().success());
    let line = format!("verify model.onnx m.param m.bin --data zeros.npz --python {}", python.display());
    room.expect(&line, 0, "all elements are 0");
}

#[test]
fn weights_in_float16_are_judged_as_half_precision() {
    for fixture in ["network/convolutional", "network/transformer_block"] {
        let room = room_with_model(fixture, "--fp16");
        let line = format!("verify model.onnx m.param m.bin {}", python());
        room.expect(&line, 0, "the same in onnxruntime and ncnn");
        room.expect(&format!("{line} --tolerance 0.001"), 4, "mismatch");
    }
}

#[test]
fn a_recording_shows_whether_the_export_or_the_conversion_is_wrong() {
    let room = room_with_model("network/transformer_block", "");
    let python = support::python();
    let folder = format!("{}/fixtures/network/transformer_block", env!("CARGO_MANIFEST_DIR"));
    let write = "import numpy, sys
arrays = [dict(numpy.load(f'{sys.argv[2]}/{name}.npz')) for name in ('inputs', 'outputs')]
outputs = {name: array + numpy.float32(sys.argv[3]) for name, array in arrays[1].items()}
numpy.savez(sys.argv[1], **arrays[0], **outputs)";
    let line = format!("verify model.onnx m.param m.bin --data recorded.npz --python {}", python.display());
    for (added, code, text) in [("0", 0, "the export is right"), ("1", 4, "the export differs: onnxruntime")]
    {
        let mut command = Command::new(&python);
        command.args(["-c", write]).arg(room.path("recorded.npz")).args([&folder, added]);
        assert!(command.status().unwrap().success());
        let printed = room.expect(&line, code, text);
        assert!(printed.contains("the same in onnxruntime and ncnn"), "{printed}");
    }
    // The net is compared with onnxruntime in any case.
    fs::write(room.path("m.bin"), vec![0; fs::read(room.path("m.bin")).unwrap().len()]).unwrap();
    let printed = room.expect(&line, 4, "mismatch: 1 of 1 output");
    assert!(printed.contains("the export differs"), "{printed}");
}

#[test]
fn files_have_default_names() {
    let room = room_with_model("control/dropout", "");
    room.expect("model.onnx", 0, "model.ncnn.param");
    for files in ["", "m.param"] {
        room.expect(
            &format!("verify model.onnx {files} {}", python()),
            0,
            "the same in onnxruntime and ncnn",
        );
    }
    fs::copy(room.path("model.onnx"), room.path("m.onnx")).unwrap();
    let text = room.expect("verify m.onnx", 2, "m.ncnn.param: the file cannot be opened");
    assert!(text.contains("name the .param file, or its folder, after the model"), "{text}");
    room.expect("model.onnx -o folder", 0, "");
    room.expect("verify model.onnx folder", 0, "verified");
}

#[test]
fn a_comparison_goes_to_standard_output() {
    let room = room_with_model("control/dropout", "");
    let line = format!("verify model.onnx m.param m.bin {}", python());
    let output = room.run(&line);
    assert!(output.stderr.is_empty() && String::from_utf8_lossy(&output.stdout).contains("the same"));
    let output = room.run(&format!("{line} --message-format json"));
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(compared["outputs"][0]["same"], true);
}

#[test]
fn nets_are_compared_as_on_phones_where_the_machine_can() {
    let room = room_with("network/free_sizes", "");
    let line = format!("verify model.onnx m.param m.bin {}", python());
    let data = format!("{line} --data inputs.npz");
    let same = "the same in onnxruntime and ncnn";
    assert_ne!(room.expect(&format!("{data} --bf16"), 0, same), room.expect(&data, 0, same));
    if cfg!(target_arch = "x86_64") {
        let text = room.expect(&format!("{line} --fp16"), 2, "nothing could be compared");
        for words in [
            "ncnn computes in float32 on this machine, and not in float16",
            "--magnitudes",
            "--fp16 --vulkan",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("pip install"), "{text}");
    }
    // A loader of Vulkan without drivers.
    let mut command = room.command(&format!("{line} --vulkan"));
    let output = command.env("VK_DRIVER_FILES", "none").env("VK_ICD_FILENAMES", "none").output().unwrap();
    if cfg!(target_os = "linux") {
        room::expect(&output, "--vulkan", 2, "the package mesa-vulkan-drivers");
    }
}

#[test]
fn results_beyond_float16_are_named() {
    let room = room_with("network/beyond_float16", "");
    let line = format!("verify model.onnx m.param m.bin --data inputs.npz --magnitudes {}", python());
    // MaxPool and Flatten only move elements of "r".
    let option = "convert with --float32 \"r\"";
    let text = room.expect(&line, 0, option);
    assert!(text.contains("1 value above") && text.contains("e5  r\n"), "{text}");
    room.expect("model.onnx m.param m.bin --float32 r", 0, "");
    room.expect(&format!("{line} --float32 r"), 0, "no result is too large for float16");
    // The option of the conversion is part of the new one.
    room.expect(&format!("{line} --float32 y"), 0, "convert with --float32 \"y,r\"");
    room.expect(&format!("{line} --float32 none"), 2, "no input of the model has the name \"none\"");
    room.expect(&format!("{line} --kv-cache"), 2, "cannot be used with");
    room.expect(&format!("{line} --bf16"), 2, "cannot be used with");

    room.expect("model.onnx m.param m.bin --rename r=features", 0, "");
    room.expect(&line, 4, "ncnn does not compute \"r\"");
    room.expect(&format!("{line} --rename r=features"), 0, option);
}

#[test]
fn networks_within_float16_are_measured() {
    for (fixture, options) in [("network/transformer_block", ""), ("quantized/network", "--dequantize")] {
        let room = room_with(fixture, options);
        let line = format!("verify model.onnx m.param m.bin --data inputs.npz {options} --magnitudes");
        room.expect(&format!("{line} {}", python()), 0, "no result is too large for float16");
    }
}

#[test]
fn precision_is_chosen_by_samples() {
    let room = room_with("spatial/conv_in_large_tiles", "");
    let masks = |room: &Room| {
        let text = fs::read_to_string(room.path("m.param")).unwrap();
        let masks = text.split_whitespace().filter_map(|word| word.strip_prefix("31=").map(str::to_owned));
        masks.collect::<Vec<_>>()
    };
    let line = format!("model.onnx m.param m.bin --data inputs.npz {}", python());
    room.expect(&line, 0, "predicted");
    let text = room.expect(&line, 0, "without --careful, on 1 sample");
    assert!(text.contains("error in float16: "), "{text}");
    assert_eq!(masks(&room), ["64"]);
    room.expect(&format!("{line} --half-error 0.9"), 0, "predicted, on 1 sample");
    assert_eq!(masks(&room), [""; 0]);
    // No sum in float16 is so exact.
    room.expect(&format!("{line} --half-error 1e-3"), 0, "without --precise, on 1 sample");
    assert_eq!(masks(&room), ["1"]);
    room.expect(&format!("{line} --half-error 1e-9"), 0, "--float32 \"");
    assert!(masks(&room).contains(&"23".to_owned()));
    // What the user asks for is part of the choice.
    room.expect(&format!("{line} --precise"), 0, "predicted, on 1 sample");
    assert_eq!(masks(&room), ["1"]);
    room.expect(&format!("{line} --half-error 0"), 2, "expected a positive number");
    room.expect("model.onnx m.param m.bin --half-error 0.1", 2, "--data");
    room.expect(&format!("{line} --kv-cache"), 2, "cannot be used with");
    room.expect("model.onnx m.param m.bin --data none.npz --python none", 2, "cannot be started");

    // Infinities in float16, of the parts of a model.
    let room = room_with("network/beyond_float16", "");
    room.expect(&format!("{line} --outputs h"), 0, "without --float32 \"r\"");
    assert_eq!(masks(&room).len(), masks(&room).iter().filter(|mask| *mask == "23").count());
}

#[test]
fn a_model_with_constant_inputs_is_compared() {
    let options = "--set rate=8000";
    let room = room_with_model("control/if_on_a_rate", options);
    let line = format!("verify model.onnx m.param m.bin {}", python());
    room.expect(&format!("{line} {options}"), 0, "the same in onnxruntime and ncnn");
    room.expect(&format!("{line} --set rate=16000"), 4, "shape");
}

#[test]
fn options_are_those_of_the_report() {
    let room = room_with_model("control/if_on_a_rate", "--set rate=8000 --numbered --report m.report.json");
    let line = format!("verify model.onnx m.param m.bin {}", python());
    let same = "the same in onnxruntime and ncnn";
    let text = room.expect(&line, 0, same);
    assert!(text.contains("options of the conversion: --set --numbered, by "), "{text}");
    assert!(!room.expect(&format!("{line} -q"), 0, "").contains("options"));
    // Options of the command line replace those of the report.
    room.expect(&format!("{line} --set rate=16000"), 4, "shape");
    // The names that `batch` gives.
    for ending in ["param", "bin", "report.json"] {
        fs::copy(room.path(&format!("m.{ending}")), room.path(&format!("b.ncnn.{ending}"))).unwrap();
    }
    room.expect(&format!("verify model.onnx b.ncnn.param {}", python()), 0, same);
    fs::rename(room.path("m.report.json"), room.path("r.json")).unwrap();
    room.expect(&line, 1, "repeat the options of the conversion, or give its --report");
    room.expect(&format!("{line} --report r.json"), 0, same);
    room.expect(&format!("{line} --report none.json"), 2, "none.json: the report cannot be opened");
    room.put("text.json", b"{}");
    room.expect(&format!("{line} --report text.json"), 2, "the report has no options of a conversion");

    // The report of other files has no effect, unless an option names it.
    room.expect("model.onnx m.param m.bin --set rate=16000 --report m.report.json", 0, "");
    room.expect("model.onnx m.param m.bin --set rate=8000", 0, "");
    let text = room.expect(&format!("{line} --set rate=8000"), 0, same);
    assert!(!text.contains("options of the conversion"), "{text}");
    room.expect(&format!("{line} --report m.report.json"), 2, "the report is of another net");
}

#[test]
fn options_of_a_report_give_way_to_those_that_exclude_them() {
    let room = room_with("quantized/operators", "--int8 --report m.report.json");
    let line = format!("verify model.onnx m.param m.bin --data inputs.npz {}", python());
    room.expect(&line, 0, "options of the conversion: --int8");
    room.expect(&format!("{line} --dequantize"), 4, "DIFFERS");
}

#[test]
fn the_error_of_each_isolated_layer_is_printed() {
    let room = room_with("network/transformer_block", "");
    let line = format!("verify model.onnx m.param m.bin --data inputs.npz --layers {}", python());
    let text = room.expect(&line, 0, "inside are the same");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('"')).collect();
    assert!(rows.len() > 5 && rows.iter().all(|row| row.contains("  alone ")), "{text}");
    let output = room.run(&format!("{line} --message-format json"));
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(compared["layers"][0]["alone"].is_number(), "{compared}");
    // The runtime causes an error alone if the layers in the files compute the nodes.
    let text = room.expect(&format!("{line} --tolerance 1e-9"), 4, "by the runtime's computation: ");
    assert!(!text.contains("a fault of the net"), "{text}");
    let mut bytes = fs::read(room.path("m.bin")).unwrap();
    let last = bytes.len() - 4;
    let weight = f32::from_le_bytes(bytes[last..].try_into().unwrap());
    bytes[last..].copy_from_slice(&(weight + 1.0).to_le_bytes());
    room.put("m.bin", &bytes);
    room.expect(&line, 4, "a fault of the net: its layers are not the model's nodes");
}

#[test]
fn random_numbers_are_the_same_in_both_runtimes() {
    let options = "--random-as-input";
    let room = room_with_model("refused/noise", options);
    let line = format!("verify model.onnx m.param m.bin {}", python());
    room.expect(&format!("{line} {options}"), 0, "the same in onnxruntime and ncnn");
}

#[test]
fn masks_are_zeros_and_ones() {
    let room = room_with("attention/mask_of_the_lowest_float", "");
    let line = format!("verify model.onnx m.param m.bin {}", python());
    let text = room.expect(&line, 0, "the same in onnxruntime and ncnn");
    // Sums that are infinite give NaN in both runtimes, without an error.
    assert!(!text.contains("max abs 0.000e0"), "{text}");
}

/// Blobs inside of a node have other names than the values that it computes.
#[test]
fn a_blob_with_the_name_of_a_value_contains_it() {
    for fixture in [
        "control/if_not_zero",
        "elementwise/bytes_wrap",
        "elementwise/shift_bits",
        "elementwise/where_of_comparison",
        "free/rows_by_distance",
        "fuse/attention_not_batch",
        "fuse/layer_norm_mean_is_read",
    ] {
        let room = room_with(fixture, "");
        let line = format!("verify model.onnx m.param m.bin --data inputs.npz --layers {}", python());
        room.expect(&line, 0, "the same in onnxruntime and ncnn");
    }
}

/// The sizes to try satisfy the conditions that the conversion states.
#[test]
fn valid_sizes_are_compared() {
    for fixture in [
        "condition/element_far_from_the_end",
        "condition/mirrored",
        "condition/past_and_total",
        "condition/rows_of_eight",
        "decoder/mask_of_cache_and_prompt",
    ] {
        let room = room_with(fixture, "");
        room.expect(
            &format!("verify model.onnx m.param m.bin {}", python()),
            0,
            "the same in onnxruntime and ncnn",
        );
    }
}

/// Nets on devices are run by `programs.sh` and `phone.sh`, which compile the program.
#[cfg(unix)]
#[test]
fn devices_without_the_program_are_reported() {
    let room = room_with_model("network/transformer_block", "");
    let device = |command: &str, expected: &str| {
        let line = format!("verify model.onnx m.param m.bin {}", python());
        let output = room.command(&line).args(["--device", command]).output().unwrap();
        let text = room::expect(&output, command, 2, expected);
        assert!(!text.contains("pip install"), "{text}");
    };
    room.put("text", b"text");
    device("./none", "the program on the device did not start: ");
    device("./none", "the name is that of no program there");
    device("./text", "or without the permission to run");
    device("true", "the program on the device did not start: it ended with 0");
    device("kill -9 $$", "the device may have too little memory");
    device("echo onnx2ncnn runner 0 1.0", "the program on the device is of another version");
    device("echo onnx2ncnn runner 1 1.0; echo no route to host >&2; exit 255", "ended: no route to host");
    let text = room.expect("runner", 0, "#include <ncnn/net.h>");
    assert!(text.contains("onnx2ncnn runner 1 "), "{text}");
    room.expect("verify model.onnx --threads 2", 2, "--device");
    room.expect("verify model.onnx --device x --magnitudes", 2, "cannot be used with");
}

#[test]
fn parts_and_token_ids_are_compared() {
    let python = python();
    for (fixture, options) in [
        ("network/transformer_block", ""),
        ("network/free_batch", "--input-shape 1,3,16,16"),
        ("control/if_on_constant", ""),
    ] {
        let room = room_with(fixture, options);
        room.expect(&format!("verify model.onnx m.param m.bin {options} {python}"), 0, "same");
    }
}

#[test]
fn quantized_networks_are_compared_as_converted() {
    let python = python();
    for fixture in ["quantized/network", "quantized/operators", "recurrent/lstm_of_ranges"] {
        let room = room_with(fixture, "--dequantize");
        let line = format!("verify model.onnx m.param m.bin --data inputs.npz {python}");
        room.expect(&format!("{line} --dequantize"), 0, "the same in onnxruntime and ncnn");
        if fixture == "quantized/operators" {
            // The net has no rounding.
            room.expect(&line, 4, "DIFFERS");
        } else {
            room.expect(&line, 1, "quantiz");
        }
    }
    for fixture in ["quantized/network", "quantized/channels_last_network", "recurrent/lstm_of_ranges"] {
        let room = room_with(fixture, "--int8");
        room.expect(&format!("verify model.onnx m.param m.bin --int8 {python}"), 0, "same");
    }
    let room = room_with("quantized/network", "--int8");
    room.expect("verify model.onnx m.param m.bin --int8 --dequantize", 2, "cannot be used with");
    // Other elements than the levels of the model, to which its int8 layers round, say nothing of a net.
    let room = room_with("quantized/convolution_of_levels_in_rows", "--int8");
    room.expect("verify model.onnx m.param m.bin --int8", 0, "verified: 3 of 3 windows");
}

#[test]
fn nets_with_weights_in_blocks_are_compared() {
    let python = python();
    let room = room_with("blocks/symmetric", "--weights keep");
    let line = format!("verify model.onnx m.param m.bin {python} --weights");
    room.expect(&format!("{line} keep --layers"), 0, "the same in onnxruntime and ncnn");
    // The other factor is rounded, which the cosine of 0.99 allows.
    let room = room_with("blocks/floats", "--weights int8");
    room.expect(&format!("{line} int8"), 0, "same");
    room.expect(&format!("{line} keep"), 4, "DIFFERS");
}

#[test]
fn missing_requirements_are_reported() {
    let room = room_with("control/dropout", "");
    for (python, said) in [("none", "cannot be started"), ("false", "ended with")] {
        room.expect(&format!("verify model.onnx m.param m.bin --python {python}"), 2, said);
        let text = room.expect(&format!("simplify model.onnx s.onnx --check 1 --python {python}"), 2, said);
        assert!(text.contains("nothing was written"), "{text}");
    }
    room.expect("verify model.onnx m.param none.bin", 2, "none.bin");
    room.expect("verify - m.param m.bin", 2, "standard input");
    room.expect("simplify - s.onnx --check 1", 2, "standard input");
    assert_eq!(room.names(), ["inputs.npz", "m.bin", "m.param", "model.onnx"]);
}

#[test]
fn a_simplified_model_is_compared_before_it_is_written() {
    let python = python();
    let room = room_with("network/free_sizes", "");
    let line = format!("simplify model.onnx s.onnx {python} --check");
    room.expect(&format!("{line} 2 --external-data w.bin --size-threshold 1"), 0, "compared 2 times");
    assert_eq!(room.names(), ["inputs.npz", "m.bin", "m.param", "model.onnx", "s.onnx", "w.bin"]);
    room.expect(
        &format!("simplify s.onnx t.onnx {python} --check 1 --input-shape 1,3,32,32"),
        0,
        "compared once",
    );
    room.expect(&format!("{line} 0"), 2, "--check");
}

#[cfg(unix)]
#[test]
fn a_result_that_differs_is_not_written() {
    use std::os::unix::fs::PermissionsExt;

    let room = room_with("control/dropout", "");
    let answer =
        r#"{"outputs": [{"name": "y", "same": false, "max_abs": 0.5, "relative": 0.25, "cosine": 0.75}]}"#;
    room.put("python", format!("#!/bin/sh\necho '{answer}'\n").as_bytes());
    fs::set_permissions(room.path("python"), fs::Permissions::from_mode(0o755)).unwrap();
    let text =
        room.expect("simplify model.onnx s.onnx --check 1 --python ./python", 4, "differs from the original");
    assert!(text.contains("\"y\"") && text.contains("2.500e-1"), "{text}");
    room.expect("verify model.onnx m.param m.bin --python ./python", 4, "1 of 1 output differ");
    assert_eq!(room.names(), ["inputs.npz", "m.bin", "m.param", "model.onnx", "python"]);
}

/// Multiplies a weight of the last layer of `m.bin` by a factor; returns the bytes of the file.
fn scale_weight(room: &Room, factor: f32) -> Vec<u8> {
    let mut bytes = fs::read(room.path("m.bin")).unwrap();
    let at = bytes.len() - 4 * 100;
    let weight = f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    bytes[at..at + 4].copy_from_slice(&(weight * factor).to_le_bytes());
    room.put("m.bin", &bytes);
    bytes
}

#[test]
fn each_layer_is_compared_without_a_runtime() {
    let room = room_with_model("network/digits", "");
    let line = "verify model.onnx m.param m.bin --message-format human";
    room.expect(line, 0, "verified: 6 of 6 windows, 0 proved");
    assert_eq!(room.expect(&format!("{line} -q"), 0, ""), "");
    let output = room.run("verify model.onnx m.param m.bin --message-format json");
    let proofs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let window = &proofs[0]["windows"][0];
    assert_eq!((&window["value"], &window["state"]), (&"r1".into(), &"tested".into()), "{window}");

    // One weight of the last layer, which is 1 % larger.
    let bytes = scale_weight(&room, 1.01);
    let text = room.expect(line, 4, "DIFFERS \"logits\": element ");
    assert!(text.contains("mismatch: 1 of 6 windows differ"), "{text}");

    // The smallest part that differs is a model and a net of their own, which differ in the same way.
    room.expect(&format!("{line} --reduce small"), 4, "DIFFERS \"logits\": element ");
    room.expect("check small/net.param", 0, "3 layers, 3 blobs");
    let text = room.expect("verify small/model.onnx small/net.param small/net.bin", 4, "DIFFERS \"logits\"");
    assert!(text.contains("mismatch: 1 of 1 window differ"), "{text}");
    assert_eq!(room.names(), ["m.bin", "m.param", "model.onnx", "small"]);
    runtime_computes(&room, "small");
    room.expect(&format!("{line} --reduce small"), 2, "the folder exists");

    room.put("m.bin", &bytes[..bytes.len() - 4]);
    let text = room.expect(line, 4, "invalid net: m.param: the .bin file has ");
    assert!(text.contains("help: the files are damaged"), "{text}");
}

/// Weights may be damaged where the elements of a comparison do not show it.
#[test]
fn weights_are_those_of_a_conversion() {
    let room = room_with_model("network/digits", "");
    let line = "verify model.onnx m.param m.bin";
    scale_weight(&room, 1.0001);
    let text = room.expect(line, 4, " elements of weight_data are not those of a conversion, from element ");
    assert!(text.contains(": 1 of ") && text.contains("1 of 6 windows differ"), "{text}");

    // Nets with other layers are compared by what they compute.
    room.expect("model.onnx m.param m.bin --skip fuse_layer_activation", 0, "");
    let text = room.expect(line, 0, "the net has other layers than a conversion with these options");
    assert!(text.contains("verified: 6 of 6 windows"), "{text}");
    // Float16 rounds weights.
    room.expect("model.onnx m.param m.bin --fp16", 0, "");
    let text = room.expect(line, 0, "verified: 6 of 6 windows");
    assert!(!text.contains("note:"), "{text}");
}

/// Checks that onnxruntime computes the elements of the output of a case.
fn runtime_computes(room: &Room, case: &str) {
    let program = "
import sys, numpy as np, onnx, onnxruntime
from onnx import numpy_helper
case = sys.argv[1]
session = onnxruntime.InferenceSession(case + '/model.onnx', providers=['CPUExecutionProvider'])
load = lambda name: numpy_helper.to_array(onnx.load_tensor(f'{case}/test_data_set_0/{name}.pb'))
given = {port.name: load(f'input_{i}') for i, port in enumerate(session.get_inputs())}
np.testing.assert_allclose(session.run(None, given)[0], load('output_0'), rtol=1e-4, atol=1e-5)";
    let output = Command::new(support::python()).args(["-c", program]).arg(room.path(case)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_comparison_of_nothing_is_an_error() {
    let room = room_with("recurrent/rnn_relu", "");
    let said = room.expect("verify model.onnx m.param m.bin", 2, "no part of the net could be compared: \"");
    assert!(!said.contains("verified"), "{said}");
    room.expect("model.onnx new.param --verify", 2, "no part of the net could be compared");
    assert!(!room.path("new.param").exists());
}

/// Decisions are whole numbers, which the rounding of the model does not change.
#[test]
fn damaged_decisions_differ() {
    let room = room_with_model("classical/treeensemble_decided", "");
    let param = fs::read_to_string(room.path("m.param")).unwrap();
    let lines: Vec<&str> = param.lines().collect();
    let mut tried = 0;
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with("BinaryOp ") && line.contains(" 0=1 ") {
            // Sums for differences.
            let changed = line.replace(" 0=1 ", " 0=0 ");
            let mut lines = lines.clone();
            lines[index] = &changed;
            room.put("m.param", (lines.join("\n") + "\n").as_bytes());
            room.expect("verify model.onnx m.param m.bin", 4, "mismatch: 1 of 1 window differ");
            tried += 1;
        }
    }
    assert!(tried > 0);
}

#[test]
fn a_report_of_another_net_is_not_used() {
    let room = room_with_model("elementwise/abs", "--report m.report.json");
    let mut param = fs::read(room.path("m.param")).unwrap();
    param.push(b'\n');
    room.put("m.param", &param);
    let said =
        room.expect("verify model.onnx m.param m.bin", 0, "m.report.json: the report is of another net");
    assert!(said.contains("its options are not repeated"), "{said}");
}

#[test]
fn a_net_of_another_conversion_is_recognised() {
    let room = room_with_model("free/resized_to_one_row", "--input-shape x:1,3,8,8");
    let said = room.expect("verify model.onnx m.param m.bin", 0, "sizes of the net: --input-shape x:1,3,8,8");
    assert!(said.contains("verified: 1 of 1 window,"), "{said}");
    room.expect("verify model.onnx m.param m.bin --input-shape x:1,3,8,8", 0, "verified");
    let said = room.expect(
        "verify model.onnx m.param m.bin --input-shape x:1,3,4,4",
        4,
        "repeat --input-shape x:1,3,8,8",
    );
    assert!(!said.contains("layers ;"), "{said}");
    room.expect("verify model.onnx .", 0, "verified: 1 of 1 window,");
    let room = room_with_model("free/resized_to_one_row", "");
    let said =
        room.expect("verify model.onnx m.param m.bin --input-shape x:1,3,8,8", 2, "leave out --input-shape");
    assert!(!said.contains("DIFFERS"), "{said}");
    let room = room_with_model("quantized/network", "--int8");
    room.expect("verify model.onnx m.param m.bin --dequantize", 4, "the net has int8 weights: give --int8");
    room.expect("verify none.onnx", 2, "none.onnx: the file cannot be opened");
    room.put("photo.jpg", b"\xff\xd8\xff");
    room.expect("verify model.onnx m.param m.bin --data photo.jpg", 2, "--data is a file .npz with an array");
}

#[test]
fn moves_are_proved_and_free_sizes_tried() {
    let room = room_with_model("free/first_axis_of_one_kept", "");
    room.expect("verify model.onnx m.param m.bin", 0, "windows at ");
    let room = room_with_model("shape/transpose_batch", "");
    room.expect("verify model.onnx m.param m.bin", 0, "1 proved");
}

#[test]
fn a_conversion_is_compared_before_its_files_get_their_places() {
    let room = room_with_model("network/digits", "");
    room.expect("model.onnx v.param v.bin --verify", 0, "verified: 6 of 6 windows");
    assert_eq!(fs::read(room.path("v.bin")).unwrap(), fs::read(room.path("m.bin")).unwrap());
    room.expect("model.onnx v.param v.bin --verify --dry-run", 2, "--dry-run");
}
