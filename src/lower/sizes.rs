//! Blobs of free sizes, made from a blob with these sizes.

use num_traits::AsPrimitive;

use super::form::MAX_AXES;
use super::{Lower, Operand, line_form};
use crate::common::limits;
use crate::error::{At, Error, Result};
use crate::ncnn::layer::{Crop, EMPTY_BLOBS, Interp, reduction_op};
use crate::ncnn::{BlobId, Element};
use crate::tensor::{Dim, Operation, Sum, Tensor, shape};

impl Lower<'_> {
    /// Emits a blob of ones; free sizes are those of axes of another blob.
    pub(super) fn ones(&self, form: &[Dim]) -> Result<BlobId> {
        let known: Option<Vec<usize>> = Dim::known_sizes(form);
        if let Some(sizes) = known {
            let count = sizes.iter().fold(1_usize, |count, size| count.saturating_mul(*size));
            if count > limits::MATRIX_ELEMENTS {
                return Err(Error::limit(format!("{count} ones (at most {})", limits::MATRIX_ELEMENTS)));
            }
            return self.memory_data(&Tensor::all(1.0, sizes)?, form);
        }
        let mut ones = None;
        for (axis, size) in form.iter().enumerate() {
            if size.is(1) {
                continue;
            }
            let line_form = line_form(size, axis, form.len());
            let line = match size.known() {
                Some(_) => self.ones(&line_form)?,
                None => {
                    let line = self.line_of_ones(size)?;
                    self.reshape(line, &line_form)?
                }
            };
            ones = Some(match ones {
                Some(ones) => self.compute(ones * line)?,
                None => line,
            });
        }
        ones.ok_or_else(|| Error::invalid("a blob has no axes"))
    }

    /// Emits ones along one axis whose size is that of adjacent axes of a blob: a slice of that blob, set to
    /// 1.
    fn line_of_ones(&self, size: &Dim) -> Result<BlobId> {
        if size.has_length()
            && let Some(ones) = self.stretched_one(size)?
        {
            return Ok(ones);
        }
        let Some((size_source, axes)) = self.size_source(size) else { return self.joined_ones(size) };
        let mut form = self.form(size_source);
        let mut line = size_source;
        let others: Vec<usize> = (0..form.len())
            .filter(|axis| !axes.contains(axis) && form.get(*axis).is_some_and(|d| !d.is(1)))
            .collect();
        if !others.is_empty() {
            for axis in &others {
                form.put(*axis, Dim::ONE);
            }
            let numbers: std::result::Result<Vec<i32>, _> =
                others.iter().map(|axis| i32::try_from(*axis)).collect();
            let layer = Crop {
                starts: vec![0; others.len()],
                ends: vec![1; others.len()],
                axes: numbers?,
                ..Crop::default()
            };
            line = self.emit(layer, &[line], &form)?;
        }
        let line = self.reshape(line, std::slice::from_ref(size))?;
        self.compute(line.clip(1.0, 1.0))
    }

    /// Returns whether the oldest release that must load the net hands empty blobs on to layers.
    pub fn accepts_empty(&self) -> bool {
        self.state().may_be_newer || self.state().net.release >= EMPTY_BLOBS
    }

    /// Emits ones along one axis whose size is an expression over the sizes of blobs, of which no elements
    /// are read: they may be empty. `None` if the runtime cannot evaluate the expression.
    pub(super) fn stretched_one(&self, size: &Dim) -> Result<Option<BlobId>> {
        let one = self.memory_data(&Tensor::from_f32(&[1], vec![1.0])?, &shape![1])?;
        let sizes = [Dim::ONE, size.clone()];
        let found = self.state().sizes_by_expression(one, &sizes).filter(|(_, bottoms)| bottoms.len() > 1);
        let Some((size_expr, bottoms)) = found else { return Ok(None) };
        // One element is repeated over a plane.
        let layer = Interp { resize_type: 1, size_expr, ..Interp::default() };
        let plane = self.emit_newer(layer, &bottoms, &shape![1, 1, size])?;
        self.reshape(plane, std::slice::from_ref(size)).map(Some)
    }

    /// Emits ones along an axis of a size that no blob has: the concatenated ones of the terms of the sum, or
    /// one that is repeated as often as an expression says.
    fn joined_ones(&self, size: &Dim) -> Result<BlobId> {
        let refuse =
            || Error::unsupported(format!("the runtime cannot compute the size {size}: no blob has it"));
        let Sum { terms, constant } = size.sum();
        if let ([(product, 1)], 0) = (terms.as_slice(), constant) {
            if !(2..=MAX_AXES).contains(&product.len()) {
                return self.stretched_one(size)?.ok_or_else(refuse);
            }
            let ones = self.ones(product)?;
            return self.reshape(ones, std::slice::from_ref(size));
        }
        let mut lines = Vec::with_capacity(terms.len() + 1);
        for (product, times) in terms {
            if times < 1 {
                return self.stretched_one(size)?.ok_or_else(refuse);
            }
            let line = self.line_of_ones(&Dim::product(&product))?;
            lines.push(self.tile(line, 0, times)?);
        }
        if constant > 0 {
            lines.push(self.ones(&shape![constant])?);
        }
        let line = self.concat(&lines, 0)?;
        if constant < 0 { self.crop(line, 0, 0, Some(constant), size) } else { Ok(line) }
    }

    /// Emits symbolic sizes as elements along one axis.
    pub(super) fn materialize(&self, sizes: &[Dim]) -> Result<BlobId> {
        let numbers: Result<Vec<BlobId>> = sizes.iter().map(|size| self.size_as_number(size)).collect();
        self.concat(&numbers?, 0)
    }

    /// Emits a size as one element: the sum of as many ones.
    fn size_as_number(&self, size: &Dim) -> Result<BlobId> {
        let one = [Dim::ONE];
        if let Some(number) = size.known() {
            return self.memory_data(&Tensor::from_f32(&[1], vec![number.as_()])?, &one);
        }
        // A number that may be negative is not the length of a blob.
        if size.has_length()
            && size.lower_bound().is_some_and(|least| least >= 0)
            && let Some(ones) = self.stretched_one(&(size + 1))?
        {
            let longer = self.reduce(reduction_op::SUM, ones, &[0])?;
            return self.compute(longer - 1.0);
        }
        if self.size_source(size).is_some() {
            let line = self.line_of_ones(size)?;
            return self.reduce(reduction_op::SUM, line, &[0]);
        }
        if let Some((operation, a, b)) = size.operation() {
            let (a, b) = (self.size_as_number(&a)?, self.size_as_number(&b)?);
            return self.operate(operation, a, b);
        }
        let Sum { terms, constant } = size.sum();
        if let ([(product, 1)], 0) = (terms.as_slice(), constant)
            && product.len() < 2
        {
            return Err(Error::unsupported(format!("{size} as a number: no blob has an axis of this size")));
        }
        let mut sum = None;
        for (product, coefficient) in terms {
            let mut value = None;
            for factor in &product {
                let factor = self.size_as_number(factor)?;
                value = Some(match value {
                    Some(value) => self.compute(value * factor)?,
                    None => factor,
                });
            }
            let value = value.ok_or_else(|| Error::internal("a product of nothing"))?;
            let coefficient: f32 = coefficient.as_();
            let value = self.compute(value * coefficient)?;
            sum = Some(match sum {
                Some(sum) => self.compute(sum + value)?,
                None => value,
            });
        }
        let sum = sum.ok_or_else(|| Error::internal("a sum of nothing"))?;
        let addend: f32 = constant.as_();
        if constant == 0 { Ok(sum) } else { self.compute(sum + addend) }
    }

    fn operate(&self, operation: Operation, a: BlobId, b: BlobId) -> Result<BlobId> {
        // Halfway between two dividends the quotient is not an integer, whatever its sign: the rounding of
        // the division does not change its floor. Divisors are positive.
        let quotient = ((a + 0.5) / b).floor();
        self.compute(match operation {
            Operation::Min => a.minimum(b),
            Operation::Max => a.maximum(b),
            Operation::FloorDiv => quotient,
            Operation::Mod => a - quotient * b,
        })
    }

    /// Returns a blob with adjacent axes of `size` elements in all, and these axes; if there are several, the
    /// one of fewest axes.
    fn size_source(&self, size: &Dim) -> Option<(BlobId, std::ops::Range<usize>)> {
        let net = &self.state().net;
        let mut found: Option<(usize, BlobId, std::ops::Range<usize>)> = None;
        for id in net.layers.iter().flat_map(|layer| &layer.tops) {
            let blob = net.blob(*id);
            if blob.element != Element::F32
                || found.as_ref().is_some_and(|(axes, ..)| *axes <= blob.shape.len())
            {
                continue;
            }
            if let Some(axes) = run_of(&blob.shape, size) {
                found = Some((blob.shape.len(), *id, axes));
            }
        }
        found.map(|(_, id, axes)| (id, axes))
    }
}

/// Returns adjacent axes with this product.
fn run_of(shape: &[Dim], size: &Dim) -> Option<std::ops::Range<usize>> {
    for start in 0..shape.len() {
        let mut product = Dim::ONE;
        for end in start..shape.len() {
            product *= shape.at(end).ok()?;
            if product == *size {
                return Some(start..end + 1);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_axes_are_found_by_their_product() {
        let (h, w) = (Dim::symbol("H"), Dim::symbol("W"));
        let shape = [Dim::Known(64), h.clone(), w.clone()];
        assert_eq!(run_of(&shape, &w), Some(2..3));
        assert_eq!(run_of(&shape, &(h * w)), Some(1..3));
        assert_eq!(run_of(&shape, &Dim::symbol("K")), None);
    }
}
