//! What is around an axis that is padded.

/// The elements that are added to an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Border<T> {
    /// This element.
    Constant(T),
    /// The element at the edge.
    Edge,
    /// The mirror image, without the element at the edge.
    Reflect,
    /// The elements at the other end.
    Wrap,
}

impl<T> Border<T> {
    /// Returns the position in an axis of `size` of the element at `index` of the padded axis, in which 0 is
    /// the first element of the axis. `None` for an element that is none of the axis.
    pub fn source(&self, index: i64, size: i64) -> Option<i64> {
        match self {
            _ if (0..size).contains(&index) => Some(index),
            Border::Constant(_) => None,
            Border::Edge => Some(index.clamp(0, size - 1)),
            Border::Wrap => index.checked_rem_euclid(size),
            Border::Reflect if size == 1 => Some(0),
            Border::Reflect => {
                let period = 2 * (size - 1);
                let index = index.checked_rem_euclid(period)?;
                Some(index.min(period - index))
            }
        }
    }

    /// Returns the border with what `f` makes of the constant.
    pub fn try_map<U, E>(&self, f: impl FnOnce(&T) -> Result<U, E>) -> Result<Border<U>, E> {
        Ok(match self {
            Border::Constant(element) => Border::Constant(f(element)?),
            Border::Edge => Border::Edge,
            Border::Reflect => Border::Reflect,
            Border::Wrap => Border::Wrap,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_match_numpy() {
        let sources = |border: Border<f32>, size, range: std::ops::Range<i64>| -> Vec<i64> {
            range.filter_map(|index| border.source(index, size)).collect()
        };
        assert_eq!(sources(Border::Constant(0.0), 3, -2..5), [0, 1, 2]);
        assert_eq!(sources(Border::Edge, 3, -2..5), [0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(sources(Border::Reflect, 3, -3..6), [1, 2, 1, 0, 1, 2, 1, 0, 1]);
        assert_eq!(sources(Border::Reflect, 1, -2..2), [0, 0, 0, 0]);
        assert_eq!(sources(Border::Wrap, 3, -4..4), [2, 0, 1, 2, 0, 1, 2, 0]);
    }
}
