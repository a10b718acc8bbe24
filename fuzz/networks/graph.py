"""A random graph under construction: its nodes, and the arrays of all its values, computed by onnxruntime."""

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from networks import numbers

OPSET, IR = 21, 10
# Float32 values beyond this enlarge differences of rounding. Only graphs with extremes have them.
LARGEST = 1e4
# One graph in four has extremes.
EXTREME_PART = 0.25
EXTREMES = ["infinite", "large", "empty", "one", "integer", "boolean"]


class Unfit(Exception):
    """The operator does not fit the values of the graph."""


class Graph:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.extremes = set()
        if self.chance(EXTREME_PART):
            self.extremes = {self.choose(EXTREMES) for _ in range(self.int(1, 3))}
        self.nodes, self.constants, self.inputs = [], {}, {}
        # For each input, the function that draws its elements for another shape.
        self.draws = {}
        # The arrays of all readable values: those of float32, and all others.
        self.values, self.others = {}, {}
        # The values without a rounding error.
        self.exact = set()
        for _ in range(self.random.integers(1, 3)):
            self.add_input(self.shape(), self.float_draw())
        if "integer" in self.extremes:
            for _ in range(self.int(1, 2)):
                self.add_input(self.like_shape(), self.integer_draw(self.choose([np.int32, np.int64])))
        if "boolean" in self.extremes:
            for _ in range(self.int(1, 2)):
                self.add_input(self.like_shape(), numbers.booleans)

    def int(self, low, high):
        """An integer from low to high, inclusive."""
        if high < low:
            raise Unfit
        return int(self.random.integers(low, high + 1))

    def choose(self, options):
        return options[self.int(0, len(options) - 1)]

    def chance(self, part):
        return self.random.random() < part

    def indices(self, size, shape):
        """Indices along an axis, counted from either end."""
        if size == 0 and np.prod(shape) > 0:
            raise Unfit
        return self.random.integers(-size, max(size, 1), shape)

    def shape(self):
        rank = self.choose([1, 2, 3, 3, 4, 4, 4, 5])
        sizes = [self.size() for _ in range(rank)]
        if rank > 1 and self.chance(0.7):
            sizes[0] = 1
        if "empty" in self.extremes and self.chance(0.5):
            sizes[self.int(0, rank - 1)] = 0
        return sizes

    def size(self):
        if "one" in self.extremes and self.chance(0.5):
            return 1
        return self.choose([1, 2, 3, 4, 5, 6, 8])

    def like_shape(self):
        """The shape of an input, so that the two match, or another one."""
        return list(self.choose(list(self.inputs.values())).shape) if self.chance(0.6) else self.shape()

    def float_draw(self, part=1.0):
        """The distribution of float32 elements; in some calls with extremes, if the graph has any."""
        extreme = self.chance(part)
        return numbers.floats(extreme and "infinite" in self.extremes, extreme and "large" in self.extremes)

    def integer_draw(self, dtype):
        return numbers.integers(dtype, self.choose(numbers.MAGNITUDES))

    def add_input(self, shape, draw):
        name = f"x{len(self.inputs)}"
        array = draw(self.random, shape)
        self.inputs[name], self.draws[name] = array, draw
        self.keep(name, array, exact=True)
        return name

    def keep(self, name, array, exact):
        if array.dtype == np.float32:
            self.values[name] = array
            if exact:
                self.exact.add(name)
        else:
            self.others[name] = array

    def value(self, rank=None):
        """A float32 value, preferably a late one."""
        return self.late([name for name, array in self.values.items() if rank is None or array.ndim in rank])

    def other(self, kinds):
        """A value whose type is of these kinds of NumPy, preferably a late one."""
        return self.late([name for name, array in self.others.items() if array.dtype.kind in kinds])

    def late(self, names):
        if not names:
            raise Unfit
        return names[-1 - min(int(self.random.exponential(1.5)), len(names) - 1)]

    def array(self, name):
        return self.values[name] if name in self.values else self.others[name]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def normal(self, *shape, scale=1.0):
        array = self.float_draw(part=0.3)(self.random, shape)
        with np.errstate(over="ignore"):
            return self.constant((array * np.float32(scale)).astype(np.float32))

    def scalar(self, number):
        """A constant of this number, or of an extreme one instead."""
        extreme = [np.inf, -np.inf] * ("infinite" in self.extremes) + numbers.LARGE * ("large" in self.extremes)
        if extreme and self.chance(0.2):
            number = self.choose(extreme)
        return self.constant(np.float32(number))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def op(self, op_type, *inputs, outputs=1, exact=False, **attributes):
        """Adds a node, if onnxruntime runs it, and its results are moderate or the graph has extremes."""
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
        if not all(self.is_fit(array) for array in arrays):
            raise Unfit
        self.nodes.append(node)
        for name, array in zip(names, arrays):
            self.keep(name, array, exact)
        return names[0] if outputs == 1 else names

    def is_fit(self, array):
        if array.size > 20_000 or array.ndim > 6:
            return False
        return bool(self.extremes) or array.ndim > 0 and is_tame(array)


def fits_float32(array):
    """Whether float32 represents all elements exactly."""
    if array.dtype.kind not in "iu":
        return True
    # The bits from the highest to the lowest set bit.
    magnitudes = [abs(int(number)) for number in array.flat]
    return all(number.bit_length() - (number & -number).bit_length() < 24 for number in magnitudes)


def is_in_int32(array):
    """Whether a cast to int32 is defined for all elements. Comparisons with NaN are false."""
    return bool((np.abs(array) < 2**31).all())


def is_tame(array):
    """Whether an array is not empty, and its float32 elements are finite and moderate."""
    if array.dtype != np.float32:
        return array.size > 0
    return array.size > 0 and bool(np.isfinite(array).all()) and np.abs(array).max() < LARGEST


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
