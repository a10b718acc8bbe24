//! MaxUnpool: scatters elements to the positions from which a pooling took them.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__MaxUnpool.html>.

use crate::ops::prelude::*;
use crate::pass::pattern::{ints, producer};

pub(in crate::ops) const OPS: &[Row] = &[Row::defined("", "MaxUnpool", expand_unpool)
    .lowers_to("Gather of the elements and of a zero; ScatterElements for indices computed at run time")
    .limits(
        "many elements with indices computed at run time; an output larger than the pooled input, if \
        onnxruntime and the specification interpret the indices differently",
    )];

/// The maximum number of elements of an output: the index of each is listed.
const MAX_ELEMENTS: i64 = 1 << 22;

const DISAGREEMENT: &str = "an output larger than the pooled input: onnxruntime and the specification \
    interpret its indices differently";

/// Returns the shape of the pooled input, as kernel, strides and padding determine it.
fn unpooled_shape(call: &Call) -> Result<Vec<Dim>> {
    let mut shape = call.shape(0)?.to_vec();
    let kernel = call.ints("kernel_shape")?;
    let rank = kernel.len();
    let strides = call.optional_ints("strides")?.unwrap_or_else(|| vec![1; rank]);
    let pads = call.optional_ints("pads")?.unwrap_or_else(|| vec![0; 2 * rank]);
    if shape.len() != rank + 2 || strides.len() != rank || pads.len() != 2 * rank {
        invalid!("kernel_shape has {rank} axes, the input has {}", shape.len());
    }
    for axis in 0..rank {
        let taken = kernel.at(axis)?.saturating_sub(*pads.at(axis)?).saturating_sub(*pads.at(axis + rank)?);
        if let Some(size) = shape.get_mut(axis + 2) {
            *size = (&*size - 1) * *strides.at(axis)? + taken;
        }
    }
    Ok(shape)
}

/// Returns the sizes of the output, by default the sizes of the pooled input.
fn output_sizes(call: &Call, natural: &[Dim]) -> Result<Vec<i64>> {
    if !call.has_input(2) {
        return fixed_sizes(natural);
    }
    let sizes =
        call.dims(2).or_else(|error| call.declared_instead_of(2).map(<[Dim]>::to_vec).ok_or(error))?;
    if sizes.len() != natural.len() {
        invalid!("output_shape has {} sizes, expected {}", sizes.len(), natural.len());
    }
    fixed_sizes(&sizes)
}

/// Converts the flat index `index` from a tensor of shape `natural` to one of shape `sizes`.
fn reindexed(index: i64, natural: &[i64], sizes: &[i64]) -> i64 {
    let (mut rest, mut result, mut stride) = (index, 0_i64, 1_i64);
    for (from, to) in natural.iter().zip(sizes).rev() {
        let from = (*from).max(1);
        result = result.saturating_add((rest % from).saturating_mul(stride));
        rest /= from;
        stride = stride.saturating_mul(*to);
    }
    result
}

fn fixed_sizes(shape: &[Dim]) -> Result<Vec<i64>> {
    Dim::known_sizes(shape).ok_or_else(|| Error::unsupported("the output size is known only at run time"))
}

fn expand_unpool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let natural = unpooled_shape(x)?;
    let sizes = output_sizes(x, &natural)?;
    let natural = fixed_sizes(&natural)?;
    if natural.iter().zip(&sizes).any(|(natural, size)| size < natural) {
        unsupported!("an output of shape {sizes:?}, smaller than the pooled input {natural:?}");
    }
    let elements = sizes.iter().copied().fold(1, i64::saturating_mul);
    if elements > MAX_ELEMENTS {
        return Err(Error::limit(format!("an output of {elements} elements (at most {MAX_ELEMENTS})")));
    }
    let Some(indices) = x.constant(1) else { return scatter(x, &natural, &sizes, elements) };
    let indices = indices.load_listed()?.int_list()?;
    // The specification's indices refer to the pooled input, onnxruntime's to the output.
    if indices.iter().any(|index| reindexed(*index, &natural, &sizes) != *index) {
        unsupported!("{DISAGREEMENT}");
    }
    let zero_index = indices.len().int();
    let mut sources = vec![zero_index; usize::try_from(elements)?];
    for (source, index) in indices.iter().enumerate() {
        match usize::try_from(*index).ok().and_then(|index| sources.get_mut(index)) {
            Some(slot) => *slot = source.int(),
            None => invalid!("index {index} is out of range for {elements} elements"),
        }
    }
    let zero = x.make.cast_literal(&Array::i64(ndarray::ArrayD::zeros(vec![1])), x.dtype(0)?);
    let elements = x.make.concat(&[x.operand(0).reshape(&[-1]), zero], 0);
    Ok(elements.gather(x.make.ints(&sources), 0).reshape(&sizes))
}

/// Returns whether the indices come from a MaxPool whose windows do not overlap.
fn have_disjoint_windows(x: &Expand) -> bool {
    let pool = x.node().input(1).and_then(|indices| producer(x.graph(), indices, "MaxPool"));
    let Some((pool, kernel)) = pool.and_then(|pool| Some((pool, ints(pool, "kernel_shape")?))) else {
        return false;
    };
    let strides = ints(pool, "strides").map_or_else(|| vec![1; kernel.len()], <[i64]>::to_vec);
    let is_dense = ints(pool, "dilations").is_none_or(|dilations| dilations.iter().all(|step| *step == 1));
    is_dense && kernel.iter().zip(strides).all(|(window, stride)| *window <= stride)
}

/// Expands MaxUnpool with indices computed at run time.
fn scatter<'x>(x: &'x Expand, natural: &[i64], sizes: &[i64], elements: i64) -> Result<Expr<'x>> {
    // If only the outermost axis differs from the pooled input, both interpretations of an index agree.
    if natural.iter().zip(sizes).skip_while(|(natural, _)| **natural == 1).skip(1).any(|(n, size)| n != size)
    {
        unsupported!("{DISAGREEMENT}");
    }
    let zeros = ndarray::ArrayD::zeros(vec![usize::try_from(elements)?]);
    let zeros = x.make.cast_literal(&Array::i64(zeros), x.dtype(0)?);
    let [data, indices] = [0, 1].map(|index| x.operand(index).reshape(&[-1]));
    // If no two elements have the same index, a sum with zeros takes fewer layers.
    let reduction = if have_disjoint_windows(x) { "add" } else { "none" };
    let attributes = [("axis", 0.into()), ("reduction", reduction.into())];
    let spread = x.make.op("ScatterElements", [zeros, indices, data], attributes);
    Ok(spread.reshape(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_change_if_inner_axes_grow() {
        for (index, sizes, expected) in
            [(5, [1, 1, 4, 4], 5), (5, [1, 1, 6, 4], 5), (5, [1, 1, 4, 5], 6), (3, [2, 1, 5, 5], 3)]
        {
            assert_eq!(reindexed(index, &[1, 1, 4, 4], &sizes), expected, "{index} in {sizes:?}");
        }
    }
}
