"""Runs converted models in ncnn, and simplified ones in onnxruntime, and compares what they compute with what is expected.

A model that is written badly can take the process down with it, so these functions run in a child of run.py.
"""

from pathlib import Path

import ncnn
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

# A Mat has at most four axes.
MAX_AXES = 4

# How far an output may be from what is expected, as a part of its largest magnitude. The short types are rounded to their own
# precision in ONNX, and not at all in ncnn.
TOLERANCE = 1e-3
TOLERANCES = {
    TensorProto.BFLOAT16: 2**-7,
    TensorProto.FLOAT8E4M3FN: 2**-3,
    TensorProto.FLOAT8E4M3FNUZ: 2**-3,
    TensorProto.FLOAT8E5M2: 2**-2,
    TensorProto.FLOAT8E5M2FNUZ: 2**-2,
    TensorProto.FLOAT8E8M0: 2**-1,
    TensorProto.FLOAT4E2M1: 2**-1,
}

# The same between two graphs that onnxruntime runs: rounding may differ where operators were evaluated before, nothing else.
SIMPLIFIED_TOLERANCE = 1e-5

# Layers that hand on the elements they get: an input that reaches Embed through these alone holds token ids.
MOVING_LAYERS = {"Split", "Reshape", "Flatten", "Squeeze", "ExpandDims", "Permute", "Crop", "Slice", "Concat", "Noop", "Tile"}

onnxruntime.set_default_logger_severity(4)


class Difference(Exception):
    """What is computed is not what is expected."""


def mat_shape(shape):
    """The sizes of the Mat that a value of this shape is given in, outermost first: the rule of the interface."""
    sizes = list(shape) or [1]
    if len(sizes) >= 2 and sizes[0] == 1:
        del sizes[0]
    while len(sizes) > MAX_AXES and 1 in sizes:
        sizes.remove(1)
    if len(sizes) > MAX_AXES:
        kept = sizes[-(MAX_AXES - 1) :]
        sizes = [int(np.prod(sizes[: -(MAX_AXES - 1)])), *kept]
    return tuple(sizes)


class Net:
    """The text of a .param file: its layers, each with type, bottoms, tops and params."""

    def __init__(self, param):
        self.layers = []
        for line in Path(param).read_text().splitlines()[2:]:
            words = line.split()
            bottoms, tops = int(words[2]), int(words[3])
            blobs, params = words[4 : 4 + bottoms + tops], words[4 + bottoms + tops :]
            params = dict(word.split("=", 1) for word in params)
            self.layers.append((words[0], blobs[:bottoms], blobs[bottoms:], params))

    def inputs(self):
        """The sizes that the file tells of each input, outermost first; none where they are free."""
        sizes = {}
        for kind, _, tops, params in self.layers:
            if kind == "Input":
                sizes[tops[0]] = tuple(int(params[key]) for key in ("2", "11", "1", "0") if params.get(key, "0") != "0")
        return sizes

    def token_ids(self):
        """The names of the inputs that are read as 32-bit integers."""
        ids = set()
        for kind, bottoms, tops, _ in reversed(self.layers):
            if kind == "Embed" or kind in MOVING_LAYERS and ids.intersection(tops):
                ids.update(bottoms)
        return ids


def compare(name, got, expected, tolerance):
    """Raises where an output is not what it must be. Whole numbers must be exact as far as a float32 holds them."""
    if got.shape != expected.shape:
        raise Difference(f"{name}: shape {got.shape} for {expected.shape}")
    whole = expected.dtype.kind in "iub"
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        raise Difference(f"{name}: infinities or NaNs differ")
    got, expected = got[finite], expected[finite]
    if not np.isfinite(got).all():
        raise Difference(f"{name}: not finite")
    if got.size == 0:
        return
    error = np.abs(got - expected)
    scale = np.abs(expected) * 2**-23 if whole else np.full(error.shape, tolerance * (np.abs(expected).max() + 1e-6))
    worst = int(np.argmax(error - scale))
    if error[worst] > scale[worst]:
        raise Difference(f"{name}: {got[worst]:.6g} for {expected[worst]:.6g}")


def load_arrays(path):
    with np.load(path) as file:
        return dict(file)


def load_net(param, weights):
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{option}", False)
    if net.load_param(str(param)) != 0:
        raise RuntimeError("load_param failed")
    if net.load_model(str(weights)) != 0:
        raise RuntimeError("load_model failed")
    return net


def judge_net(case, param, weights):
    """-> (verdict, reason) for a converted model, over the arrays of its case."""
    try:
        net = load_net(param, weights)
        if not (case / "inputs.npz").exists():
            return "broken", "converted, although no Mat holds its inputs or outputs"
        text = Net(param)
        hints, token_ids = text.inputs(), text.token_ids()
        extractor = net.create_extractor()
        for name, array in load_arrays(case / "inputs.npz").items():
            sizes = mat_shape(array.shape)
            if name not in hints:
                return "broken", f"no input {name}"
            if hints[name] and hints[name] != sizes:
                return "broken", f"input {name} is {hints[name]}, not {sizes}"
            array = array.astype(np.int32 if name in token_ids else np.float32)
            mat = ncnn.Mat(np.ascontiguousarray(array.reshape(sizes)))
            if extractor.input(name, mat.clone()) != 0:
                return "broken", f"input {name} cannot be given"
        model = onnx.load(case / "model.onnx", load_external_data=False)
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
        for name, expected in load_arrays(case / "outputs.npz").items():
            code, mat = extractor.extract(name)
            if code != 0:
                return "broken", f"output {name} cannot be extracted"
            expected = expected.reshape(mat_shape(expected.shape))
            compare(name, np.array(mat), expected, TOLERANCES.get(types.get(name), TOLERANCE))
    except Difference as difference:
        return "wrong", str(difference)
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"
    return "pass", ""


def run_onnx(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    outputs = session.run(None, {name: array for name, array in inputs.items() if name in wanted})
    return dict(zip([value.name for value in session.get_outputs()], outputs))


def judge_simplified(case, simplified):
    """-> (verdict, reason) for a simplified model; "pass" too where onnxruntime does not run the original."""
    inputs = load_arrays(case / "inputs.npz")
    try:
        expected = run_onnx(case / "model.onnx", inputs)
    except Exception:
        return "pass", ""
    try:
        got = run_onnx(simplified, inputs)
        if list(got) != list(expected):
            return "wrong", f"simplified: outputs {list(got)} for {list(expected)}"
        for name, array in expected.items():
            if got[name].dtype != array.dtype:
                return "wrong", f"simplified: {name}: {got[name].dtype} for {array.dtype}"
            compare(name, got[name], array, SIMPLIFIED_TOLERANCE)
    except Difference as difference:
        return "wrong", f"simplified: {difference}"
    except Exception as error:
        return "broken", f"simplified: {type(error).__name__}: {error}"
    return "pass", ""


def serve(connection):
    """Answers questions, each a function of this module and its arguments, until the other end is closed."""
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(globals()[function](*arguments))
