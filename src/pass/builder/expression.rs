//! Values of new nodes as operands of expressions.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Range, Sub};

use ndarray::{arr0, arr1};

use super::Builder;
use crate::common::int::Int;
use crate::error::Error;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::{constant_ints, perm_attribute};
use crate::tensor::{Array, DType, Dim, Tensor};

/// A value that new nodes read or compute.
#[derive(Clone, Copy)]
pub(crate) struct Expr<'b> {
    /// The builder of the nodes that compute with the value.
    pub builder: &'b Builder<'b>,
    pub id: ValueId,
    /// The element type, if it is known: also the type of numbers combined with the value.
    pub dtype: Option<DType>,
}

/// An operand of an expression: a value, or a number in the element type of the other operand.
pub(crate) trait Term<'b>: Copy {
    /// Returns the value; numbers become constants in the element type of `other`.
    fn with_type_of(self, other: Expr<'b>) -> Expr<'b>;

    /// Returns the value, unless it is a number.
    fn expr(self) -> Option<Expr<'b>>;
}

impl<'b> Term<'b> for Expr<'b> {
    fn with_type_of(self, _: Expr<'b>) -> Expr<'b> {
        self
    }

    fn expr(self) -> Option<Expr<'b>> {
        Some(self)
    }
}

macro_rules! numbers {
    ( $( $number:ident )* ) => { $(
        impl<'b> Term<'b> for $number {
            fn with_type_of(self, other: Expr<'b>) -> Expr<'b> {
                match other.dtype {
                    Some(dtype) => other.builder.cast_literal(&Array::$number(arr0(self).into_dyn()), dtype),
                    None => other.builder.fail(Error::internal("a number with a value of unknown type")),
                }
            }

            fn expr(self) -> Option<Expr<'b>> {
                None
            }
        }
    )* };
}

numbers! { f32 i64 }

macro_rules! unary {
    ( $( $method:ident $op:literal, )* ) => {
        impl<'b> Expr<'b> { $( pub fn $method(self) -> Expr<'b> { self.builder.op($op, [self], []) } )* }
    };
}

unary! {
    abs "Abs",
    exp "Exp",
    is_nan "IsNaN",
    relu "Relu",
    round "Round",
    shape "Shape",
    sigmoid "Sigmoid",
    sqrt "Sqrt",
    tanh "Tanh",
}

macro_rules! binary {
    ( $( $method:ident $op:literal, )* ) => {
        impl<'b> Expr<'b> {
            $( pub fn $method(self, other: impl Term<'b>) -> Expr<'b> { self.with($op, other) } )*
        }
    };
}

binary! {
    bitwise_and "BitwiseAnd",
    equal "Equal",
    greater "Greater",
    greater_or_equal "GreaterOrEqual",
    less "Less",
    less_or_equal "LessOrEqual",
    maximum "Max",
    minimum "Min",
    modulo "Mod",
    pow "Pow",
}

macro_rules! operators {
    ( $( $trait:ident $method:ident $op:literal, )* ) => { $(
        impl<'b, T: Term<'b>> $trait<T> for Expr<'b> {
            type Output = Expr<'b>;

            fn $method(self, other: T) -> Expr<'b> {
                self.with($op, other)
            }
        }

        impl<'b> $trait<Expr<'b>> for f32 {
            type Output = Expr<'b>;

            fn $method(self, other: Expr<'b>) -> Expr<'b> {
                self.with_type_of(other).with($op, other)
            }
        }

        impl<'b> $trait<Expr<'b>> for i64 {
            type Output = Expr<'b>;

            fn $method(self, other: Expr<'b>) -> Expr<'b> {
                self.with_type_of(other).with($op, other)
            }
        }
    )* };
}

operators! {
    Add add "Add",
    Sub sub "Sub",
    Mul mul "Mul",
    Div div "Div",
}

impl<'b> BitAnd for Expr<'b> {
    type Output = Expr<'b>;

    fn bitand(self, other: Expr<'b>) -> Expr<'b> {
        self.with("And", other)
    }
}

impl<'b> BitOr for Expr<'b> {
    type Output = Expr<'b>;

    fn bitor(self, other: Expr<'b>) -> Expr<'b> {
        self.with("Or", other)
    }
}

impl<'b> Not for Expr<'b> {
    type Output = Expr<'b>;

    fn not(self) -> Expr<'b> {
        self.builder.op("Not", [self], [])
    }
}

impl<'b> Neg for Expr<'b> {
    type Output = Expr<'b>;

    fn neg(self) -> Expr<'b> {
        self.builder.op("Neg", [self], [])
    }
}

impl<'b> Expr<'b> {
    pub(super) fn new(builder: &'b Builder<'b>, id: ValueId, dtype: Option<DType>) -> Expr<'b> {
        Expr { builder, id, dtype }
    }

    /// Returns an output of the node of which this is the first.
    pub fn output(self, index: usize) -> Expr<'b> {
        if index == 0 { self } else { self.builder.further_output(self, index) }
    }

    /// Returns outputs of the node of which this is the first.
    pub fn outputs(self, indices: Range<usize>) -> Vec<Expr<'b>> {
        indices.map(|index| self.output(index)).collect()
    }

    /// Returns the result of an operator of two inputs.
    fn with(self, op_type: &'static str, other: impl Term<'b>) -> Expr<'b> {
        self.builder.op(op_type, [self, other.with_type_of(self)], [])
    }

    /// Returns the sum, which keeps the shape of the value.
    pub fn plus(self, addend: Expr<'b>) -> Expr<'b> {
        self.builder.require_broadcast(addend, self);
        self + addend
    }

    /// Returns the sum, which keeps the shape of the value; without an addend, the value itself.
    pub fn add_optional(self, addend: Option<Expr<'b>>) -> Expr<'b> {
        addend.map_or(self, |addend| self.plus(addend))
    }

    /// Returns the difference, which keeps the shape of the value.
    pub fn minus(self, subtrahend: Expr<'b>) -> Expr<'b> {
        self.builder.require_broadcast(subtrahend, self);
        self - subtrahend
    }

    /// Returns the product, which keeps the shape of the value.
    pub fn times(self, factor: Expr<'b>) -> Expr<'b> {
        self.builder.require_broadcast(factor, self);
        self * factor
    }

    /// Returns the matrix product.
    pub fn matmul(self, other: Expr<'b>) -> Expr<'b> {
        self.with("MatMul", other)
    }

    /// Returns `yes` where the value is true, otherwise `no`.
    pub fn select(self, yes: impl Term<'b>, no: impl Term<'b>) -> Expr<'b> {
        let typed = yes.expr().or(no.expr()).unwrap_or(self);
        self.builder.op("Where", [self, yes.with_type_of(typed), no.with_type_of(typed)], [])
    }

    /// Returns the elements, bounded by two numbers.
    pub fn clip(self, low: impl Term<'b>, high: impl Term<'b>) -> Expr<'b> {
        self.builder.op("Clip", [self, low.with_type_of(self), high.with_type_of(self)], [])
    }

    /// Returns the value in an element type; without a node if it is known to have it.
    pub fn to_type(self, to: DType) -> Expr<'b> {
        if self.dtype == Some(to) { self } else { self.cast(to) }
    }

    /// Returns the value cast to an element type.
    pub fn cast(self, to: DType) -> Expr<'b> {
        self.builder.op("Cast", [self], [("to", i64::from(to.to_onnx()).into())])
    }

    /// Returns the value in another shape: 0 copies a size, one -1 is inferred.
    pub fn reshape(self, shape: &[impl Int]) -> Expr<'b> {
        self.reshape_to(self.builder.ints(shape))
    }

    /// Returns the only element as a value without axes.
    pub fn scalar(self) -> Expr<'b> {
        self.reshape(&[0_i64; 0])
    }

    /// Returns the value in a shape that is a list of integers.
    pub fn reshape_to(self, shape: Expr<'b>) -> Expr<'b> {
        self.with("Reshape", shape)
    }

    /// Returns a list along one of `rank` axes; the others have size 1.
    pub fn along(self, axis: usize, rank: usize) -> Expr<'b> {
        let size = |other: usize| if other == axis { -1_i64 } else { 1 };
        self.reshape(&(0..rank).map(size).collect::<Vec<_>>())
    }

    /// Returns the value broadcast to a shape that is a list of integers.
    pub fn broadcast_to(self, shape: Expr<'b>) -> Expr<'b> {
        self.with("Expand", shape)
    }

    /// Returns the value broadcast to a shape.
    pub fn broadcast(self, shape: &[impl Int]) -> Expr<'b> {
        self.broadcast_to(self.builder.ints(shape))
    }

    /// Returns the value with permuted axes.
    pub fn transpose(self, perm: &[usize]) -> Expr<'b> {
        match perm_attribute(perm) {
            Ok(perm) => self.builder.op("Transpose", [self], [perm]),
            Err(error) => self.builder.fail(error),
        }
    }

    /// Returns the sizes of a value of the graph; `None` for free sizes.
    pub fn sizes(self) -> Vec<Option<i64>> {
        self.builder.graph.value(self.id).shape.iter().flatten().map(Dim::known).collect()
    }

    /// Returns the shape of a constant of the graph.
    pub fn constant_shape(self) -> &'b [usize] {
        self.builder.graph.value(self.id).constant.as_ref().map_or(&[], Tensor::shape)
    }

    /// Returns a constant of this shape with all elements equal, in the element type of the value.
    pub fn filled(self, element: f32, shape: &[impl Int]) -> Expr<'b> {
        let dtype = self.dtype.unwrap_or(DType::F32);
        let sizes: Result<Vec<usize>, _> = shape.iter().map(|n| usize::try_from(n.int())).collect();
        let element = Array::f32(arr0(element).into_dyn()).cast(dtype);
        let tensor = element.and_then(|element| Tensor::filled(&element, sizes?));
        self.builder.constant(tensor)
    }

    /// Returns the value with a name after the value that it replaces, see
    /// [`crate::graph::Value::name_of_changed`].
    pub fn named_after(self, replaced: ValueId) -> Expr<'b> {
        self.named(self.builder.graph.value(replaced).name_of_changed())
    }

    /// Returns the value with a name.
    pub fn named(self, name: String) -> Expr<'b> {
        self.builder.change(self, |value| value.name = name);
        self
    }

    /// Returns the value of the last node, in a version in which its operator means the same.
    pub fn of_version(self, version: i64) -> Expr<'b> {
        self.builder.set_version(version);
        self
    }

    /// Returns the value with an element type, for passes that ask before types are inferred.
    pub fn typed(self, dtype: DType) -> Expr<'b> {
        self.builder.change(self, |value| value.dtype = Some(dtype));
        Expr { dtype: Some(dtype), ..self }
    }

    /// Returns the value with further axes of size 1.
    pub fn unsqueeze(self, axes: &[impl Int]) -> Expr<'b> {
        self.with("Unsqueeze", self.builder.ints(axes))
    }

    /// Returns the value without axes of size 1.
    pub fn squeeze(self, axes: &[impl Int]) -> Expr<'b> {
        self.with("Squeeze", self.builder.ints(axes))
    }

    /// Returns the value with zeros before and after each axis: the numbers before all axes, then those
    /// after.
    pub fn pad(self, pads: &[impl Int]) -> Expr<'b> {
        self.builder.op("Pad", [self, self.builder.ints(pads)], [])
    }

    /// Returns the value of `rank` axes with so many zeros before and after one of them.
    pub fn pad_along(self, rank: usize, axis: usize, [before, after]: [usize; 2]) -> Expr<'b> {
        let along = |other: usize, count: usize| if other == axis { count } else { 0 };
        let pads = (0..rank).map(|other| along(other, before));
        self.pad(&pads.chain((0..rank).map(|other| along(other, after))).collect::<Vec<_>>())
    }

    /// Returns elements along an axis, `end` not included.
    pub fn slice(self, axis: impl Int, start: impl Int, end: impl Int) -> Expr<'b> {
        self.slices(&[axis], &[start], &[end])
    }

    /// Returns elements along several axes, `ends` not included.
    pub fn slices(self, axes: &[impl Int], starts: &[impl Int], ends: &[impl Int]) -> Expr<'b> {
        let made = self.builder;
        made.op("Slice", [self, made.ints(starts), made.ints(ends), made.ints(axes)], [])
    }

    /// Returns every `step`-th element along an axis, `end` not included.
    pub fn slice_by(self, axis: impl Int, start: i64, end: i64, step: i64) -> Expr<'b> {
        let [start, end, axis, step] = [start, end, axis.int(), step].map(|n| self.builder.ints(&[n]));
        self.builder.op("Slice", [self, start, end, axis, step], [])
    }

    /// Returns the part that a node of version 10 or later cuts out, along other axes.
    pub fn slice_as(self, slice: &Node, axes: &[usize]) -> Expr<'b> {
        let made = self.builder;
        let mut inputs = made.inputs_of(slice);
        inputs.resize(inputs.len().max(4), None);
        inputs.splice(..1, [Some(self)]);
        inputs.splice(3..4, [Some(made.ints(axes))]);
        made.only_copy_of(slice, &inputs).unwrap_or_else(|error| made.fail(error))
    }

    /// Returns element `index` along an axis, which is removed.
    pub fn element(self, axis: impl Int, index: impl Int) -> Expr<'b> {
        self.gather(self.builder.int(index), axis)
    }

    /// Returns the first elements along an axis; `count` is computed.
    pub fn first_of(self, axis: impl Int, count: Expr<'b>) -> Expr<'b> {
        let [start, axis] = [0, axis.int()].map(|n| self.builder.ints(&[n]));
        self.builder.op("Slice", [self, start, count.reshape(&[1]), axis], [])
    }

    /// Returns the elements at indices along an axis.
    pub fn gather(self, indices: Expr<'b>, axis: impl Int) -> Expr<'b> {
        self.builder.op("Gather", [self, indices], [("axis", axis.into())])
    }

    /// Returns parts of these sizes along an axis.
    pub fn split<const N: usize>(self, axis: impl Int, sizes: [i64; N]) -> [Expr<'b>; N] {
        let first = self.builder.op("Split", [self, self.builder.ints(&sizes)], [("axis", axis.into())]);
        std::array::from_fn(|index| first.output(index))
    }

    /// Returns parts of these sizes along an axis; the value itself instead of a single part.
    pub fn split_list(self, axis: impl Int, sizes: &[impl Int]) -> Vec<Expr<'b>> {
        match sizes.len() {
            0 => return Vec::new(),
            1 => return vec![self],
            _ => {}
        }
        let inputs = [self, self.builder.ints(sizes)];
        self.builder.op("Split", inputs, [("axis", axis.into())]).outputs(0..sizes.len())
    }

    /// Returns 1 at the index along a new axis of size `depth`, else 0.
    pub fn one_hot(self, depth: impl Int, axis: impl Int, dtype: DType) -> Expr<'b> {
        let values = self.builder.cast_literal(&Array::i64(arr1(&[0, 1]).into_dyn()), dtype);
        self.builder.op("OneHot", [self, self.builder.ints(&[depth]), values], [("axis", axis.into())])
    }

    /// Returns the result of a reduction over all axes, a scalar.
    pub fn reduce_all(self, op_type: &'static str) -> Expr<'b> {
        self.builder.op(op_type, [self], [("keepdims", 0.into())])
    }

    /// Returns the result of a reduction over axes, which are kept with size 1 if `keep` is true.
    pub fn reduce(self, op_type: &'static str, axes: &[impl Int], keep: bool) -> Expr<'b> {
        let axes = self.builder.ints(axes);
        self.builder.op(op_type, [self, axes], [("keepdims", i64::from(keep).into())])
    }

    /// Returns the exponentials divided by their sum along an axis.
    pub fn softmax(self, axis: impl Int) -> Expr<'b> {
        self.builder.op("Softmax", [self], [("axis", axis.into())])
    }

    /// Returns a size, a scalar integer. Negative axes count from the end.
    pub fn size(self, axis: impl Int) -> Expr<'b> {
        let axis = axis.int();
        let end = (axis != -1).then(|| ("end", (axis + 1).into()));
        self.builder.op("Shape", [self], [("start", axis.into())].into_iter().chain(end)).scalar()
    }

    /// Returns the positions along an axis: a list of integers.
    pub fn positions(self, axis: impl Int) -> Expr<'b> {
        self.builder.range(self.builder.int(0), self.size(axis))
    }
}
/// Returns the value of which `slice` made this part. The builder's nodes may not have shapes yet.
pub(crate) fn sliced(graph: &Graph, part: ValueId, axis: i64, start: i64, end: i64) -> Option<ValueId> {
    let node = graph.producer(part).filter(|node| node.is("Slice"))?;
    let [whole, bounds @ ..] = node.inputs.as_slice() else { return None };
    let bounds: Option<Vec<Vec<i64>>> = bounds.iter().map(|id| constant_ints(graph, (*id)?)).collect();
    whole.filter(|_| bounds.is_some_and(|bounds| bounds == [[start], [end], [axis]]))
}
