//! The axes of a shape together: the axes around an axis, and the axes of two shapes of as many elements.

use super::Dim;
use crate::error::At;

impl Dim {
    /// Returns sizes as integers of a type; `None` if one is free or does not fit.
    pub(crate) fn known_sizes<'a, T: TryFrom<i64>>(
        sizes: impl IntoIterator<Item = &'a Dim>,
    ) -> Option<Vec<T>> {
        sizes.into_iter().map(|size| T::try_from(size.known()?).ok()).collect()
    }

    /// Returns the product of sizes, if all are known and it fits.
    pub(crate) fn known_product(sizes: &[Dim]) -> Option<i64> {
        sizes.iter().try_fold(1_i64, |product, size| product.checked_mul(size.known()?))
    }

    /// Returns the products of the sizes before and after an axis.
    pub(crate) fn around(sizes: &[Dim], axis: usize) -> [Dim; 2] {
        [Dim::product(sizes.iter().take(axis)), Dim::product(sizes.iter().skip(axis + 1))]
    }
}

/// Pairs the axes of two shapes: the smallest groups of adjacent axes with equal products, without axes of
/// size 1. `None` if the shapes have different numbers of elements.
pub(crate) fn pair_axes(a: &[Dim], b: &[Dim]) -> Option<Vec<[Vec<usize>; 2]>> {
    let long = |shape: &[Dim]| -> Vec<usize> {
        shape.iter().enumerate().filter(|(_, size)| !size.is(1)).map(|(axis, _)| axis).collect()
    };
    let (mut a_axes, mut b_axes) = (long(a).into_iter(), long(b).into_iter());
    let mut groups = Vec::new();
    while let Some(first) = a_axes.next() {
        let [mut a_group, mut b_group] = [vec![first], vec![b_axes.next()?]];
        let [mut a_product, mut b_product] = [a.get(first)?.clone(), b.get(*b_group.first()?)?.clone()];
        while a_product != b_product {
            let (group, product, axis, size) = if b_product.exact_div(&a_product).is_some() {
                let axis = a_axes.next()?;
                (&mut a_group, &mut a_product, axis, a.get(axis)?)
            } else {
                let axis = b_axes.next()?;
                (&mut b_group, &mut b_product, axis, b.get(axis)?)
            };
            group.push(axis);
            *product *= size;
        }
        groups.push([a_group, b_group]);
    }
    b_axes.next().is_none().then_some(groups)
}

/// Returns the axes of `shape` that each axis of `merged` merges, without axes of size 1. `None` if `merged`
/// splits an axis.
pub(crate) fn axis_groups(merged: &[Dim], shape: &[Dim]) -> Option<Vec<Vec<usize>>> {
    let mut found = vec![Vec::new(); merged.len()];
    for [group, axes] in pair_axes(merged, shape)? {
        let [axis] = *group.as_slice() else { return None };
        found.put(axis, axes);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn axes_of_merged_ones_are_found() {
        for (merged, shape, found) in [
            (&[3, 8, 8][..], &[1, 3, 8, 8][..], Some(vec![vec![1], vec![2], vec![3]])),
            (&[24, 8], &[3, 8, 8, 1], Some(vec![vec![0, 1], vec![2]])),
            (&[1, 3], &[3], Some(vec![vec![], vec![0]])),
            (&[2, 3], &[6], None),
            (&[4, 6], &[8, 3], None),
            (&[4], &[2, 3], None),
        ] {
            assert_eq!(axis_groups(&dims(merged), &dims(shape)), found, "{shape:?} in {merged:?}");
        }
    }

    #[test]
    fn free_axes_are_paired() {
        let (h, w, two) = (Dim::symbol("H"), Dim::symbol("W"), Dim::from(2));
        let merged = [&h * &w, two.clone()];
        let pairs = pair_axes(&merged, &[h, w, two.clone()]).unwrap();
        assert_eq!(pairs, [[vec![0], vec![0, 1]], [vec![1], vec![2]]]);
        assert_eq!(pair_axes(&merged, &[two]), None);
    }
}
