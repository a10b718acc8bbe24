//! RoiAlign in mode max: the maximum over the weighted corners of the samples, not over the interpolated
//! samples, as in onnxruntime (`core/providers/cpu/object_detection/roialign.cc`) and in the reference
//! implementation of the specification.
//!
//! The regions and weights are constant: a column of a matrix selects and scales the element of one corner.

use std::collections::BTreeMap;

use num_traits::AsPrimitive;

use super::{MAX_REGIONS, read_roi_align};
use crate::ncnn::layer::ROIAlign;
use crate::ops::prelude::*;

/// The two elements around a sample along an axis, with their weights; `None` for a sample outside the image.
type Sample = Option<[(i64, f32); 2]>;

/// The samples of a region along an axis.
struct Samples {
    /// The samples of each cell.
    cells: Vec<Vec<Sample>>,
    /// The range of elements that the samples read.
    range: (i64, i64),
}

/// A region along an axis of `size` elements.
#[derive(Clone, Copy)]
struct Interval {
    start: f32,
    length: f32,
    /// The number of cells.
    count: i32,
    /// The number of samples of each cell.
    grid: i32,
    size: i64,
}

impl Interval {
    fn new(ends: [f32; 2], count: i32, size: i64, layer: &ROIAlign) -> Result<Interval> {
        let offset = if layer.aligned == 1 { 0.5 } else { 0.0 };
        let [start, end] = ends.map(|at| at * layer.spatial_scale - offset);
        if !start.is_finite() || !end.is_finite() {
            invalid!("a region extends from {start} to {end}");
        }
        let length = if layer.aligned == 1 { end - start } else { (end - start).max(1.0) };
        let adaptive: i32 = (length / AsPrimitive::<f32>::as_(count)).ceil().max(0.0).as_();
        let grid = if layer.sampling_ratio > 0 { layer.sampling_ratio } else { adaptive };
        Ok(Interval { start, length, count, grid, size })
    }

    /// Returns the number of samples, at least one.
    fn sample_count(&self) -> usize {
        let count: usize = self.count.max(1).as_();
        count.saturating_mul(self.grid.max(1).as_())
    }

    /// Computes the samples.
    fn samples(&self) -> Samples {
        let bin = self.length / AsPrimitive::<f32>::as_(self.count);
        let grid: f32 = self.grid.as_();
        let cell = |cell: i32| {
            let first = self.start + AsPrimitive::<f32>::as_(cell) * bin;
            let sample = |n: i32| {
                let n: f32 = n.as_();
                self.sample(first + (n + 0.5) * bin / grid)
            };
            (0..self.grid).map(sample).collect()
        };
        let cells: Vec<Vec<Sample>> = (0..self.count).map(cell).collect();
        let positions = || cells.iter().flatten().flatten().flatten().map(|(position, _)| *position);
        let range = (positions().min().unwrap_or(0), positions().max().unwrap_or(0) + 1);
        Samples { cells, range }
    }

    /// Returns the sample at coordinate `at`.
    fn sample(&self, at: f32) -> Sample {
        let size: f32 = self.size.as_();
        if at < -1.0 || at > size {
            return None;
        }
        let at = at.max(0.0);
        let low: i64 = at.as_();
        let last = self.size - 1;
        if low >= last {
            return Some([(last, 1.0), (last, 0.0)]);
        }
        let rest = at - AsPrimitive::<f32>::as_(low);
        Some([(low, 1.0 - rest), (low + 1, rest)])
    }
}

/// Returns the weights of each cell, each with the index of its element in the cropped region. Of several
/// weights of one element only the largest and the smallest are kept: no other can give the largest product.
fn cells(rows: &Samples, columns: &Samples) -> Vec<Vec<(i64, f32)>> {
    let width = columns.range.1 - columns.range.0;
    let mut cells = Vec::with_capacity(rows.cells.len() * columns.cells.len());
    for of_rows in &rows.cells {
        for of_columns in &columns.cells {
            let mut weights: BTreeMap<i64, (f32, f32)> = BTreeMap::new();
            let mut add = |position: i64, weight: f32| {
                let bounds = weights.entry(position).or_insert((weight, weight));
                *bounds = (bounds.0.min(weight), bounds.1.max(weight));
            };
            for row in of_rows {
                for column in of_columns {
                    // Samples outside the image are 0.
                    let (Some(row), Some(column)) = (row, column) else {
                        add(0, 0.0);
                        continue;
                    };
                    for (y, of_y) in row {
                        for (x, of_x) in column {
                            add((y - rows.range.0) * width + x - columns.range.0, of_y * of_x);
                        }
                    }
                }
            }
            let mut cell: Vec<(i64, f32)> = Vec::new();
            for (position, (least, most)) in weights {
                cell.push((position, most));
                if least < most {
                    cell.push((position, least));
                }
            }
            if cell.is_empty() {
                cell.push((0, 0.0));
            }
            cells.push(cell);
        }
    }
    cells
}

/// Returns a matrix of `area` rows with `each` columns, one for a weight, for each of `count` cells; cells of
/// fewer weights repeat their first column. The closure recomputes the weights from the spans: the weights
/// of millions of cells need more memory than the matrix.
fn matrix(rows: Interval, columns: Interval, count: usize, area: usize, each: usize) -> Result<Tensor> {
    let shape = vec![area, count.saturating_mul(each)];
    let sizes = shape.clone();
    Tensor::deferred(DType::F32, shape, Vec::new(), move |_| {
        let mut elements = ndarray::ArrayD::<f32>::zeros(sizes.as_slice());
        for (index, cell) in cells(&rows.samples(), &columns.samples()).iter().enumerate() {
            for column in 0..each {
                let Some((position, weight)) = cell.get(column).or(cell.first()) else { continue };
                let at = [usize::try_from(*position)?, index * each + column];
                if let Some(element) = elements.get_mut(at.as_slice()) {
                    *element = *weight;
                }
            }
        }
        Ok(Array::f32(elements))
    })
}

/// Expands mode max into a MatMul and a ReduceMax for each region; mode avg has a layer.
pub(super) fn expand_roi_align(x: &Expand) -> Result<bool> {
    let align = read_roi_align(x)?;
    if !align.max {
        return Ok(false);
    }
    let [batch, channels, height, width] = *x.sizes(0)?.as_slice() else {
        invalid!("an input of shape {}, expected four axes", display_shape(x.shape(0)?))
    };
    let rois = x.float_list(1)?;
    let count = rois.len() / 4;
    if count.int() > MAX_REGIONS {
        unsupported!("{count} regions, each of which becomes a few layers (at most {MAX_REGIONS})");
    }
    let images = if batch == 1 { vec![0; count] } else { x.int_list(2)? };
    let layer = &align.layer;
    let (mut parts, mut elements) = (Vec::new(), 0_usize);
    for (roi, image) in rois.chunks_exact(4).zip(images) {
        let [left, top, right, bottom] = *roi else {
            invalid!("a region has {} elements, expected 4", roi.len())
        };
        if !(0..batch).contains(&image) {
            invalid!("batch index {image} is out of range for a batch of {batch}");
        }
        let rows = Interval::new([top, bottom], layer.pooled_height, height, layer)?;
        let columns = Interval::new([left, right], layer.pooled_width, width, layer)?;
        let corners = rows.sample_count().saturating_mul(columns.sample_count()).saturating_mul(4);
        if corners > limits::MATRIX_ELEMENTS {
            unsupported!("mode max over {corners} corners of samples (at most {})", limits::MATRIX_ELEMENTS);
        }
        let spans = (rows, columns);
        let (rows, columns) = (rows.samples(), columns.samples());
        let cells = cells(&rows, &columns);
        let each = cells.iter().map(Vec::len).max().unwrap_or(1);
        let crop = (rows.range, columns.range);
        let area = (rows.range.1 - rows.range.0) * (columns.range.1 - columns.range.0);
        let size = usize::try_from(area)?.saturating_mul(cells.len()).saturating_mul(each);
        elements = elements.saturating_add(size);
        if elements > limits::MATRIX_ELEMENTS {
            return Err(Error::unsupported(format!(
                "mode max of constant regions takes matrices of {elements} elements (at most {})",
                limits::MATRIX_ELEMENTS
            )));
        }
        let matrix = matrix(spans.0, spans.1, cells.len(), usize::try_from(area)?, each)?;
        parts.push(pool_region(x, image, crop, matrix, channels, each.int(), layer));
    }
    x.output(0, x.make.concat(&parts, 0));
    Ok(true)
}

/// Returns the maxima of one region: `crop` contains the ranges of rows and columns of its samples, `each` is
/// the number of weights of a cell.
fn pool_region<'x>(
    x: &'x Expand,
    image: i64,
    crop: ((i64, i64), (i64, i64)),
    matrix: Tensor,
    channels: i64,
    each: i64,
    layer: &ROIAlign,
) -> Expr<'x> {
    let (rows, columns) = crop;
    let (height, width): (i64, i64) = (layer.pooled_height.into(), layer.pooled_width.into());
    let region =
        x.operand(0).slices(&[0, 2, 3], &[image, rows.0, columns.0], &[image + 1, rows.1, columns.1]);
    let weighted = region.reshape(&[channels, -1]).matmul(x.make.tensor(matrix));
    let largest = weighted.reshape(&[channels, height * width, each]).reduce("ReduceMax", &[2], true);
    largest.reshape(&[1, channels, height, width])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: f32, length: f32, grid: i32) -> Interval {
        Interval { start, length, count: 1, grid, size: 4 }
    }

    #[test]
    fn samples_interpolate_or_lie_outside() {
        for (at, sample) in [
            (1.25, Some([(1, 0.75), (2, 0.25)])),
            (-0.5, Some([(0, 1.0), (1, 0.0)])),
            (3.5, Some([(3, 1.0), (3, 0.0)])),
            (-1.5, None),
            (4.5, None),
        ] {
            assert_eq!(span(0.0, 1.0, 1).sample(at), sample, "{at}");
        }
    }

    #[test]
    fn cells_keep_the_extreme_weights_of_an_element() {
        let rows = span(0.0, 2.0, 2).samples();
        assert_eq!(rows.range, (0, 3));
        let one = span(2.5, 1.0, 1).samples();
        assert_eq!(one.range, (3, 4));
        let found = cells(&rows, &one);
        let expected = [(0, 0.5), (0, 0.0), (1, 0.5), (1, 0.0), (2, 0.5), (2, 0.0)];
        assert_eq!(found, [expected.to_vec()]);
    }

    #[test]
    fn region_without_samples_is_zero() {
        let (none, some) = (span(0.0, 1.0, 0).samples(), span(0.0, 1.0, 1).samples());
        assert_eq!(cells(&none, &some), [[(0, 0.0)]]);
    }
}
