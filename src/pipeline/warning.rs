//! Warnings of a conversion.

use crate::ncnn::{Changes, Renamed};
use crate::onnx::{FIRST_IR_WITH_CONSTANTS, Model};

/// Inputs that the graph takes for constants. Models of older versions list every constant as an input, and get no warning.
pub(super) fn defaulted_inputs(model: &Model) -> Option<String> {
    let mut names = model.defaulted_inputs.iter().map(|id| model.graph.value(*id).name.as_str());
    let first = names.next().filter(|_| model.ir_version >= FIRST_IR_WITH_CONSTANTS)?;
    let count = 1 + names.count();
    Some(format!("inputs that have a value in the model keep it: {count} such as \"{first}\""))
}

/// Names that the runtime cannot read.
pub(super) fn changed_names(changes: &Changes) -> Vec<String> {
    let describe = |Renamed { from, to }: &Renamed| format!("\"{from}\" is called \"{to}\" in the net");
    let mut warnings: Vec<String> = changes.ends.iter().map(describe).collect();
    match changes.inside.as_slice() {
        [] => {}
        [one] => warnings.push(describe(one)),
        [first, rest @ ..] => {
            let count = rest.len() + 1;
            warnings.push(format!("{count} blobs have other names: {}, and so on", describe(first)));
        }
    }
    warnings
}

/// Layers that a table of scales does not name.
pub(super) fn without_scales(left_out: &[String]) -> Option<String> {
    let (first, rest) = left_out.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(", and {} more like it", rest.len()) };
    Some(format!("the table of scales leaves out \"{first}\"{more}: ncnn2int8 would misread it"))
}
