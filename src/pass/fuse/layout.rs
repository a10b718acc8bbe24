//! Layouts: the axes of a value as products of the axes of its source. Free sizes are compared as
//! expressions.

use super::matcher::Matcher;
use super::view::{Traced, chain, converted};
use crate::graph::{Node, ValueId};
use crate::op::{self, Move};
use crate::tensor::{Dim, axis_groups};

/// A factor of the size of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    /// The axis of the source; `None` for a repetition of all elements.
    pub axis: Option<usize>,
    pub size: Dim,
}

/// The axes of a value, each as a product of factors, the outermost first. Factors of size 1 are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub axes: Vec<Vec<Factor>>,
}

impl Layout {
    /// The layout of a source.
    fn of(shape: &[Dim]) -> Layout {
        let factors = |(axis, size): (usize, &Dim)| {
            let factor = Factor { axis: Some(axis), size: size.clone() };
            if size.is(1) { Vec::new() } else { vec![factor] }
        };
        Layout { axes: shape.iter().enumerate().map(factors).collect() }
    }

    fn transposed(&self, perm: &[usize]) -> Option<Layout> {
        let axes = perm.iter().map(|axis| self.axes.get(*axis).cloned()).collect::<Option<_>>()?;
        Some(Layout { axes })
    }

    /// The layout after a Reshape; `None` if that splits a factor.
    fn reshaped(&self, shape: &[Dim]) -> Option<Layout> {
        let factors: Vec<&Factor> = self.axes.iter().flatten().collect();
        let sizes: Vec<Dim> = factors.iter().map(|factor| factor.size.clone()).collect();
        let of_axis = |indices: Vec<usize>| {
            indices.into_iter().filter_map(|index| factors.get(index).copied().cloned()).collect()
        };
        Some(Layout { axes: axis_groups(shape, &sizes)?.into_iter().map(of_axis).collect() })
    }

    /// The layout after a step; `None` if that is no product of axes.
    fn moved(&self, step: &Move) -> Option<Layout> {
        match step {
            Move::Reshape(to) => self.reshaped(to),
            Move::Transpose(perm) => self.transposed(perm),
            Move::Broadcast(to) => self.expanded(to),
            _ => None,
        }
    }

    /// The layout after an Expand.
    fn expanded(&self, to: &[Dim]) -> Option<Layout> {
        let added = to.len().checked_sub(self.axes.len())?;
        let mut axes = Vec::with_capacity(to.len());
        for (axis, size) in to.iter().enumerate() {
            let axis_before = axis.checked_sub(added);
            let (factors, before) = match axis_before {
                Some(axis_before) => {
                    let factors = self.axes.get(axis_before)?.clone();
                    let before = Dim::product(factors.iter().map(|factor| &factor.size));
                    (factors, before)
                }
                None => (Vec::new(), Dim::ONE),
            };
            if before == *size {
                axes.push(factors);
            } else if before.is(1) {
                axes.push(vec![Factor { axis: None, size: size.clone() }]);
            } else {
                return None;
            }
        }
        Some(Layout { axes })
    }
}

/// Traces a value back to the first that `is_source`, over nodes that move, repeat or scale elements.
pub(super) fn trace_layout(
    matcher: &Matcher,
    value: ValueId,
    is_source: impl Fn(ValueId) -> bool,
) -> Option<Traced<Layout>> {
    let chain = chain(matcher, value, &is_source, |_| true, true);
    let layout = Layout::of(matcher.shape(chain.source).filter(|_| is_source(chain.source))?);
    chain.traced(layout, |step, layout| layout.moved(step))
}

/// The input of a node that gives it another shape, with the elements in the same order.
pub(super) fn reshaped(matcher: &Matcher, node: &Node) -> Option<ValueId> {
    converted(matcher, node).or_else(|| op::viewed(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::shape;

    #[test]
    fn repeated_heads_are_merged() {
        let (length, known) = (Dim::symbol("T"), Dim::Known);
        let source = Layout::of(&[known(1), known(2), length.clone(), known(16)]);
        let separate = [known(1), known(2), known(1), length.clone(), known(16)];
        let repeated = [known(1), known(2), known(3), length.clone(), known(16)];
        let expanded = source.reshaped(&separate).unwrap().expanded(&repeated).unwrap();
        let merged = expanded.reshaped(&[known(1), known(6), length.clone(), known(16)]).unwrap();
        let axis = |axis: usize, size: Dim| Factor { axis: Some(axis), size };
        let heads = vec![axis(1, known(2)), Factor { axis: None, size: known(3) }];
        assert_eq!(merged.axes, [vec![], heads, vec![axis(2, length)], vec![axis(3, known(16))]]);
    }

    #[test]
    fn splits_of_axes_are_unknown() {
        let source = Layout::of(&shape![4, Dim::symbol("T")]);
        assert_eq!(source.reshaped(&shape![2, 2, Dim::symbol("T")]), None);
        assert_eq!(source.reshaped(&shape![Dim::symbol("T"), 4]), None);
        assert!(source.transposed(&[1, 0]).unwrap().reshaped(&shape![Dim::symbol("T"), 4]).is_some());
    }
}
