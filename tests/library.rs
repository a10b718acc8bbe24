//! The library as other programs use it: the examples run, and errors are what the documentation says.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::path::Path;
use std::process::{Command, Output};

use onnx2ncnn::error::ErrorKind;
use onnx2ncnn::{Converter, Dim, Input};

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

#[test]
fn a_converter_converts_many_models_and_writes_nothing_unasked() {
    let converter = Converter::new().input_shape("", [1, 3, 32, 32].map(Dim::from));
    for _ in 0..2 {
        let conversion = converter.convert(&Input::from(MODEL)).unwrap();
        assert_eq!(conversion.inputs[0].form, [3, 32, 32].map(Dim::from));
    }
}

#[test]
fn what_does_not_fit_is_an_error_of_usage() {
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
