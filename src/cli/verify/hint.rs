//! What explains that a net differs as a whole: it is the net of another conversion.

use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::ncnn::{Contents, Net};
use onnx2ncnn::{Conversion, Options, Port};

use crate::cli::next::quoted;

/// Returns the sizes of an input that the files state.
fn sizes(contents: &Contents, name: &str) -> Option<Vec<i64>> {
    contents.inputs.iter().find(|input| input.name == name)?.shape.clone()
}

/// Returns the shapes of the inputs that the net states, where the conversion has others.
pub(super) fn other_shapes(conversion: &Conversion, net: &Net) -> Vec<(String, Vec<i64>)> {
    let (Ok(found), Ok(converted)) = (net.contents(), conversion.net().contents()) else {
        return Vec::new();
    };
    let shape = |port: &Port| {
        let shape = sizes(&found, &port.blob)?;
        // A blob lacks the axis of the batch.
        let batch = port.shape.len().checked_sub(shape.len()).filter(|axes| *axes < 2)?;
        let differs = sizes(&converted, &port.blob).as_ref() != Some(&shape);
        differs.then(|| (port.name.clone(), std::iter::repeat_n(1, batch).chain(shape).collect()))
    };
    conversion.inputs.iter().filter_map(shape).collect()
}

/// Returns the option that gives inputs these shapes.
pub(super) fn option_of(shapes: &[(String, Vec<i64>)]) -> String {
    let option = |(name, shape): &(String, Vec<i64>)| {
        let shape: Vec<String> = shape.iter().map(i64::to_string).collect();
        Some(format!("--input-shape {}", quoted(&format!("{name}:{}", shape.join(",")))?))
    };
    shapes.iter().filter_map(option).collect::<Vec<_>>().join(" ")
}

/// Returns an error if the net has free sizes, and the options fixed those of the conversion: most blobs
/// would have other sizes.
pub(super) fn check_free(conversion: &Conversion, net: &Net, options: &Options) -> Result<()> {
    let (Ok(found), Ok(converted)) = (net.contents(), conversion.net().contents()) else { return Ok(()) };
    let is_free =
        |port: &&Port| sizes(&found, &port.blob).is_none() && sizes(&converted, &port.blob).is_some();
    let is_fixed = |port: &&Port| options.input_shapes.iter().any(|(name, _)| *name == port.name);
    match conversion.inputs.iter().filter(is_fixed).find(is_free) {
        Some(port) => Err(Error::usage(format!("the net has free sizes of the input \"{}\"", port.name))
            .help("leave out --input-shape: the net is compared at several sizes")),
        None => Ok(()),
    }
}

/// Returns how to compare a net that other options made: with other sizes of the inputs, or with int8 layers.
pub(super) fn hints(conversion: &Conversion, net: &Net) -> Vec<String> {
    let (Ok(found), Ok(converted)) = (net.contents(), conversion.net().contents()) else {
        return Vec::new();
    };
    let mut hints = Vec::new();
    let options = option_of(&other_shapes(conversion, net));
    if !options.is_empty() {
        hints.push(format!("the net has other sizes of inputs: repeat {options}"));
    }
    let has_int8 = |contents: &Contents| contents.weights.contains_key("int8");
    if has_int8(&found) && !has_int8(&converted) {
        let text = "the net has int8 weights: give --int8 and the quantized model, which `quantize` writes \
                    with --emit-onnx; or --weights int8, if that made the net";
        hints.push(text.to_owned());
    }
    hints
}
