//! Commands that a refusal prints: each converts what it says.

#![cfg(feature = "cli")]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/room.rs"]
mod room;
mod support;

use std::fs;

use onnx2ncnn::Converter;
use room::{Room, fixture};

/// Returns the printed commands and the percentages of the weights that they say to convert.
fn printed(text: &str) -> Vec<(String, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let percent = |line: &str| {
        let told = line.strip_prefix("help: this converts ")?;
        let part = told.strip_prefix("a part with ").or_else(|| told.strip_prefix("parts with "));
        let number = part.and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.or_else(|| told.starts_with("the whole model").then_some(100))
    };
    let pairs = lines.windows(2).filter_map(|pair| Some((percent(pair[0])?, pair[1])));
    pairs
        .map(|(percent, command)| (command.trim().strip_prefix("onnx2ncnn ").unwrap().to_owned(), percent))
        .collect()
}

/// Returns the commands for a fixture, after running each.
fn commands(name: &str) -> Vec<(String, u64)> {
    let model = fixture(name);
    let room = Room::new();
    let text = room.expect(&format!("{model} a.param a.bin"), 1, "nothing was written");
    let found = printed(&text);
    for (command, _) in &found {
        let room = Room::new();
        room.expect(&command.replace('"', ""), 0, "");
        match command.contains("--split-at") {
            true => {
                let names = room.names();
                assert!(names.contains(&"a.json".to_owned()), "{command}");
                // No runtime loads a part whose inputs have no types.
                for part in names.iter().filter(|name| name.ends_with(".onnx")) {
                    let inspection = Converter::new().inspect(&room.path(part).into()).unwrap();
                    assert!(inspection.inputs.iter().all(|input| input.dtype != "?"), "{command}: {part}");
                }
            }
            false => assert_eq!(room.names(), ["a.bin", "a.param"], "{command}"),
        }
    }
    let before = format!("{model} a.param a.bin ");
    let options = |command: String| command.strip_prefix(&before).unwrap().to_owned();
    found.into_iter().map(|(command, percent)| (options(command), percent)).collect()
}

#[test]
fn an_option_without_a_value_is_explained() {
    let line = format!("{} a.param a.bin", fixture("quantized/network"));
    let text = Room::new().expect(&line, 1, "the whole model; --dequantize: remove the rounding");
    assert!(text.contains("the whole model; --int8: compute"), "{text}");
}

#[test]
fn each_class_of_refusal_has_a_command() {
    for (name, options, least) in [
        ("sample_rate", "--set sr=16000", 100),
        ("labels_of_text", "--outputs p", 100),
        ("use_of_a_cache", "--set use_cache_branch=1", 100),
        ("length_of_a_mask", "--set lengths=T", 100),
        ("size_of_a_picture", "--set orig_im_size=1024,1024", 100),
        ("detector", "--outputs boxes,s", 97),
        ("letters", "--inputs ids", 90),
        ("branch_that_nothing_converts", "--outputs y", 95),
        ("unknown_first_node", "--inputs a", 99),
        ("noise_after_weights", "--random-as-input", 100),
        ("mask_decoder", "--set orig_im_size=1024,1024", 100),
        ("factor_of_a_picture", "--set scale=2", 100),
        ("precision_of_a_simulation", "--double-as-float", 100),
        ("end_of_tensorrt", "--outputs boxes,scores", 99),
        ("tokenizer", "--inputs \"input_ids:int64[S],attention_mask:int64[S]\"", 99),
        ("tokenizer_of_attention", "--inputs \"input_ids:int64[1,S],attention_mask:int64[1,S]\"", 99),
        ("words_of_a_pipeline", "--inputs \"counts:float[1,10]\" --outputs probabilities,best", 90),
        ("sequence_of_pictures", "--inputs \"batch:float[1,H,W,3]\"", 95),
        ("pillars", "--split-at features --split-at map", 99),
        ("points_in_the_middle", "--split-at p,features --split-at \"chosen:float[n1,16]\"", 99),
        ("selection_by_a_mask", "--outputs boxes,scores,classes", 94),
        ("detector_of_any_picture", "--input-shape x:1,3,224,224 --outputs scores", 95),
        ("durations", "--split-at rows,most,column --split-at \"repeated:float[n1,16]\"", 99),
        ("two_stage_detector", "--split-at features,s,rois --split-at \"pooled:float[n1,16,3,3]\"", 97),
        ("both_halves", "--split-at n --split-at \"frames:int64[n1]\"", 95),
        // The weights in the body of a loop are not within reach.
        ("greedy_loop", "--outputs context", 10),
    ] {
        let found = commands(&format!("remedy/{name}"));
        let (first, percent) = found.first().unwrap_or_else(|| panic!("{name}"));
        assert!(first == options && *percent >= least, "{name}: {found:?}");
    }
}

/// The net of each command computes what onnxruntime computes of the same part, or the same model.
#[test]
fn each_command_is_right() {
    let python = format!("--python {}", support::python().display());
    let mut count = 0;
    for folder in fs::read_dir(format!("{}/fixtures/remedy", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        if name == "cases.py" {
            continue;
        }
        let model = fixture(&format!("remedy/{name}"));
        for (options, _) in commands(&format!("remedy/{name}")) {
            // Random numbers have no expected results; the nets of a chain are parts that are proposed, too.
            if options.contains("--split-at") || options.contains("--random-as-input") {
                continue;
            }
            let (room, options) = (Room::new(), options.replace('"', ""));
            room.expect(&format!("{model} a.param a.bin {options}"), 0, "");
            let line = format!("verify {model} a.param a.bin {python} {options}");
            room.expect(&line, 0, "the same in onnxruntime and ncnn");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn both_sides_of_what_cannot_be_converted_are_proposed() {
    let found: Vec<String> = commands("remedy/both_halves").into_iter().map(|(command, _)| command).collect();
    assert_eq!(found[1..], ["--inputs \"frames:int64[n1]\"", "--outputs n"]);
}

/// Unique compares the points with each other: they are not a batch, in whichever part it is.
#[test]
fn a_part_has_the_free_axes_of_the_whole_model() {
    let (room, model) = (Room::new(), fixture("remedy/pillars"));
    let text = room.expect(&format!("{model} a.param --outputs features"), 0, "w=4 h=P");
    assert!(!text.contains("set to 1"), "{text}");
    room.expect(&format!("{model} b.param --split-at features --split-at map"), 0, "\"cells\"");
    assert!(room.names().contains(&"b.1.param".to_owned()), "{:?}", room.names());
}

#[test]
fn a_chain_has_a_list_of_its_nets() {
    let room = Room::new();
    let model = fixture("remedy/both_halves");
    let text = room.expect(
        &format!("{model} -o out --split-at n --split-at frames:int64[S]"),
        0,
        "model.ncnn.2.onnx  \"n\" -> \"frames\"",
    );
    assert!(text.contains("warning: not converted: it must be a constant"), "{text}");
    let list = std::fs::read_to_string(room.path("out/model.ncnn.json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let [first, rest, last] = list["steps"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!(first["param"], "model.ncnn.1.param");
    assert_eq!((&first["inputs"][0]["name"], &first["outputs"][0]["blob"]), (&"ids".into(), &"n".into()));
    assert_eq!((&rest["onnx"], &rest["inputs"][0]["name"]), (&"model.ncnn.2.onnx".into(), &"n".into()));
    assert_eq!((&last["bin"], &last["outputs"][0]["name"]), (&"model.ncnn.3.bin".into(), &"wave".into()));
    for file in ["1.param", "1.bin", "2.onnx", "3.param", "3.bin"] {
        assert!(room.path(&format!("out/model.ncnn.{file}")).exists(), "{file}");
    }
    // What a later part reads besides is handed on; a cut after it is none before it.
    let model = fixture("network/convolutional");
    room.expect(&format!("{model} whole.param --split-at r2"), 0, "\"r2\" -> \"y\"");
    room.expect(
        &format!("{model} whole.param --split-at sum --split-at r1"),
        2,
        "needs values of a later cut",
    );
    room.expect(&format!("{model} whole.param --split-at nothing"), 2, "no value \"nothing\"");
    room.expect(&format!("{model} whole.param --split-at r1 --outputs y"), 2, "cannot be used with");
}

#[test]
fn the_largest_part_is_cut_out() {
    let room = Room::new();
    let model = fixture("remedy/detector");
    let text = room.expect(
        &format!("{model} a.param --auto-cut"),
        0,
        "only the part to \"boxes\", \"s\" is converted",
    );
    assert!(text.contains("with 98 % of the weights and nodes"), "{text}");
    room.expect(
        &format!("{} b.param --auto-cut", fixture("refused/unknown_operator")),
        1,
        "unknown operator",
    );
    assert_eq!(room.names(), ["a.bin", "a.param"]);
}

#[test]
fn nothing_is_proposed_that_does_not_convert() {
    for name in ["refused/unknown_operator", "refused/text", "refused/shapes_do_not_fit"] {
        assert_eq!(commands(name), [], "{name}");
    }
}

#[test]
fn new_inputs_may_have_a_type_and_a_shape() {
    let room = Room::new();
    let model = fixture("remedy/letters");
    room.expect(&format!("{model} a.param a.bin --inputs ids:int64[1,S]"), 0, "w=S");
    room.expect(&format!("{model} a.param a.bin --inputs e:float32[1,5,8]"), 0, "w=8 h=5");
    room.expect(
        &format!("{model} a.param a.bin --inputs e:float32[1,5,8"),
        2,
        "no value \"e:float32[1,5,8\"",
    );
    room.expect(&format!("{model} a.param a.bin --inputs e:float[1,-5]"), 2, "not a size");
}

#[test]
fn sizes_are_values_of_inputs() {
    let model = fixture("remedy/length_of_a_mask");
    let room = Room::new();
    room.expect(&format!("{model} a.param a.bin --set lengths=T"), 0, "h=T");
    room.expect(&format!("{model} a.param a.bin --set lengths=S"), 2, "no input has a free size \"S\"");
    let twice = format!("{model} a.param a.bin --set lengths=3 --set lengths=4");
    room.expect(&twice, 2, "the input \"lengths\" is set twice");
    let only = fixture("elementwise/celu");
    room.expect(&format!("{only} a.param a.bin --set x=1"), 0, "all inputs are set: the net has none");
}

#[test]
fn a_rest_that_is_cut_off_is_computed_by_a_program() {
    let room = Room::new();
    let told = "; a program of --example (FILE.py, FILE.cpp or FILE.kt) computes the rest of the model";
    for (name, is_told) in [("detector", true), ("end_of_tensorrt", true), ("two_stage_detector", false)] {
        let model = fixture(&format!("remedy/{name}"));
        let text = room.expect(&format!("{model} a.param a.bin"), 1, "this converts");
        assert_eq!(text.contains(told), is_told, "{name}: {text}");
        if is_told {
            let (command, _) = printed(&text).remove(0);
            room.expect(&format!("{command} --example a.py"), 0, "a.py");
            assert!(fs::read_to_string(room.path("a.py")).unwrap().contains("def rest(results"), "{name}");
            assert!(room.path("onnx_operators.py").exists(), "{name}");
        }
    }
}

#[test]
fn values_of_inputs_give_the_declared_sizes() {
    for (name, option) in [
        ("assumption/expanded_to_elements", "--set n=2,3,4"),
        ("assumption/grid_of_elements", "--set n=1,5,6,2"),
        ("assumption/resized_to_elements", "--set n=1,2,6,7"),
        ("assumption/shaped_by_elements", "--set n=1,3,4"),
        ("spatial/sizes_at_run_time_of_two_scales", "--set s=4,5"),
    ] {
        let room = Room::new();
        let model = fixture(name);
        let text = room.expect(&format!("{model} a.param a.bin --strict"), 1, option);
        let (command, _) = printed(&text).remove(0);
        let text = room.expect(&command, 0, "");
        assert!(!text.contains("runtimes of ONNX refuse the model"), "{name}: {text}");
    }
}

#[test]
fn the_length_of_a_mask_is_the_sum_of_others() {
    let room = Room::new();
    let model = fixture("decoder/mask_of_its_own_length");
    let line = format!("{model} a.param a.bin --kv-cache");
    let text = room.expect(&line, 1, "\"mask\" has these sizes: the model leaves them open");
    let (command, percent) = printed(&text).remove(0);
    assert_eq!((command.as_str(), percent), (format!("{line} --input-shape mask:1,P+S").as_str(), 100));
    room.expect(&command, 0, "a cache, continued by \"nk\"");
}
