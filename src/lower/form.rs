//! Forms: shapes of at most four axes of blobs that contain the elements of a value, in their order.

use crate::error::{At, Result};
use crate::tensor::{Dim, axis_groups, pair_axes};

/// The maximum number of axes of a blob.
pub(crate) const MAX_AXES: usize = 4;

/// Returns the sizes of a form by their names in ncnn: w, h, d and c, with `absent` for an axis that it does
/// not have.
pub(super) fn by_name(form: &[i32], absent: i32) -> Option<[i32; 4]> {
    match *form {
        [w] => Some([w, absent, absent, absent]),
        [h, w] => Some([w, h, absent, absent]),
        [c, h, w] => Some([w, h, absent, c]),
        [c, d, h, w] => Some([w, h, d, c]),
        _ => None,
    }
}

/// Returns whether two lists of sizes have the same number of elements.
pub(crate) fn same_elements(a: &[Dim], b: &[Dim]) -> Result<bool> {
    if let (Some(a), Some(b)) = (Dim::known_product(a), Dim::known_product(b)) {
        return Ok(a == b);
    }
    Ok(Dim::product(a).checked()? == Dim::product(b).checked()?)
}

/// Returns the form in which users pass and receive a value: from rank 2 on, a first axis of size 1 is
/// dropped; every other axis stays. If more than four are left, further unit axes are dropped from the left,
/// then the leading axes are merged.
pub(crate) fn interface_form(shape: &[Dim]) -> Vec<Dim> {
    let size = |axes: &Vec<usize>| Dim::product(axes.iter().filter_map(|axis| shape.get(*axis)));
    interface_axes(shape).iter().map(size).collect()
}

/// Returns the axes of `shape` that each axis of [`interface_form`] merges. Others have size 1.
pub(crate) fn interface_axes(shape: &[Dim]) -> Vec<Vec<usize>> {
    let is_unit = |axis: &usize| shape.get(*axis).is_some_and(|size| size.is(1));
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    if axes.is_empty() {
        return vec![Vec::new()];
    }
    if axes.len() >= 2 && is_unit(&0) {
        axes.remove(0);
    }
    while axes.len() > MAX_AXES {
        let Some(unit) = axes.iter().position(is_unit) else { break };
        axes.remove(unit);
    }
    let tail = axes.split_off(axes.len().min(axes.len().saturating_sub(MAX_AXES) + 1));
    std::iter::once(axes).chain(tail.into_iter().map(|axis| vec![axis])).collect()
}

/// Returns a form of `rank` axes with `size` at `axis`, the others 1.
pub(crate) fn line_form(size: &Dim, axis: usize, rank: usize) -> Vec<Dim> {
    let mut form = vec![Dim::ONE; rank];
    form.put(axis, size.clone());
    form
}

/// Returns a shape with unit axes before it, as many as it lacks to `rank`.
pub(crate) fn extended(shape: &[Dim], rank: usize) -> Vec<Dim> {
    let ones = std::iter::repeat_n(Dim::ONE, rank.saturating_sub(shape.len()));
    ones.chain(shape.iter().cloned()).collect()
}

/// Returns the position in `form` of each of the axes `axes` of `shape`; `None` if the form merges one of
/// them with another axis whose size is not 1, or drops it.
pub(crate) fn isolate(form: &[Dim], shape: &[Dim], axes: &[usize]) -> Option<Vec<usize>> {
    let mut found = vec![None; shape.len()];
    let pairs = pair_axes(form, shape)?;
    // Both lists are traversed together; between the pairs are axes of size 1.
    let (mut i, mut j) = (0, 0);
    for pair in pairs.iter().map(Some).chain([None]) {
        let starts = pair.and_then(|[form_axes, axes]| Some((*form_axes.first()?, *axes.first()?)));
        let (next, end) = starts.unwrap_or((form.len(), shape.len()));
        // If the form has fewer unit axes than the shape, it has the requested ones.
        let (mut units, others): (Vec<usize>, Vec<usize>) = (j..end).partition(|axis| axes.contains(axis));
        units.extend(others);
        units.truncate(next - i);
        units.sort_unstable();
        for (offset, axis) in units.into_iter().enumerate() {
            found.put(axis, Some(i + offset));
        }
        if let Some([form_axes, axes]) = pair {
            if let ([only], [axis]) = (form_axes.as_slice(), axes.as_slice()) {
                found.put(*axis, Some(*only));
            }
            (i, j) = (form_axes.last()? + 1, axes.last()? + 1);
        }
    }
    axes.iter().map(|axis| found.get(*axis).copied().flatten()).collect()
}

/// Returns a form of `shape` in which each of `axes` is an axis, and their positions: the interface form if
/// possible with at most three axes, since other layers use it too; otherwise the axes before, between and
/// after are merged.
pub(crate) fn isolated_form(
    shape: &[Dim],
    axes: &[usize],
    can_be_had: impl Fn(&[Dim]) -> bool,
) -> (Vec<Dim>, Vec<usize>) {
    let natural = interface_form(shape);
    if natural.len() < MAX_AXES
        && can_be_had(&natural)
        && let Some(found) = isolate(&natural, shape, axes)
    {
        return (natural, found);
    }
    let mut form: Vec<Dim> = Vec::new();
    let mut found = vec![0; axes.len()];
    let mut open = false;
    for (axis, size) in shape.iter().enumerate() {
        if let Some(index) = axes.iter().position(|a| *a == axis) {
            found.put(index, form.len());
            form.push(size.clone());
            open = false;
        } else if size.is(1) {
            continue;
        } else if open {
            let merged = form.pop().unwrap_or(Dim::ONE) * size;
            form.push(merged);
        } else {
            form.push(size.clone());
            open = true;
        }
    }
    if form.is_empty() {
        form.push(Dim::ONE);
    }
    (form, found)
}

/// Returns the permutation of the axes of `form` that corresponds to `perm` of `shape`, if the axes of each
/// stay together.
pub(crate) fn order_of_form(form: &[Dim], shape: &[Dim], perm: &[usize]) -> Option<Vec<usize>> {
    let groups = axis_groups(form, shape)?;
    let mut order: Vec<usize> = Vec::with_capacity(form.len());
    let mut rest = perm.iter().filter(|axis| shape.get(**axis).is_some_and(|size| !size.is(1))).peekable();
    while let Some(axis) = rest.peek() {
        let form_axis = groups.iter().position(|group| group.first() == Some(axis))?;
        let together = groups.get(form_axis)?.iter().all(|axis| rest.next_if_eq(&axis).is_some());
        if !together {
            return None;
        }
        order.push(form_axis);
    }
    // Unit axes keep their position among the others.
    for form_axis in 0..form.len() {
        if groups.get(form_axis).is_some_and(Vec::is_empty) {
            order.insert(form_axis.min(order.len()), form_axis);
        }
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn interface_form_drops_only_the_batch() {
        for (shape, form) in [
            (&[][..], &[1][..]),
            (&[5], &[5]),
            (&[1], &[1]),
            (&[1, 3, 8, 8], &[3, 8, 8]),
            (&[2, 3, 8, 8], &[2, 3, 8, 8]),
            (&[1, 1, 8], &[1, 8]),
            (&[2, 1, 3, 4, 5], &[2, 3, 4, 5]),
            (&[2, 3, 4, 5, 6], &[6, 4, 5, 6]),
            (&[1, 2, 3, 4, 5, 6], &[6, 4, 5, 6]),
        ] {
            assert_eq!(interface_form(&dims(shape)), dims(form), "{shape:?}");
        }
    }

    #[test]
    fn interface_axes_are_those_of_the_shape() {
        for (shape, axes) in [
            (&[][..], &[&[][..]][..]),
            (&[1], &[&[0]]),
            (&[1, 3, 8, 8], &[&[1], &[2], &[3]]),
            (&[2, 1, 3, 4, 5], &[&[0], &[2], &[3], &[4]]),
            (&[1, 2, 3, 4, 5, 6], &[&[1, 2], &[3], &[4], &[5]]),
        ] {
            assert_eq!(interface_axes(&dims(shape)), axes, "{shape:?}");
        }
        let free = [Dim::symbol("N"), Dim::Known(4), Dim::Known(5)];
        assert_eq!(interface_axes(&free), [[0], [1], [2]]);
    }

    #[test]
    fn merged_axes_are_not_isolated() {
        for (form, shape, axes, found) in [
            (&[3, 8, 8][..], &[1, 3, 8, 8][..], &[1, 2][..], Some(vec![0, 1])),
            (&[24, 8], &[1, 3, 8, 8], &[1], None),
            (&[24, 8], &[1, 3, 8, 8], &[3], Some(vec![1])),
            (&[3, 64], &[3, 8, 8], &[0], Some(vec![0])),
            (&[3, 64], &[3, 8, 8], &[1], None),
            (&[6, 4], &[2, 12], &[0], None),
            (&[6], &[6, 1], &[0], Some(vec![0])),
            (&[6], &[6, 1], &[1], None),
            (&[1, 8], &[1, 1, 8], &[1], Some(vec![0])),
            (&[1, 8], &[1, 1, 8], &[0], Some(vec![0])),
            (&[1, 1, 8], &[1, 1, 8], &[1, 0], Some(vec![1, 0])),
        ] {
            assert_eq!(isolate(&dims(form), &dims(shape), axes), found, "{shape:?} in {form:?}");
        }
    }

    #[test]
    fn forms_are_permuted_like_shapes() {
        for (form, shape, perm, order) in [
            (&[3, 8, 9][..], &[1, 3, 8, 9][..], &[0, 2, 3, 1][..], Some(vec![1, 2, 0])),
            (&[3, 72], &[1, 3, 8, 9], &[0, 2, 3, 1], Some(vec![1, 0])),
            (&[3, 72], &[1, 3, 8, 9], &[0, 3, 1, 2], None),
            (&[6, 4], &[2, 3, 4], &[1, 0, 2], None),
            (&[1, 5, 7], &[1, 5, 7], &[2, 1, 0], Some(vec![0, 2, 1])),
        ] {
            assert_eq!(order_of_form(&dims(form), &dims(shape), perm), order, "{shape:?} in {form:?}");
        }
    }

    #[test]
    fn free_axes_are_permuted() {
        let (h, w, one, four) = (Dim::symbol("H"), Dim::symbol("W"), Dim::ONE, Dim::Known(4));
        let shape = [one, h.clone(), w.clone(), four.clone()];
        let order = |form: &[Dim]| order_of_form(form, &shape, &[0, 3, 1, 2]);
        assert_eq!(order(&[h.clone(), w.clone(), four.clone()]), Some(vec![2, 0, 1]));
        assert_eq!(order(&[h * &w, four]), Some(vec![1, 0]));
    }
}
