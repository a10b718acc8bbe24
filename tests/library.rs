//! The library as other programs use it: the examples, and documented errors.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onnx2ncnn::error::ErrorKind;
use onnx2ncnn::{AssumedFact, Converter, Dim, Input, ModelBytes, Storage};

const MODEL: &str = "fixtures/network/convolutional/model.onnx";

fn run_example(name: &str, words: &[&Path]) -> (Output, String) {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(["run", "--quiet", "--example", name, "--"]).args(words).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

#[test]
fn the_examples_run() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("n.param"), folder.path().join("n.bin"));
    let (output, said) = run_example("convert", &[Path::new(MODEL), &param, &bin]);
    assert!(output.status.success() && said.contains("x [1, 3, 16, 16] is blob x [3, 16, 16]"), "{said}");
    assert!(param.exists() && bin.exists());
    let (output, said) = run_example("layers", &[Path::new(MODEL)]);
    assert!(output.status.success() && said.contains("Convolution"), "{said}");
    let (output, said) = run_example("layers", &[Path::new("no.onnx")]);
    assert!(!output.status.success() && said.contains("i/o error: no.onnx"), "{said}");
}

#[cfg(feature = "cli")]
#[test]
fn conversion_in_memory_equals_the_command() {
    for (fixture, data) in [("network/convolutional", &[][..]), ("weights/external_file_each", &["b", "w"])] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let fixture = Path::new("fixtures").join(fixture);
        let model = fixture.join("model.onnx");
        let mut command = Command::new(env!("CARGO_BIN_EXE_onnx2ncnn"));
        let done = command.arg("--quiet").args([&model, &path("a.param"), &path("a.bin")]).status().unwrap();
        assert!(done.success());
        let data: Vec<_> = data.iter().map(|name| fixture.join(name)).collect();
        let (param, bin) = (path("b.param"), path("b.bin"));
        let mut words: Vec<&Path> = vec![&model, &param, &bin];
        words.extend(data.iter().map(|file| file.as_path()));
        let (output, said) = run_example("bytes", &words);
        assert!(output.status.success(), "{said}");
        for half in ["param", "bin"] {
            let read = |name| fs::read(path(&format!("{name}.{half}"))).unwrap();
            assert!(read("a") == read("b"), "{half} of {}", fixture.display());
        }
        assert!(fs::metadata(&bin).unwrap().len() > 0);
    }
}

#[test]
fn unproved_facts_are_stated() {
    use AssumedFact::{
        ExactInteger, ExactQuotient, Finite, FixedSizes, NotNegative, NotTiny, SmallAngle, WholeExponent,
    };
    for (fixture, expected) in [
        ("angles", &[("x", SmallAngle)][..]),
        ("angles_in_bounds", &[("x", Finite)]),
        ("quotients", &[("a", ExactQuotient)]),
        ("quotients_in_bounds", &[("x", Finite)]),
        ("powers", &[("x", NotTiny)]),
        (
            "powers_of_integers",
            &[("x", WholeExponent), ("b", ExactInteger), ("y", ExactInteger), ("x", Finite)],
        ),
        ("powers_in_bounds", &[("x", Finite)]),
        ("floats", &[("x", Finite)]),
        ("bounded_floats", &[]),
        ("integers_as_floats", &[]),
        ("infinite_constant_beside_integers", &[("s", Finite)]),
        ("integers_beside_small_ones", &[]),
        ("integers_handed_on", &[("y", ExactInteger)]),
        ("sum_of_integers", &[("a", ExactInteger), ("b", ExactInteger), ("y", ExactInteger)]),
        ("sum_of_small_integers", &[]),
        ("count_of_truths", &[]),
        ("rows_of_a_long_table", &[("ids", NotNegative)]),
        ("rows_by_arg_max", &[("x", Finite)]),
        ("places_of_the_largest", &[("x", Finite)]),
        ("slice_to_an_element", &[("n", FixedSizes)]),
        ("slice_from_an_element", &[("from", ExactInteger), ("from", FixedSizes)]),
        ("slice_from_a_bounded_element", &[("x", Finite)]),
        ("range_from_an_element", &[("offset", ExactInteger)]),
        ("resized_to_elements", &[("n", ExactInteger), ("n", FixedSizes), ("x", Finite)]),
        ("grid_of_elements", &[("n", FixedSizes), ("x", Finite)]),
        ("shaped_by_elements", &[("n", FixedSizes)]),
        ("split_by_elements", &[("n", FixedSizes), ("x", Finite)]),
        ("expanded_to_elements", &[("n", FixedSizes)]),
        ("summed_along_an_element", &[("axis", ExactInteger), ("axis", FixedSizes), ("x", Finite)]),
        ("top_of_elements", &[("k", FixedSizes), ("x", Finite)]),
        ("depth_of_elements", &[("n", FixedSizes)]),
    ] {
        let model = Path::new("fixtures/assumption").join(fixture).join("model.onnx");
        let input = Input::Path(model);
        let conversion = Converter::new().convert(&input).unwrap();
        let stated = conversion.assumptions.iter().map(|found| (found.value.as_str(), found.fact));
        assert_eq!(stated.collect::<Vec<_>>(), expected, "{fixture}");
        let refused = Converter::new().strict(true).convert(&input).err();
        let errors: Vec<ErrorKind> =
            refused.iter().flat_map(|refusal| refusal.errors().iter().map(|error| error.kind())).collect();
        // Finite inputs are stated, but no reason for a refusal.
        let refused = expected.iter().filter(|(_, fact)| *fact != Finite).count();
        assert_eq!(errors, vec![ErrorKind::Unsupported; refused], "{fixture}");
    }
}

/// Every blob in float16 can be kept in float32, by itself and with all others.
/// Returns the number of blobs of a case in half precision, each of which is kept in float32 by its name.
fn kept_half_blobs(case: &Path) -> usize {
    let input = Input::Path(case.join("model.onnx"));
    let Ok(conversion) = Converter::new().convert(&input) else { return 0 };
    let blobs = conversion.half_blobs().unwrap();
    let names: BTreeSet<&str> = blobs.iter().map(|blob| blob.name.as_str()).collect();
    for name in &names {
        let conversion = Converter::new().float32([*name]).convert(&input).unwrap();
        let rest = conversion.half_blobs().unwrap();
        assert!(rest.iter().all(|blob| blob.name != *name), "{name} of {}: {rest:?}", case.display());
    }
    let count = names.len();
    let conversion = Converter::new().float32(names).convert(&input).unwrap();
    assert_eq!(conversion.half_blobs().unwrap(), [], "{}", case.display());
    count
}

#[test]
fn every_half_blob_is_kept_in_float32() {
    let folders = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let cases = folders(Path::new("fixtures")).filter(|path| path.is_dir()).flat_map(|path| folders(&path));
    let cases: Vec<PathBuf> = cases.filter(|case| case.join("expected.param").exists()).collect();
    let kept_of =
        |first: usize| cases.iter().skip(first).step_by(2).map(|case| kept_half_blobs(case)).sum::<usize>();
    let kept = std::thread::scope(|scope| {
        let odd = scope.spawn(|| kept_of(1));
        kept_of(0) + odd.join().unwrap()
    });
    assert!(kept > 1000, "{kept}");
}

#[test]
fn nodes_are_kept_in_float32_by_their_names() {
    let input = Input::from(MODEL);
    let float32 = |names: &[&str]| {
        let conversion = Converter::new().float32(names.iter().copied()).convert(&input).unwrap();
        let net = conversion.net();
        let layers = net.layers.iter().filter(|layer| net.is_float32(layer)).map(|layer| layer.name.clone());
        (layers.collect::<Vec<_>>(), conversion.warnings.join("\n"))
    };
    assert_eq!(float32(&[]).0, [""; 0]);
    // Convolution, Split and both readers; the Convolution does the work of the BatchNormalization, too.
    let split = "split_r1";
    let (layers, warnings) = float32(&["r1"]);
    assert!(layers.len() == 4 && layers.contains(&split.to_owned()), "{layers:?}");
    assert_eq!(warnings, "");
    assert_eq!(float32(&["c1"]), (layers, String::new()));
    assert_eq!(float32(&["n2"]).0, float32(&["c2", "r2"]).0);
    // An input, and the layer that reads it.
    assert_eq!(float32(&["x"]).0.len(), 1);
    let refusal = Converter::new().float32(["r1", "none"]).convert(&input).err().unwrap();
    let error = refusal.errors().iter().next().unwrap();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("the name \"none\""), "{error}");
}

/// A name of a node without a layer is not wrong.
#[test]
fn folded_nodes_are_not_kept() {
    let input = Input::from("fixtures/network/detection_head/model.onnx");
    let conversion = Converter::new().float32(["target", "s", "c"]).convert(&input).unwrap();
    assert!(
        conversion
            .warnings
            .iter()
            .any(|warning| warning.contains("no layer does the work of \"s\", \"target\"")),
        "{:?}",
        conversion.warnings
    );
}

/// The fixtures of this family have the smallest valid sizes.
#[test]
fn caches_may_be_empty_where_the_runtime_bears_it() {
    let model = Input::from("fixtures/decoder/empty_cache/model.onnx");
    for (release, may_be_zero, stated) in [(None, &["P"][..], &[][..]), (Some(20240410), &[], &["P >= 1"])] {
        let converter = Converter::new();
        let converter = release.map_or(converter.clone(), |release| converter.ncnn_version(release));
        let conversion = converter.convert(&model).unwrap();
        assert_eq!(conversion.may_be_zero(), may_be_zero);
        let conditions: Vec<String> = conversion.conditions.iter().map(ToString::to_string).collect();
        assert_eq!(conditions, stated);
    }
}

#[test]
fn newer_releases_have_a_layer_for_attention() {
    for (fixture, release, count) in [
        ("contributed/ms_multi_head_after_states", 20260113, 1),
        ("contributed/ms_attention_causal", 20260113, 0),
        ("contributed/ms_multi_head", 20260113, 1),
        // Spelled out, with linear maps of other widths.
        ("fuse/attention_not_same_width", 20261020, 1),
        ("fuse/attention_not_same_width", 20260526, 0),
        // A query that sees no key would not be NaN; others read the weights.
        ("fuse/attention_not_blind", 20261020, 0),
        ("fuse/attention_scores_are_read", 20261020, 0),
        // The layer with linear maps.
        ("fuse/attention_causal", 20261020, 0),
    ] {
        let model = format!("fixtures/{fixture}/model.onnx");
        let converter = Converter::new().ncnn_version(release);
        let conversion = converter.convert(&Input::from(model.as_str())).unwrap();
        let layers = conversion.net().layers.iter().filter(|layer| layer.layer.type_name() == "SDPA");
        assert_eq!(layers.count(), count, "{fixture} in {release}");
    }
}

#[test]
fn conditions_on_free_sizes_are_stated() {
    for (fixture, expected) in [
        ("area_as_a_number", "H*W = 6"),
        ("blocks", "H is a multiple of 2"),
        ("element_far_from_the_end", "H >= 233"),
        ("element_further_from_the_end", "H >= 234"),
        ("half_of_a_difference", "H >= 5"),
        ("halved_and_doubled", "H is a multiple of 2; W is a multiple of 2"),
        ("mirrored", "H >= 6"),
        ("mirrored_by_a_difference", "H >= 5"),
        ("padded_or_cut_to_a_length", ""),
        ("padded_to_a_length", ""),
        ("parts_of_a_whole", "H := 8"),
        ("parts_of_equal_length", "B := A"),
        ("past_and_total", "T := P+1"),
        ("pools_of_three", "H >= 7; W >= 7"),
        ("product_of_rows", "S := 48"),
        ("rows_as_a_number", "H := 6"),
        ("rows_of_eight", "H is a multiple of 2"),
        ("slice_before_the_end", "H >= 6"),
        ("slice_between_two_ends", "H >= 8"),
        ("slice_of_a_middle", "H >= 3"),
        ("slice_from_a_difference", "H >= 5"),
        ("slice_from_three_to_a_size", "H >= 4"),
        ("slice_of_a_tail", ""),
        ("slice_to_a_difference", "H >= 6"),
        ("squeezed", "H := 1"),
        ("sum_of_two", "A = B, or one of them is 1"),
        ("sum_with_a_part_of_a_table", "H <= 9"),
        ("sum_with_a_table", "H is 1 or 5"),
        ("table_around_its_middle", "L <= 10"),
        ("window_of_seven", "H >= 7; W >= 7"),
        ("wrapped", "H >= 5"),
    ] {
        let model = Path::new("fixtures/condition").join(fixture).join("model.onnx");
        let conversion = Converter::new().convert(&Input::Path(model)).unwrap();
        // A warning names a size that is not free, and its value.
        let fixed = conversion.warnings.iter().map(|warning| {
            let names: Vec<&str> = warning.split('"').collect();
            let number = warning.split(' ').find_map(|word| word.trim_end_matches(',').parse::<i64>().ok());
            let value = number.map_or_else(|| names[3].to_owned(), |number| number.to_string());
            format!("{} := {value}", names[1])
        });
        let stated = fixed.chain(conversion.conditions.iter().map(ToString::to_string));
        assert_eq!(stated.collect::<Vec<_>>().join("; "), expected, "{fixture}");
    }
}

#[test]
fn writers_get_the_bytes_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("n.param"), folder.path().join("n.bin"));
    let models = [MODEL, "fixtures/weights/external_one_file/model.onnx"];
    for (model, fp16) in models.into_iter().flat_map(|model| [(model, false), (model, true)]) {
        let conversion = Converter::new().fp16(fp16).convert(&Input::from(model)).unwrap();
        let files = conversion.write(&param, &bin).unwrap();
        let (mut text, mut weights) = (Vec::new(), Vec::new());
        assert_eq!(conversion.write_to(&mut text, &mut weights).unwrap(), files);
        assert!(text == fs::read(&param).unwrap() && weights == fs::read(&bin).unwrap(), "{model} {fp16}");
    }
}

#[test]
fn writing_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let conversion = Converter::new().convert(&Input::from(MODEL)).unwrap();
    let mut told = Vec::new();
    let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
    let written = conversion.write_watched(&param, &bin, |done, all| told.push((done, all))).unwrap();
    assert_eq!(told.len(), written.weights.len());
    assert!(told.iter().all(|(_, all)| *all == told[0].1) && told.is_sorted());
    let elements =
        u64::try_from(written.weights.iter().map(|weight| weight.elements).sum::<usize>()).unwrap();
    assert_eq!(told.last().unwrap(), &(elements, elements));
}

#[test]
fn external_data_in_memory_is_used() {
    let model = fs::read("fixtures/weights/external_file_each/model.onnx").unwrap();
    let errors = Converter::new().convert(&Input::from(model.clone())).unwrap_err();
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Invalid), "{errors}");
    assert!(errors.to_string().contains("external data at \"w\""), "{errors}");
    let bytes = ModelBytes::new(model).external_data("w", vec![0; 3]).external_data("./b", vec![0; 3]);
    assert_eq!(bytes.data_locations().unwrap(), ["b", "w"].map(str::to_owned).into());
    let whole = ModelBytes::new(fs::read(MODEL).unwrap());
    assert!(whole.data_locations().unwrap().is_empty());
    let errors = Converter::new().convert(&Input::from(bytes)).unwrap_err();
    assert!(errors.to_string().contains("has 3 bytes"), "{errors}");
}

#[test]
fn a_writer_takes_no_further_files() {
    let folder = tempfile::tempdir().unwrap();
    let converter = Converter::new().param_bin(folder.path().join("n.param.bin"));
    let conversion = converter.convert(&Input::from(fs::read(MODEL).unwrap())).unwrap();
    let error = conversion.write_to(Vec::new(), Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

/// A writer that fails after some bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_an_error() {
    let conversion = Converter::new().convert(&Input::from(fs::read(MODEL).unwrap())).unwrap();
    for (param, bin) in [(0, usize::MAX), (usize::MAX, 0), (usize::MAX, 1000)] {
        let error = conversion.write_to(Full(param), Full(bin)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
}

#[test]
fn contents_of_the_files_are_known_before_they_are_written() {
    let models =
        [MODEL, "fixtures/weights/external_one_file/model.onnx", "fixtures/elementwise/acosh/model.onnx"];
    for model in models {
        let conversion = Converter::new().convert(&Input::from(model)).unwrap();
        let (mut param, mut bin) = (Vec::new(), Vec::new());
        let written = conversion.write_to(&mut param, &mut bin).unwrap();
        assert_eq!(conversion.net().param_text().as_bytes(), param, "{model}");
        assert_eq!(conversion.net().bin_bytes().unwrap(), Some(written.bin_bytes), "{model}");
    }
    let half = Converter::new().fp16(true).convert(&Input::from(MODEL)).unwrap();
    assert_eq!(half.net().bin_bytes().unwrap(), None);
}

#[test]
fn free_sizes_follow_from_shapes() {
    let model = "fixtures/condition/blocks/model.onnx";
    let conversion = Converter::new().convert(&Input::from(model)).unwrap();
    assert_eq!(conversion.conditions[0].to_string(), "H is a multiple of 2");
    let shapes = conversion.shapes_at(5).unwrap().unwrap();
    let sizes = conversion.free_sizes(&shapes).unwrap();
    assert_eq!(sizes["H"], Dim::from(6));
    for (size, fault) in [(7, "H is a multiple of 2"), (0, "has shape"), (-2, "has shape")] {
        let changed = |n: &i64| if *n == 6 { size } else { *n };
        let shapes = shapes.iter().map(|(name, shape)| (name.clone(), shape.iter().map(changed).collect()));
        let error = conversion.free_sizes(&shapes.collect()).map(|sizes| format!("{sizes:?}")).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(fault), "{error}");
    }
    let error = conversion.free_sizes(&BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
    let short = shapes.keys().map(|name| (name.clone(), vec![1])).collect();
    assert!(conversion.free_sizes(&short).unwrap_err().to_string().contains("has shape [1]"));
}

#[test]
fn simplified_models_are_written_to_writers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.onnx");
    let simplified = Converter::new().simplify(&Input::from(MODEL)).unwrap();
    simplified.write(&path, &Storage::Inline).unwrap();
    let mut bytes = Vec::new();
    simplified.write_to(&mut bytes).unwrap();
    assert!(bytes == fs::read(&path).unwrap());

    let emitting = Converter::new().emit_onnx(&path).keep_onnx(true).convert(&Input::from(MODEL)).unwrap();
    let mut bytes = Vec::new();
    emitting.write_onnx_to(&mut bytes).unwrap();
    emitting.write(folder.path().join("n.param"), folder.path().join("n.bin")).unwrap();
    assert!(bytes == fs::read(&path).unwrap());
    let plain = Converter::new().convert(&Input::from(MODEL)).unwrap();
    assert_eq!(plain.write_onnx_to(Vec::new()).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn a_converter_converts_many_models() {
    let converter = Converter::new().input_shape("", [1, 3, 32, 32].map(Dim::from));
    for _ in 0..2 {
        let conversion = converter.convert(&Input::from(MODEL)).unwrap();
        assert_eq!(conversion.inputs[0].form, [3, 32, 32].map(Dim::from));
    }
}

#[test]
fn options_that_do_not_fit_are_usage_errors() {
    for converter in [
        Converter::new().outputs(["no_such_value"]),
        Converter::new().skip("no_such_pass"),
        Converter::new().input_shape("no_such_input", [Dim::from(1)]),
        Converter::new().ncnn_version(20200101),
    ] {
        let errors = converter.convert(&Input::from(MODEL)).unwrap_err();
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Usage), "{errors}");
    }
    let errors = Converter::new().max_size(16).convert(&Input::from(MODEL)).unwrap_err();
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Limit), "{errors}");
}
