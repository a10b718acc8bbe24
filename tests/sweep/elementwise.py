"""Arithmetic on several blobs, and on a blob and weights along its outermost axis."""

import numpy as np

import core
from activation import SHAPES

# Pairs of shapes that BinaryOp broadcasts.
PAIRS = [
    # One element.
    *[(shape, (1,)) for shape in SHAPES],
    ((8, 3, 5), (1, 1, 1)), ((3, 4), (1, 1)), ((2, 3, 4, 5), (1, 1, 1, 1)),
    # A single axis, which is the outermost one if its size fits, else the innermost one.
    ((3, 5), (3,)), ((3, 5), (5,)), ((4, 4), (4,)), ((8, 3), (8,)), ((8, 3), (3,)), ((16, 8), (8,)),
    ((3, 4, 5), (3,)), ((3, 4, 5), (5,)), ((8, 4, 8), (8,)), ((4, 2, 16), (16,)), ((16, 3, 7), (7,)),
    ((3, 2, 4, 5), (3,)), ((3, 2, 4, 5), (5,)), ((8, 2, 4, 3), (8,)), ((4, 2, 3, 8), (8,)),
    # Two and three axes, which are the outermost ones.
    ((3, 4, 5), (3, 4)), ((8, 4, 5), (8, 4)), ((4, 3, 2), (4, 1)), ((16, 3, 2), (1, 3)),
    ((3, 2, 4, 5), (3, 2)), ((8, 2, 4, 5), (8, 2)), ((3, 2, 4, 5), (3, 2, 4)), ((16, 2, 3, 2), (16, 2, 3)), ((4, 2, 3, 2), (4, 1, 3)),
    # Equal numbers of axes.
    ((3, 5), (1, 5)), ((3, 5), (3, 1)), ((8, 5), (1, 5)), ((8, 5), (8, 1)), ((3, 1), (1, 5)), ((8, 1), (1, 4)),
    ((3, 4, 5), (1, 4, 5)), ((3, 4, 5), (3, 1, 5)), ((3, 4, 5), (3, 4, 1)), ((3, 4, 5), (3, 1, 1)), ((3, 4, 5), (1, 1, 5)),
    ((8, 4, 5), (1, 4, 5)), ((8, 4, 5), (8, 1, 5)), ((8, 4, 5), (8, 1, 1)), ((16, 4, 5), (1, 4, 1)), ((4, 1, 5), (1, 3, 1)),
    ((3, 2, 4, 5), (1, 2, 4, 5)), ((3, 2, 4, 5), (3, 1, 4, 5)), ((3, 2, 4, 5), (3, 2, 1, 5)), ((3, 2, 4, 5), (3, 2, 4, 1)),
    ((8, 2, 4, 5), (8, 1, 1, 1)), ((8, 2, 4, 5), (1, 2, 1, 1)), ((4, 2, 3, 5), (1, 1, 1, 5)), ((16, 1, 3, 1), (1, 2, 1, 4)),
]


def operands(rng, op_type, *shapes):
    """Blobs in the domain of an op_type. The last of two blobs is its second argument."""
    blobs = [rng.normal(0, 3, shape).astype(np.float32) for shape in shapes]
    if op_type in (6, 9):
        # The vectorized power takes no negative bases (NCNN.md).
        blobs = [rng.uniform(0.2, 2.5, shape).astype(np.float32) for shape in shapes]
    elif op_type in (3, 8, 12, 13, 15, 16, 17, 18):
        # Divisors are not next to 0, and quotients not next to integers or, for a remainder, ties.
        reverse = op_type in (8, 13, 16, 18)
        divisor, dividend = (0, -1) if reverse else (-1, 0)
        blobs[divisor] = (np.sign(blobs[divisor]) * 2.0).astype(np.float32)
        blobs[dividend] = (np.floor(blobs[dividend]) * 2 + rng.uniform(0.1, 0.9, shapes[dividend])).astype(np.float32)
    return blobs


def binary_ops(rng):
    for op_type in range(19):
        params = f"0={op_type}"
        for shape in SHAPES:
            yield core.Case("BinaryOp", params, bottoms=operands(rng, op_type, shape, shape))
        for a, b in PAIRS:
            yield core.Case("BinaryOp", params, bottoms=operands(rng, op_type, a, b))
            yield core.Case("BinaryOp", params, bottoms=operands(rng, op_type, b, a))
        for shape in SHAPES:
            for scalar in (2.3, -2.3, 0.7):
                bases = op_type in (6, 9)
                blob, _ = operands(rng, op_type, shape, (1,))
                yield core.Case("BinaryOp", f"{params} 1=1 2={abs(scalar) if bases else scalar}", bottoms=[blob])
    yield core.Case("BinaryOp", "", bottoms=operands(rng, 0, (3, 4), (3, 4)))
    yield core.Case("BinaryOp", "1=1", bottoms=operands(rng, 0, (3, 4)))
    # Infinities, where they are exact.
    infinite = np.array([np.inf, -np.inf, 1.0, -2.0, 0.0, 3.5, np.inf, -np.inf], np.float32)
    for op_type in (0, 1, 2, 4, 5, 7):
        yield core.Case("BinaryOp", f"0={op_type} 1=1 2=-3.0", bottoms=[infinite[infinite != 0]])
    # Far numbers, whose exponentials overflow.
    far = np.array([100.0, -100.0, 95.0, 0.0, -90.0, 200.0, 3.0, -7.0], np.float32)
    yield core.Case("BinaryOp", "0=14", bottoms=[far, far[::-1].copy()])
    yield core.Case("BinaryOp", "0=14", bottoms=[far, far])


def eltwise(rng):
    for op_type in (None, 0, 1, 2):
        for shape in SHAPES:
            for count in (2, 3, 5):
                bottoms = [rng.normal(0, 1, shape).astype(np.float32) for _ in range(count)]
                params = "" if op_type is None else f"0={op_type}"
                yield core.Case("Eltwise", params, bottoms=bottoms)
                if op_type == 1:
                    coeffs = ",".join(str(value) for value in [0.5, -2.0, 1.0, 1.5, -0.25][:count])
                    yield core.Case("Eltwise", f"{params} -23301={count},{coeffs}", bottoms=bottoms)


def cases():
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        blob = rng.normal(0, 1, shape).astype(np.float32)
        count = shape[0]
        scale, bias = rng.normal(0, 1, (2, count)).astype(np.float32)
        # Bias has channels only in Mats of three or four axes.
        if len(shape) >= 3:
            yield core.Case("Bias", f"0={count}", weights=[core.raw(bias)], bottoms=[blob])
        yield core.Case("Scale", f"0={count}", weights=[core.raw(scale)], bottoms=[blob])
        yield core.Case("Scale", f"0={count} 1=1", weights=[core.raw(scale), core.raw(bias)], bottoms=[blob])
        yield core.Case("Scale", "0=-233", bottoms=[blob, scale])
    yield from eltwise(rng)
    yield from binary_ops(rng)
