//! The contraction of the operands of an Einsum, two at a time.

use super::{Label, equation, index_of, size_of};
use crate::ops::prelude::*;

/// The free sizes of the operands, and values that contain them.
type Sources<'x> = [(Dim, Expr<'x>)];

/// A value whose axes have distinct labels.
struct Labelled<'x> {
    value: Expr<'x>,
    labels: Vec<Label>,
    sizes: Vec<Dim>,
}

pub(super) fn expand_einsum<'x>(expand: &'x Expand) -> Result<Expr<'x>> {
    let equation = equation(expand)?;
    let dtype = expand.dtype(0)?;
    // Sums of narrow integers wrap around once, at last.
    let wraps = dtype.is_narrow_int();
    let mut sources = Vec::new();
    for index in 0..equation.operands.len() {
        for (axis, size) in (0..).zip(expand.shape(index)?) {
            if size.known().is_none() && !sources.iter().any(|(other, _)| other == size) {
                sources.push((size.clone(), expand.operand(index).size(axis).reshape(&[1])));
            }
        }
    }
    let mut result: Option<Labelled> = None;
    for (i, labels) in equation.operands.iter().enumerate() {
        let (operand, sizes) = (expand.operand(i), expand.shape(i)?.to_vec());
        let value = if wraps { operand.cast(DType::I32) } else { operand };
        let next = diagonal(Labelled { value, labels: labels.clone(), sizes }, &sources)?;
        let later = equation.operands.iter().skip(i + 1).flatten();
        let needed: Vec<Label> = equation.output.iter().chain(later).copied().collect();
        let in_result = |label: &Label| result.as_ref().is_some_and(|other| other.labels.contains(label));
        let unshared: Vec<Label> = next
            .labels
            .iter()
            .copied()
            .filter(|label| !needed.contains(label) && !in_result(label))
            .collect();
        let next = sum(next, &unshared)?;
        result = Some(match result.take() {
            None => next,
            Some(other) => combine(other, next, &needed, &equation.output, &sources)?,
        });
    }
    let result = result.ok_or_else(|| Error::invalid("no operands"))?;
    let result = transpose(result, &equation.output)?.value;
    Ok(if wraps { result.cast(dtype) } else { result })
}

/// Takes the diagonal of each pair of axes with the same label.
fn diagonal<'x>(mut x: Labelled<'x>, sources: &Sources<'x>) -> Result<Labelled<'x>> {
    loop {
        let twice = x.labels.iter().enumerate().find_map(|(i, label)| {
            let other = x.labels.iter().skip(i + 1).position(|other| other == label)?;
            Some((i, i + 1 + other))
        });
        let Some((i, j)) = twice else { return Ok(x) };
        let (size, other) = (x.sizes.at(i)?.clone(), x.sizes.at(j)?.clone());
        let (Some(n), true) = (size.known(), size == other) else {
            unsupported!("the diagonal over sizes {size} and {other}");
        };
        // Moves both axes to the end and merges them: the diagonal is every (n + 1)-th element.
        let rest: Vec<usize> = (0..x.labels.len()).filter(|axis| *axis != i && *axis != j).collect();
        let order: Vec<usize> = rest.iter().copied().chain([i, j]).collect();
        let moved = x.value.transpose(&order);
        let pick = |axis: &usize| Ok((*x.labels.at(*axis)?, x.sizes.at(*axis)?.clone()));
        let (mut labels, mut sizes): (Vec<Label>, Vec<Dim>) =
            rest.iter().map(pick).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let last = rest.len().int();
        let square = n.checked_mul(n).ok_or_else(|| Error::limit("the diagonal is too long"))?;
        let merged: Vec<Dim> = sizes.iter().cloned().chain([Dim::from(square)]).collect();
        let flat = reshape(moved, &sizes, &merged, sources)?;
        let value = flat.slice_by(last, 0, square, n + 1);
        labels.push(*x.labels.at(i)?);
        sizes.push(size);
        x = Labelled { value, labels, sizes };
    }
}

/// Sums over the axes of some labels.
fn sum<'x>(x: Labelled<'x>, gone: &[Label]) -> Result<Labelled<'x>> {
    let axes = gone.iter().filter_map(|label| index_of(&x.labels, *label));
    let axes = axes.map(i64::try_from).collect::<std::result::Result<Vec<_>, _>>()?;
    if axes.is_empty() {
        return Ok(x);
    }
    let value = x.value.reduce("ReduceSum", &axes, false);
    let kept = x.labels.iter().zip(x.sizes).filter(|(label, _)| !gone.contains(label));
    let (labels, sizes) = kept.map(|(label, size)| (*label, size)).unzip();
    Ok(Labelled { value, labels, sizes })
}

/// Multiplies two values, and sums over their common labels that are not needed any more.
fn combine<'x>(
    mut a: Labelled<'x>,
    mut b: Labelled<'x>,
    needed: &[Label],
    output: &[Label],
    sources: &Sources<'x>,
) -> Result<Labelled<'x>> {
    let mut contracted = Vec::new();
    for label in a.labels.clone() {
        if needed.contains(&label) || !b.labels.contains(&label) {
            continue;
        }
        if size_of(&a.labels, &a.sizes, label)?.is(1) == size_of(&b.labels, &b.sizes, label)?.is(1) {
            contracted.push(label);
        } else {
            // An axis of size 1 against a longer one: the sums are independent.
            a = sum(a, &[label])?;
            b = sum(b, &[label])?;
        }
    }
    let only = |x: &Labelled, y: &Labelled| -> Vec<Label> {
        x.labels.iter().copied().filter(|label| !y.labels.contains(label)).collect()
    };
    let (rows, columns) = (only(&a, &b), only(&b, &a));
    if contracted.is_empty() || (rows.is_empty() && columns.is_empty()) {
        return sum(multiply(a, b, output)?, &contracted);
    }
    // The operand whose labels come first in the output is the left one.
    let first = |labels: &[Label]| labels.iter().filter_map(|label| index_of(output, *label)).min();
    if first(&columns) < first(&rows) && !columns.is_empty() {
        matrix_product(b, a, &contracted, output, sources)
    } else {
        matrix_product(a, b, &contracted, output, sources)
    }
}

/// Sorts labels in the order of the output, others last.
fn sorted(mut labels: Vec<Label>, output: &[Label]) -> Vec<Label> {
    labels.sort_by_key(|label| index_of(output, *label).unwrap_or(output.len()));
    labels
}

/// Returns the elementwise product.
fn multiply<'x>(a: Labelled<'x>, b: Labelled<'x>, output: &[Label]) -> Result<Labelled<'x>> {
    let mut all = a.labels.clone();
    all.extend(b.labels.iter().filter(|label| !a.labels.contains(label)));
    let labels = sorted(all, output);
    let sizes = broadcast_sizes(&a, &b, &labels)?;
    let value = with_labels(a, &labels)? * with_labels(b, &labels)?;
    Ok(Labelled { value, labels, sizes })
}

/// Returns the sizes of the labels in the product of two values.
fn broadcast_sizes(a: &Labelled, b: &Labelled, labels: &[Label]) -> Result<Vec<Dim>> {
    let of = |x: &Labelled, label: Label| {
        index_of(&x.labels, label).and_then(|i| x.sizes.get(i).cloned()).unwrap_or(Dim::ONE)
    };
    labels.iter().map(|label| of(a, *label).broadcast(&of(b, *label))).collect()
}

/// Returns a value with an axis for each of `labels`, of size 1 for missing ones.
fn with_labels<'x>(x: Labelled<'x>, labels: &[Label]) -> Result<Expr<'x>> {
    let present: Vec<Label> = labels.iter().copied().filter(|label| x.labels.contains(label)).collect();
    let axes = (0_i64..).zip(labels);
    let missing: Vec<i64> =
        axes.filter(|(_, label)| !present.contains(label)).map(|(axis, _)| axis).collect();
    let value = transpose(x, &present)?.value;
    Ok(if missing.is_empty() { value } else { value.unsqueeze(&missing) })
}

/// Returns `a` as rows times `b` as columns, for each of their common labels that stay.
fn matrix_product<'x>(
    a: Labelled<'x>,
    b: Labelled<'x>,
    contracted: &[Label],
    output: &[Label],
    sources: &Sources<'x>,
) -> Result<Labelled<'x>> {
    let of = |x: &Labelled, keep: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        sorted(x.labels.iter().copied().filter(|label| keep(label)).collect(), output)
    };
    let batch = of(&a, &|label| b.labels.contains(label) && !contracted.contains(label));
    let rows = of(&a, &|label| !b.labels.contains(label));
    let columns = of(&b, &|label| !a.labels.contains(label));
    let mut labels = batch.clone();
    labels.extend(rows.iter().chain(&columns));
    let sizes = broadcast_sizes(&a, &b, &labels)?;
    let a = stack(a, [&batch, &rows, contracted], sources)?;
    let product = a.matmul(stack(b, [&batch, contracted, &columns], sources)?);
    let axis = batch.len().int();
    let value = match (rows.len(), columns.len()) {
        (1, 1) => product,
        (0, 1) => product.squeeze(&[axis]),
        (1, 0) => product.squeeze(&[axis + 1]),
        _ => reshape(product, sizes.get(..batch.len()).unwrap_or_default(), &sizes, sources)?,
    };
    Ok(Labelled { value, labels, sizes })
}

/// Returns a value as a stack of matrices: the labels of the first group separately, the second and
/// third merged.
fn stack<'x>(
    x: Labelled<'x>,
    [batch, rows, columns]: [&[Label]; 3],
    sources: &Sources<'x>,
) -> Result<Expr<'x>> {
    let order: Vec<Label> = batch.iter().chain(rows).chain(columns).copied().collect();
    let Labelled { value, sizes, .. } = transpose(x, &order)?;
    let axis = batch.len().int();
    Ok(match (rows.len(), columns.len()) {
        (1, 1) => value,
        (0, 1) => value.unsqueeze(&[axis]),
        (1, 0) => value.unsqueeze(&[axis + 1]),
        _ => {
            let (batch_sizes, rest) = sizes.split_at(batch.len());
            let (row_sizes, column_sizes) = rest.split_at(rows.len());
            let mut merged = batch_sizes.to_vec();
            merged.extend([Dim::product(row_sizes), Dim::product(column_sizes)]);
            reshape(value, &sizes, &merged, sources)?
        }
    })
}

/// Returns a value with its axes in the order of `labels`.
fn transpose<'x>(x: Labelled<'x>, labels: &[Label]) -> Result<Labelled<'x>> {
    let missing = || Error::invalid("an operand lacks the label");
    let order: Result<Vec<usize>> =
        labels.iter().map(|label| index_of(&x.labels, *label).ok_or_else(missing)).collect();
    let order = order?;
    if order.len() != x.labels.len() {
        invalid!("{} axes where {} are needed", x.labels.len(), order.len());
    }
    let sizes: Result<Vec<Dim>> = order.iter().map(|axis| x.sizes.at(*axis).cloned()).collect();
    Ok(Labelled { value: x.value.transpose(&order), labels: labels.to_vec(), sizes: sizes? })
}

/// Returns the value in another shape. `from` has the sizes of the value, or the first ones. Of several free
/// sizes that change their axis, all but one are sizes of axes of operands.
fn reshape<'x>(value: Expr<'x>, from: &[Dim], to: &[Dim], sources: &Sources<'x>) -> Result<Expr<'x>> {
    let stays = |axis: usize, size: &Dim| from.get(axis) == Some(size);
    let entry = |(axis, size): (usize, &Dim)| size.known().unwrap_or(if stays(axis, size) { 0 } else { -1 });
    let shape: Vec<i64> = to.iter().enumerate().map(entry).collect();
    if shape.iter().filter(|size| **size == -1).count() < 2 {
        return Ok(value.reshape(&shape));
    }
    let source = |size: &Dim| sources.iter().find(|(other, _)| other == size).map(|(_, value)| *value);
    let found: Vec<Option<Expr>> = to.iter().map(source).collect();
    if to.iter().zip(&found).filter(|(size, found)| size.known().is_none() && found.is_none()).count() > 1 {
        return Err(Error::unsupported("several free sizes of operands"));
    }
    let entries = shape.iter().zip(found).map(|(size, found)| match (size, found) {
        (-1, Some(found)) => found,
        _ => value.builder.ints(&[*size]),
    });
    Ok(value.reshape_to(value.builder.concat(&entries.collect::<Vec<_>>(), 0)))
}
