"""Random graphs of supported operators: converted, run in ncnn, and compared with onnxruntime.

usage: graphs.py CONVERTER [--first SEED] [--count N] [--free] [--keep FOLDER]

Each seed makes one graph of a few operators, patterns that are fused among them, over values of any rank with a batch over 1 at
times. What is not right is kept in FOLDER as a case: a model with its inputs and outputs. Exit code 1 where there was any.
"""

import argparse
import collections
import itertools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RUN = Path(__file__).resolve().parent.parent / "tests/conformance/run.py"
OPSET, IR = 21, 10
TOLERANCE = 1e-3
# Values beyond this make differences of rounding large, which are not what is looked for.
LARGEST = 1e4
# A graph is not looked at where changes of this part in all that it computes move its results by more than this part of the tolerance:
# what any runtime rounds would.
SHAKE, MOVED = 1e-6, 0.05
# These ncnn computes to this part of 1, not of the result.
NEAR_ONE, NEAR_ZERO = 1e-7, {"Tanh", "Elu", "Selu", "Celu"}


class Unfit(Exception):
    """An operator that does not fit the values that there are."""


class Graph:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs = [], {}, {}
        # The arrays of all values that may be read.
        self.values = {}
        # Those that are no floats.
        self.others = {}
        self.exact = set()
        for _ in range(self.random.integers(1, 3)):
            self.add_input(self.shape())

    def int(self, low, high):
        """From low to high, both among them."""
        if high < low:
            raise Unfit
        return int(self.random.integers(low, high + 1))

    def choose(self, options):
        return options[self.int(0, len(options) - 1)]

    def chance(self, part):
        return self.random.random() < part

    def shape(self):
        rank = self.choose([1, 2, 3, 3, 4, 4, 4, 5])
        sizes = [self.choose([1, 2, 3, 4, 5, 6, 8]) for _ in range(rank)]
        if rank > 1 and self.chance(0.7):
            sizes[0] = 1
        return sizes

    def add_input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = self.random.standard_normal(shape).astype(np.float32)
        self.exact.add(name)

    def value(self, rank=None):
        """A value, of late ones rather than of early ones."""
        names = [name for name, array in self.values.items() if rank is None or array.ndim in rank]
        if not names:
            raise Unfit
        return names[-1 - min(int(self.random.exponential(1.5)), len(names) - 1)]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def normal(self, *shape, scale=1.0):
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def op(self, op_type, *inputs, outputs=1, exact=False, **attributes):
        """Adds a node, if onnxruntime runs it and its results are tame."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        if any(value == [] for value in attributes.values()):
            raise Unfit
        node = helper.make_node(op_type, inputs, names, **attributes)
        known = self.constants | self.others | self.values
        read = {name: known[name] for name in inputs if name}
        try:
            arrays = run(model([node], read, {}, names), read)
        except Exception as error:
            raise Unfit from error
        for array in arrays:
            if array.size == 0 or array.size > 20_000 or not 1 <= array.ndim <= 6:
                raise Unfit
            if array.dtype == np.float32 and not (np.isfinite(array).all() and np.abs(array).max() < LARGEST):
                raise Unfit
        self.nodes.append(node)
        for name, array in zip(names, arrays):
            if array.dtype == np.float32:
                self.values[name] = array
                if exact:
                    self.exact.add(name)
            else:
                self.others[name] = array
        return names[0] if outputs == 1 else names


def model(nodes, inputs, constants, outputs):
    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        nodes,
        "random",
        [info(name, array) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


def run(made, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def shaken(g, outputs):
    """The outputs where all that is computed is off by a little, but for what has to be exact."""
    nodes, noise, names = [], {}, {}
    for node in g.nodes:
        moved = helper.make_node(node.op_type, [names.get(name, name) for name in node.input], node.output)
        moved.attribute.extend(node.attribute)
        nodes.append(moved)
        for name in node.output:
            if name in g.values and name not in g.exact:
                noise[f"{name}_noise"] = (1 + SHAKE * g.random.standard_normal(g.values[name].shape)).astype(np.float32)
                names[name] = f"{name}_shaken"
                nodes.append(helper.make_node("Mul", [name, f"{name}_noise"], [names[name]]))
                if node.op_type in NEAR_ZERO:
                    noise[f"{name}_shift"] = (NEAR_ONE * g.random.standard_normal(g.values[name].shape)).astype(np.float32)
                    names[name] = f"{name}_shifted"
                    nodes.append(helper.make_node("Add", [f"{name}_shaken", f"{name}_shift"], [names[name]]))
    outputs = [names.get(name, name) for name in outputs]
    read = {name for node in nodes for name in node.input}
    inputs = {name: array for name, array in g.inputs.items() if name in read}
    constants = {name: array for name, array in (g.constants | noise).items() if name in read}
    return run(model(nodes, inputs, constants, outputs), inputs)


def is_steady(expected, found):
    """Whether outputs are off by no more than the part of the tolerance, which is one of the largest magnitude."""
    return all(np.abs(a - b).max() <= MOVED * TOLERANCE * np.abs(a).max() for a, b in zip(expected, found))


UNARY = "Abs Atan Cos Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Mish Neg Relu Selu Sigmoid Sin Softplus Softsign Tanh Celu ThresholdedRelu Identity Sinh Asinh Shrink".split()


def unary(g):
    op = g.choose(UNARY)
    g.op(op, g.value(), **({"approximate": g.choose(["none", "tanh"])} if op == "Gelu" else {}))


def jump(g):
    """What jumps is fed exact values alone."""
    name = g.choose(sorted(g.exact))
    g.op(g.choose(["Floor", "Ceil", "Sign", "Round"]), name)


def positive(g):
    x = g.op("Add", g.op("Abs", g.value()), g.constant(np.float32(g.choose([0.1, 1.0]))))
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
    """Several constants in a row, which are merged."""
    x = g.value()
    for _ in range(g.int(2, 3)):
        x = g.op(g.choose(["Add", "Mul", "Sub", "Div"]), x, g.constant(np.float32(g.random.uniform(0.5, 2))))


def power(g):
    x = g.op("Abs", g.value()) if g.chance(0.5) else g.value()
    g.op("Pow", x, g.constant(np.float32(g.choose([2, 3, 0.5, 1, 2.5]))))


def clip(g):
    g.op("Clip", g.value(), g.constant(np.float32(-g.random.random())), g.constant(np.float32(g.random.random())) if g.chance(0.7) else "")


def where(g):
    x = g.choose(sorted(g.exact))
    less = g.op("Less", x, g.constant(np.float32(0.1)))
    g.op("Where", less, x, g.value())


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
    x = g.value()
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
        g.op("GroupNormalization", x, g.normal(size), g.normal(size), num_groups=g.choose([d for d in (1, 2, size) if size % d == 0]))
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


def reduce(g):
    x = g.value()
    rank = g.values[x].ndim
    axes = sorted(g.random.permutation(rank)[: g.int(1, rank)].tolist())
    g.op(g.choose("ReduceSum ReduceMean ReduceMax ReduceMin ReduceL2 ReduceL1 ReduceSumSquare ReduceLogSumExp".split()), x, g.ints(*axes), keepdims=g.int(0, 1))


def reshape(g):
    x = g.value()
    size = g.values[x].size
    sizes = []
    while len(sizes) < 5 and g.chance(0.75):
        divisor = g.choose([d for d in (1, 1, 2, 3, 4, 5, 6, 8) if size % d == 0])
        sizes.append(divisor)
        size //= divisor
    sizes.insert(g.int(0, len(sizes)), size)
    g.op("Reshape", x, g.ints(*sizes), exact=x in g.exact)


def transpose(g):
    x = g.value()
    perm = g.random.permutation(g.values[x].ndim).tolist()
    y = g.op("Transpose", x, perm=perm, exact=x in g.exact)
    if g.chance(0.3):
        y = g.op(g.choose(UNARY[:10] + ["Relu"]), y)
        g.op("Transpose", y, perm=np.argsort(perm).tolist())


def shuffle(g):
    x = g.value(rank=(4,))
    n, c, h, w = g.values[x].shape
    groups = g.choose([d for d in (1, 2, 3, 4) if c % d == 0])
    y = g.op("Reshape", x, g.ints(n, groups, c // groups, h, w))
    g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3, 4]), g.ints(n, c, h, w))


def squeeze(g):
    x = g.value()
    shape = g.values[x].shape
    units = [axis for axis, size in enumerate(shape) if size == 1]
    if units and g.chance(0.5):
        g.op("Squeeze", x, g.ints(g.choose(units)), exact=x in g.exact)
    elif len(shape) < 5:
        g.op("Unsqueeze", x, g.ints(g.int(0, len(shape))), exact=x in g.exact)


def concat(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    shape = list(g.values[x].shape)
    same = [n for n, a in g.values.items() if a.ndim == len(shape) and all(i == axis or a.shape[i] == s for i, s in enumerate(shape))]
    parts = [x, g.choose(same)]
    if g.chance(0.3):
        shape[axis] = g.int(1, 3)
        parts.append(g.normal(*shape))
    g.op("Concat", *parts, axis=axis)


def split(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    size = g.values[x].shape[axis]
    if size < 2:
        raise Unfit
    first = g.int(1, size - 1)
    parts = g.op("Split", x, g.ints(first, size - first), outputs=2, axis=axis, exact=x in g.exact)
    if 2 * first == size and g.chance(0.5):
        g.op("Mul", parts[0], g.op("Sigmoid", parts[1]))


def slices(g):
    x = g.value()
    shape = g.values[x].shape
    axes = sorted(g.random.permutation(len(shape))[: g.int(1, min(2, len(shape)))].tolist())
    starts, ends, steps = [], [], []
    for axis in axes:
        step = g.choose([1, 1, 1, 2, -1, -2])
        low, high = sorted([g.int(0, shape[axis]), g.int(0, shape[axis])])
        starts.append(low if step > 0 else high)
        ends.append(high if step > 0 else low - shape[axis] - 1)
        steps.append(step)
    g.op("Slice", x, g.ints(*starts), g.ints(*ends), g.ints(*axes), g.ints(*steps), exact=x in g.exact)


def gather(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    size = g.values[x].shape[axis]
    indices = g.random.integers(-size, size, () if g.chance(0.4) else g.int(1, 4))
    g.op("Gather", x, g.constant(indices.astype(np.int64)), axis=axis, exact=x in g.exact)


def pad(g):
    x = g.value()
    rank = g.values[x].ndim
    pads = [g.choose([0, 0, 1, 2, -1]) for _ in range(2 * rank)]
    mode = g.choose(["constant", "constant", "edge", "reflect", "wrap"])
    fill = [g.constant(np.float32(g.choose([0, 1.5])))] if mode == "constant" else []
    g.op("Pad", x, g.ints(*pads), *fill, mode=mode)


def tile(g):
    x = g.value()
    g.op("Tile", x, g.ints(*[g.choose([1, 1, 2, 3]) for _ in g.values[x].shape]))


def resize(g):
    x = g.value(rank=(3, 4, 5))
    shape = g.values[x].shape
    mode = g.choose(["nearest", "linear", "cubic"])
    coordinates = g.choose(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    scales = np.array([1, 1] + [g.choose([0.5, 1, 1.5, 2, 3]) for _ in shape[2:]], np.float32)
    if mode == "cubic" and len(shape) != 4:
        raise Unfit
    # At halves the nearest is a matter of rounding, which is that of the runtime.
    extra = {"nearest_mode": g.choose(["floor", "ceil"])} if mode == "nearest" else {}
    if mode == "nearest":
        coordinates = "asymmetric"
        scales[2:] = [g.choose([1, 2, 3]) for _ in shape[2:]]
        extra = {"nearest_mode": "floor"}
    g.op("Resize", x, "", g.constant(scales), mode=mode, coordinate_transformation_mode=coordinates, **extra)


def rearrange(g):
    x = g.value(rank=(4,))
    if g.chance(0.5):
        g.op("DepthToSpace", x, blocksize=2, mode=g.choose(["DCR", "CRD"]))
    else:
        g.op("SpaceToDepth", x, blocksize=2)


def cumulate(g):
    x = g.value()
    g.op("CumSum", x, g.constant(np.int64(g.int(0, g.values[x].ndim - 1))), reverse=g.int(0, 1), exclusive=g.int(0, 1))


def residual(g):
    x = g.value()
    y = g.op(g.choose(UNARY), x)
    g.op("Add", x, y)


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


def compared(g):
    x = g.choose(sorted(g.exact))
    by = operand(g, g.values[x].shape) if g.chance(0.5) else g.constant(np.float32(g.choose([-0.5, 0, 0.5])))
    return g.op(g.choose(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]), x, by)


def logic(g):
    """A choice by several comparisons."""
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


def einsum(g):
    equation, ranks = g.choose(
        [("ij->ji", [2]), ("ijk,jl->ikl", [3, 2]), ("...i,ij->...j", [0, 2]), ("bij,bjk->bik", [3, 3]), ("bhid,bhjd->bhij", [4, 4]), ("ijk->k", [3]), ("bij,bij->bi", [3, 3]), ("ii->i", [2])]
    )
    x = g.value(rank=None if ranks[0] == 0 else ranks[:1])
    shape = g.values[x].shape
    letters = dict(zip(reversed(equation.split(",")[0].split("-")[0].replace(".", "")), reversed(shape)))
    others = [g.normal(*(letters.setdefault(letter, g.int(1, 4)) for letter in part), scale=0.5) for part in equation.split("-")[0].split(",")[1:]]
    g.op("Einsum", x, *others, equation=equation)


def triangle(g):
    g.op("Trilu", g.value(rank=(2, 3, 4)), g.constant(np.int64(g.int(-2, 2))), upper=g.int(0, 1))


def pick(g):
    x = g.value()
    shape = g.values[x].shape
    axis = g.int(0, len(shape) - 1)
    sizes = [g.int(1, 4) if i == axis else g.int(1, size) for i, size in enumerate(shape)]
    indices = g.constant(g.random.integers(-shape[axis], shape[axis], sizes))
    g.op("GatherElements", x, indices, axis=axis, exact=x in g.exact)


def scatter(g):
    x = g.value()
    shape = g.values[x].shape
    axis = g.int(0, len(shape) - 1)
    reduction = g.choose(["none", "add", "mul", "max", "min"])
    if g.chance(0.5):
        places = g.random.permutation(shape[axis])[: g.int(1, shape[axis])]
        sizes = [len(places) if i == axis else size for i, size in enumerate(shape)]
        along = [len(places) if i == axis else 1 for i in range(len(shape))]
        indices = np.broadcast_to(places.reshape(along), sizes).astype(np.int64)
        return g.op("ScatterElements", x, g.constant(indices), g.normal(*sizes), axis=axis, reduction=reduction)
    rows = g.random.permutation(shape[0])[: g.int(1, shape[0])].reshape(-1, 1)
    return g.op("ScatterND", x, g.constant(rows.astype(np.int64)), g.normal(len(rows), *shape[1:]), reduction=reduction)


def best(g):
    """What is found by its place, of exact values alone."""
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


def expand(g):
    x = g.value()
    sizes = [g.int(1, 4) if size == 1 else size for size in g.values[x].shape]
    extra = [g.int(1, 2)] if len(sizes) < 4 and g.chance(0.3) else []
    g.op("Expand", x, g.ints(*extra, *sizes))


def sample(g):
    x = g.value(rank=(4,))
    grid = g.random.uniform(-1.2, 1.2, (g.values[x].shape[0], g.int(1, 4), g.int(1, 4), 2)).astype(np.float32)
    g.op("GridSample", x, g.constant(grid), mode=g.choose(["linear", "cubic"]), padding_mode=g.choose(["zeros", "border", "reflection"]), align_corners=g.int(0, 1))


def whole(g):
    x = g.choose(sorted(g.exact))
    if g.chance(0.5):
        return g.op("Cast", g.op("Cast", x, to=TensorProto.INT32), to=TensorProto.FLOAT)
    return g.op("Mod", x, g.constant(np.float32(g.choose([0.3, -0.7, 1, 2]))), fmod=1)


def reversed_part(g):
    x = g.value(rank=(2, 3, 4))
    length, batch = g.values[x].shape[:2]
    lengths = g.constant(g.random.integers(1, length + 1, batch))
    g.op("ReverseSequence", x, lengths, time_axis=0, batch_axis=1, exact=x in g.exact)


def compress(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    kept = g.random.random(g.values[x].shape[axis]) < 0.6
    g.op("Compress", x, g.constant(kept), axis=axis, exact=x in g.exact)


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


OPERATORS = [
    unary, unary, jump, positive, binary, binary, binary, chained, power, clip, where, convolution, convolution, convolution, batch_norm, pool, pool,
    matmul, matmul, matmul, attention, layer_norm, layer_norm, other_norm, softmax, gate, gate, reduce, reduce, reshape, reshape, transpose, transpose,
    shuffle, squeeze, concat, concat, split, slices, slices, gather, pad, tile, resize, rearrange, cumulate, residual, recurrent,
    logic, several, slope, einsum, triangle, pick, scatter, best, expand, sample, whole, reversed_part, compress, lp_pool, mean_variance,
]


def make(seed):
    """-> (model, inputs, outputs), or None where the seed gives nothing."""
    g = Graph(seed)
    for _ in range(g.int(1, 7)):
        try:
            g.choose(OPERATORS)(g)
        except Unfit:
            continue
    read = {name for node in g.nodes for name in node.input}
    made = {name for node in g.nodes for name in node.output}
    ends = [name for name in g.values if name in made and (name not in read or g.chance(0.05))]
    if not ends:
        return None
    inputs = {name: array for name, array in g.inputs.items() if name in read}
    constants = {name: array for name, array in g.constants.items() if name in read}
    outputs = ends[-4:]
    whole = model(g.nodes, inputs, constants, outputs)
    try:
        whole = onnx.shape_inference.infer_shapes(whole)
        expected = run(whole, inputs)
        if not is_steady(expected, shaken(g, outputs)):
            return None
        return whole, inputs, dict(zip(outputs, expected))
    except Exception:
        return None


def free(made, seed):
    """Leaves about half of the sizes of the inputs free; not the first, which is taken for a batch of 1 where it is free."""
    random = np.random.default_rng(seed)
    for info in made.graph.input:
        for axis, size in enumerate(info.type.tensor_type.shape.dim):
            if axis > 0 and size.dim_value > 1 and random.random() < 0.5:
                size.dim_param = f"{info.name}_{axis}"
    # What was inferred is of fixed sizes.
    del made.graph.value_info[:]
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")


def is_ambiguous(made, outputs):
    """Whether a free size of an output is 1: whoever reads the result has to know that the axis is not left out."""
    infos = onnx.shape_inference.infer_shapes(made).graph.output
    axes = [
        (dim.dim_value, size)
        for info, array in zip(infos, outputs.values())
        for dim, size in itertools.zip_longest(info.type.tensor_type.shape.dim, array.shape, fillvalue=onnx.TensorShapeProto.Dimension())
    ]
    return any(size == 1 and known != 1 for known, size in axes)


def has_room(made, inputs):
    """Whether every window of a pooling fits into what it is moved over. onnxruntime rounds the number of its places towards zero, and
    so finds one where there is none."""
    windows = []
    for node in made.graph.node:
        read = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if "kernel_shape" in read and node.op_type != "ConvTranspose":
            windows.append((node.input[0], read))
    names = sorted({name for name, _ in windows} - inputs.keys())
    watched = onnx.ModelProto()
    watched.CopyFrom(made)
    del watched.graph.output[:]
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    values = inputs | (dict(zip(names, run(watched, inputs))) if names else {})
    for name, read in windows:
        count = len(read["kernel_shape"])
        pads, dilations = read.get("pads", [0] * 2 * count), read.get("dilations", [1] * count)
        sizes = zip(values[name].shape[2:], pads[:count], pads[count:], read["kernel_shape"], dilations)
        if any(size + begin + end < (kernel - 1) * dilation + 1 for size, begin, end, kernel, dilation in sizes):
            return False
    return True


def resized(made, seed):
    """Inputs of other sizes, and the outputs, where the model takes them."""
    random = np.random.default_rng(seed)
    sizes = collections.defaultdict(lambda: int(random.integers(2, 9)))
    others = {}
    for info in made.graph.input:
        dims = info.type.tensor_type.shape.dim
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims]
        others[info.name] = random.standard_normal(shape).astype(np.float32)
    try:
        outputs = run(made, others)
    except Exception:
        return None
    if not has_room(made, others) or not all(array.size and np.isfinite(array).all() and np.abs(array).max() < LARGEST for array in outputs):
        return None
    return others, {info.name: array for info, array in zip(made.graph.output, outputs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("converter")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--free", action="store_true", help="leave sizes of the inputs free")
    parser.add_argument("--keep", type=Path, default=Path(__file__).resolve().parent.parent / "target/wrong")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        listed = []
        for seed in range(arguments.first, arguments.first + arguments.count):
            made = make(seed)
            if made is None:
                continue
            cases = {str(seed): made[1:]}
            if arguments.free:
                free(made[0], seed)
                other = resized(made[0], seed)
                if other is not None:
                    cases[f"{seed}-resized"] = other
            for name, (inputs, outputs) in cases.items():
                if arguments.free and is_ambiguous(made[0], outputs):
                    continue
                case = folder / name
                case.mkdir()
                onnx.save(made[0], case / "model.onnx")
                np.savez(case / "inputs.npz", **inputs)
                np.savez(case / "outputs.npz", **outputs)
                listed.append(f"{name}\t{case}\n")
        verdicts = folder / "verdicts"
        command = [sys.executable, RUN, Path(arguments.converter).resolve(), verdicts, str(TOLERANCE)]
        subprocess.run(command, input="".join(listed), text=True, check=True)
        counts, bad = collections.Counter(), 0
        for line in verdicts.read_text().splitlines():
            seed, verdict, reason = (line.split("\t") + [""])[:3]
            counts[verdict] += 1
            if verdict == "refused":
                counts[f"refused: {reason}"] += 1
            elif verdict != "pass":
                bad += 1
                print(f"{seed}: {verdict}: {reason}")
                arguments.keep.mkdir(parents=True, exist_ok=True)
                shutil.copytree(folder / seed, arguments.keep / seed, dirs_exist_ok=True)
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
