//! Gathers at computed or irregular indices: the rows of a blob, sampled at their nearest coordinates.
//!
//! GridSample takes the element of each channel of an image whose coordinates are nearest to those of a grid.
//! Coordinates of whole positions are exact enough up to [`Gathered::MAX_POSITIONS`] positions along an axis,
//! so elements are moved: infinities and NaN stay, and do not reach other elements, as they do in a product
//! with zeros.

use num_traits::AsPrimitive;

use super::state::reshape_layer;
use super::{Lower, line_form};
use crate::error::{Result, unsupported};
use crate::ncnn::layer::GridSample;
use crate::ncnn::{BlobId, Cost, USUAL_SIZE};
use crate::tensor::{Dim, SizeCondition, Tensor};

/// `GridSample::sample_type` and `padding_mode`.
const NEAREST: i32 = 2;
/// See [`NEAREST`].
const ZEROS: i32 = 1;

/// The most elements of a channel: on x86 the runtime computes their offsets in float32.
const MAX_IN_CHANNEL: i64 = 1 << 24;

/// The number of multiply-adds that take the time of sampling an element, which is rarely in the cache.
const SAMPLED: u64 = 20;

/// The sizes of a gather: from data `[channels, groups, size, width]` at indices `[groups, count, 1]`, or
/// `[groups, count, width]`, of the third axis.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    /// Axes before the gathered one, along which the indices are the same.
    pub channels: Dim,
    /// Axes before the gathered one with separate indices.
    pub groups: Dim,
    /// The gathered axis.
    pub size: Dim,
    /// The number of indices in a group.
    pub count: Dim,
    /// Axes after the gathered one.
    pub width: Dim,
    /// The columns of the indices: 1 or `width`.
    pub columns: Dim,
}

/// The number that stands for a size.
fn usual(size: &Dim) -> u64 {
    u64::try_from(size.known().unwrap_or(USUAL_SIZE)).unwrap_or(0)
}

impl Gathered {
    /// The most positions along an axis. The coordinate of a position and the position that the runtime
    /// computes of it are each rounded a few times; the error stays below a quarter of a position.
    pub const MAX_POSITIONS: i64 = 1 << 20;

    /// Returns the gather of `count` rows at separate indices.
    pub fn rows(channels: Dim, size: Dim, count: Dim, width: Dim) -> Gathered {
        let one = Dim::ONE;
        Gathered { channels, groups: one.clone(), size, count, width, columns: one }
    }

    /// Returns height and width of the images.
    fn plane(&self) -> [Dim; 2] {
        self.image(&self.size)
    }

    /// Returns height and width of the grid.
    fn grid(&self) -> [Dim; 2] {
        self.image(&self.count)
    }

    /// Returns height and width for so many elements of each group.
    fn image(&self, size: &Dim) -> [Dim; 2] {
        if self.width.is(1) {
            [self.groups.clone(), size.clone()]
        } else {
            [&self.groups * size, self.width.clone()]
        }
    }

    /// Returns whether coordinates of all positions are exact enough.
    pub fn is_exact(&self) -> bool {
        let fits = |size: &Dim| size.known().is_none_or(|size| (1..=Gathered::MAX_POSITIONS).contains(&size));
        let plane = self.plane();
        let all = Dim::product(&plane).known();
        plane.iter().all(fits) && all.is_none_or(|all| all <= MAX_IN_CHANNEL)
    }

    /// Returns the cost of sampling.
    pub fn cost(&self) -> Cost {
        let rows = usual(&self.groups).saturating_mul(usual(&self.count));
        let (indices, positions) = (rows * usual(&self.columns), rows.saturating_mul(usual(&self.width)));
        let elements = positions.saturating_mul(usual(&self.channels));
        let sampled = Cost { multiply_adds: elements.saturating_mul(SAMPLED), ..Cost::passes(1, elements) };
        let lines = [&self.groups, &self.width].into_iter().filter(|size| !size.is(1));
        let lines = lines.fold(Cost::default(), |sum, size| sum + Cost::constants(usual(size)) * 2);
        Cost::passes(3, indices) + lines + Cost::passes(4, positions) + sampled
    }

    /// Returns the cost of a product with the matrix of zeros and ones that compares each index with each
    /// position.
    pub fn cost_of_product(&self) -> Cost {
        let rows = usual(&self.groups).saturating_mul(usual(&self.count));
        let compared = rows.saturating_mul(usual(&self.size)).saturating_mul(usual(&self.columns));
        let elements = rows.saturating_mul(usual(&self.channels)).saturating_mul(usual(&self.width));
        let product = if self.columns.is(1) {
            Cost::product(elements, usual(&self.size))
        } else {
            Cost::passes(2, elements.saturating_mul(usual(&self.size)))
        };
        Cost::passes(4, compared) + product
    }

    /// Returns the gather of the columns of a single matrix, if it takes less time although data and result
    /// are transposed.
    fn of_columns(&self) -> Option<Gathered> {
        let is_matrix = self.channels.is(1) && self.groups.is(1) && self.columns.is(1) && !self.width.is(1);
        let one = Dim::ONE;
        let gathered = Gathered { channels: self.width.clone(), width: one, ..self.clone() };
        let moved = [&self.size, &self.count].map(|rows| usual(rows).saturating_mul(usual(&self.width)));
        let moved = moved.into_iter().fold(Cost::default(), |sum, elements| sum + Cost::passes(3, elements));
        let time = (gathered.cost() + moved).nanoseconds();
        (is_matrix && gathered.is_exact() && time < self.cost().nanoseconds()).then_some(gathered)
    }

    /// Returns the time of sampling at constant indices.
    pub fn time_at_constants(&self) -> u64 {
        (Cost::constants(usual(&self.count)) + self.cost()).nanoseconds()
    }

    /// Returns the time of a product with a constant matrix of zeros and ones.
    pub fn time_of_matrix(&self) -> u64 {
        let elements = [&self.channels, &self.count, &self.width];
        let elements = elements.into_iter().fold(1_u64, |n, size| n.saturating_mul(usual(size)));
        let weights = Cost::constants(usual(&self.count).saturating_mul(usual(&self.size)));
        // Before and after the product the elements are halved and bounded, and doubled.
        (weights + Cost::product(elements, usual(&self.size)) + Cost::passes(3, elements)).nanoseconds()
    }

    /// Returns whether sampling is exact, and takes less time than a product. Nothing else gathers along an
    /// axis of free size.
    pub fn is_sampled(&self) -> bool {
        let is_cheaper = || self.cost().nanoseconds() < self.cost_of_product().nanoseconds();
        self.is_exact() && (self.size.known().is_none() || is_cheaper())
    }
}

impl Lower<'_> {
    /// Emits the elements at `indices`, which count from the front, in the form `[channels, height, width]`
    /// of a [`Gathered`]: the groups and the count are one axis if the width is not 1.
    pub(super) fn sample(&self, data: BlobId, indices: BlobId, gathered: &Gathered) -> Result<BlobId> {
        let Gathered { channels, groups, size, count, width, columns } = gathered;
        if !gathered.is_exact() {
            unsupported!(
                "indices into {size} positions of a blob as coordinates: float32 does not represent them"
            );
        }
        self.compute_in_float32();
        if let Some(columns) = gathered.of_columns() {
            let rows = self.reshape(data, &[size.clone(), width.clone()])?;
            let rows = self.permute(rows, &[1, 0])?;
            let top = self.sample(rows, indices, &columns)?;
            let top = self.reshape(top, &[width.clone(), count.clone()])?;
            return self.permute(top, &[1, 0]);
        }
        let one = Dim::ONE;
        let [height, across] = gathered.plane();
        for (size, most) in [
            (&height, Gathered::MAX_POSITIONS),
            (&across, Gathered::MAX_POSITIONS),
            (&(&height * &across), MAX_IN_CHANNEL),
        ] {
            self.require(SizeCondition::at_most(size, most))?;
        }
        let image = self.reshape(data, &[channels.clone(), height.clone(), across.clone()])?;
        let image = self.known_layout(image)?;
        let [rows, sampled] = gathered.grid();
        let [x, y] = if width.is(1) {
            let x = self.reshape(indices, &[one.clone(), groups.clone(), count.clone()])?;
            let x = self.coordinates(x, size)?;
            [x, self.along_all(x, groups, 1)?]
        } else {
            let mut y = indices;
            if !groups.is(1) {
                let each = [one.clone(), groups.clone(), count * columns];
                let starts = self.starts(groups, size)?;
                y = self.reshape(y, &each)?;
                y = self.compute(y + starts)?;
            }
            let y = self.reshape(y, &[one.clone(), rows.clone(), columns.clone()])?;
            let y = self.coordinates(y, &height)?;
            let x = self.along_all(y, width, 2)?;
            let y = if columns == width {
                y
            } else {
                let ones = self.ones(&[one.clone(), one.clone(), width.clone()])?;
                self.compute(y * ones)?
            };
            [x, y]
        };
        let grid = self.concat(&[x, y], 0)?;
        let layer =
            GridSample { sample_type: NEAREST, padding_mode: ZEROS, align_corner: 0, permute_fusion: 1 };
        self.emit(layer, &[image, grid], &[channels.clone(), rows, sampled])
    }

    /// Returns a blob as it is, an input of the net through a Reshape: GridSample takes a Mat of another
    /// number of axes for a volume or for its grid, and reads beyond one, and users may provide an input in
    /// several forms.
    pub(super) fn known_layout(&self, blob: BlobId) -> Result<BlobId> {
        if !self.state().net.inputs.contains(&blob) {
            return Ok(blob);
        }
        let form = self.form(blob);
        self.emit(reshape_layer(&form, &form)?, &[blob], &form)
    }

    /// Emits the coordinates of positions along an axis of `size`: `(2 * position + 1) / size - 1`.
    fn coordinates(&self, positions: BlobId, size: &Dim) -> Result<BlobId> {
        if let Some(size) = size.known() {
            let size: f64 = size.as_();
            let [factor, first]: [f32; 2] = [(2.0 / size).as_(), (1.0 / size - 1.0).as_()];
            return self.compute(positions * factor + first);
        }
        let number = self.materialize(std::slice::from_ref(size))?;
        self.compute((positions * 2.0 + 1.0) / number - 1.0)
    }

    /// Emits the coordinates of the positions of an axis of three, broadcast to the other axes of `like`.
    fn along_all(&self, like: BlobId, size: &Dim, axis: usize) -> Result<BlobId> {
        let zeros = self.compute(like * 0.0)?;
        if size.is(1) {
            return Ok(zeros);
        }
        let line = match size.known() {
            Some(count) => {
                let divisor: f64 = count.as_();
                let coordinate = |position: f64| ((2.0 * position + 1.0) / divisor - 1.0).as_();
                self.line(count, axis, coordinate)?
            }
            None => {
                let positions = self.positions_along(size, &line_form(size, axis, 3))?;
                self.coordinates(positions, size)?
            }
        };
        self.compute(zeros + line)
    }

    /// Emits a function of the positions of an axis of three.
    fn line(&self, count: i64, axis: usize, function: impl Fn(f64) -> f32) -> Result<BlobId> {
        let elements: Vec<f32> = (0..count).map(|position| function(position.as_())).collect();
        self.memory_data(
            &Tensor::from_f32(&[elements.len()], elements)?,
            &line_form(&Dim::Known(count), axis, 3),
        )
    }

    /// Emits the position of the first row of each group.
    fn starts(&self, groups: &Dim, size: &Dim) -> Result<BlobId> {
        if let (Some(groups), Some(size)) = (groups.known(), size.known()) {
            let size: f64 = size.as_();
            return self.line(groups, 1, |position| (position * size).as_());
        }
        let positions = self.positions_along(groups, &line_form(groups, 1, 3))?;
        if let Some(size) = size.known() {
            let size: f32 = size.as_();
            return self.compute(positions * size);
        }
        let number = self.materialize(std::slice::from_ref(size))?;
        self.compute(positions * number)
    }
}
