"""Functions of each element."""

import numpy as np

import core

# Sizes that pack by 4, 8 and 16 and that do not, of each number of axes.
SHAPES = [
    (1,), (7,), (12,), (16,), (29,),
    (1, 6), (3, 5), (4, 7), (8, 3), (16, 5),
    (1, 3, 4), (3, 5, 3), (4, 3, 3), (8, 3, 5), (16, 2, 3),
    (1, 2, 3, 3), (3, 2, 3, 5), (4, 3, 2, 3), (8, 2, 1, 3), (16, 2, 2, 2),
]

# Domains of UnaryOp, by op_type; the others take all numbers.
POSITIVE = (0.01, 50.0)
DOMAINS = {
    5: POSITIVE, 6: POSITIVE, 8: POSITIVE, 17: POSITIVE,
    7: (-20.0, 5.0), 21: (-20.0, 5.0),
    # Next to poles the relative error of TAN is 1e-2 (NCNN.md).
    11: (-1.2, 1.2),
    12: (-1.0, 1.0), 13: (-1.0, 1.0),
    15: (0.1, 10.0),
    22: (-5.0, 5.0), 24: (-5.0, 5.0),
    25: (1.0, 30.0), 26: (-0.95, 0.95), 27: (-0.9, 30.0),
}


def filled(rng, shape, low, high):
    """Random numbers, the bounds of their interval among them."""
    blob = rng.uniform(low, high, shape).astype(np.float32)
    if blob.size > 2:
        blob.flat[1], blob.flat[2] = low, high
    return blob


def plain(rng, shape):
    """Random numbers, large ones, zero and integers. A single element is not in a tail, which has no digits in GELU and Mish."""
    blob = rng.normal(0, 3, shape).astype(np.float32)
    if blob.size == 1:
        return np.abs(blob)
    edges = [0.0, 1.0, -1.0, 0.5, -0.5, 12.0, -12.0]
    count = min(blob.size // 2, len(edges))
    blob.flat[:count] = edges[:count]
    return blob


def numbers(*values):
    return " ".join(f"{index}={value}" for index, value in enumerate(values) if value is not None)


def unary_ops(rng):
    for op_type in range(28):
        low, high = DOMAINS.get(op_type, (None, None))
        for index, shape in enumerate(SHAPES):
            blob = plain(rng, shape) if low is None else filled(rng, shape, low, high)
            params = "" if op_type == 0 and index % 2 else f"0={op_type}"
            yield core.Case("UnaryOp", params, bottoms=[blob])
    # Ties of rounding, integers and large numbers.
    ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -2.0, 3.0, 1e7, -1e7, 0.49999997, -0.49999997, 8388607.5, 0.0, 2.9999998], np.float32)
    for op_type in (0, 1, 2, 3, 18, 19, 20):
        yield core.Case("UnaryOp", f"0={op_type}", bottoms=[ties])
        yield core.Case("UnaryOp", f"0={op_type}", bottoms=[np.tile(ties, (8, 1))])
    # Infinities, where the vectorized code defines them.
    infinite = np.array([np.inf, -np.inf, 1.0, -2.0, 0.0, 3.5, np.inf, -np.inf], np.float32)
    for op_type in (0, 1, 16, 20):
        yield core.Case("UnaryOp", f"0={op_type}", bottoms=[infinite])
    # Large angles and small arguments.
    for op_type in (9, 10):
        yield core.Case("UnaryOp", f"0={op_type}", bottoms=[rng.uniform(-1000, 1000, (8, 9)).astype(np.float32)])
    for op_type in (21, 27, 16, 22, 23, 26):
        yield core.Case("UnaryOp", f"0={op_type}", bottoms=[rng.uniform(-0.1, 0.1, (5, 9)).astype(np.float32)])


# The params of each layer, each in the order of its ids; None leaves one out.
PARAMS = {
    "AbsVal": [()],
    "BNLL": [()],
    "CELU": [(), (0.5,), (2.0,)],
    "Clip": [(), (0.0, 6.0), (-1.0,), (None, 1.5), (2.0, 1.0), (-0.5, 0.5)],
    "Dropout": [(), (0.6,), (-2.0,)],
    "ELU": [(), (1.0,), (0.5,), (0.0,)],
    "Erf": [()],
    "GELU": [(), (0,), (1,)],
    "HardSigmoid": [(), (0.1666667,), (0.5, 0.3), (None, 0.1)],
    "HardSwish": [(), (0.1666667,), (0.5, 0.3), (None, 0.1)],
    "Mish": [()],
    "ReLU": [(), (0.1,), (-0.5,), (1.5,)],
    "SELU": [(), (1.0, 2.0), (None, 0.5)],
    "Shrink": [(), (0.5,), (0.3, 1.0), (-0.2, 0.25), (None, 2.0)],
    "Sigmoid": [()],
    "Softplus": [()],
    "Swish": [()],
    "TanH": [()],
    "Threshold": [(), (0.5,), (-1.0,)],
}


def cases():
    rng = np.random.default_rng(1)
    for layer, lists in PARAMS.items():
        for values in lists:
            for shape in SHAPES:
                yield core.Case(layer, numbers(*values), bottoms=[plain(rng, shape)])
    # Of Exp, Log and Power the bases -1 (that of e), those below and above 1.
    for shape in SHAPES:
        for values in [(), (2.0,), (0.5, 2.0), (-1.0, 0.5, 1.0), (10.0, None, -0.5), (None, -1.0, 0.25)]:
            yield core.Case("Exp", numbers(*values), bottoms=[filled(rng, shape, -3, 3)])
        for values in [(), (2.0,), (0.5, 2.0), (-1.0, 0.5, 1.0), (10.0, None, 3.0), (None, -1.0, 31.0)]:
            yield core.Case("Log", numbers(*values), bottoms=[filled(rng, shape, 0.05, 30)])
        for values in [(), (2.0,), (0.5, 2.0), (-1.0, 0.5, 1.0), (3.0, None, -0.5), (-1.5, 1.5, 0.25), (0.0,)]:
            yield core.Case("Power", numbers(*values), bottoms=[filled(rng, shape, 0.6, 5)])
    # Integer powers of negative numbers.
    yield core.Case("Power", "0=2.0 1=-1.5 2=0.5", bottoms=[plain(rng, (3, 5))])
    yield core.Case("Power", "0=3.0", bottoms=[plain(rng, (8, 5))])
    for shape in SHAPES:
        for count in {1, shape[0]}:
            for scale in (0.3, 2.0):
                slope = core.raw(rng.normal(0, scale, count))
                yield core.Case("PReLU", f"0={count}", weights=[slope], bottoms=[plain(rng, shape)])
    # Far from 0, and infinities where the functions have limits.
    far = np.array([60.0, -60.0, 85.0, -85.0, 20.0, -20.0, 0.0, 3.0], np.float32)
    for layer in ("BNLL", "CELU", "ELU", "Erf", "GELU", "HardSigmoid", "HardSwish", "Mish", "SELU", "Sigmoid", "Softplus", "Swish", "TanH"):
        for shape in [(8,), (1, 8), (2, 1, 4)]:
            yield core.Case(layer, "", bottoms=[far.reshape(shape)])
    infinite = np.array([np.inf, -np.inf, 1.0, -2.0, 0.0, 3.5, np.inf, -np.inf], np.float32)
    for layer, params in [("AbsVal", ""), ("Clip", "0=-1.0 1=1.0"), ("Clip", ""), ("ReLU", ""), ("Threshold", ""), ("TanH", ""), ("Erf", "")]:
        yield core.Case(layer, params, bottoms=[infinite])
    yield from unary_ops(rng)
