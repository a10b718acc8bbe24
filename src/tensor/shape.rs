//! The shape of a tensor.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Dim;

/// The sizes of a tensor's axes. Copies share one list: most nodes have an output of an input's shape, and
/// shared lists compare by pointer.
#[derive(Clone, Default, Eq)]
pub struct Shape(Arc<[Dim]>);

impl Shape {
    /// Returns whether these are the sizes.
    pub(crate) fn is(&self, sizes: &[usize]) -> bool {
        let same = |(size, other): (&Dim, &usize)| {
            size.known().and_then(|n| usize::try_from(n).ok()) == Some(*other)
        };
        self.len() == sizes.len() && self.iter().zip(sizes).all(same)
    }

    /// Returns the shape with another size of the outermost axis.
    pub(crate) fn with_outermost(&self, size: impl Into<Dim>) -> Shape {
        std::iter::once(size.into()).chain(self.iter().skip(1).cloned()).collect()
    }
}

/// Lists sizes: integers, sizes, and references to sizes.
macro_rules! shape {
    ( $( $size:expr ),* $(,)? ) => { [ $( $crate::tensor::Dim::from($size) ),* ] };
}
pub(crate) use shape;

impl Deref for Shape {
    type Target = [Dim];

    fn deref(&self) -> &[Dim] {
        &self.0
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl From<&[Dim]> for Shape {
    fn from(sizes: &[Dim]) -> Shape {
        Shape(sizes.into())
    }
}

impl<const RANK: usize> From<[Dim; RANK]> for Shape {
    fn from(sizes: [Dim; RANK]) -> Shape {
        Shape(sizes.into())
    }
}

impl From<Vec<Dim>> for Shape {
    fn from(sizes: Vec<Dim>) -> Shape {
        Shape(sizes.into())
    }
}

impl From<&[usize]> for Shape {
    fn from(sizes: &[usize]) -> Shape {
        sizes.iter().map(|size| Dim::from(*size)).collect()
    }
}

impl FromIterator<Dim> for Shape {
    fn from_iter<I: IntoIterator<Item = Dim>>(sizes: I) -> Shape {
        Shape(sizes.into_iter().collect())
    }
}

impl<'s> IntoIterator for &'s Shape {
    type Item = &'s Dim;
    type IntoIter = std::slice::Iter<'s, Dim>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_with_equal_sizes_are_equal() {
        let shape: Shape = [2, 3].map(Dim::Known).into_iter().collect();
        assert!(shape == shape.clone() && shape == Shape::from(vec![Dim::from(2), Dim::from(3)]));
        assert!(shape != Shape::from(vec![Dim::from(2)]));
        assert!(shape.is(&[2, 3]) && !shape.is(&[2]) && !Shape::from(vec![Dim::symbol("n")]).is(&[2]));
    }
}
