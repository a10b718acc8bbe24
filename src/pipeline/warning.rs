//! Warnings of a conversion.

use crate::ncnn::{Changes, Renamed};
use crate::onnx::{FIRST_IR_WITH_CONSTANTS, Model};

/// Warns of inputs with a constant value. Models of older versions list every constant as an input, and get
/// no warning.
pub(super) fn defaulted_inputs(model: &Model) -> Option<String> {
    let mut names = model.defaulted_inputs.iter().map(|id| model.graph.value(*id).name.as_str());
    let first = names.next().filter(|_| model.ir_version >= FIRST_IR_WITH_CONSTANTS)?;
    let count = 1 + names.count();
    Some(format!("inputs with a value in the model keep that value: {count} such as \"{first}\""))
}

/// Warns of names that the runtime cannot read.
pub(super) fn changed_names(changes: &Changes) -> Vec<String> {
    let describe = |Renamed { from, to }: &Renamed| format!("\"{from}\" is renamed to \"{to}\" in the net");
    let mut warnings: Vec<String> = changes.ends.iter().map(describe).collect();
    match changes.inside.as_slice() {
        [] => {}
        [one] => warnings.push(describe(one)),
        [first, rest @ ..] => {
            let count = rest.len() + 1;
            warnings.push(format!("{count} blobs are renamed: {}, and so on", describe(first)));
        }
    }
    warnings
}

/// Warns of layers without scales in the table.
pub(super) fn without_scales(left_out: &[String]) -> Option<String> {
    let (first, rest) = left_out.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(", and {} more like it", rest.len()) };
    Some(format!("the table of scales omits \"{first}\"{more}: ncnn2int8 would misread it"))
}
