//! What explains that a net differs as a whole: it is the net of another conversion.

use onnx2ncnn::ncnn::{Contents, Net};
use onnx2ncnn::{Conversion, Port};

use crate::cli::next::quoted;

/// Returns how to compare a net that other options made: with other sizes of the inputs, or with int8 layers.
pub(super) fn hints(conversion: &Conversion, net: &Net) -> Vec<String> {
    let (Ok(found), Ok(converted)) = (net.contents(), conversion.net().contents()) else {
        return Vec::new();
    };
    let sizes = |contents: &Contents, name: &str| -> Option<Vec<i64>> {
        contents.inputs.iter().find(|input| input.name == name)?.shape.clone()
    };
    let option = |port: &Port| {
        let shape = sizes(&found, &port.blob)?;
        // A blob lacks the axis of the batch.
        let batch = port.shape.len().checked_sub(shape.len()).filter(|axes| *axes < 2)?;
        let differs = sizes(&converted, &port.blob).as_ref() != Some(&shape);
        let shape: Vec<String> =
            std::iter::repeat_n(1, batch).chain(shape).map(|size| size.to_string()).collect();
        let option = quoted(&format!("{}:{}", port.name, shape.join(",")))?;
        differs.then(|| format!("--input-shape {option}"))
    };
    let options: Vec<String> = conversion.inputs.iter().filter_map(option).collect();
    let mut hints = Vec::new();
    if !options.is_empty() {
        hints.push(format!("the net has other sizes of inputs: repeat {}", options.join(" ")));
    }
    let has_int8 = |contents: &Contents| contents.weights.contains_key("int8");
    if has_int8(&found) && !has_int8(&converted) {
        let text = "the net has int8 weights: give --int8 and the quantized model, which `quantize` writes \
                    with --emit-onnx; or --weights int8, if that made the net";
        hints.push(text.to_owned());
    }
    hints
}
