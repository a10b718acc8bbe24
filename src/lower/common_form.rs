//! Common forms of inputs of different shapes, so that arithmetic layers broadcast them.

use super::form::{MAX_AXES, same_elements};
use crate::error::At;
use crate::tensor::{Dim, pair_axes, shape};

/// Returns the forms of all inputs for a result in `form`, if each can be expressed.
pub(super) fn express_all(form: &[Dim], inputs: &[(usize, Vec<Dim>)], out: &[Dim]) -> Option<Vec<Vec<Dim>>> {
    if form.len() > MAX_AXES || !same_elements(form, out).ok()? {
        return None;
    }
    let groups = pair_axes(form, out)?;
    inputs.iter().map(|(_, shape)| express(form, &groups, shape, out)).collect()
}

/// Returns the form of an input of `shape` for a result of shape `out` in `form`.
fn express(form: &[Dim], groups: &[[Vec<usize>; 2]], shape: &[Dim], out: &[Dim]) -> Option<Vec<Dim>> {
    let mut input_form = vec![Dim::ONE; form.len()];
    for [form_axes, axes] in groups {
        let full = axes.iter().all(|axis| shape.get(*axis) == out.get(*axis));
        let unit = axes.iter().all(|axis| shape.get(*axis).is_some_and(|d| d.is(1)));
        if let ([form_axis], [axis]) = (form_axes.as_slice(), axes.as_slice())
            && let (Some(size), Some(whole)) = (shape.get(*axis), out.get(*axis))
            && may_stretch(size, whole)
        {
            input_form.put(*form_axis, size.clone());
        } else if full {
            for form_axis in form_axes {
                input_form.put(*form_axis, form.get(*form_axis)?.clone());
            }
        } else if !unit {
            return None;
        }
    }
    Some(input_form)
}

/// Returns whether a size may be 1 or that of the result, depending on free sizes.
fn may_stretch(size: &Dim, whole: &Dim) -> bool {
    size != whole && (size.known().is_none() || whole.known().is_none()) && !size.is(1)
}

/// Returns the result without unit axes, with adjacent axes merged from the left until at most four are left.
/// Two axes can be merged if the same inputs are broadcast along both. `None` if more than four are left.
pub(super) fn merged_form(inputs: &[(usize, Vec<Dim>)], out: &[Dim]) -> Option<Vec<Dim>> {
    let mut axes: Vec<(Dim, Option<Vec<bool>>)> = Vec::new();
    for (axis, size) in out.iter().enumerate() {
        if !size.is(1) {
            let full = inputs.iter().map(|(_, shape)| shape.get(axis) == Some(size)).collect();
            let open =
                inputs.iter().any(|(_, shape)| shape.get(axis).is_some_and(|input| may_stretch(input, size)));
            axes.push((size.clone(), Some(full).filter(|_| !open)));
        }
    }
    while axes.len() > MAX_AXES {
        let pair = axes.windows(2).position(|pair| match pair {
            [a, b] => a.1.is_some() && a.1 == b.1,
            _ => false,
        });
        let first = pair?;
        let (size, _) = axes.remove(first + 1);
        if let Some(merged) = axes.get_mut(first) {
            merged.0 *= size;
        }
    }
    if axes.is_empty() {
        return Some(shape![1].to_vec());
    }
    Some(axes.into_iter().map(|(size, _)| size).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn inputs_are_expressed_in_the_form_of_the_result() {
        for (form, out, shape, expected) in [
            (&[3, 8, 8][..], &[1, 3, 8, 8][..], &[1, 3, 1, 1][..], Some(&[3, 1, 1][..])),
            (&[3, 64], &[1, 3, 8, 8], &[1, 3, 1, 1], Some(&[3, 1])),
            (&[3, 64], &[1, 3, 8, 8], &[1, 1, 1, 8], None),
            (&[24, 8], &[1, 3, 8, 8], &[1, 1, 1, 8], Some(&[1, 8])),
            // One axis of the result is two of the form.
            (&[2, 12, 5], &[24, 5], &[24, 1], Some(&[2, 12, 1])),
            (&[2, 12, 5], &[24, 5], &[1, 5], Some(&[1, 1, 5])),
            (&[1, 4, 1], &[4], &[1], Some(&[1, 1, 1])),
            (&[6, 4], &[2, 12], &[2, 12], Some(&[6, 4])),
            (&[6, 4], &[2, 12], &[1, 12], None),
        ] {
            let groups = pair_axes(&dims(form), &dims(out)).unwrap();
            let found = express(&dims(form), &groups, &dims(shape), &dims(out));
            assert_eq!(found, expected.map(dims), "{shape:?} with {out:?} in {form:?}");
        }
    }

    #[test]
    fn axes_are_merged_if_all_inputs_agree() {
        for (out, shape, form) in [
            (&[2, 3, 4, 5, 6][..], &[2, 3, 1, 1, 6][..], Some(&[6, 4, 5, 6][..])),
            (&[2, 3, 4, 5, 6], &[2, 1, 4, 1, 6], None),
            (&[2, 1, 4, 5, 6], &[2, 1, 4, 1, 6], Some(&[2, 4, 5, 6])),
            (&[1, 1], &[1, 1], Some(&[1])),
        ] {
            let inputs = [(0, dims(shape)), (1, dims(out))];
            assert_eq!(merged_form(&inputs, &dims(out)), form.map(dims), "{shape:?} and {out:?}");
        }
    }
}
