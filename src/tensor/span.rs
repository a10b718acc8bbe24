//! Elements of an axis at equal distances.

use super::Dim;
use crate::error::{Error, Result, unsupported};

/// The elements of an axis at `start`, `start + step`, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: Dim,
    pub step: i64,
    pub count: Dim,
}

impl Span {
    /// Returns adjacent elements.
    pub fn of(start: impl Into<Dim>, count: impl Into<Dim>) -> Span {
        Span { start: start.into(), step: 1, count: count.into() }
    }

    /// Returns whether these are all elements of an axis of `size`, in order.
    pub fn is_whole(&self, size: &Dim) -> bool {
        self.start.is(0) && self.step == 1 && self.count == *size
    }

    /// Returns the position after the last element, of adjacent ones.
    pub fn end(&self) -> Dim {
        &self.start + &self.count
    }

    /// Returns the position of the last element.
    pub fn last(&self) -> Dim {
        &self.start + (&self.count - 1) * self.step
    }

    /// Returns the span of the same elements in the reversed axis of `size`.
    pub fn of_reversed(&self, size: &Dim) -> Span {
        Span { start: size - 1 - &self.start, step: self.step.saturating_neg(), count: self.count.clone() }
    }

    /// Returns start and end of Slice for an axis of `size`: from the front, or negative from the end. An
    /// open end is the largest or the least integer. `None` if they need expressions.
    pub fn bounds(&self, size: &Dim) -> Option<[i64; 2]> {
        let (rest, end) = match self.step {
            1.. => (size - &self.start, i64::MAX),
            _ => (&self.start + 1, i64::MIN),
        };
        let start = from_either_end(&self.start, size)?;
        let stride = self.step.checked_abs()?;
        if self.count == rest.ceil_div(stride) {
            return Some([start, end]);
        }
        Some([start, from_either_end(&(self.last() + self.step.signum()), size)?])
    }

    /// Returns the positions of the elements.
    ///
    /// # Errors
    ///
    /// If they are not known, or overflow.
    pub fn indices(&self) -> Result<Vec<i64>> {
        let (Some(first), Some(count)) = (self.start.known(), self.count.known()) else {
            let Span { start, step, count } = self;
            unsupported!("{count} elements from {start} in steps of {step} are not fixed");
        };
        let index_of = |i| self.step.checked_mul(i).and_then(|n: i64| n.checked_add(first));
        (0..count).map(index_of).collect::<Option<_>>().ok_or_else(|| Error::limit("the step is too large"))
    }
}

/// Returns a position on an axis of `size` as an integer, which is negative if it counts from the end; `None`
/// if that takes an expression.
pub(crate) fn from_either_end(position: &Dim, size: &Dim) -> Option<i64> {
    position.known().or((position - size).known().filter(|from_end| *from_end < 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_by_the_step() {
        let span = Span { start: 1.into(), step: 3, count: 3.into() };
        assert_eq!(span.indices().unwrap(), [1, 4, 7]);
        assert_eq!(span.of_reversed(&9.into()).indices().unwrap(), [7, 4, 1]);
        assert!(Span::of(0, Dim::symbol("N")).indices().is_err());
        assert!(Span { step: i64::MAX, ..span }.indices().is_err());
        let size = Dim::symbol("N");
        assert_eq!(Span::of(1, &size - 1).bounds(&size), Some([1, i64::MAX]));
        assert_eq!(Span::of(&size - 2, 1).bounds(&size), Some([-2, -1]));
        assert_eq!(Span::of(1, 2).bounds(&9.into()), Some([1, 3]));
        assert_eq!(Span::of(0, 1).of_reversed(&9.into()).bounds(&9.into()), Some([8, 7]));
        assert_eq!(Span::of(0, size.floor_div(2)).bounds(&size), None);
        assert!(Span::of(0, 4).is_whole(&4.into()) && !Span::of(1, 3).is_whole(&4.into()));
    }
}
