//! The contraction of the operands of an Einsum, two at a time.

use super::{Label, equation, place, size_of};
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim};

/// A value whose axes have distinct labels.
struct Labelled {
    operand: Operand,
    labels: Vec<Label>,
    sizes: Vec<Dim>,
}

pub(super) fn expand_einsum(expand: &mut Expand) -> Result<bool> {
    let equation = equation(expand)?;
    let dtype = expand.dtype(0)?;
    let mut result: Option<Labelled> = None;
    for (i, labels) in equation.operands.iter().enumerate() {
        let mut operand = expand.operand(i)?;
        // Sums of narrow integers wrap around once, at last.
        if dtype.is_narrow_int() {
            operand = expand.cast(operand, DType::I32)?;
        }
        let sizes = expand.shape(i)?.to_vec();
        let next = diagonal(expand, Labelled { operand, labels: labels.clone(), sizes })?;
        let later = equation.operands.iter().skip(i + 1).flatten();
        let needed: Vec<Label> = equation.output.iter().chain(later).copied().collect();
        let in_result = |label: &Label| result.as_ref().is_some_and(|other| other.labels.contains(label));
        let alone: Vec<Label> = next
            .labels
            .iter()
            .copied()
            .filter(|label| !needed.contains(label) && !in_result(label))
            .collect();
        let next = sum(expand, next, &alone)?;
        result = Some(match result.take() {
            None => next,
            Some(other) => combine(expand, other, next, &needed, &equation.output)?,
        });
    }
    let result = result.ok_or_else(|| Error::invalid("no operands"))?;
    let result = transpose(expand, result, &equation.output)?;
    let result = if dtype.is_narrow_int() { expand.cast(result.operand, dtype)? } else { result.operand };
    expand.output(0, result)?;
    Ok(true)
}

/// Takes the diagonal of each pair of axes with the same label.
fn diagonal(expand: &mut Expand, mut value: Labelled) -> Result<Labelled> {
    loop {
        let twice = value.labels.iter().enumerate().find_map(|(i, label)| {
            let other = value.labels.iter().skip(i + 1).position(|other| other == label)?;
            Some((i, i + 1 + other))
        });
        let Some((i, j)) = twice else { return Ok(value) };
        let (size, other) = (value.sizes.at(i)?.clone(), value.sizes.at(j)?.clone());
        let (Some(n), true) = (size.known(), size == other) else {
            unsupported!("the diagonal over sizes {size} and {other}");
        };
        // Moves both axes to the end and merges them: the diagonal is every (n + 1)-th element.
        let rest: Vec<usize> = (0..value.labels.len()).filter(|axis| *axis != i && *axis != j).collect();
        let order: Vec<usize> = rest.iter().copied().chain([i, j]).collect();
        let moved = permute(expand, value.operand, &order)?;
        let pick = |axis: &usize| Ok((*value.labels.at(*axis)?, value.sizes.at(*axis)?.clone()));
        let (mut labels, mut sizes): (Vec<Label>, Vec<Dim>) =
            rest.iter().map(pick).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let last = i64::try_from(rest.len())?;
        let square = n.checked_mul(n).ok_or_else(|| Error::limit("the diagonal is too long"))?;
        let merged: Vec<Dim> = sizes.iter().cloned().chain([Dim::Known(square)]).collect();
        let flat = reshape(expand, moved, &sizes, &merged)?;
        let bounds = [[0], [square], [last], [n + 1]].map(|list| expand.ints(&list));
        let [start, end, axis, step] = bounds;
        let operand = expand.op("Slice", &[flat, start?, end?, axis?, step?], &[])?;
        labels.push(*value.labels.at(i)?);
        sizes.push(size);
        value = Labelled { operand, labels, sizes };
    }
}

/// Sums over the axes of some labels.
fn sum(expand: &mut Expand, value: Labelled, gone: &[Label]) -> Result<Labelled> {
    let axes: Result<Vec<i64>> = gone
        .iter()
        .filter_map(|label| place(&value.labels, *label))
        .map(|axis| Ok(i64::try_from(axis)?))
        .collect();
    let axes = axes?;
    if axes.is_empty() {
        return Ok(value);
    }
    let axes = expand.ints(&axes)?;
    let operand = expand.op("ReduceSum", &[value.operand, axes], &[("keepdims", Attribute::Int(0))])?;
    let kept = value.labels.iter().zip(value.sizes).filter(|(label, _)| !gone.contains(label));
    let (labels, sizes) = kept.map(|(label, size)| (*label, size)).unzip();
    Ok(Labelled { operand, labels, sizes })
}

/// Multiplies two values, and sums over their common labels that are not needed any more.
fn combine(
    expand: &mut Expand,
    mut a: Labelled,
    mut b: Labelled,
    needed: &[Label],
    output: &[Label],
) -> Result<Labelled> {
    let mut contracted = Vec::new();
    for label in a.labels.clone() {
        if needed.contains(&label) || !b.labels.contains(&label) {
            continue;
        }
        if size_of(&a.labels, &a.sizes, label)?.is(1) == size_of(&b.labels, &b.sizes, label)?.is(1) {
            contracted.push(label);
        } else {
            // An axis of size 1 against a longer one: the sums are independent.
            a = sum(expand, a, &[label])?;
            b = sum(expand, b, &[label])?;
        }
    }
    let only = |x: &Labelled, y: &Labelled| -> Vec<Label> {
        x.labels.iter().copied().filter(|label| !y.labels.contains(label)).collect()
    };
    let (rows, columns) = (only(&a, &b), only(&b, &a));
    if contracted.is_empty() || (rows.is_empty() && columns.is_empty()) {
        let product = multiply(expand, a, b, output)?;
        return sum(expand, product, &contracted);
    }
    // The operand whose labels come first in the output is the left one.
    let first = |labels: &[Label]| labels.iter().filter_map(|label| place(output, *label)).min();
    if first(&columns) < first(&rows) && !columns.is_empty() {
        matrix_product(expand, b, a, &contracted, output)
    } else {
        matrix_product(expand, a, b, &contracted, output)
    }
}

/// Sorts labels in the order of the output, others last.
fn sorted(mut labels: Vec<Label>, output: &[Label]) -> Vec<Label> {
    labels.sort_by_key(|label| place(output, *label).unwrap_or(output.len()));
    labels
}

/// Emits the elementwise product.
fn multiply(expand: &mut Expand, a: Labelled, b: Labelled, output: &[Label]) -> Result<Labelled> {
    let mut all = a.labels.clone();
    all.extend(b.labels.iter().filter(|label| !a.labels.contains(label)));
    let labels = sorted(all, output);
    let mut sizes = Vec::with_capacity(labels.len());
    for label in &labels {
        let size = |x: &Labelled| place(&x.labels, *label).and_then(|i| x.sizes.get(i).cloned());
        sizes.push(size(&a).unwrap_or(Dim::Known(1)).broadcast(&size(&b).unwrap_or(Dim::Known(1)))?);
    }
    let (a, b) = (with_labels(expand, a, &labels)?, with_labels(expand, b, &labels)?);
    let operand = expand.op("Mul", &[a, b], &[])?;
    Ok(Labelled { operand, labels, sizes })
}

/// Emits a value with an axis for each of `labels`, of size 1 for missing ones.
fn with_labels(expand: &mut Expand, value: Labelled, labels: &[Label]) -> Result<Operand> {
    let own: Vec<Label> = labels.iter().copied().filter(|label| value.labels.contains(label)).collect();
    let missing: Result<Vec<i64>> = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| !own.contains(label))
        .map(|(axis, _)| Ok(i64::try_from(axis)?))
        .collect();
    let value = transpose(expand, value, &own)?;
    unsqueeze(expand, value.operand, &missing?)
}

/// Emits `a` as rows times `b` as columns, for each of their common labels that stay.
fn matrix_product(
    expand: &mut Expand,
    a: Labelled,
    b: Labelled,
    contracted: &[Label],
    output: &[Label],
) -> Result<Labelled> {
    let of = |x: &Labelled, keep: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        sorted(x.labels.iter().copied().filter(|label| keep(label)).collect(), output)
    };
    let batch = of(&a, &|label| b.labels.contains(label) && !contracted.contains(label));
    let rows = of(&a, &|label| !b.labels.contains(label));
    let columns = of(&b, &|label| !a.labels.contains(label));
    let mut labels = batch.clone();
    labels.extend(rows.iter().chain(&columns));
    let mut sizes = Vec::with_capacity(labels.len());
    for label in &labels {
        let size = |x: &Labelled| place(&x.labels, *label).and_then(|i| x.sizes.get(i).cloned());
        sizes.push(size(&a).unwrap_or(Dim::Known(1)).broadcast(&size(&b).unwrap_or(Dim::Known(1)))?);
    }
    let a = stack(expand, a, [&batch, &rows, contracted])?;
    let b = stack(expand, b, [&batch, contracted, &columns])?;
    let mut operand = expand.op("MatMul", &[a, b], &[])?;
    if rows.len() != 1 || columns.len() != 1 {
        operand = match (rows.len(), columns.len()) {
            (0, 1) => squeeze(expand, operand, batch.len())?,
            (1, 0) => squeeze(expand, operand, batch.len() + 1)?,
            _ => {
                let batch_sizes = sizes.get(..batch.len()).unwrap_or_default();
                reshape(expand, operand, batch_sizes, &sizes)?
            }
        };
    }
    Ok(Labelled { operand, labels, sizes })
}

/// Emits a value as a stack of matrices: the labels of the first group separately, those of the second and
/// third merged.
fn stack(expand: &mut Expand, value: Labelled, [batch, rows, columns]: [&[Label]; 3]) -> Result<Operand> {
    let order: Vec<Label> = batch.iter().chain(rows).chain(columns).copied().collect();
    let value = transpose(expand, value, &order)?;
    if rows.len() == 1 && columns.len() == 1 {
        return Ok(value.operand);
    }
    let axis = |place: usize| Ok::<[i64; 1], Error>([i64::try_from(place)?]);
    match (rows.len(), columns.len()) {
        (0, 1) => unsqueeze(expand, value.operand, &axis(batch.len())?),
        (1, 0) => unsqueeze(expand, value.operand, &axis(batch.len() + 1)?),
        _ => {
            let (batch_sizes, rest) = value.sizes.split_at(batch.len());
            let (row_sizes, column_sizes) = rest.split_at(rows.len());
            let mut sizes = batch_sizes.to_vec();
            sizes.push(Dim::product(row_sizes)?);
            sizes.push(Dim::product(column_sizes)?);
            reshape(expand, value.operand, &value.sizes, &sizes)
        }
    }
}

/// Emits a value with its axes in the order of `labels`.
fn transpose(expand: &mut Expand, value: Labelled, labels: &[Label]) -> Result<Labelled> {
    let missing = || Error::invalid("an operand lacks the label");
    let order: Result<Vec<usize>> =
        labels.iter().map(|label| place(&value.labels, *label).ok_or_else(missing)).collect();
    let order = order?;
    if order.len() != value.labels.len() {
        invalid!("{} axes where {} are needed", value.labels.len(), order.len());
    }
    let sizes: Result<Vec<Dim>> = order.iter().map(|axis| value.sizes.at(*axis).cloned()).collect();
    let operand = permute(expand, value.operand, &order)?;
    Ok(Labelled { operand, labels: labels.to_vec(), sizes: sizes? })
}

fn permute(expand: &mut Expand, x: Operand, order: &[usize]) -> Result<Operand> {
    if order.is_sorted() {
        return Ok(x);
    }
    let perm: Result<Vec<i64>> = order.iter().map(|axis| Ok(i64::try_from(*axis)?)).collect();
    expand.op("Transpose", &[x], &[("perm", Attribute::Ints(perm?))])
}

fn unsqueeze(expand: &mut Expand, x: Operand, axes: &[i64]) -> Result<Operand> {
    if axes.is_empty() {
        return Ok(x);
    }
    let axes = expand.ints(axes)?;
    expand.op("Unsqueeze", &[x, axes], &[])
}

fn squeeze(expand: &mut Expand, x: Operand, axis: usize) -> Result<Operand> {
    let axes = expand.ints(&[i64::try_from(axis)?])?;
    expand.op("Squeeze", &[x, axes], &[])
}

/// Emits another shape, with at most one free size other than those that stay in place. `from` has the sizes
/// of the operand, or the first ones.
fn reshape(expand: &mut Expand, x: Operand, from: &[Dim], to: &[Dim]) -> Result<Operand> {
    let stays = |axis: usize, size: &Dim| from.get(axis) == Some(size);
    let entry = |(axis, size): (usize, &Dim)| size.known().unwrap_or(if stays(axis, size) { 0 } else { -1 });
    let shape: Vec<i64> = to.iter().enumerate().map(entry).collect();
    if shape.iter().filter(|size| **size == -1).count() > 1 {
        return Err(Error::unsupported("several free sizes of operands").help("fix them with --input-shape"));
    }
    let shape = expand.ints(&shape)?;
    expand.op("Reshape", &[x, shape], &[])
}
