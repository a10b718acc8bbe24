"""Writes cases for the values of elements: each activation at extreme floats, and each operator on small integers.

usage: elements.py FOLDER

FOLDER/extremes/NAME        an activation, or a layer that others are fused to, on inputs of magnitudes from 1e-3 to 1e20
FOLDER/integers/NAME_TYPE   an operator that takes integers

The results are those of onnxruntime or, where it has no kernel, of ONNX's own reference, which computes integers exactly.
"""

import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 20

# The magnitudes of the inputs of an extreme case, each an input of its own: errors are relative to the largest result. Below
# 1e-3 some functions of the runtime have no correct digit (NCNN.md).
MAGNITUDES = {"small": 1e-3, "one": 1, "ten": 12, "below": 88, "beyond": 90, "hundred": 150, "large": 1e4, "far": 1e20}

# Bodies from `x` to `y`, float[1,6,5,8] both unless a shape is given.
ACTIVATIONS = {
    "celu": "y = Celu<alpha=0.5>(x)",
    "clip": "y = Clip(x, low, high)",
    "elu": "y = Elu<alpha=0.5>(x)",
    "gelu": "y = Gelu(x)",
    "gelu_tanh": 'y = Gelu<approximate="tanh">(x)',
    "gelu_of_erf": "s = Div(x, root) e = Erf(s) p = Add(e, unit) h = Mul(x, p) y = Mul(h, half)",
    "hard_sigmoid": "y = HardSigmoid<alpha=0.2, beta=0.5>(x)",
    "hard_swish": "y = HardSwish(x)",
    "leaky_relu": "y = LeakyRelu<alpha=0.1>(x)",
    "mish": "y = Mish(x)",
    "prelu": "y = PRelu(x, slopes)",
    "relu": "y = Relu(x)",
    "selu": "y = Selu(x)",
    "shrink": "y = Shrink<lambd=0.5, bias=0.25>(x)",
    "sigmoid": "y = Sigmoid(x)",
    "sigmoid_of_exp": "n = Neg(x) e = Exp(n) p = Add(e, unit) y = Div(unit, p)",
    "silu": "g = Sigmoid(x) y = Mul(x, g)",
    "silu_of_exp": "n = Neg(x) e = Exp(n) p = Add(e, unit) y = Div(x, p)",
    "softplus": "y = Softplus(x)",
    "softsign": "y = Softsign(x)",
    "softsign_of_abs": "a = Abs(x) p = Add(a, unit) y = Div(x, p)",
    "tanh": "y = Tanh(x)",
    "thresholded_relu": "y = ThresholdedRelu<alpha=0.5>(x)",
    "softmax": "y = Softmax<axis=-1>(x)",
    "softmax_of_channels": "y = Softmax<axis=1>(x)",
    "log_softmax": "y = LogSoftmax<axis=-1>(x)",
    "hardmax": "y = Hardmax<axis=-1>(x)",
    "log_sum_exp": "y = ReduceLogSumExp<keepdims=1>(x, last)",
    "atan": "y = Atan(x)",
    "asinh": "y = Asinh(x)",
    "erf": "y = Erf(x)",
    "exp": "y = Exp(x)",
    "reciprocal": "y = Reciprocal(x)",
    "sign": "y = Sign(x)",
    "sqrt": "a = Abs(x) y = Sqrt(a)",
    "log": "a = Abs(x) y = Log(a)",
    "glu_of_channels": "a, g = Split<axis=1, num_outputs=2>(x) s = Sigmoid(g) y = Mul(a, s)",
    "glu_of_rows": "a, g = Split<axis=3, num_outputs=2>(x) s = Sigmoid(g) y = Mul(a, s)",
    "geglu": "a, g = Split<axis=3, num_outputs=2>(x) s = Gelu(g) y = Mul(a, s)",
    # Some processors compute 6e-39 for the sigmoid of -1e20, which twice 1e20 would make 60.
    "swiglu": "a, g = Split<axis=3, num_outputs=2>(x) v = Clip(a, low, high) t = Sigmoid(g) s = Mul(g, t) y = Mul(v, s)",
    "conv_relu": "c = Conv(x, kernel) y = Relu(c)",
    "conv_leaky_relu": "c = Conv(x, kernel) y = LeakyRelu<alpha=0.1>(c)",
    "conv_clip": "c = Conv(x, kernel) y = Clip(c, low, high)",
    "conv_sigmoid": "c = Conv(x, kernel) y = Sigmoid(c)",
    "conv_mish": "c = Conv(x, kernel) y = Mish(c)",
    "conv_hard_swish": "c = Conv(x, kernel) y = HardSwish(c)",
    "conv_silu": "c = Conv(x, kernel) g = Sigmoid(c) y = Mul(c, g)",
    "conv_gelu": "c = Conv(x, kernel) y = Gelu(c)",
    "matmul_sigmoid": "c = MatMul(x, square) y = Sigmoid(c)",
    "matmul_gelu": "c = MatMul(x, square) y = Gelu(c)",
    "lstm": "r = Reshape(x, steps) y, h, c = LSTM<hidden_size=4>(r, w4, u4)",
    "gru": "r = Reshape(x, steps) y, h = GRU<hidden_size=4, linear_before_reset=1>(r, w3, u3)",
    "rnn": "r = Reshape(x, steps) y, h = RNN<hidden_size=4>(r, w1, u1)",
}

# The slopes of products are powers of two, so that products and sums of any order are equal.
CONSTANTS = {
    "low": np.float32(-1),
    "high": np.float32(6),
    "root": np.float32(np.sqrt(2)),
    "unit": np.float32(1),
    "half": np.float32(0.5),
    "last": np.array([-1]),
    "slopes": np.float32([0.5, -0.25, 1, 2, 0, 0.125]).reshape(6, 1, 1),
    "kernel": (np.eye(6, dtype=np.float32) * np.float32([1, 0.5, 1, 2, 1, 0.5])).reshape(6, 6, 1, 1),
    "square": np.eye(8, dtype=np.float32)[:, ::-1] * np.float32(0.5),
    "steps": np.array([30, 1, 8]),
    **{f"w{gates}": np.tile(np.eye(4, 8, dtype=np.float32), (gates, 1))[None] for gates in (1, 3, 4)},
    **{f"u{gates}": np.tile(np.eye(4, dtype=np.float32) * np.float32(0.5), (gates, 1))[None] for gates in (1, 3, 4)},
}

INTEGERS = {"int8": np.int8, "uint8": np.uint8, "int32": np.int32, "int64": np.int64}

# Nodes over `x` and, where they have one, `z`, both T[4,6]; constants are drawn for the names that they mention.
ROWS = {
    **{name: f"y = {name}(x)" for name in ("Abs", "BitwiseNot", "Identity", "Neg", "Relu", "Sign")},
    **{name: f"y = {name}(x, z)" for name in ("Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater")},
    **{name: f"y = {name}(x, z)" for name in ("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mul", "Sub")},
    **{f"{name}_const": f"y = {name}(x, k)" for name in ("Add", "Equal", "Less", "Max", "Mul", "Sub", "PRelu")},
    **{name: f"y = {name}<keepdims=0>(x, first)" for name in ("ReduceL1", "ReduceL2", "ReduceLogSumExp")},
    **{name: f"y = {name}<keepdims=0>(x, first)" for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare")},
    # An odd number of rows, which the runtime does not pack.
    **{f"{name}_one": f"a = Reshape(x, column) r = Slice(a, from, to) y = {name}<keepdims=0>(r, last)" for name in ("ReduceL1", "ReduceL2", "ReduceMean")},
    "ReduceLogSum": "a = Abs(x) p = Max(a, one) y = ReduceLogSum<keepdims=0>(p, first)",
    "ReduceProd": "s = Sign(x) two = Add(s, s) y = ReduceProd<keepdims=0>(two, first)",
    "ArgMax": "y = ArgMax<axis=1>(x)",
    "ArgMin": "y = ArgMin<axis=1, select_last_index=1>(x)",
    "BitShift_left": 'y = BitShift<direction="LEFT">(x, two)',
    "BitShift_right": 'y = BitShift<direction="RIGHT">(x, two)',
    "Cast_float": "y = Cast<to=1>(x)",
    "Cast_bool": "y = Cast<to=9>(x)",
    "Cast_int8": "y = Cast<to=3>(x)",
    "Cast_uint8": "y = Cast<to=2>(x)",
    "Cast_int64": "y = Cast<to=7>(x)",
    "CastLike": "y = CastLike(f, x)",
    "CenterCropPad": "y = CenterCropPad(x, larger)",
    "Clip": "y = Clip(x, low, high)",
    "Compress": "y = Compress<axis=1>(x, some)",
    "Concat": "y = Concat<axis=1>(x, k, z)",
    "CumSum": "y = CumSum(x, axis)",
    "DepthToSpace": "r = Reshape(x, blocks) y = DepthToSpace<blocksize=2>(r)",
    "Div": "y = Div(x, divisors)",
    "Div_run_time": "a = Abs(z) p = Max(a, one) y = Div(x, p)",
    "Div_three": "y = Div(x, three)",
    "Einsum": 'y = Einsum<equation="ij,kj->ik">(x, z)',
    "Expand": "a = Unsqueeze(x, first) y = Expand(a, volume)",
    "Flatten": "r = Reshape(x, blocks) y = Flatten(r)",
    "Gather": "y = Gather<axis=1>(x, some_columns)",
    "GatherElements": "y = GatherElements<axis=1>(x, rows)",
    "GatherND": "y = GatherND(x, pairs)",
    "Gemm": "y = Gemm<transB=1>(x, z)",
    "MatMul": "t = Transpose(z) y = MatMul(x, t)",
    "MatMulInteger": "t = Transpose(z) y = MatMulInteger(x, t)",
    "MaxPool": "r = Reshape(x, image) y = MaxPool<kernel_shape=[2,2]>(r)",
    "Mean": "y = Mean(x, z)",
    "Mod": "y = Mod(x, divisors)",
    "Mod_fmod": "y = Mod<fmod=1>(x, divisors)",
    "OneHot": "y = OneHot(columns, depth, off_on)",
    "PRelu": "y = PRelu(x, k)",
    "Pad": "y = Pad(x, pads, three)",
    "Pad_edge": 'y = Pad<mode="edge">(x, pads)',
    "Pad_reflect": 'y = Pad<mode="reflect">(x, pads)',
    "Pow_square": "y = Pow(x, two)",
    "Pow_cube": "s = Sign(x) d = Add(s, s) y = Pow(d, three)",
    "Pow_run_time": "s = Sign(x) d = Add(s, s) a = Abs(z) e = Min(a, two) y = Pow(d, e)",
    "Pow_base": "a = Abs(x) e = Min(a, three) y = Pow(two, e)",
    "Range": "y = Range(start, limit, delta) w = Identity(x)",
    "Reshape": "y = Reshape(x, image)",
    "Resize": "r = Reshape(x, image) y = Resize<mode=\"nearest\">(r, , scales)",
    "ReverseSequence": "y = ReverseSequence(x, lengths)",
    "ScatterElements": "y = ScatterElements<axis=1>(x, rows, updates)",
    "ScatterElements_add": 'y = ScatterElements<axis=1, reduction="add">(x, rows, updates)',
    "ScatterElements_max": 'y = ScatterElements<axis=1, reduction="max">(x, rows, updates)',
    "ScatterND": "y = ScatterND(x, pairs, three_updates)",
    "ScatterND_add": 'y = ScatterND<reduction="add">(x, pairs, three_updates)',
    "Shrink": "y = Shrink<lambd=1.2, bias=1.2>(x)",
    "Shrink_half": "y = Shrink<lambd=0.5, bias=0.2>(x)",
    "Slice": "y = Slice(x, begin, end, axes, stride)",
    "SpaceToDepth": "r = Reshape(x, image) y = SpaceToDepth<blocksize=2>(r)",
    "Split": "y, w = Split<axis=1, num_outputs=2>(x)",
    "Squeeze": "a = Unsqueeze(x, first) y = Squeeze(a, first)",
    "Sum": "y = Sum(x, z)",
    "Tile": "y = Tile(x, repeats)",
    "TopK": "y, i = TopK(x, count)",
    "Transpose": "y = Transpose(x)",
    "Trilu": "y = Trilu(x)",
    "Unsqueeze": "y = Unsqueeze(x, first)",
    "Where": "c = Greater(x, z) y = Where(c, x, z)",
    "Where_const": "c = Greater(x, z) y = Where(c, x, three)",
    "Xor": "a = Cast<to=9>(x) b = Cast<to=9>(z) y = Xor(a, b)",
}

# The values of rows that are outputs.
RESULTS = ["y", "w", "i"]

# Operators that take integers and are not among the rows, and why.
LEFT_OUT = {
    "Col2Im": "onnxruntime and the reference have it for floats alone",
    "CumProd": "newer than the operator set of these cases",
    "GridSample": "as Col2Im",
    "Loop": "hands on what its body computes",
    "NonMaxSuppression": "its integers count boxes",
    "QLinearConv": "fixtures/quantized",
    "QLinearMatMul": "fixtures/quantized",
    "QuantizeLinear": "fixtures/quantized",
    "Scan": "as Loop",
    "TensorScatter": "newer than the operator set of these cases",
    "Unique": "its result has as many elements as there are distinct ones",
}


def integer_constants(dtype):
    """The constants of rows: of the type of the elements, or indices."""
    of_type = {
        "k": [[3], [1], [2], [0]],
        "divisors": [[3], [1], [2], [5]],
        "one": 1,
        "two": 2,
        "three": 3,
        "low": 1,
        "high": 5,
        "off_on": [3, 7],
        "updates": [[1, 2], [3, 4], [5, 6], [7, 8]],
        "three_updates": [9, 8, 7],
        "start": 1,
        "limit": 12,
        "delta": 3,
    }
    indices = {
        "first": [0],
        "last": [-1],
        "axis": 1,
        "larger": [5, 3],
        "some": [True, False, True, True, False, True],
        "column": [24, 1],
        "from": [1],
        "to": [24],
        "blocks": [1, 4, 2, 3],
        "image": [1, 1, 4, 6],
        "volume": [3, 4, 6],
        "some_columns": [5, 0, -1],
        "rows": [[0, 5], [1, 4], [2, 3], [-1, 0]],
        "pairs": [[0, 1], [3, 5], [2, -6]],
        "columns": [3, 0, 1, 3],
        "depth": 4,
        "pads": [1, 0, 2, 3],
        "lengths": [1, 2, 4, 3, 1, 2],
        "begin": [0, 5],
        "end": [4, -7],
        "axes": [0, 1],
        "stride": [2, -2],
        "repeats": [2, 3],
        "count": [3],
    }
    made = {name: np.array(value, dtype) for name, value in of_type.items()}
    made |= {name: np.array(value) for name, value in indices.items()}
    return made | {"f": np.float32([1.5, 2.5, 7]), "scales": np.float32([1, 1, 2, 1.5])}


def parse(inputs, results, body, constants):
    """A model of the text syntax, with the constants that its body mentions; those of the results that it computes are its
    outputs, of the types that are inferred."""
    head = f'<ir_version: 8, opset_import: ["" : {OPSET}]>'
    model = onnx.parser.parse_model(f"{head} elements ({inputs}) => (float {results[0]}) {{ {body} }}")
    made = {name for node in model.graph.node for name in node.output}
    read = {name for node in model.graph.node for name in node.input}
    for name, value in constants.items():
        if name in read:
            model.graph.initializer.append(numpy_helper.from_array(value, name))
    del model.graph.output[:]
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    found = {value.name: value for value in inferred.graph.value_info}
    model.graph.output.extend(found[name] for name in results if name in made)
    onnx.checker.check_model(model, full_check=True)
    return model


def evaluate(model, inputs):
    names = [value.name for value in model.graph.output]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except (onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented, onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph):
        return dict(zip(names, ReferenceEvaluator(model).run(None, inputs)))
    return dict(zip(names, session.run(None, inputs)))


def write(folder, model, inputs):
    outputs = evaluate(model, inputs)
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "outputs.npz", **outputs)


def write_extremes(folder):
    for name, body in ACTIVATIONS.items():
        random = np.random.default_rng(zlib.crc32(name.encode()))
        declared, bodies, inputs = [], [], {}
        for suffix, magnitude in MAGNITUDES.items():
            # Names in the body but not those of constants are of this input alone.
            words = [word if word in CONSTANTS or not is_value(word) else f"{word}_{suffix}" for word in tokens(body)]
            bodies.append("".join(words))
            declared.append(f"float[1,6,5,8] x_{suffix}")
            signs = random.choice([-1, 1], (1, 6, 5, 8))
            inputs[f"x_{suffix}"] = (signs * random.uniform(0.99, 1, signs.shape) * magnitude).astype(np.float32)
        model = parse(", ".join(declared), [f"y_{suffix}" for suffix in MAGNITUDES], " ".join(bodies), CONSTANTS)
        write(folder / name, model, inputs)


def tokens(body):
    """The words of a body, and what lies between them."""
    word, found = "", []
    for character in body:
        if character.isalnum() or character == "_":
            word += character
            continue
        found += [word, character] if word else [character]
        word = ""
    return [*found, word]


def is_value(word):
    """Whether a word of a body is a value: attributes have longer names or numbers, operators begin with a capital."""
    return word.isidentifier() and (len(word) == 1 or word in ("two",))


def write_integers(folder):
    check_rows()
    for name, body in ROWS.items():
        for type_name, dtype in INTEGERS.items():
            random = np.random.default_rng(zlib.crc32(name.encode()))
            least = 0 if type_name.startswith("u") else -12
            inputs = {value: random.permutation(24).reshape(4, 6).astype(dtype) + dtype(least) for value in "xz"}
            read = set(tokens(body))
            inputs = {value: array for value, array in inputs.items() if value in read}
            declared = ", ".join(f"{type_name}[4,6] {value}" for value in inputs)
            try:
                model = parse(declared, RESULTS, body, integer_constants(dtype))
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
                continue  # The operator does not take this type.
            try:
                write(folder / f"{name}_{type_name}", model, inputs)
            except (NotImplementedError, RuntimeError, TypeError):
                continue  # Neither onnxruntime nor the reference computes it.


def check_rows():
    """Ends with an error if an operator that takes integers has no row."""
    known = {name.split("_")[0] for name in ROWS} | {word for body in ROWS.values() for word in tokens(body)}
    missing = []
    for schema in onnx.defs.get_all_schemas():
        types = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
        of_outputs = {output.type_str for output in schema.outputs}
        takes = any("tensor(int32)" in types.get(value.type_str, []) and value.type_str in of_outputs for value in schema.inputs)
        if takes and schema.domain == "" and not schema.deprecated and schema.name not in known | set(LEFT_OUT):
            missing.append(schema.name)
    if missing:
        sys.exit(f"operators that take integers without a row: {', '.join(sorted(missing))}")


def main():
    onnxruntime.set_default_logger_severity(4)
    folder = Path(sys.argv[1])
    write_extremes(folder / "extremes")
    write_integers(folder / "integers")


if __name__ == "__main__":
    main()
