"""Generators of operators over elements, of comparisons and of reductions."""

import numpy as np
from onnx import TensorProto

from networks.graph import Unfit, is_in_int32

UNARY = "Abs Atan Cos Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Mish Neg Relu Selu Sigmoid Sin Softplus Softsign Tanh Celu ThresholdedRelu Identity Sinh Asinh Shrink".split()


def unary(g):
    op = g.choose(UNARY)
    g.op(op, g.value(), **({"approximate": g.choose(["none", "tanh"])} if op == "Gelu" else {}))


def jump(g):
    """Functions with jumps read only exact values."""
    name = g.choose(sorted(g.exact))
    g.op(g.choose(["Floor", "Ceil", "Sign", "Round"]), name)


def positive(g):
    x = g.op("Add", g.op("Abs", g.value()), g.scalar(g.choose([0.1, 1.0])))
    g.op(g.choose(["Sqrt", "Log", "Reciprocal"]), x)


def operand(g, shape):
    """A constant that broadcasts with a shape."""
    keep = [size if g.chance(0.6) else 1 for size in shape]
    cut = g.int(0, len(keep)) if g.chance(0.4) else 0
    return g.normal(*keep[cut:])


def binary(g):
    x = g.value()
    other = g.value() if g.chance(0.4) else operand(g, g.values[x].shape)
    sides = [x, other] if g.chance(0.7) else [other, x]
    g.op(g.choose("Add Sub Mul Add Mul Max Min Div".split()), *sides)


def chained(g):
    """Consecutive constants, which are merged."""
    x = g.value()
    for _ in range(g.int(2, 3)):
        x = g.op(g.choose(["Add", "Mul", "Sub", "Div"]), x, g.scalar(g.random.uniform(0.5, 2)))


def power(g):
    x = g.op("Abs", g.value()) if g.chance(0.5) else g.value()
    g.op("Pow", x, g.scalar(g.choose([2, 3, 0.5, 1, 2.5])))


def clip(g):
    g.op("Clip", g.value(), g.scalar(-g.random.random()), g.scalar(g.random.random()) if g.chance(0.7) else "")


def where(g):
    x = g.choose(sorted(g.exact))
    less = g.op("Less", x, g.scalar(0.1))
    g.op("Where", less, x, g.value())


def residual(g):
    x = g.value()
    y = g.op(g.choose(UNARY), x)
    g.op("Add", x, y)


def compared(g):
    x = g.choose(sorted(g.exact))
    by = operand(g, g.values[x].shape) if g.chance(0.5) else g.scalar(g.choose([-0.5, 0, 0.5]))
    return g.op(g.choose(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]), x, by)


def logic(g):
    """A selection by several comparisons."""
    condition = compared(g)
    for _ in range(g.int(0, 2)):
        condition = g.op("Not", condition) if g.chance(0.3) else g.op(g.choose(["And", "Or", "Xor"]), condition, compared(g))
    if g.chance(0.2):
        return g.op("Cast", condition, to=TensorProto.FLOAT)
    x = g.value()
    sides = [x, operand(g, g.values[x].shape) if g.chance(0.6) else g.value()]
    return g.op("Where", condition, *(sides if g.chance(0.5) else sides[::-1]))


def several(g):
    x = g.value()
    g.op(g.choose(["Max", "Min", "Mean", "Sum"]), x, operand(g, g.values[x].shape), g.value())


def slope(g):
    x = g.value()
    g.op("PRelu", x, operand(g, g.values[x].shape))


def in_range(g, x):
    """The value, if a cast of it to int32 is defined: other results depend on the processor."""
    if not is_in_int32(g.values[x]):
        raise Unfit
    return x


def whole(g):
    x = g.choose(sorted(g.exact))
    if g.chance(0.5):
        integers = g.op("Cast", in_range(g, x), to=TensorProto.INT32)
        return g.op("Cast", integers, to=TensorProto.FLOAT, exact=True) if g.chance(0.7) else integers
    return g.op("Mod", x, g.scalar(g.choose([0.3, -0.7, 1, 2])), fmod=1)


def cumulate(g):
    x = g.value()
    g.op("CumSum", x, g.constant(np.int64(g.int(0, g.values[x].ndim - 1))), reverse=g.int(0, 1), exclusive=g.int(0, 1))


def reduce(g):
    x = g.value()
    rank = g.values[x].ndim
    axes = sorted(g.random.permutation(rank)[: g.int(1, rank)].tolist())
    g.op(g.choose("ReduceSum ReduceMean ReduceMax ReduceMin ReduceL2 ReduceL1 ReduceSumSquare ReduceLogSumExp".split()), x, g.ints(*axes), keepdims=g.int(0, 1))


def best(g):
    """Sorted indices and values, of exact values only."""
    x = g.choose(sorted(g.exact))
    shape = g.values[x].shape
    axis = g.int(0, len(shape) - 1)
    if g.chance(0.4):
        return g.op("TopK", x, g.ints(g.int(1, shape[axis])), outputs=2, axis=axis, largest=g.int(0, 1))
    place = g.op(g.choose(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=g.int(0, 1))
    if g.chance(0.5):
        return g.op("Cast", place, to=TensorProto.FLOAT)
    values = g.constant(np.array([g.choose([0, -1]), g.choose([1, 2])], np.float32))
    return g.op("OneHot", place, g.constant(np.int64(shape[axis])), values, axis=g.choose([-1, 0]))


OPERATORS = [
    unary, unary, jump, positive, binary, binary, binary, chained, power, clip, where, residual, logic, several, slope, whole, cumulate,
    reduce, reduce, best,
]
