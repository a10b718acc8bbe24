"""Runs converted models in ncnn, and simplified ones in onnxruntime, and compares the results with the expected ones.

A model that is written badly can take the process down with it, so these functions run in a child of run.py.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path

import ncnn
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

from conditions import bind, evaluate, holds

# A Mat has at most four axes.
MAX_AXES = 4

# The minimum tolerance of an output of a narrow type, relative to its largest magnitude: it is rounded to its
# own precision in ONNX, but not in ncnn.
TOLERANCES = {
    TensorProto.BFLOAT16: 2**-7,
    TensorProto.FLOAT8E4M3FN: 2**-3,
    TensorProto.FLOAT8E4M3FNUZ: 2**-3,
    TensorProto.FLOAT8E5M2: 2**-2,
    TensorProto.FLOAT8E5M2FNUZ: 2**-2,
    TensorProto.FLOAT8E8M0: 2**-1,
    TensorProto.FLOAT4E2M1: 2**-1,
}

# The same for two graphs in onnxruntime, in which only folded operators may be rounded differently. Float16
# is rounded after every operator.
SIMPLIFIED_TOLERANCE = 1e-5
SIMPLIFIED_HALF_TOLERANCE = 2**-9

onnxruntime.set_default_logger_severity(4)


class Difference(Exception):
    """The result differs from the expected one."""


def mat_shape(shape, port):
    """The sizes of the Mat of a value of this shape, outermost first: the rule of the interface. A free axis is never dropped: the
    port has as many sizes as the shape then, even where the first one is 1."""
    sizes = list(shape) or [1]
    if port and len(port["sizes"]) == len(sizes):
        return tuple(sizes)
    if len(sizes) >= 2 and sizes[0] == 1:
        del sizes[0]
    while len(sizes) > MAX_AXES and 1 in sizes:
        sizes.remove(1)
    if len(sizes) > MAX_AXES:
        kept = sizes[-(MAX_AXES - 1) :]
        sizes = [int(np.prod(sizes[: -(MAX_AXES - 1)])), *kept]
    return tuple(sizes)


def mat_of(array):
    """A Mat that owns its data."""
    if not array.size:
        return ncnn.Mat(*reversed(array.shape))
    # The array has a name until the Mat, which does not keep it alive, is copied.
    array = np.ascontiguousarray(array)
    return ncnn.Mat(array).clone()


def mat_of_port(array, port):
    """The Mat of an input."""
    array = array.astype(np.int32 if port["int32"] else np.float32)
    return mat_of(array.reshape(mat_shape(array.shape, port)))


def check_port(port, name, shape, names):
    """Raises if the table of the converter violates the rule of the interface, or if a printed size differs from the array's. `names` maps
    the names of sizes to sizes."""
    if port is None:
        raise Difference(f"{name} is not among the inputs and outputs that are told")
    sizes = mat_shape(shape, port)
    expected = dict(zip("whdc" if len(sizes) == 4 else "whc", reversed(sizes)))
    pairs = [(port["sizes"].get(axis), size) for axis, size in expected.items()]
    if len(port["shape"]) == len(shape):
        pairs += zip(port["shape"], shape)
    try:
        agrees = port["sizes"].keys() == expected.keys() and all(evaluate(text, names) == size for text, size in pairs)
    except KeyError as missing:
        raise Difference(f"{name}: printed {port['sizes']}, but no input has a size {missing}") from None
    if not agrees:
        raise Difference(f"{name}: printed {port['sizes']} for {expected}")


def names_of_sizes(ports, inputs):
    """The sizes of the axes of the inputs by their printed names."""
    names = {}
    for name, array in inputs.items():
        port = ports.get(("input", name))
        if port and len(port["shape"]) == array.ndim and not bind(names, port["shape"], array.shape):
            raise Difference(f"{name}: printed {port['shape']} for {array.shape}")
    return names


def compare(name, got, expected, tolerance, exact=True):
    """Raises if an output is wrong. Integers and booleans must be equal, or unless `exact`, the nearest float32. So
    must infinities and NaN. Finite floats may be off by the tolerance, as a part of the largest finite magnitude."""
    if got.shape != expected.shape:
        raise Difference(f"{name}: shape {got.shape} for {expected.shape}")
    if expected.size == 0:
        return
    if expected.dtype.kind in "iub":
        # Python compares an integer of any size with a float without rounding.
        wrong = np.array(got.astype(object) != expected.astype(object), bool)
        if not exact:
            wrong &= got != expected.astype(np.float32)
    else:
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        finite = np.isfinite(expected)
        scale = tolerance * (np.abs(expected[finite]).max(initial=0) + 1e-6)
        with np.errstate(invalid="ignore"):
            close = np.abs(got - expected) <= scale
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        wrong = ~np.where(finite, close, same)
    if wrong.any():
        with np.errstate(invalid="ignore"):
            error = np.where(wrong, np.abs(got.astype(np.float64) - expected.astype(np.float64)), -1)
        # A difference with an infinite or NaN operand is the worst.
        worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
        count = f", {wrong.sum()} of {wrong.size} elements" if wrong.size > 1 else ""
        raise Difference(f"{name}: {format_number(got.flat[worst])} for {format_number(expected.flat[worst])}{count}")


def format_number(number):
    """All digits of an integer, seven of a fraction."""
    number = number.item()
    return str(int(number)) if number == number // 1 and abs(number) < 2**64 else f"{number:.7g}"


def load_arrays(path):
    with np.load(path) as file:
        return dict(file)


def load_net(param, weights):
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{option}", False)
    binary = param.with_name("net.param.bin")
    if (net.load_param_bin(str(binary)) if binary.exists() else net.load_param(str(param))) != 0:
        raise RuntimeError("load_param failed")
    if net.load_model(str(weights)) != 0:
        raise RuntimeError("load_model failed")
    return net


def read_numbers(header):
    """The constants of a header, by name; None if there is no header."""
    if not header.exists():
        return None
    constants = re.findall(r"^static const int (\w+) = (\d+);$", header.read_text(), re.MULTILINE)
    if len(dict(constants)) != len(constants):
        raise RuntimeError("two constants have one name")
    return {name: int(number) for name, number in constants}


def blob_key(name, numbers):
    """The name of a blob, or its index in the header."""
    if numbers is None:
        return name
    return numbers["BLOB_" + re.sub(rb"[^0-9A-Za-z]", b"_", name.encode()).decode()]


def check_arrays(header, files):
    """Raises if a header does not contain the bytes of the files."""
    arrays = re.findall(r"static const unsigned char \w+\[\] = \{([^}]*)\};", header.read_text())
    for file, array in zip(files, arrays, strict=True):
        if bytes(int(byte, 16) for byte in array.split(",")[:-1]) != (file.read_bytes() or b"\0"):
            raise RuntimeError(f"the header does not hold the bytes of {file.name}")


# The layers of which params cannot leave out a top that nothing reads: final states, caches, and equal parts of an axis of free size.
WITH_UNREAD_TOPS = re.compile(r"(?:GRU|LSTM|RNN|SDPA|Slice .* -23300=\S*,-233\b)")


def check_outputs(net, param, ports):
    """Raises a Difference if ncnn finds outputs that the model does not have."""
    known = {port["blob"] or name for (_, name), port in ports.items()}
    extra = set(net.output_names()) - known
    for line in param.read_text(encoding="utf8").splitlines() if extra else ():
        if WITH_UNREAD_TOPS.match(line):
            extra -= set(line.split())
    if extra:
        raise Difference(f"outputs of the net alone: {', '.join(sorted(extra))}")


def judge_net(case, param, weights, ports, tolerance, exact):
    """-> (verdict, reason) for a converted model, over the arrays of its case; `ports` is the table of inputs and outputs that users
    see."""
    try:
        net = load_net(param, weights)
        check_outputs(net, param, ports)
        numbers = read_numbers(param.with_name("net.id.h"))
        if (header := param.with_name("net.mem.h")).exists():
            check_arrays(header, [param.with_name("net.param.bin"), weights])
        if not (case / "inputs.npz").exists():
            return "broken", "converted, although no Mat holds its inputs or outputs"
        extractor = net.create_extractor()
        inputs = load_arrays(case / "inputs.npz")
        names = names_of_sizes(ports, inputs)
        for name, array in inputs.items():
            port = ports.get(("input", name))
            if not array.size and port is None:
                continue
            # Where an input may have no elements, its size is free.
            check_port(port, name, array.shape, names)
            if extractor.input(blob_key(port["blob"] or name, numbers), mat_of_port(array, port)) != 0:
                return "broken", f"input {name} cannot be given"
        model = onnx.load(case / "model.onnx", load_external_data=False)
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
        for name, expected in load_arrays(case / "outputs.npz").items():
            port = ports.get(("output", name))
            sizes = mat_shape(expected.shape, port)
            check_port(port, name, expected.shape, names)
            code, mat = extractor.extract(blob_key(port["blob"] or name, numbers))
            if code != 0:
                return "broken", f"output {name} cannot be extracted"
            got = np.array(mat)
            if port["int32"]:
                got = got.view(np.int32)
            compare(name, got, expected.reshape(sizes), max(TOLERANCES.get(types.get(name), 0), tolerance), exact)
        if numbers is None:
            check_names(case, net, param, ports, tolerance)
    except Difference as difference:
        return "wrong", str(difference)
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"
    return "pass", ""


def blob_names(param):
    """The names of the blobs of a net."""
    names = set()
    for line in param.read_text(encoding="utf8").splitlines()[2:]:
        _, _, bottoms, tops, *rest = line.split()
        names.update(rest[: int(bottoms) + int(tops)])
    return names


# The factor between the tolerances of inner values and of outputs: sums in another order and rounded types pass, other elements do not.
NAMED_TOLERANCE = 20


def check_names(case, net, param, ports, tolerance):
    """Raises a Difference if a blob has the name of a value of the model, but not its elements. Models that onnxruntime does not run,
    or computes otherwise than the case expects, are left out, and so are those with infinities and NaN inside, which need not stay."""
    model = onnx.load(case / "model.onnx")
    ends = {value.name for value in [*model.graph.input, *model.graph.output]}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {name for node in model.graph.node for name in node.output}
    named = sorted(((made | constants.keys()) & blob_names(param)) - ends)
    if not named:
        return
    inputs = load_arrays(case / "inputs.npz")
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in named if name in made)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "model.onnx"
        onnx.save(model, whole, save_as_external_data=model.ByteSize() > 2**30)
        try:
            values = run_onnx(whole, inputs, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        except Exception:
            return
    values.update((name, onnx.numpy_helper.to_array(constants[name])) for name in named if name in constants)
    values = {name: value for name, value in values.items() if isinstance(value, np.ndarray) and value.dtype.kind in "biuf"}
    for name, expected in load_arrays(case / "outputs.npz").items():
        try:
            compare(name, values.get(name, expected), expected, tolerance, False)
        except Difference:
            return
    if not all(np.isfinite(value).all() for value in values.values()):
        return
    extractor = net.create_extractor()
    extractor.set_light_mode(False)
    for name, array in inputs.items():
        if port := ports.get(("input", name)):
            extractor.input(port["blob"] or name, mat_of_port(array, port))
    for name in values.keys() & set(named):
        value = values[name].ravel().astype(np.float64)
        code, mat = extractor.extract(name)
        if code != 0:
            continue
        got = np.array(mat).ravel().astype(np.float64)
        if got.size != value.size:
            raise Difference(f"blob {name} has {got.size} elements, and the value of this name {value.size}")
        error, largest = np.abs(got - value).max(initial=0), np.abs(value).max(initial=0)
        if not error <= NAMED_TOLERANCE * tolerance * largest + 1e-6:
            raise Difference(f"blob {name} is not the value of this name: a difference of {error:.3g} from at most {largest:.3g}")


def open_session(model, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def run_onnx(model, inputs, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    session = open_session(model, level)
    wanted = {value.name for value in session.get_inputs()}
    outputs = session.run(None, {name: array for name, array in inputs.items() if name in wanted})
    return dict(zip([value.name for value in session.get_outputs()], outputs))


# The tolerance for sums in another order.
FLOAT_TOLERANCE = 1e-3


def judge_float(case, model, param, weights, ports):
    """-> (verdict, reason) for a net and its model without rounding."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.onnx", "inputs.npz"):
            shutil.copy(case / name, folder)
        # Beyond this, the factors of quantized weights are rounded too.
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        np.savez(Path(folder) / "outputs.npz", **run_onnx(model, load_arrays(case / "inputs.npz"), level))
        return judge_net(Path(folder), param, weights, ports, FLOAT_TOLERANCE, False)


def draw(value, shape):
    """An input of this shape."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    random = np.random.default_rng(sum(shape))
    return random.integers(0, 9, shape).astype(dtype) if dtype.kind in "iu" else random.standard_normal(shape).astype(dtype)


# Sizes of free axes, and how many of them are tried and run.
LARGEST, TRIED, RUN = 40, 400, 12


def judge_printed(model, ports, report):
    """-> (verdict, reason) for the printed and the reported sizes of outputs, compared with the shapes in onnxruntime at random sizes for
    which the conditions hold; sizes that onnxruntime refuses are left out."""
    try:
        session = open_session(model)
    except Exception:
        return "left out", ""
    report = json.loads(report.read_text())
    if any(found["kind"] == "whole_length" for found in report["diagnostics"]):
        # A drawn length does not fit the caches.
        return "left out", ""
    conditions = [found["reason"] for found in report["diagnostics"] if found["severity"] == "condition"]
    graph = onnx.load(model).graph
    given = [value for value in graph.input if ("input", value.name) in ports]
    texts = {value.name: ports["input", value.name]["shape"] for value in given}
    distinct = sorted({text for shape in texts.values() for text in shape}, key=len)
    random, runs = np.random.default_rng(7), 0
    for _ in range(TRIED):
        names = {}
        for text in distinct:
            try:
                evaluate(text, names)
            except KeyError:
                names[text] = int(random.integers(1, random.integers(2, LARGEST)))
        if not all(holds(condition, names) for condition in conditions):
            continue
        inputs = {value.name: draw(value, [evaluate(text, names) for text in texts[value.name]]) for value in given}
        try:
            got = session.run(None, inputs)
        except Exception:
            continue
        try:
            names_of_sizes(ports, inputs)
            for value, array in zip(session.get_outputs(), got):
                port = ports["output", value.name]
                check_port(port, value.name, array.shape, names)
                found = next(output for output in report["net"]["outputs"] if output["name"] == value.name)
                reported = {"shape": list(map(str, found["shape"])), "sizes": {axis: str(size) for axis, size in found["axes"].items()}}
                check_port(reported, value.name, array.shape, names)
        except Difference as difference:
            return "wrong", f"{names}: {difference}"
        runs += 1
        if runs == RUN:
            break
    return ("pass" if runs else "left out"), ""


def judge_sizes(model, param, weights, ports, all_sizes, tolerance):
    """-> (verdict, reason) for a net over all these sizes, beside onnxruntime; models and sizes that it refuses are left out."""
    try:
        session = open_session(model)
    except Exception:
        return "left out", ""
    net, graph = load_net(param, weights), onnx.load(model).graph
    constants = {tensor.name for tensor in graph.initializer}
    given = [value for value in graph.input if value.name not in constants]
    for sizes in all_sizes:
        inputs = {}
        for value in given:
            shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
            inputs[value.name] = draw(value, shape)
        try:
            expected = session.run(None, inputs)
        except Exception:
            continue
        names = names_of_sizes(ports, inputs)
        at = " ".join(f"{name}={size}" for name, size in sizes.items())
        extractor = net.create_extractor()
        for name, array in inputs.items():
            port = ports["input", name]
            extractor.input(port["blob"] or name, mat_of(array.astype(np.float32).reshape(mat_shape(array.shape, port))))
        for value, array in zip(session.get_outputs(), expected):
            port = ports["output", value.name]
            code, mat = extractor.extract(port["blob"] or value.name)
            if code != 0 and array.size:
                return "broken", f"{at}: output {value.name} cannot be extracted"
            try:
                check_port(port, value.name, array.shape, names)
                compare(value.name, np.array(mat), array.reshape(mat_shape(array.shape, port)), tolerance, False)
            except Difference as difference:
                return "wrong", f"{at}: {difference}"
    return "pass", ""


def judge_simplified(case, simplified):
    """-> (verdict, reason) for a simplified model; "pass" too if onnxruntime does not run the original."""
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
            half = array.dtype == np.float16
            compare(name, got[name], array, SIMPLIFIED_HALF_TOLERANCE if half else SIMPLIFIED_TOLERANCE)
    except Difference as difference:
        return "wrong", f"simplified: {difference}"
    except Exception as error:
        return "broken", f"simplified: {type(error).__name__}: {error}"
    return "pass", ""


def serve(connection):
    """Answers requests, each a function of this module and its arguments, until the other end is closed."""
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(globals()[function](*arguments))
