//! Unique: the elements of an input, which must be constant, determine the sizes of the outputs.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Unique.html>.

use ndarray::{ArrayD, Axis};

use super::selection::read_axis;
use crate::error::ErrorCode;
use crate::ops::prelude::*;

/// The reason for refusing operators whose outputs have sizes that elements determine.
pub(in crate::ops) const UNKNOWN_SIZE: &str =
    "the size of its output depends on the elements of its input; ncnn has no layer for that";

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Unique", Access::Any, infer_unique)
    .lowers_to("constants")
    .limits("elements computed at run time: they determine the size of the output")];

/// Equal slices of an array.
struct Group {
    /// The index of the first one.
    first: usize,
    indices: Vec<usize>,
}

fn infer_unique(call: &Call) -> Result<Vec<Fact>> {
    let Some(data) = call.constant(0) else {
        return Err(Error::unsupported(UNKNOWN_SIZE).code_is(ErrorCode::UNKNOWN_SHAPE));
    };
    let data = data.load_listed()?.into_owned();
    let (data, axis) = match read_axis(call, data.shape().len())? {
        Some(axis) => (data, axis),
        None => (data.reshape(&[data.len()])?, 0),
    };
    let mut groups = match data.elements() {
        Elements::F32(a) => groups(a, axis),
        Elements::F64(a) => groups(a, axis),
        Elements::I64(a) => groups(a, axis),
        Elements::Dim(_) => unsupported!("its elements are free sizes"),
    }?;
    if call.int("sorted")? == 0 {
        groups.sort_by_key(|group| group.first);
    }
    let firsts: Vec<usize> = groups.iter().map(|group| group.first).collect();
    let mut inverse = vec![0; *data.shape().at(axis)?];
    for (number, group) in groups.iter().enumerate() {
        for index in &group.indices {
            if let Some(number_of) = inverse.get_mut(*index) {
                *number_of = number;
            }
        }
    }
    let counts = groups.iter().map(|group| group.indices.len()).collect();
    let constant = |array: &Array| Ok(Fact::constant(Tensor::from_array(array)?));
    let integers = |numbers: Vec<usize>| -> Result<Fact> {
        let numbers: std::result::Result<Vec<i64>, _> = numbers.into_iter().map(i64::try_from).collect();
        constant(&Array::i64(ndarray::Array1::from_vec(numbers?).into_dyn()))
    };
    let unique = constant(&data.gather(axis, &firsts)?)?;
    Ok(vec![unique, integers(firsts)?, integers(inverse)?, integers(counts)?])
}

/// Returns the groups of equal slices along an axis, in the order of their elements.
fn groups<T: Copy + PartialOrd>(data: &ArrayD<T>, axis: usize) -> Result<Vec<Group>> {
    if data.iter().any(|element| element.partial_cmp(element).is_none()) {
        unsupported!("constants with NaN cannot be sorted");
    }
    let mut slices: Vec<(usize, Vec<T>)> =
        data.axis_iter(Axis(axis)).map(|slice| slice.iter().copied().collect()).enumerate().collect();
    // A stable sort keeps equal slices in their order.
    slices.sort_by(|(_, a), (_, b)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let groups = slices.chunk_by(|(_, a), (_, b)| a == b).map(|equal| {
        let indices: Vec<usize> = equal.iter().map(|(index, _)| *index).collect();
        Some(Group { first: *indices.first()?, indices })
    });
    Ok(groups.flatten().collect())
}
