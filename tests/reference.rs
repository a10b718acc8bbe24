//! Each layer of the reference beside ncnn, over its params: `sweep/` has the cases of each family.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Command;

use bytes::Bytes;
use ndarray::{ArrayD, IxDyn};
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::reference::{Mat, run};
use serde_json::Value;

/// The layers that have no reference, since no node becomes one of them.
const NOT_COMPUTED: [&str; 13] = [
    "ArgMax",
    "DetectionOutput",
    "GLU",
    "Packing",
    "PriorBox",
    "Proposal",
    "PSROIPooling",
    "Quantize",
    "Requantize",
    "SPP",
    "StatisticsPooling",
    "YoloDetectionOutput",
    "Yolov3DetectionOutput",
];

/// The fewest cases of all families.
const LEAST: usize = 10_000;

/// The cases, and the elements of weights, bottoms and tops.
struct Cases {
    cases: Vec<Value>,
    data: Bytes,
}

impl Cases {
    fn of(folder: &std::path::Path) -> Cases {
        let cases = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
        Cases { cases, data: std::fs::read(folder.join("data.bin")).unwrap().into() }
    }

    fn range(value: &Value) -> Range<usize> {
        let number = |index: usize| usize::try_from(value[index].as_u64().unwrap()).unwrap();
        number(0)..number(0) + number(1)
    }

    fn array(&self, value: &Value) -> Mat {
        let sizes = value["shape"].as_array().unwrap().iter();
        let sizes: Vec<usize> = sizes.map(|size| usize::try_from(size.as_u64().unwrap()).unwrap()).collect();
        let words = self.data[Cases::range(&value["data"])].chunks_exact(4);
        let number = |word: &[u8]| {
            let word: [u8; 4] = word.try_into().unwrap();
            if value["type"] == "int32" {
                i32::from_le_bytes(word).into()
            } else {
                f32::from_le_bytes(word).into()
            }
        };
        ArrayD::from_shape_vec(IxDyn(&sizes), words.map(number).collect()).unwrap()
    }

    /// Returns the largest error of a case, relative to the largest magnitude of each top.
    fn error(&self, case: &Value) -> Result<f64, String> {
        let text = case["param"].as_str().unwrap();
        let net = Net::read(text.as_bytes(), self.data.slice(Cases::range(&case["bin"])));
        let net = net.map_err(|error| format!("not read: {error}"))?;
        let bottoms = case["bottoms"].as_array().unwrap().iter().map(|bottom| self.array(bottom));
        let mut tops: Vec<_> = net.outputs.iter().map(|output| output.blob).collect();
        tops.sort();
        let tops = run(&net, net.inputs.iter().copied().zip(bottoms).collect(), &tops);
        let tops = tops.map_err(|error| format!("not computed: {error}"))?;
        let mut most = 0.0_f64;
        for (top, expected) in tops.iter().zip(case["tops"].as_array().unwrap()) {
            let expected = self.array(expected);
            if top.shape() != expected.shape() {
                return Err(format!("a top of {:?} instead of {:?}", top.shape(), expected.shape()));
            }
            let finite = expected.iter().filter(|x| x.is_finite());
            let largest = finite.fold(1e-6, |most: f64, x| most.max(x.abs()));
            for (got, expected) in top.iter().zip(&expected) {
                let overflows = expected.is_infinite() && got.abs() > f64::from(f32::MAX);
                let same = got == expected || (got.is_nan() && expected.is_nan());
                let same = same || (overflows && got.signum() == expected.signum());
                let error = if same { 0.0 } else { (got - expected).abs() / largest };
                if error.is_nan() || error > case["tolerance"].as_f64().unwrap() {
                    return Err(format!("{got} instead of {expected}, of at most {largest}"));
                }
                most = most.max(error);
            }
        }
        Ok(most)
    }
}

#[test]
fn layers_compute_what_ncnn_computes() {
    let folder = tempfile::tempdir().unwrap();
    let python = support::python();
    let status = Command::new(python).arg("tests/sweep/run.py").arg(folder.path()).status().unwrap();
    assert!(status.success());
    let cases = Cases::of(folder.path());
    let mut wrong = Vec::new();
    let mut layers: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for case in &cases.cases {
        let line = case["param"].as_str().unwrap().lines().last().unwrap();
        let (count, most) = layers.entry(line.split(' ').next().unwrap()).or_default();
        *count += 1;
        match cases.error(case) {
            Ok(error) => *most = most.max(error),
            Err(reason) => wrong.push(format!("{line}: {reason}")),
        }
    }
    for (layer, (count, error)) in &layers {
        println!("{layer}: {count} cases, largest error {error:.1e}");
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.cases.len(), wrong.join("\n"));
    assert!(cases.cases.len() > LEAST, "{} cases", cases.cases.len());
    let swept = |layer: &str| layers.contains_key(layer) || layer == "Input";
    let missing: Vec<&str> = onnx2ncnn::ncnn::Layer::tables()
        .iter()
        .map(|table| table.type_name)
        .filter(|name| !swept(name))
        .collect();
    assert_eq!(missing, NOT_COMPUTED);
}
