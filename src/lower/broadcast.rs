//! Blobs of different shapes brought to one number of axes, so that arithmetic layers broadcast them as ONNX does.

use super::form::{MAX_AXES, interface_form};
use super::{Lower, same_elements};
use crate::error::{At, Error, Result, unsupported};
use crate::ncnn::BlobId;
use crate::ncnn::layer::binary_op;
use crate::tensor::{Dim, Tensor, broadcast_shapes, display_shape};

/// Most elements that a constant is stretched to where broadcasting has more axes than ncnn.
const MAX_STRETCHED: i64 = 1 << 22;

/// One side of an arithmetic layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    /// A blob.
    Blob(BlobId),
    /// A constant of one element, finite.
    Number(f32),
}

/// Inputs of a node, all with the same number of axes, each of the size of `form` or of 1.
pub(crate) struct Broadcast {
    /// What each input became.
    pub sides: Vec<Side>,
    /// The form of the result.
    pub form: Vec<Dim>,
}

/// Axes of a form and the axes of a shape that hold the same elements; axes of 1 are in neither list.
struct Group {
    form: Vec<usize>,
    shape: Vec<usize>,
}

impl Lower<'_> {
    /// These inputs brought to one number of axes.
    pub fn broadcast(&mut self, inputs: &[usize]) -> Result<Broadcast> {
        let mut shaped = Vec::with_capacity(inputs.len());
        for input in inputs {
            shaped.push((*input, self.call.shape(*input)?.to_vec()));
        }
        self.broadcast_as(&shaped)
    }

    /// These inputs, seen with other shapes of as many elements, brought to one number of axes.
    pub fn broadcast_as(&mut self, inputs: &[(usize, Vec<Dim>)]) -> Result<Broadcast> {
        let mut out = Vec::new();
        for (_, shape) in inputs {
            out = broadcast_shapes(&out, shape)?;
        }
        let one = Dim::Known(1);
        let mut sides = vec![None; inputs.len()];
        let mut shapes: Vec<Vec<Dim>> = Vec::with_capacity(inputs.len());
        for ((index, shape), side) in inputs.iter().zip(&mut sides) {
            *side = self.number(*index)?.map(Side::Number);
            let mut aligned = vec![one.clone(); out.len() - shape.len()];
            aligned.extend(shape.iter().cloned());
            for (size, whole) in aligned.iter().zip(&out) {
                if size != whole && !size.is(1) {
                    return Err(Error::unsupported(format!(
                        "{} is stretched to {}, or is not: sizes that are not fixed",
                        display_shape(shape),
                        display_shape(&out)
                    ))
                    .help("fix them with --input-shape"));
                }
            }
            shapes.push(aligned);
        }
        let blobs: Vec<(usize, Vec<Dim>)> = (inputs.iter().zip(shapes).zip(&sides))
            .filter(|(_, side)| side.is_none())
            .map(|(((index, _), shape), _)| (*index, shape))
            .collect();
        let (form, forms) = self.common_form(&blobs, &out)?;
        let mut made = Vec::with_capacity(blobs.len());
        for ((index, shape), target) in blobs.iter().zip(&forms) {
            made.push(match target {
                // One element goes with any number of axes, also where the user feeds the other side in another form.
                Some(target) if target.iter().all(|size| size.is(1)) => {
                    self.blob_as(*index, &[one.clone()])?
                }
                Some(target) => self.blob_as(*index, target)?,
                None => self.stretched(*index, shape, &out, &form)?,
            });
        }
        let mut made = made.into_iter();
        let mut filled = Vec::with_capacity(sides.len());
        for side in sides {
            filled.push(match side {
                Some(side) => side,
                None => Side::Blob(made.next().ok_or_else(|| Error::invalid("a side without a blob"))?),
            });
        }
        Ok(Broadcast { sides: filled, form })
    }

    /// The value of a constant input of one element, where it can stand in a param.
    fn number(&self, index: usize) -> Result<Option<f32>> {
        let Some(tensor) = self.call.constant(index).filter(|tensor| tensor.len() == 1) else {
            return Ok(None);
        };
        Ok(Some(tensor.load()?.scalar_f32()?).filter(|x| x.is_finite()))
    }

    /// A form of at most four axes for the result, and the form in it of each input; `None` for an input that must be stretched.
    #[allow(clippy::type_complexity)]
    fn common_form(
        &mut self,
        inputs: &[(usize, Vec<Dim>)],
        out: &[Dim],
    ) -> Result<(Vec<Dim>, Vec<Option<Vec<Dim>>>)> {
        let mut candidates = Vec::new();
        for (index, shape) in inputs {
            if shape == out && self.call.constant(*index).is_none() {
                self.blob(*index)?;
                let held = self.state.forms.get(&self.input_id(*index)?).cloned().unwrap_or_default();
                candidates.extend(held.into_iter().map(|blob| self.form(blob)));
            }
        }
        candidates.push(interface_form(out)?);
        candidates.extend(merged_form(inputs, out)?);
        let mut best: Option<(usize, Vec<Dim>, Vec<Option<Vec<Dim>>>)> = None;
        for form in candidates {
            let Some(forms) = express_all(&form, inputs, out) else { continue };
            let mut reshapes = 0;
            for ((index, _), needed) in inputs.iter().zip(&forms) {
                if self.call.constant(*index).is_none() && !self.holds(*index, needed)? {
                    reshapes += 1;
                }
            }
            if best.as_ref().is_none_or(|(count, _, _)| reshapes < *count) {
                best = Some((reshapes, form, forms.into_iter().map(Some).collect()));
            }
        }
        if let Some((_, form, forms)) = best {
            return Ok((form, forms));
        }
        // More than four groups of axes: every input that is not of full size is stretched to it.
        let form = interface_form(out)?;
        let forms = inputs.iter().map(|(_, shape)| (shape == out).then(|| form.clone())).collect();
        Ok((form, forms))
    }

    fn holds(&mut self, index: usize, form: &[Dim]) -> Result<bool> {
        self.blob(index)?;
        let held = self.state.forms.get(&self.input_id(index)?).cloned().unwrap_or_default();
        Ok(held.into_iter().any(|blob| self.form(blob) == form))
    }

    /// Input `index`, whose shape has as many axes as `out`, stretched to `out` and held in `form`.
    fn stretched(&mut self, index: usize, shape: &[Dim], out: &[Dim], form: &[Dim]) -> Result<BlobId> {
        let count = Dim::product(out)?.known().filter(|n| *n <= MAX_STRETCHED);
        if let (Some(tensor), Some(_)) = (self.call.constant(index).cloned(), count) {
            let rank: Option<Vec<usize>> =
                shape.iter().map(|d| d.known().and_then(|n| usize::try_from(n).ok())).collect();
            let sizes: Option<Vec<usize>> =
                out.iter().map(|d| d.known().and_then(|n| usize::try_from(n).ok())).collect();
            if let (Some(rank), Some(sizes)) = (rank, sizes) {
                let tensor = tensor.reshaped(&rank)?;
                let stretched =
                    Tensor::deferred(tensor.dtype(), sizes.clone(), vec![tensor], move |inputs| {
                        inputs.at(0)?.broadcast(&sizes)
                    })?;
                return self.memory_data(&stretched, form);
            }
        }
        let blob = self.blob(index)?;
        let blob = self.stretch(blob, shape, out)?;
        self.reshape(blob, form)
    }

    /// A blob that holds a value of shape `from`, stretched to shape `to` of as many axes. Values are multiplied by 1.
    pub fn stretch(&mut self, blob: BlobId, from: &[Dim], to: &[Dim]) -> Result<BlobId> {
        let mut sizes = from.to_vec();
        let mut blob = blob;
        let mut axis = 0;
        while axis < to.len() {
            if sizes.at(axis)? == to.at(axis)? {
                axis += 1;
                continue;
            }
            // Neighbouring axes that are all stretched are one.
            let stretched = |axis: &usize| sizes.get(*axis).is_some_and(|d| d.is(1));
            let run: Vec<usize> = (axis..to.len()).take_while(stretched).collect();
            let count = Dim::product(to.iter().skip(axis).take(run.len()))?;
            let Some(n) = count.known().and_then(|n| usize::try_from(n).ok()) else {
                unsupported!("a blob of {} stretched to {}", display_shape(from), display_shape(to));
            };
            let before = Dim::product(sizes.iter().take(axis))?;
            let after = Dim::product(sizes.iter().skip(axis + run.len()))?;
            let input = self.reshape(blob, &[before, Dim::Known(1), after])?;
            let ones = Tensor::from_f32(&[n], vec![1.0; n])?;
            let ones = self.memory_data(&ones, &[Dim::Known(1), count, Dim::Known(1)])?;
            blob = self.binary(binary_op::MUL, input, ones)?;
            for axis in run {
                if let (Some(size), Some(target)) = (sizes.get_mut(axis), to.get(axis)) {
                    size.clone_from(target);
                }
            }
        }
        Ok(blob)
    }

    /// Arithmetic of two sides.
    pub fn combine(&mut self, op_type: i32, a: Side, b: Side) -> Result<BlobId> {
        match (a, b) {
            (Side::Blob(a), Side::Blob(b)) => self.binary(op_type, a, b),
            (Side::Blob(a), Side::Number(b)) => self.binary_scalar(op_type, a, b),
            (Side::Number(a), Side::Blob(b)) => self.binary_scalar(reversed(op_type), b, a),
            (Side::Number(a), Side::Number(b)) => {
                let a = self.number_blob(a)?;
                self.binary_scalar(op_type, a, b)
            }
        }
    }

    /// A side as a blob.
    pub fn side_blob(&mut self, side: Side) -> Result<BlobId> {
        match side {
            Side::Blob(blob) => Ok(blob),
            Side::Number(number) => self.number_blob(number),
        }
    }

    fn number_blob(&mut self, number: f32) -> Result<BlobId> {
        self.memory_data(&Tensor::from_f32(&[1], vec![number])?, &[Dim::Known(1)])
    }
}

/// The operation with its sides exchanged.
fn reversed(op_type: i32) -> i32 {
    use binary_op::*;
    match op_type {
        SUB => RSUB,
        RSUB => SUB,
        DIV => RDIV,
        RDIV => DIV,
        POW => RPOW,
        RPOW => POW,
        ATAN2 => RATAN2,
        RATAN2 => ATAN2,
        other => other,
    }
}

/// The forms of all inputs beside a result in `form`, if each can be expressed.
fn express_all(form: &[Dim], inputs: &[(usize, Vec<Dim>)], out: &[Dim]) -> Option<Vec<Vec<Dim>>> {
    if form.len() > MAX_AXES || !same_elements(form, out).ok()? {
        return None;
    }
    let groups = match_axes(form, out)?;
    inputs.iter().map(|(_, shape)| express(form, &groups, shape, out)).collect()
}

/// The form of an input of `shape` beside a result of shape `out` in `form`.
fn express(form: &[Dim], groups: &[Group], shape: &[Dim], out: &[Dim]) -> Option<Vec<Dim>> {
    let mut own = vec![Dim::Known(1); form.len()];
    for group in groups {
        let full = group.shape.iter().all(|axis| shape.get(*axis) == out.get(*axis));
        let unit = group.shape.iter().all(|axis| shape.get(*axis).is_some_and(|d| d.is(1)));
        if full {
            for axis in &group.form {
                own.get_mut(*axis)?.clone_from(form.get(*axis)?);
            }
        } else if !unit {
            return None;
        }
    }
    Some(own)
}

/// Pairs the axes of two lists of sizes with the same elements: the smallest groups with the same product.
fn match_axes(form: &[Dim], shape: &[Dim]) -> Option<Vec<Group>> {
    let places = |sizes: &[Dim]| -> Vec<usize> {
        sizes.iter().enumerate().filter(|(_, d)| !d.is(1)).map(|(axis, _)| axis).collect()
    };
    let (mut form_axes, mut shape_axes) = (places(form).into_iter(), places(shape).into_iter());
    let mut groups = Vec::new();
    while let Some(first) = form_axes.next() {
        let mut group = Group { form: vec![first], shape: vec![shape_axes.next()?] };
        let mut form_product = form.get(first)?.clone();
        let mut shape_product = shape.get(*group.shape.first()?)?.clone();
        while form_product != shape_product {
            if shape_product.exact_div(&form_product).is_some() {
                let axis = form_axes.next()?;
                form_product = form_product.mul(form.get(axis)?).ok()?;
                group.form.push(axis);
            } else {
                let axis = shape_axes.next()?;
                shape_product = shape_product.mul(shape.get(axis)?).ok()?;
                group.shape.push(axis);
            }
        }
        groups.push(group);
    }
    if shape_axes.next().is_some() { None } else { Some(groups) }
}

/// The result without its unit axes, and with as many neighbours merged, from the left, as four axes need. Neighbours can be merged
/// where the same inputs are stretched along both. `None` where more than four axes are left.
fn merged_form(inputs: &[(usize, Vec<Dim>)], out: &[Dim]) -> Result<Option<Vec<Dim>>> {
    let mut axes: Vec<(Dim, Vec<bool>)> = Vec::new();
    for (axis, size) in out.iter().enumerate() {
        if !size.is(1) {
            let full = inputs.iter().map(|(_, shape)| shape.get(axis) == Some(size)).collect();
            axes.push((size.clone(), full));
        }
    }
    while axes.len() > MAX_AXES {
        let pair = axes.windows(2).position(|pair| match pair {
            [a, b] => a.1 == b.1,
            _ => false,
        });
        let Some(first) = pair else { return Ok(None) };
        let (size, _) = axes.remove(first + 1);
        if let Some(merged) = axes.get_mut(first) {
            merged.0 = merged.0.mul(&size)?;
        }
    }
    if axes.is_empty() {
        return Ok(Some(vec![Dim::Known(1)]));
    }
    Ok(Some(axes.into_iter().map(|(size, _)| size).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(sizes: &[i64]) -> Vec<Dim> {
        sizes.iter().copied().map(Dim::Known).collect()
    }

    #[test]
    fn inputs_follow_the_form_of_the_result() {
        for (form, out, shape, own) in [
            (&[3, 8, 8][..], &[1, 3, 8, 8][..], &[1, 3, 1, 1][..], Some(&[3, 1, 1][..])),
            (&[3, 64], &[1, 3, 8, 8], &[1, 3, 1, 1], Some(&[3, 1])),
            (&[3, 64], &[1, 3, 8, 8], &[1, 1, 1, 8], None),
            (&[24, 8], &[1, 3, 8, 8], &[1, 1, 1, 8], Some(&[1, 8])),
            // One axis of the result in two of the form.
            (&[2, 12, 5], &[24, 5], &[24, 1], Some(&[2, 12, 1])),
            (&[2, 12, 5], &[24, 5], &[1, 5], Some(&[1, 1, 5])),
            (&[1, 4, 1], &[4], &[1], Some(&[1, 1, 1])),
            (&[6, 4], &[2, 12], &[2, 12], Some(&[6, 4])),
            (&[6, 4], &[2, 12], &[1, 12], None),
        ] {
            let groups = match_axes(&dims(form), &dims(out)).unwrap();
            let found = express(&dims(form), &groups, &dims(shape), &dims(out));
            assert_eq!(found, own.map(dims), "{shape:?} beside {out:?} in {form:?}");
        }
    }

    #[test]
    fn axes_are_merged_where_all_inputs_agree() {
        for (out, shape, form) in [
            (&[2, 3, 4, 5, 6][..], &[2, 3, 1, 1, 6][..], Some(&[6, 4, 5, 6][..])),
            (&[2, 3, 4, 5, 6], &[2, 1, 4, 1, 6], None),
            (&[2, 1, 4, 5, 6], &[2, 1, 4, 1, 6], Some(&[2, 4, 5, 6])),
            (&[1, 1], &[1, 1], Some(&[1])),
        ] {
            let inputs = [(0, dims(shape)), (1, dims(out))];
            assert_eq!(merged_form(&inputs, &dims(out)).unwrap(), form.map(dims), "{shape:?} and {out:?}");
        }
    }
}
