"""Generators of layers with weights, normalizations, attention and recurrent networks."""

import numpy as np

from networks.graph import Unfit


def activate(g, x):
    kind = g.int(0, 9)
    if kind < 5:
        g.op(g.choose(["Relu", "LeakyRelu", "Sigmoid", "HardSwish", "HardSigmoid", "Mish", "Tanh"]), x)
    elif kind == 5:
        g.op("Clip", x, g.constant(np.float32(0)), g.constant(np.float32(6)))
    elif kind == 6:
        g.op("Mul", x, g.op("Sigmoid", x))


def convolution(g):
    x = g.value(rank=(3, 4, 5))
    channels, spatial = g.values[x].shape[1], g.values[x].ndim - 2
    # onnxruntime does not return from a Conv without channels.
    if channels == 0:
        raise Unfit
    group = g.choose([d for d in (1, 1, 2, 3, channels) if channels % d == 0])
    out = group * g.int(1, 3)
    kernel = [g.int(1, min(3, size)) for size in g.values[x].shape[2:]]
    attributes = {"group": group, "strides": [g.int(1, 2) for _ in kernel]}
    if g.chance(0.6):
        attributes["pads"] = [g.int(0, 1) for _ in range(2 * spatial)]
    elif g.chance(0.3):
        attributes["auto_pad"] = g.choose(["SAME_UPPER", "SAME_LOWER", "VALID"])
    transposed = g.chance(0.25)
    if transposed:
        attributes.pop("auto_pad", None)
        weight = g.normal(channels, out // group, *kernel, scale=0.5)
    else:
        weight = g.normal(out, channels // group, *kernel, scale=0.5)
    bias = [g.normal(out)] if g.chance(0.6) else []
    if g.chance(0.2) and not transposed:
        pads = [0, 0, *[g.int(0, 1) for _ in range(spatial)]]
        x = g.op("Pad", x, g.ints(*pads, *pads))
    y = g.op("ConvTranspose" if transposed else "Conv", x, weight, *bias, **attributes)
    if g.chance(0.4):
        y = normalized(g, y)
    if g.chance(0.3):
        y = g.op(g.choose(["Mul", "Add"]), y, g.normal(1, out, *[1] * spatial))
    activate(g, y)


def normalized(g, x):
    size = g.values[x].shape[1]
    variance = g.constant(g.random.uniform(0.5, 2, size).astype(np.float32))
    return g.op("BatchNormalization", x, g.normal(size), g.normal(size), g.normal(size), variance)


def batch_norm(g):
    normalized(g, g.value(rank=(2, 3, 4, 5)))


def pool(g):
    x = g.value(rank=(3, 4, 5))
    if g.chance(0.3):
        return g.op(g.choose(["GlobalAveragePool", "GlobalMaxPool"]), x)
    sizes = g.values[x].shape[2:]
    kernel = [g.int(1, min(3, size)) for size in sizes]
    pads = [g.int(0, k - 1) if g.chance(0.4) else 0 for k in kernel]
    attributes = {"kernel_shape": kernel, "strides": [g.int(1, 2) for _ in kernel], "pads": pads + pads, "ceil_mode": g.int(0, 1)}
    if g.chance(0.5):
        attributes["count_include_pad"] = g.int(0, 1)
        return g.op("AveragePool", x, **attributes)
    return g.op("MaxPool", x, **attributes)


def matmul(g):
    x = g.value(rank=range(1, 7))
    inner = g.values[x].shape[-1]
    out = g.int(1, 6)
    if g.chance(0.5):
        y = g.op("MatMul", x, g.normal(inner, out, scale=0.5))
        if g.chance(0.6):
            y = g.op("Add", *g.random.permutation([y, g.normal(out)]).tolist())
        activate(g, y)
    elif g.chance(0.5):
        flat = g.op("Flatten", x, axis=g.int(0, g.values[x].ndim))
        a, b = g.values[flat].shape
        left, right = g.int(0, 1), g.int(0, 1)
        inner = a if left else b
        weight = g.normal(out, inner, scale=0.3) if right else g.normal(inner, out, scale=0.3)
        bias = [g.normal(out)] if g.chance(0.6) else []
        y = g.op("Gemm", flat, weight, *bias, transA=left, transB=right, alpha=g.choose([1.0, 0.5]), beta=g.choose([1.0, 2.0]))
        activate(g, y)
    else:
        axes = list(range(g.values[x].ndim))
        axes[-2:] = axes[-2:][::-1]
        g.op("MatMul", x, g.op("Transpose", x, perm=axes))


def attention(g):
    x = g.value(rank=(3,))
    batch, tokens, width = g.values[x].shape
    heads = g.choose([h for h in (1, 2, 4) if width % h == 0])

    def part():
        y = g.op("MatMul", x, g.normal(width, width, scale=0.4))
        if g.chance(0.7):
            y = g.op("Add", y, g.normal(width))
        y = g.op("Reshape", y, g.ints(batch, tokens, heads, width // heads))
        return g.op("Transpose", y, perm=[0, 2, 1, 3])

    q, k, v = part(), part(), part()
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.op(*("Mul", scores, g.constant(np.float32(0.5))) if g.chance(0.5) else ("Div", scores, g.constant(np.float32(1.5))))
    if g.chance(0.3):
        scores = g.op("Add", scores, g.normal(tokens, tokens))
    y = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(batch, tokens, width))
    g.op("Add", x, g.op("MatMul", y, g.normal(width, width, scale=0.4)))


def layer_norm(g):
    x = g.value(rank=(2, 3, 4))
    size = g.values[x].shape[-1]
    if g.chance(0.4):
        return g.op("LayerNormalization", x, g.normal(size), g.normal(size), axis=-1)
    if g.chance(0.3):
        square = g.op("ReduceMean", g.op("Mul", x, x), g.ints(-1))
        y = g.op("Div", x, g.op("Sqrt", g.op("Add", square, g.constant(np.float32(1e-5)))))
        return g.op("Mul", y, g.normal(size))
    centered = g.op("Sub", x, g.op("ReduceMean", x, g.ints(-1)))
    square = g.op("Pow", centered, g.constant(np.float32(2))) if g.chance(0.5) else g.op("Mul", centered, centered)
    deviation = g.op("Sqrt", g.op("Add", g.op("ReduceMean", square, g.ints(-1)), g.constant(np.float32(1e-5))))
    return g.op("Add", g.op("Mul", g.op("Div", centered, deviation), g.normal(size)), g.normal(size))


def other_norm(g):
    x = g.value(rank=(3, 4, 5))
    size = g.values[x].shape[1]
    kind = g.int(0, 3)
    if kind == 0:
        g.op("InstanceNormalization", x, g.normal(size), g.normal(size))
    elif kind == 1:
        g.op("GroupNormalization", x, g.normal(size), g.normal(size), num_groups=g.choose([d for d in (1, 2, size) if d and size % d == 0]))
    elif kind == 2:
        g.op("LpNormalization", x, axis=g.int(0, g.values[x].ndim - 1), p=g.int(1, 2))
    else:
        g.op("LRN", x, size=3)


def softmax(g):
    x = g.value()
    g.op(g.choose(["Softmax", "LogSoftmax"]), x, axis=g.int(-g.values[x].ndim, g.values[x].ndim - 1))


def gate(g):
    x = g.value()
    kind = g.int(0, 4)
    if kind == 0:
        g.op("Mul", x, g.op("Sigmoid", x))
    elif kind == 1:
        half = g.op("Mul", x, g.constant(np.float32(0.5)))
        erf = g.op("Erf", g.op("Div", x, g.constant(np.float32(np.sqrt(2)))))
        g.op("Mul", half, g.op("Add", erf, g.constant(np.float32(1))))
    elif kind == 2:
        g.op("Mul", x, g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    elif kind == 3:
        g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))
    else:
        six = g.op("Clip", g.op("Add", x, g.constant(np.float32(3))), g.constant(np.float32(0)), g.constant(np.float32(6)))
        g.op("Div", g.op("Mul", x, six), g.constant(np.float32(6)))


def recurrent(g):
    x = g.value(rank=(3,))
    length, batch, width = g.values[x].shape
    op, gates = g.choose([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden = g.int(1, 4)
    direction = g.choose(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    weights = [g.normal(ways, gates * hidden, width, scale=0.4), g.normal(ways, gates * hidden, hidden, scale=0.4), g.normal(ways, 2 * gates * hidden, scale=0.4)]
    extra = {"linear_before_reset": g.int(0, 1)} if op == "GRU" else {}
    y = g.op(op, x, *weights, outputs=2, hidden_size=hidden, direction=direction, **extra)[0]
    if ways == 1 and g.chance(0.6):
        g.op("Squeeze", y, g.ints(1))
    elif g.chance(0.6):
        g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(length, batch, ways * hidden))


def lp_pool(g):
    x = g.value(rank=(3, 4))
    if g.chance(0.4):
        return g.op("GlobalLpPool", x, p=g.int(1, 3))
    kernel = [g.int(1, min(3, size)) for size in g.values[x].shape[2:]]
    return g.op("LpPool", x, kernel_shape=kernel, strides=[g.int(1, 2) for _ in kernel], p=g.int(1, 3))


def mean_variance(g):
    x = g.value()
    rank = g.values[x].ndim
    g.op("MeanVarianceNormalization", x, axes=sorted(g.random.permutation(rank)[: g.int(1, rank)].tolist()))


def einsum(g):
    equation, ranks = g.choose(
        [("ij->ji", [2]), ("ijk,jl->ikl", [3, 2]), ("...i,ij->...j", [0, 2]), ("bij,bjk->bik", [3, 3]), ("bhid,bhjd->bhij", [4, 4]), ("ijk->k", [3]), ("bij,bij->bi", [3, 3]), ("ii->i", [2])]
    )
    x = g.value(rank=None if ranks[0] == 0 else ranks[:1])
    shape = g.values[x].shape
    letters = dict(zip(reversed(equation.split(",")[0].split("-")[0].replace(".", "")), reversed(shape)))
    others = [g.normal(*(letters.setdefault(letter, g.int(1, 4)) for letter in part), scale=0.5) for part in equation.split("-")[0].split(",")[1:]]
    g.op("Einsum", x, *others, equation=equation)


def sample(g):
    x = g.value(rank=(4,))
    grid = g.random.uniform(-1.2, 1.2, (g.values[x].shape[0], g.int(1, 4), g.int(1, 4), 2)).astype(np.float32)
    g.op("GridSample", x, g.constant(grid), mode=g.choose(["linear", "cubic"]), padding_mode=g.choose(["zeros", "border", "reflection"]), align_corners=g.int(0, 1))


def resize(g):
    x = g.value(rank=(3, 4, 5))
    shape = g.values[x].shape
    mode = g.choose(["nearest", "linear", "cubic"])
    coordinates = g.choose(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    scales = np.array([1, 1] + [g.choose([0.5, 1, 1.5, 2, 3]) for _ in shape[2:]], np.float32)
    if mode == "cubic" and len(shape) != 4:
        raise Unfit
    # At halves the nearest element depends on the rounding of the runtime.
    extra = {"nearest_mode": g.choose(["floor", "ceil"])} if mode == "nearest" else {}
    if mode == "nearest":
        coordinates = "asymmetric"
        scales[2:] = [g.choose([1, 2, 3]) for _ in shape[2:]]
        extra = {"nearest_mode": "floor"}
    g.op("Resize", x, "", g.constant(scales), mode=mode, coordinate_transformation_mode=coordinates, **extra)


OPERATORS = [
    convolution, convolution, convolution, batch_norm, pool, pool, matmul, matmul, matmul, attention, layer_norm, layer_norm, other_norm, softmax,
    gate, gate, resize, recurrent, einsum, sample, lp_pool, mean_variance,
]
