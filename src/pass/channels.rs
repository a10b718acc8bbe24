//! The index of the channels among the axes of an image.

use crate::pass::builder::Expr;
use crate::pass::pattern::inverse;
use crate::tensor::Dim;

/// Where the channels are: after the batch, or last.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub channels_last: bool,
}

impl Layout {
    /// Returns the axes in the order with channels after the batch.
    fn order(self, rank: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..rank).collect();
        if self.channels_last && rank > 2 {
            axes.remove(rank - 1);
            axes.insert(1, rank - 1);
        }
        axes
    }

    /// Returns a shape of this layout with channels after the batch.
    pub fn channels_first(self, shape: &[Dim]) -> Vec<Dim> {
        self.order(shape.len()).iter().filter_map(|axis| shape.get(*axis).cloned()).collect()
    }

    /// Returns a value of this layout with channels after the batch.
    pub fn move_channels_first(self, value: Expr<'_>, rank: usize) -> Expr<'_> {
        value.transpose(&self.order(rank))
    }

    /// Returns what `compute` makes of a value of this layout; it sees the channels after the batch.
    pub fn apply<'x>(
        self,
        value: Expr<'x>,
        rank: usize,
        compute: impl FnOnce(Expr<'x>) -> Expr<'x>,
    ) -> Expr<'x> {
        if !self.channels_last {
            return compute(value);
        }
        compute(self.move_channels_first(value, rank)).transpose(&inverse(&self.order(rank)))
    }
}
