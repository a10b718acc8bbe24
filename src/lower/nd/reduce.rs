//! Reductions. A blob fits if each of its axes contains reduced axes alone, or kept ones alone.

use super::Nd;
use crate::error::Result;
use crate::lower::form::MAX_AXES;
use crate::ncnn::BlobId;
use crate::ncnn::layer::reduction_op;
use crate::tensor::{Dim, Shape, axis_groups};

/// Adjacent axes that are all reduced or all kept, merged, without axes of size 1.
#[derive(Debug, PartialEq)]
struct Group {
    size: Dim,
    axes: Vec<usize>,
    is_reduced: bool,
}

/// Returns the groups of the axes of a shape.
fn groups(shape: &[Dim], reduced: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (axis, size) in shape.iter().enumerate().filter(|(_, size)| !size.is(1)) {
        let is_reduced = reduced.contains(&axis);
        match groups.last_mut() {
            Some(last) if last.is_reduced == is_reduced => {
                last.size = &last.size * size;
                last.axes.push(axis);
            }
            _ => groups.push(Group { size: size.clone(), axes: vec![axis], is_reduced }),
        }
    }
    groups
}

/// Returns the axes of a form that contain reduced axes, if no axis contains both kinds.
fn reduced_axes(form: &[Dim], groups: &[Group]) -> Option<Vec<usize>> {
    let sizes: Vec<Dim> = groups.iter().map(|group| group.size.clone()).collect();
    let pairs = groups.iter().zip(axis_groups(&sizes, form)?);
    Some(pairs.filter(|(group, _)| group.is_reduced).flat_map(|(_, axes)| axes).collect())
}

/// Returns whether the reduction of one element is that element.
fn is_element_of_one(operation: i32) -> bool {
    use reduction_op::{MAX, MEAN, MIN, PROD, SUM};
    [MAX, MEAN, MIN, PROD, SUM].contains(&operation)
}

impl<'l> Nd<'l> {
    /// Returns a reduction along axes, which keep a size of 1; `operation` as in
    /// [`crate::ncnn::layer::reduction_op`].
    pub fn reduce(self, operation: i32, axes: &[usize]) -> Nd<'l> {
        self.reduction(operation, axes, true)
    }

    /// Returns a reduction along axes, which keep a size of 1 or are removed; `operation` as for
    /// [`Nd::reduce`].
    pub fn reduction(self, operation: i32, axes: &[usize], keeps_axes: bool) -> Nd<'l> {
        let shape = self.shape();
        let size = |(axis, size): (usize, &Dim)| match axes.contains(&axis) {
            true => keeps_axes.then_some(Dim::ONE),
            false => Some(size.clone()),
        };
        let shape: Shape = shape.iter().enumerate().filter_map(size).collect();
        if axes.iter().all(|axis| self.size(*axis).is(1)) && is_element_of_one(operation) {
            return self.reshape(shape);
        }
        self.map_blob(shape, |lower| {
            let (x, found) = self.parted(axes)?;
            lower.reduction(operation, x, &found, keeps_axes)
        })
    }

    /// Returns the value as a blob that a reduction along these axes reads, which the layers that follow are
    /// to read too.
    pub fn for_reduction(self, axes: &[usize]) -> Nd<'l> {
        self.map_blob(self.shape(), |_| Ok(self.parted(axes)?.0))
    }

    /// Returns axes in parts that are to be reduced one after another: ncnn has at most four axes.
    pub fn reductions(self, axes: &[usize]) -> Vec<Vec<usize>> {
        let mut groups = groups(&self.shape(), axes);
        let forms = self.lower.run(|| self.forms()).unwrap_or_default();
        let mut rest = axes.to_vec();
        let mut parts = Vec::new();
        if forms.iter().any(|form| reduced_axes(form, &groups).is_some()) {
            return vec![rest];
        }
        while groups.len() > MAX_AXES
            && let Some(last) = groups.iter().rposition(|group| group.is_reduced)
        {
            let part = groups.remove(last).axes;
            rest.retain(|axis| !part.contains(axis));
            // The groups around it are adjacent now.
            if last > 0 && last < groups.len() {
                groups.remove(last);
            }
            parts.push(part);
        }
        parts.push(rest);
        parts
    }

    /// Returns a blob of which each axis contains some of these axes alone, or others alone, and the indices
    /// of the former.
    fn parted(self, axes: &[usize]) -> Result<(BlobId, Vec<usize>)> {
        let shape = self.shape();
        let mut groups = groups(&shape, axes);
        for blob in self.blobs()? {
            match reduced_axes(&self.lower.form(blob), &groups) {
                Some(found) if !found.is_empty() => return Ok((blob, found)),
                _ => {}
            }
        }
        if !groups.iter().any(|group| group.is_reduced) {
            // The reduced axes have size 1.
            if !axes.is_empty()
                && let Some(found) = self.isolated_axes(axes)?
            {
                return Ok(found);
            }
            groups.push(Group { size: Dim::ONE, axes: axes.to_vec(), is_reduced: true });
        }
        let form: Vec<Dim> = groups.iter().map(|group| group.size.clone()).collect();
        if form.len() > MAX_AXES {
            return Err(self.too_many(axes));
        }
        let found = groups.iter().enumerate().filter(|(_, group)| group.is_reduced);
        Ok((self.in_form(&form)?, found.map(|(index, _)| index).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn adjacent_axes_are_grouped() {
        let found = groups(&dims(&[1, 2, 3, 4, 5]), &[0, 3, 4]);
        let group = |size: i64, axes: &[usize], is_reduced| Group {
            size: Dim::from(size),
            axes: axes.to_vec(),
            is_reduced,
        };
        assert_eq!(found, [group(6, &[1, 2], false), group(20, &[3, 4], true)]);
        for (form, axes) in [
            (&[2, 3, 4, 5][..], Some(vec![2, 3])),
            (&[6, 20], Some(vec![1])),
            (&[1, 6, 20], Some(vec![2])),
            (&[2, 12, 5], None),
            (&[120], None),
        ] {
            assert_eq!(reduced_axes(&dims(form), &found), axes, "{form:?}");
        }
    }
}
