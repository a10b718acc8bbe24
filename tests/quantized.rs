//! Networks that are quantised throughout: which layers they become.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::path::PathBuf;

use onnx2ncnn::ncnn::Layer;
use onnx2ncnn::{Conversion, Input, Options, Quantization, convert};

fn converted(fixture: &str, quantization: Quantization) -> Conversion {
    converted_with(fixture, Options { quantization, check: true, ..Options::default() })
}

fn converted_with(fixture: &str, options: Options) -> Conversion {
    let model = PathBuf::from("fixtures/quantize").join(fixture).join("model.onnx");
    convert(&Input::Path(model), &options).unwrap()
}

fn int8_layers(conversion: &Conversion) -> Vec<&'static str> {
    let layers = conversion.net().layers.iter().map(|layer| &layer.layer);
    layers.filter(|layer| layer.is_int8()).map(Layer::type_name).collect()
}

#[test]
fn convolutions_and_linear_maps_are_int8_layers() {
    let conversion = converted("network", Quantization::Int8);
    let layers = ["Convolution", "ConvolutionDepthWise", "Convolution", "InnerProduct"];
    assert_eq!(int8_layers(&conversion), layers);
    for layer in &conversion.net().layers {
        for weight in layer.layer.weights().iter().filter(|weight| weight.name.ends_with("scales")) {
            let scales = weight.tensor.load().unwrap().float_list().unwrap();
            assert!(scales.iter().all(|scale| scale.is_normal() && *scale > 0.0), "{scales:?}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let bytes = |quantization, fp16| {
        let conversion = converted_with("network", Options { quantization, fp16, ..Options::default() });
        conversion.write(&folder.path().join("p"), &folder.path().join("b")).unwrap().bin_bytes
    };
    let (int8, float) = (bytes(Quantization::Int8, false), bytes(Quantization::Float, false));
    assert!(int8 * 2 < float, "{int8} of {float} bytes");
    assert_eq!(int8, bytes(Quantization::Int8, true), "integers are no halves");
}

#[test]
fn other_weights_stay_in_float() {
    let conversion = converted("network_of_other_weights", Quantization::Int8);
    assert!(int8_layers(&conversion).is_empty());
    assert!(conversion.warnings.iter().any(|warning| warning.contains("int8")), "{:?}", conversion.warnings);
}

#[test]
fn what_is_not_quantised_is_as_it_was() {
    for quantization in [Quantization::Int8, Quantization::Float] {
        let conversion = converted("weight_of_each_channel", quantization);
        assert!(int8_layers(&conversion).is_empty());
    }
}

#[test]
fn in_float_bounds_stay_and_rounding_does_not() {
    let conversion = converted("network", Quantization::Float);
    let count =
        |name: &str| conversion.net().layers.iter().filter(|layer| layer.layer.type_name() == name).count();
    assert!(int8_layers(&conversion).is_empty());
    assert_eq!((count("UnaryOp"), count("Clip")), (0, 7));
    assert!(conversion.warnings.iter().any(|warning| warning.starts_with("7 values")));
}
