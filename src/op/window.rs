//! Windows of poolings.

use crate::error::{At, Result, unsupported};
use crate::graph::{Attribute, AttributeMap};
use crate::tensor::Dim;

/// Returns the attributes of an AveragePool that computes QLinearAveragePool: if padding counts, all
/// positions of a window count, including positions that `ceil_mode` adds after the padding
/// (`qlinear_pool.cc`). AveragePool excludes these unless they are padding.
pub(crate) fn whole_windows(
    mut attributes: AttributeMap,
    input: &[Dim],
    pooled: &[Dim],
) -> Result<AttributeMap> {
    let flag = |name: &str| matches!(attributes.get(name), Some(Attribute::Int(flag)) if *flag != 0);
    if !flag("ceil_mode") || !flag("count_include_pad") {
        return Ok(attributes);
    }
    let Some(Attribute::Ints(kernel)) = attributes.get("kernel_shape").cloned() else {
        return Ok(attributes);
    };
    let list = |name: &str, default: Vec<i64>| match attributes.get(name) {
        Some(Attribute::Ints(list)) => list.clone(),
        _ => default,
    };
    let strides = list("strides", vec![1; kernel.len()]);
    let mut pads = list("pads", vec![0; 2 * kernel.len()]);
    for (axis, size) in kernel.iter().enumerate() {
        let (Some(input), Some(pooled)) = (input.at(axis + 2)?.known(), pooled.at(axis + 2)?.known()) else {
            unsupported!("ceil_mode with counted padding over a free size");
        };
        let covered = pooled.saturating_sub(1).saturating_mul(*strides.at(axis)?).saturating_add(*size);
        let begin = *pads.at(axis)?;
        if let Some(end) = pads.get_mut(axis + kernel.len()) {
            *end = (*end).max(covered.saturating_sub(input).saturating_sub(begin));
        }
    }
    attributes.insert("pads".into(), Attribute::Ints(pads));
    attributes.insert("ceil_mode".into(), Attribute::Int(0));
    Ok(attributes)
}
