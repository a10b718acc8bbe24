//! Forms: sizes of Mats that hold the elements of a value in their order.

use crate::error::Result;
use crate::tensor::Dim;

/// Most axes of a Mat.
pub(crate) const MAX_AXES: usize = 4;

/// Whether two lists of sizes have the same number of elements.
pub(crate) fn same_elements(a: &[Dim], b: &[Dim]) -> Result<bool> {
    Ok(Dim::product(a)? == Dim::product(b)?)
}

/// The form in which users give and get a value, the one rule of the interface: from rank 2 on the first axis is left out where
/// it is 1; every other axis stays. Where more than four are left, further unit axes go from the left, then the leading axes are
/// merged into one.
pub(crate) fn interface_form(shape: &[Dim]) -> Result<Vec<Dim>> {
    let mut form = shape.to_vec();
    if form.is_empty() {
        return Ok(vec![Dim::Known(1)]);
    }
    if form.len() >= 2 && form.first().is_some_and(|d| d.is(1)) {
        form.remove(0);
    }
    while form.len() > MAX_AXES {
        let Some(unit) = form.iter().position(|d| d.is(1)) else { break };
        form.remove(unit);
    }
    if form.len() > MAX_AXES {
        let tail = form.split_off(form.len() - (MAX_AXES - 1));
        let merged = Dim::product(&form)?;
        form = std::iter::once(merged).chain(tail).collect();
    }
    Ok(form)
}

/// For each of the axes `axes` of `shape`, the axis of a Mat of form `form` that is exactly that axis; `None` where the form merges
/// one of them with another axis that is not 1. Unit axes of `shape` that the form leaves out cannot be found either.
pub(crate) fn isolate(form: &[Dim], shape: &[Dim], axes: &[usize]) -> Option<Vec<usize>> {
    let mut place = vec![None; shape.len()];
    // Both lists are walked together: groups of axes with the same product.
    let (mut i, mut j) = (0, 0);
    while i < form.len() || j < shape.len() {
        match (form.get(i), shape.get(j)) {
            (Some(f), Some(s)) if f == s => {
                // Of several ways to match unit axes, the one that leaves as many axes on both sides is taken.
                *place.get_mut(j)? = Some(i);
                i += 1;
                j += 1;
            }
            (_, Some(s)) if s.is(1) => j += 1,
            (Some(f), _) if f.is(1) => i += 1,
            (Some(f), Some(s)) => {
                let (mut form_product, mut shape_product) = (f.clone(), s.clone());
                i += 1;
                j += 1;
                while form_product != shape_product {
                    let form_divides = shape_product.exact_div(&form_product).is_some();
                    if form_divides && i < form.len() {
                        form_product = form_product.mul(form.get(i)?).ok()?;
                        i += 1;
                    } else {
                        shape_product = shape_product.mul(shape.get(j)?).ok()?;
                        j += 1;
                    }
                }
            }
            _ => return None,
        }
    }
    axes.iter().map(|axis| place.get(*axis).copied().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(sizes: &[i64]) -> Vec<Dim> {
        sizes.iter().copied().map(Dim::Known).collect()
    }

    #[test]
    fn interface_drops_the_batch_and_keeps_the_rest() {
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
            assert_eq!(interface_form(&dims(shape)).unwrap(), dims(form), "{shape:?}");
        }
    }

    #[test]
    fn axes_are_found_only_where_they_stand_alone() {
        for (form, shape, axes, found) in [
            (&[3, 8, 8][..], &[1, 3, 8, 8][..], &[1, 2][..], Some(vec![0, 1])),
            (&[24, 8], &[1, 3, 8, 8], &[1], None),
            (&[24, 8], &[1, 3, 8, 8], &[3], Some(vec![1])),
            (&[3, 64], &[3, 8, 8], &[0], Some(vec![0])),
            (&[3, 64], &[3, 8, 8], &[1], None),
            (&[6, 4], &[2, 12], &[0], None),
            (&[6], &[6, 1], &[0], Some(vec![0])),
            (&[6], &[6, 1], &[1], None),
        ] {
            assert_eq!(isolate(&dims(form), &dims(shape), axes), found, "{shape:?} in {form:?}");
        }
    }
}
