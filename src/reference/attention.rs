//! MultiHeadAttention, SDPA and RotaryEmbed.

use ndarray::{Array1, Array2, ArrayView2, ArrayView3, ArrayViewD, Axis, Ix3, concatenate, stack};
use num_traits::AsPrimitive;

use super::Mat;
use super::array::{bottom, shaped, size, weight};
use super::product::{in_order, matrix, product, two_axes};
use crate::error::{Error, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{MultiHeadAttention, RotaryEmbed, SDPA};
use crate::tensor::Tensor;

/// Computes a layer of attention, and the caches of SDPA if they are asked for.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat], tops: usize) -> Result<Vec<Mat>> {
    let mut computed = match layer {
        Layer::MultiHeadAttention(layer) => vec![multi_head(layer, bottoms)?],
        Layer::SDPA(layer) => sdpa(layer, bottoms)?,
        Layer::RotaryEmbed(layer) => vec![rotary_embed(layer, bottoms)?],
        _ => unsupported!("{} has no reference", layer.type_name()),
    };
    if computed.len() < tops {
        invalid!("{tops} tops instead of {}", computed.len());
    }
    computed.truncate(tops);
    Ok(computed.into_iter().map(in_order).collect())
}

/// Returns the means of the values, `[keys, v]`, weighted for each query by its scores.
///
/// The queries are `[queries, w]`, the keys `[keys, w]`, and the mask `[queries, keys]`.
fn attention(
    queries: ArrayView2<'_, f64>,
    keys: ArrayView2<'_, f64>,
    values: ArrayView2<'_, f64>,
    scale: f64,
    mask: Option<ArrayView2<'_, f64>>,
) -> Result<Array2<f64>> {
    let mut scores = product(queries, keys.t())? * scale;
    if let Some(mask) = mask {
        if mask.dim() != scores.dim() {
            invalid!("a mask of {:?} for scores of {:?}", mask.shape(), scores.shape());
        }
        scores += &mask;
    }
    for mut row in scores.outer_iter_mut() {
        let most = row.fold(f64::NEG_INFINITY, |most, x| most.max(*x));
        row.mapv_inplace(|x| libm::exp(x - most));
        let sum = row.sum();
        row /= sum;
    }
    product(scores.view(), values)
}

/// Returns the mask of a head: one of two axes is that of all heads.
fn mask_of<'a>(mask: Option<&'a ArrayViewD<'_, f64>>, head: usize) -> Result<Option<ArrayView2<'a, f64>>> {
    let Some(mask) = mask else { return Ok(None) };
    let view = match mask.ndim() {
        3 if head < mask.len_of(Axis(0)) => mask.index_axis(Axis(0), head),
        2 => mask.view(),
        _ => invalid!("a mask of {:?} for head {head}", mask.shape()),
    };
    Ok(Some(view.into_dimensionality()?))
}

/// Computes attention over heads of the products of queries, keys and values with weights.
fn multi_head(layer: &MultiHeadAttention, bottoms: &[&Mat]) -> Result<Mat> {
    let (mask, data) = match bottoms.split_last() {
        Some((mask, data)) if layer.attn_mask != 0 => (Some(mask.view()), data),
        _ => (None, bottoms),
    };
    // Keys and values are the queries, or the keys, if they are absent.
    let (queries, keys, values) = match *data {
        [queries] => (queries, queries, queries),
        [queries, keys] => (queries, keys, keys),
        [queries, keys, values] => (queries, keys, values),
        _ => invalid!("{} bottoms", bottoms.len()),
    };
    let (embed, heads) = (size(layer.embed_dim)?, size(layer.num_heads)?);
    let Some(width) = embed.checked_div(heads).filter(|width| *width > 0 && width * heads == embed) else {
        invalid!("{embed} elements in {heads} heads");
    };
    let (queries, keys, values) =
        (two_axes(queries.view())?, two_axes(keys.view())?, two_axes(values.view())?);
    if (keys.ncols(), values.ncols()) != (size(layer.kdim)?, size(layer.vdim)?) {
        invalid!("keys of {:?} and values of {:?}", keys.shape(), values.shape());
    }
    let map = |rows: ArrayView2<'_, f64>, weights: &Option<Tensor>, bias: &Option<Tensor>, outputs| {
        let weights = matrix(weights, outputs, rows.ncols())?;
        Ok::<_, Error>(product(rows, weights.t())? + Array1::from(weight(bias, outputs)?))
    };
    let q = map(queries, &layer.q_weight_data, &layer.q_bias_data, embed)?;
    let k = map(keys, &layer.k_weight_data, &layer.k_bias_data, embed)?;
    let v = map(values, &layer.v_weight_data, &layer.v_bias_data, embed)?;
    let each = q
        .axis_chunks_iter(Axis(1), width)
        .zip(k.axis_chunks_iter(Axis(1), width))
        .zip(v.axis_chunks_iter(Axis(1), width));
    let mut computed = Vec::new();
    for (head, ((q, k), v)) in each.enumerate() {
        computed.push(attention(q, k, v, layer.scale.into(), mask_of(mask.as_ref(), head)?)?);
    }
    let views: Vec<ArrayView2<'_, f64>> = computed.iter().map(|part| part.view()).collect();
    let joined = concatenate(Axis(1), &views)?;
    Ok(map(joined.view(), &layer.out_weight_data, &layer.out_bias_data, queries.ncols())?.into_dyn())
}

/// Returns a blob of heads, `[heads, rows, w]`.
fn heads(mat: &Mat) -> Result<ArrayView3<'_, f64>> {
    mat.view().into_dimensionality::<Ix3>().map_err(|_| Error::invalid(format!("heads of {:?}", mat.shape())))
}

/// Appends rows to a cache, which may be empty.
fn grown(cache: Option<&Mat>, rows: &Mat) -> Result<Mat> {
    match cache.filter(|cache| !cache.is_empty()) {
        Some(cache) => Ok(concatenate(Axis(1), &[heads(cache)?, heads(rows)?])?.into_dyn()),
        None => Ok(rows.clone()),
    }
}

/// Computes attention of heads of queries; each head of keys and values serves as many adjacent ones. Returns
/// the keys and values too if the layer caches them.
fn sdpa(layer: &SDPA, bottoms: &[&Mat]) -> Result<Vec<Mat>> {
    let (mask, first) = match layer.attn_mask {
        0 => (None, 3),
        _ => (Some(bottom(bottoms, 3)?), 4),
    };
    let cache = |index: usize| bottoms.get(index).copied().filter(|_| layer.kv_cache != 0);
    let keys = grown(cache(first), bottom(bottoms, 1)?)?;
    let values = grown(cache(first + 1), bottom(bottoms, 2)?)?;
    let (q, k, v) = (heads(bottom(bottoms, 0)?)?, heads(&keys)?, heads(&values)?);
    let (count, _, width) = q.dim();
    let groups = k.len_of(Axis(0));
    let Some(0) = count.checked_rem(groups) else { invalid!("{count} heads in {groups} groups") };
    if v.len_of(Axis(0)) != groups {
        invalid!("keys of {:?} and values of {:?}", k.shape(), v.shape());
    }
    let width: f64 = width.as_();
    let scale = if layer.scale == 0.0 { 1.0 / width.sqrt() } else { layer.scale.into() };
    // A plane alone is the mask of all heads.
    let mask = mask.map(|mask| match mask.shape() {
        [1, _, _] => mask.index_axis(Axis(0), 0),
        _ => mask.view(),
    });
    let mut computed = Vec::new();
    for (head, queries) in q.outer_iter().enumerate() {
        let group = head / (count / groups);
        let (k, v) = (k.index_axis(Axis(0), group), v.index_axis(Axis(0), group));
        computed.push(attention(queries, k, v, scale, mask_of(mask.as_ref(), head)?)?);
    }
    let views: Vec<ArrayView2<'_, f64>> = computed.iter().map(|part| part.view()).collect();
    let top = stack(Axis(0), &views)?.into_dyn();
    Ok(if layer.kv_cache != 0 { vec![top, keys, values] } else { vec![top] })
}

/// Rotates pairs of elements of each row, by the cosine and sine of the row for each pair.
fn rotary_embed(layer: &RotaryEmbed, bottoms: &[&Mat]) -> Result<Mat> {
    let [bottom, cosine, sine] = *bottoms else { invalid!("{} bottoms", bottoms.len()) };
    let (rows, width) = match *bottom.shape() {
        [h, w] | [_, h, w] if w % 2 == 0 && w > 0 && h > 0 => (h, w),
        ref shape => invalid!("pairs of elements of {shape:?}"),
    };
    let (count, half) = (bottom.len() / rows / width, width / 2);
    if cosine.shape() != [rows, half] || sine.shape() != [rows, half] {
        invalid!("angles of {:?} and {:?} for {:?}", cosine.shape(), sine.shape(), bottom.shape());
    }
    let (sizes, axis) = match layer.interleaved {
        0 => ([count, rows, 2, half], Axis(2)),
        _ => ([count, rows, half, 2], Axis(3)),
    };
    let pairs = shaped(&sizes, bottom.iter().copied().collect())?;
    let (x, y) = (pairs.index_axis(axis, 0), pairs.index_axis(axis, 1));
    let rotated = [&x * cosine - &y * sine, &x * sine + &y * cosine];
    let [x, y] = &rotated;
    shaped(bottom.shape(), stack(axis, &[x.view(), y.view()])?.into_iter().collect())
}
