//! The layers of quantized networks.

#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // A test may fail where it stands.

use std::path::PathBuf;

use onnx2ncnn::ncnn::{Element, Layer};
use onnx2ncnn::{Conversion, Converter, Input, Quantization};

fn converted(fixture: &str, quantization: Quantization) -> Conversion {
    converted_with(fixture, &Converter::new().quantization(quantization).check(true))
}

fn converted_with(fixture: &str, converter: &Converter) -> Conversion {
    let model = PathBuf::from("fixtures/quantized").join(fixture).join("model.onnx");
    converter.convert(&Input::Path(model)).unwrap()
}

fn int8_layers(conversion: &Conversion) -> Vec<&'static str> {
    let layers = conversion.net().layers.iter().map(|layer| &layer.layer);
    layers.filter(|layer| layer.is_int8()).map(Layer::type_name).collect()
}

/// The number of blobs of int8 values.
fn bytes_between(conversion: &Conversion) -> usize {
    let tops = conversion.net().layers.iter().flat_map(|layer| &layer.tops);
    tops.filter(|top| conversion.net().blob(**top).element == Element::I8).count()
}

#[test]
fn convolutions_and_linear_maps_are_int8_layers() {
    let conversion = converted("network", Quantization::Int8);
    assert_eq!(
        int8_layers(&conversion),
        ["Convolution", "ConvolutionDepthWise", "Convolution", "InnerProduct"]
    );
    assert_eq!(bytes_between(&conversion), 1);
    let float = converted("network", Quantization::Float);
    assert_eq!(conversion.net().layers.len(), float.net().layers.len());
    for layer in &conversion.net().layers {
        for weight in layer.layer.weights().iter().filter(|weight| weight.name.ends_with("scales")) {
            let scales = weight.tensor.load().unwrap().float_list().unwrap();
            assert!(scales.iter().all(|scale| scale.is_normal() && *scale > 0.0), "{scales:?}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let bytes = |quantization, fp16| {
        let conversion = converted_with("network", &Converter::new().quantization(quantization).fp16(fp16));
        conversion.write(folder.path().join("p"), folder.path().join("b")).unwrap().bin_bytes
    };
    let (int8, float) = (bytes(Quantization::Int8, false), bytes(Quantization::Float, false));
    assert!(int8 < float, "{int8} of {float} bytes");
    assert_eq!(int8, bytes(Quantization::Int8, true), "integers are no halves");
}

#[test]
fn attention_hands_on_its_cache() {
    for quantization in [Quantization::Float, Quantization::Int8] {
        let conversion = converted("attention_after_state", quantization);
        let names: Vec<&str> = conversion.outputs.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["y", "present"]);
    }
}

#[test]
fn other_weights_are_rounded_to_the_integers_of_ncnn() {
    // The first has a zero point, the other contains -128.
    let conversion = converted("network_of_other_weights", Quantization::Int8);
    assert_eq!(int8_layers(&conversion), ["Convolution", "Convolution"]);
    let conversion = converted("weight_of_each_channel", Quantization::Int8);
    assert!(conversion.warnings.iter().any(|warning| warning.contains("int8")), "{:?}", conversion.warnings);
}

#[test]
fn larger_steps_than_those_of_the_model_are_a_warning() {
    let warned = |fixture| {
        let warnings = converted(fixture, Quantization::Int8).warnings;
        warnings.into_iter().find(|warning| warning.contains("larger steps"))
    };
    // Its activations are uint8, of which ncnn has half the levels.
    assert!(warned("network").unwrap().starts_with("4 of 4 int8 layers"));
    assert_eq!(warned("network_of_other_weights"), None);
}

#[test]
fn many_rows_are_a_gemm_of_releases_that_have_it() {
    let conversion = converted("network_of_activations", Quantization::Int8);
    assert_eq!(int8_layers(&conversion), ["Convolution", "ConvolutionDepthWise", "Gemm", "Gemm"]);
    let converter = Converter::new().quantization(Quantization::Int8);
    let older = converted_with("network_of_activations", &converter.ncnn_version(20240410));
    assert_eq!(int8_layers(&older), ["Convolution", "ConvolutionDepthWise", "InnerProduct", "InnerProduct"]);
}

#[test]
fn dynamic_quantization_is_that_of_gemm() {
    let conversion = converted("network_of_products", Quantization::Int8);
    assert_eq!(int8_layers(&conversion), ["Gemm", "Gemm"]);
    let older = Converter::new().quantization(Quantization::Int8).ncnn_version(20240410);
    assert!(int8_layers(&converted_with("network_of_products", &older)).is_empty());
}

#[test]
fn operators_on_quantized_values_need_no_flag() {
    let conversion = converted("operators", Quantization::Exact);
    let count = |name: &str| int8_layers(&conversion).iter().filter(|layer| **layer == name).count();
    assert_eq!((count("Convolution"), count("InnerProduct")), (4, 4));
    assert!(int8_layers(&converted("operators", Quantization::Float)).is_empty());
    let native = converted("operators", Quantization::Int8);
    assert_eq!(int8_layers(&native).len(), 5);
    assert!(native.net().layers.iter().all(|layer| layer.layer.type_name() != "UnaryOp"), "no rounding");
}

#[test]
fn channels_may_be_last() {
    let conversion = converted("channels_last_network", Quantization::Int8);
    assert_eq!(int8_layers(&conversion), ["Convolution", "ConvolutionDepthWise", "Convolution"]);
    let float = converted("channels_last_network", Quantization::Float);
    for conversion in [conversion, float] {
        let layers = || conversion.net().layers.iter().map(|layer| layer.layer.type_name());
        assert!(layers().all(|layer| layer != "UnaryOp"), "no rounding");
        assert_eq!(layers().filter(|layer| *layer == "Permute").count(), 1, "of the input");
    }
}

#[test]
fn recurrent_layers_of_ranges_are_int8_layers() {
    let converter = Converter::new().quantization(Quantization::Int8);
    let fixture = "../recurrent/lstm_of_ranges";
    assert_eq!(int8_layers(&converted_with(fixture, &converter)), ["LSTM"]);
    let older = converted_with(fixture, &converter.ncnn_version(20240410));
    assert!(int8_layers(&older).is_empty());
    assert!(int8_layers(&converted(fixture, Quantization::Float)).is_empty());
}

#[test]
fn dynamic_quantization_is_in_float32_without_rounding() {
    let conversion = converted("network_of_ranges", Quantization::Float);
    let count =
        |name: &str| conversion.net().layers.iter().filter(|layer| layer.layer.type_name() == name).count();
    assert_eq!(["Convolution", "InnerProduct", "UnaryOp", "Clip"].map(count), [1, 1, 0, 0]);
}

#[test]
fn other_nodes_are_unchanged() {
    for quantization in [Quantization::Int8, Quantization::Float] {
        let conversion = converted("weight_of_each_channel", quantization);
        assert!(int8_layers(&conversion).is_empty());
    }
}

#[test]
fn dequantize_keeps_bounds_and_removes_rounding() {
    let conversion = converted("network", Quantization::Float);
    let count =
        |name: &str| conversion.net().layers.iter().filter(|layer| layer.layer.type_name() == name).count();
    assert!(int8_layers(&conversion).is_empty());
    assert_eq!(count("UnaryOp"), 0);
    assert!(count("Clip") > 0);
    assert!(conversion.warnings.iter().any(|warning| warning.starts_with("7 values")));
}

#[test]
fn the_table_has_the_scales_of_each_layer() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let converter = Converter::new().quantization(Quantization::Float).table(&table);
    let conversion = converted_with("network", &converter);
    conversion.write(folder.path().join("p"), folder.path().join("b")).unwrap();
    let mut rows = Vec::new();
    for line in std::fs::read_to_string(table).unwrap().lines() {
        let (name, scales) = line.split_once(' ').unwrap();
        let scales: Vec<f32> = scales.split(' ').map(|scale| scale.parse().unwrap()).collect();
        assert!(scales.iter().all(|scale| scale.is_normal() && *scale > 0.0), "{line}");
        rows.push((name.to_owned(), scales));
    }
    let layers: Vec<&str> = conversion
        .net()
        .layers
        .iter()
        .filter(|layer| layer.layer.weights().iter().any(|weight| weight.name == "weight_data"))
        .map(|layer| layer.name.as_str())
        .collect();
    let names: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let weights = layers.iter().map(|layer| format!("{layer}_param_0"));
    assert_eq!(names, weights.chain(layers.iter().map(|layer| (*layer).to_owned())).collect::<Vec<_>>());
    let lens: Vec<usize> = rows.iter().map(|(_, scales)| scales.len()).collect();
    assert_eq!(lens, [8, 8, 8, 5, 1, 1, 1, 1]);
    // Steps of 0.02 to -119 and 136, of 0.025 to 255, of 0.03 to -121 and 134, of 0.02 to -100 and 155.
    for ((_, scales), bottom) in
        rows.iter().skip(4).zip([0.02 * 136.0, 0.025 * 255.0, 0.03 * 134.0, 0.02 * 155.0])
    {
        assert!((scales[0] * bottom / 127.0 - 1.0).abs() < 1e-6, "{scales:?}: {bottom}");
    }
}

#[test]
fn convolutions_of_a_table_stay_convolutions() {
    let folder = tempfile::tempdir().unwrap();
    let types = |converter: &Converter, name: &str| {
        let model = PathBuf::from("fixtures/spatial").join(name).join("model.onnx");
        let conversion = converter.convert(&Input::Path(model)).unwrap();
        conversion.net().layers.iter().map(|layer| layer.layer.type_name()).collect::<Vec<_>>()
    };
    let with_table = Converter::new().quantization(Quantization::Float).table(folder.path().join("table"));
    for (name, type_name) in
        [("conv_of_three_outputs", "Convolution"), ("conv_depth_wise_of_two_outputs", "ConvolutionDepthWise")]
    {
        assert_eq!(types(&with_table, name), ["Input", type_name]);
        assert_ne!(types(&Converter::new(), name), ["Input", type_name]);
    }
}
