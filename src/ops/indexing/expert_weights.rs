//! ExpertWeights, of this program: the weight of each expert for each token, from the indices of the experts
//! that a token chooses and their weights. Experts that it does not choose have weight 0.

use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(NCNN_DOMAIN, "ExpertWeights", Access::Any, infer)
    .lower(lower)
    .lowers_to("BinaryOp, ReLU, Reduction: the distance of each index to the number of each expert")];

/// Returns the shape of the choices: tokens, and choices of each.
fn choices<'a>(call: &Call<'a>) -> Result<&'a [Dim; 2]> {
    let Ok(shape) = call.shape(0)?.try_into() else { unsupported!("choices with other than two axes") };
    Ok(shape)
}

fn infer(call: &Call) -> Result<Vec<Fact>> {
    let [tokens, _] = choices(call)?;
    let experts = Dim::Known(call.int("experts")?);
    Ok(vec![Fact::new(call.dtype(1)?, vec![tokens.clone(), experts])])
}

fn lower(lower: &Lower) -> Result<()> {
    let [tokens, count] = choices(lower)?.clone();
    let experts = Dim::Known(lower.int("experts")?);
    let [mut indices, weights] =
        [0, 1].map(|index| lower.input(index).reshape([tokens.clone(), count.clone(), Dim::ONE]).isolated());
    if lower.range(0).least < 0.0 {
        indices = indices.counted_from_front(&experts);
    }
    lower.give(0, (indices.hits_along(2, &experts) * weights).reduce(reduction_op::SUM, &[1]))
}
