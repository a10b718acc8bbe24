"""Generators of operators over integers and booleans, for graphs that have inputs of these types.

Results that the specification leaves open are not drawn: they are the processor's own, or stop it (division by zero, and of the least
integer by -1).
"""

import numpy as np
from onnx import TensorProto

from networks import numbers
from networks.elements import in_range

DTYPES = {TensorProto.INT32: np.int32, TensorProto.INT64: np.int64}


def integer(g):
    """A value of int32 or int64, by a cast if the graph has none."""
    if g.chance(0.8) and any(array.dtype.kind == "i" for array in g.others.values()):
        return g.other("i")
    return g.op("Cast", in_range(g, g.choose(sorted(g.exact))), to=g.choose(list(DTYPES)))


def truth(g):
    """A boolean value, by a comparison if the graph has none."""
    if g.chance(0.8) and any(array.dtype.kind == "b" for array in g.others.values()):
        return g.other("b")
    return compared_integers(g)


def operand(g, x):
    """A value or a constant of the type of this integer, which broadcasts with it."""
    array = g.others[x]
    same = [name for name, other in g.others.items() if other.dtype == array.dtype]
    if g.chance(0.4):
        return g.choose(same)
    shape = [size if g.chance(0.6) else 1 for size in array.shape] if g.chance(0.6) else []
    return g.constant(g.integer_draw(array.dtype)(g.random, shape))


def divisor(g, x):
    """Like operand, for a divisor: constants exclude 0 and -1."""
    array = g.integer_draw(g.others[x].dtype)(g.random, [])
    return g.constant(np.where((array == 0) | (array == -1), 3, array).astype(g.others[x].dtype))


def arithmetic(g):
    x = integer(g)
    sides = [x, operand(g, x)]
    g.op(g.choose("Add Sub Mul Max Min".split()), *(sides if g.chance(0.7) else sides[::-1]))


def division(g):
    x = integer(g)
    op, extra = g.choose([("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})])
    g.op(op, x, divisor(g, x), **extra)


def unary_integer(g):
    g.op(g.choose("Abs Neg Sign Identity".split()), integer(g))


def clip_integer(g):
    x = integer(g)
    bounds = g.integer_draw(g.others[x].dtype)(g.random, 2)
    g.op("Clip", x, *[g.constant(bound) for bound in sorted(bounds)])


def compared_integers(g):
    x = integer(g)
    return g.op(g.choose("Less Greater LessOrEqual GreaterOrEqual Equal".split()), x, operand(g, x))


def truths(g):
    x = truth(g)
    if g.chance(0.3):
        return g.op("Not", x)
    g.op(g.choose("And Or Xor Equal".split()), x, truth(g))


def chosen(g):
    """A selection by booleans, of integers or of float32."""
    condition = truth(g)
    if g.chance(0.5):
        x = integer(g)
        return g.op("Where", condition, x, operand(g, x))
    g.op("Where", condition, g.value(), g.normal(*[1] * g.int(0, 2)))


def cast(g):
    """A cast between any two of the types. Those to 8 bits wrap around, and those from float32 truncate."""
    kind = g.int(0, 3)
    if kind == 0:
        return g.op("Cast", truth(g), to=g.choose([TensorProto.FLOAT, *DTYPES]), exact=True)
    if kind == 1:
        return g.op("Cast", g.choose(sorted(g.exact)), to=TensorProto.BOOL)
    x = integer(g)
    if kind == 2:
        return g.op("Cast", g.op("Cast", x, to=g.choose([TensorProto.INT8, TensorProto.UINT8])), to=TensorProto.INT32)
    # As a float32, an integer is rounded the same way everywhere.
    g.op("Cast", x, to=g.choose([TensorProto.FLOAT, TensorProto.BOOL, *DTYPES]), exact=True)


def bits(g):
    x = integer(g)
    if g.chance(0.3):
        return g.op("BitwiseNot", x)
    g.op(g.choose("BitwiseAnd BitwiseOr BitwiseXor".split()), x, operand(g, x))


def reduce_integers(g):
    x = integer(g)
    rank = g.others[x].ndim
    if g.chance(0.2):
        return g.op("CumSum", x, g.constant(np.int64(g.int(0, rank - 1))), reverse=g.int(0, 1))
    if g.chance(0.2):
        return g.op(g.choose(["ArgMax", "ArgMin"]), x, axis=g.int(0, rank - 1), keepdims=g.int(0, 1))
    axes = sorted(g.random.permutation(rank)[: g.int(1, rank)].tolist())
    g.op(g.choose("ReduceSum ReduceMax ReduceMin ReduceProd".split()), x, g.ints(*axes), keepdims=g.int(0, 1))


def move(g):
    """Integers or booleans, moved."""
    x = g.other("ib")
    shape = g.others[x].shape
    kind = g.int(0, 5)
    if kind == 0:
        g.op("Transpose", x, perm=g.random.permutation(len(shape)).tolist())
    elif kind == 1:
        g.op("Reshape", x, g.ints(-1))
    elif kind == 2:
        g.op("Unsqueeze", x, g.ints(g.int(0, len(shape))))
    elif kind == 3:
        axis = g.int(0, len(shape) - 1)
        g.op("Gather", x, g.constant(g.indices(shape[axis], g.int(1, 3))), axis=axis)
    elif kind == 4:
        axis = g.int(0, len(shape) - 1)
        g.op("Slice", x, g.ints(g.int(0, shape[axis])), g.ints(2**31), g.ints(axis))
    else:
        g.op("Concat", x, g.choose([name for name, other in g.others.items() if other.dtype == g.others[x].dtype]), axis=g.int(0, len(shape) - 1))


def lookup(g):
    """A table, or a value, that is read at the indices in an input."""
    if g.chance(0.6):
        table = g.normal(g.choose([1, 3, 7]), g.int(1, 4))
        shape, axis = g.constants[table].shape, 0
    else:
        table = g.value()
        shape = g.values[table].shape
        axis = g.int(0, len(shape) - 1)
    if shape[axis] > 0:
        places = g.add_input([g.int(1, 4) for _ in range(g.int(1, 2))], numbers.places(shape[axis]))
        g.op("Gather", table, places, axis=axis)


OPERATORS = [
    arithmetic, arithmetic, arithmetic, division, unary_integer, clip_integer, compared_integers, truths, truths, chosen, chosen, cast, cast, bits,
    reduce_integers, reduce_integers, move, move, lookup,
]
