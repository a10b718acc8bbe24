"""The time of a conversion as a power of the number of nodes.

usage: scaling.py [--convert 'onnx2ncnn {model} {param} {bin}'] [--match RE] [--out benches/scaling.md]

Each kind of graph is converted at three sizes, each four times the one before. The last two give the exponent, after the time of a
graph of one step is subtracted. The times are processor times. A refusal counts as a conversion: it must not take longer. A chain
begins anew at the input after some steps, because the runtime limits the length of a path.
"""
import argparse, math, os, re, subprocess, sys, tempfile

import numpy as np
from onnx import numpy_helper, parser, save

"""The steps after which a chain begins anew."""
LENGTH = 250
"""The steps of the smallest graph of a kind, unless it says otherwise."""
STEPS = 1000
MOST = 1.15

IMAGE, ROWS, FREE = "float[1,8,6,6]", "float[1,6,16]", "float[1,S,16]"

"""Steps from x to y; c is a constant of the step."""
CHAINS = {
    "relu": (IMAGE, "y = Relu(x)"),
    "convolution": (IMAGE, "y = Conv<pads=[1,1,1,1]>(x, w, b)"),
    "convolution of its own weight": (IMAGE, "v = Mul(w, c) y = Conv<pads=[1,1,1,1]>(x, v, b)"),
    "convolution, normalization, relu": (IMAGE, "a = Conv<pads=[1,1,1,1]>(x, w) e = BatchNormalization(a, b, b, b, one8) y = Relu(e)"),
    "depthwise convolution": (IMAGE, "y = Conv<pads=[1,1,1,1], group=8>(x, d)"),
    "transposed convolution": (IMAGE, "y = ConvTranspose<pads=[1,1,1,1]>(x, w)"),
    "padded convolution": (IMAGE, "a = Pad(x, pads) y = Conv(a, w)"),
    "sum with a constant": (IMAGE, "y = Add(x, c)"),
    "residual": (IMAGE, "a = Relu(x) y = Add(x, a)"),
    "squeeze and excitation": (IMAGE, "a = GlobalAveragePool(x) e = Conv(a, p) f = Sigmoid(e) y = Mul(x, f)"),
    "pooling": (IMAGE, "y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)"),
    "resize and pooling": (IMAGE, "a = Resize(x, , twice) y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(a)"),
    "concat and slice": (IMAGE, "a = Concat<axis=1>(x, x) y = Slice(a, zero, channels, one)"),
    "split and concat": (IMAGE, "a, e = Split<axis=1, num_outputs=2>(x) y = Concat<axis=1>(e, a)"),
    "shuffle of channels": (IMAGE, "a = Reshape(x, grouped) e = Transpose<perm=[0,2,1,3,4]>(a) y = Reshape(e, whole)"),
    "transpose": (IMAGE, "a = Transpose<perm=[0,2,3,1]>(x) e = Relu(a) y = Transpose<perm=[0,3,1,2]>(e)"),
    "identity": (IMAGE, "y = Identity(x)"),
    "dropout": (IMAGE, "y = Dropout(x)"),
    "cast": (IMAGE, "a = Cast<to=10>(x) y = Cast<to=1>(a)"),
    "clip": (IMAGE, "y = Clip(x, low, high)"),
    "quantized": (IMAGE, "q = QuantizeLinear(x, low1, zero8) y = DequantizeLinear(q, low1, zero8)"),
    "where": (IMAGE, "a = Greater(x, t) y = Where(a, x, t)"),
    "reduction": (IMAGE, "a = ReduceMean(x, axes) y = Sub(x, a)"),
    "product": (ROWS, "y = MatMul(x, m)"),
    "product and sum": (ROWS, "a = MatMul(x, m) y = Add(a, s)"),
    "softmax": (ROWS, "y = Softmax(x)"),
    "normalization, spelled out": (ROWS, "a = ReduceMean(x, last) e = Sub(x, a) f = Mul(e, e) g = ReduceMean(f, last) h = Add(g, t) j = Sqrt(h) l = Div(e, j) o = Mul(l, s) y = Add(o, s)"),
    "gelu, spelled out": (ROWS, "a = Div(x, root) e = Erf(a) f = Add(e, onef) g = Mul(x, f) y = Mul(g, half)"),
    "attention": (ROWS, "q = MatMul(x, m) r = Reshape(q, heads) u = Transpose<perm=[0,2,1,3]>(r) v = Transpose<perm=[0,2,3,1]>(r) a = MatMul(u, v) e = Softmax(a) f = MatMul(e, u) "
                  "g = Transpose<perm=[0,2,1,3]>(f) y = Reshape(g, rows)"),
    "view and sigmoid": (ROWS, "a = Reshape(x, rows2) e = Sigmoid(a) y = Reshape(e, rows)"),
    "unsqueeze and squeeze": (ROWS, "a = Unsqueeze(x, zero) e = Relu(a) y = Squeeze(e, zero)"),
    "einsum": (ROWS, 'y = Einsum<equation="bij,jk->bik">(x, m)'),
    "lstm": (ROWS, "a = Transpose<perm=[1,0,2]>(x) e, f = LSTM<hidden_size=16>(a, lw, lr) g = Squeeze(e, one) y = Transpose<perm=[1,0,2]>(g)"),
    "view of free size": (FREE, "a = Shape(x) e = Gather(a, index) f = Unsqueeze(e, zero) g = Concat<axis=0>(one, f, four, four) h = Reshape(x, g) j = Transpose<perm=[0,1,3,2]>(h) l = Concat<axis=0>(one, f, sixteen) y = Reshape(j, l)"),
    "slice of free size": (FREE, "a = Shape(x) e = Slice(a, one, two) f = Slice(x, zero, e, one) y = Relu(f)"),
    "expand of free size": (FREE, "a = Shape(x) e = Expand(t, a) y = Add(x, e)"),
    "attention of free size": (FREE, "q = MatMul(x, m) r = Reshape(q, heads0) u = Transpose<perm=[0,2,1,3]>(r) v = Transpose<perm=[0,2,3,1]>(r) a = MatMul(u, v) e = Softmax(a) f = MatMul(e, u) "
                               "g = Transpose<perm=[0,2,1,3]>(f) y = Reshape(g, rows0)"),
    "function": (ROWS, "y = own.F(x)"),
    "branch": (ROWS, "y = If<then_branch = g () => (float[1,6,16] z) { z = Relu(x) }, else_branch = h () => (float[1,6,16] z) { z = Neg(x) }>(yes)"),
}

WEIGHTS = {"w": (8, 8, 3, 3), "d": (8, 1, 3, 3), "b": 8, "s": 16, "m": (16, 16), "t": 1, "p": (8, 8, 1, 1), "lw": (1, 64, 16), "lr": (1, 64, 16)}
ARRAYS = {
    **{name: np.full(shape, 0.1) for name, shape in WEIGHTS.items()},
    "one8": np.ones(8), "pads": [0, 0, 1, 1, 0, 0, 1, 1], "twice": np.float32([1, 1, 2, 2]), "zero": [0], "one": [1], "two": [2], "four": [4],
    "channels": [8], "sixteen": [16], "grouped": [1, 2, 4, 6, 6], "whole": [1, 8, 6, 6], "low": np.float32(-1), "high": np.float32(1), "low1": np.float32(0.1), "axes": [2, 3],
    "last": [-1], "root": np.float32(2**0.5), "onef": np.float32(1), "half": np.float32(0.5), "heads": [1, 6, 2, 8], "rows": [1, 6, 16], "rows2": [1, 12, 8], "heads0": [0, 0, 2, 8],
    "rows0": [0, 0, 16], "index": np.int64(1), "yes": np.bool_(True), "zero8": np.int8(0),
}


def constant(name, value):
    array = np.asarray(value)
    kept = array.dtype in (np.bool_, np.int8, np.int64)
    return numpy_helper.from_array(array if kept else array.astype(np.float32), name)


def model(inputs, body, outputs, constants=()):
    used = set(re.findall(r"\w+", body))
    text = f'<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g ({inputs}) => ({outputs}) {{ {body} }}'
    if "own.F" in body:
        text += ' <domain: "own", opset_import: ["" : 18]> F (x) => (y) { a = Relu(x) y = Neg(a) }'
    made = parser.parse_model(text)
    made.graph.initializer.extend(constant(name, value) for name, value in ARRAYS.items() if name in used)
    made.graph.initializer.extend(constants)
    return made


def chain(shape, step):
    """Steps after each other, each with names of its own."""
    outputs = {name.strip() for names in re.findall(r"([\w, ]+?) = \w+(?:\.\w+)?[<(]", step) for name in names.split(",")}

    def make(count):
        lines, ends, constants = [], [], []
        for at in range(count):
            last = "x" if at % LENGTH == 0 else f"y_{at - 1}"
            body = re.sub(r"(?<![\w=\"])(\w+)(?![\w(.<=])", lambda word: f"{word[0]}_{at}" if word[0] in outputs else last if word[0] == "x" else word[0], step)
            if "c)" in step:
                body = re.sub(r"\bc\)", f"c_{at})", body)
                constants.append(constant(f"c_{at}", np.full(1, 0.5 + at / count)))
            if at % LENGTH == LENGTH - 1 or at == count - 1:
                ends.append(f"{shape.replace('S', f'T{at}')} y_{at}")
            lines.append(body)
        return model(f"{shape} x", " ".join(lines), ", ".join(ends), constants)

    return make


def listed(count, text):
    return " ".join(text.format(i=i, j=i + 1) for i in range(count))


def names(count):
    return ", ".join(f"v{i}" for i in range(count))


def fan_out(count):
    return model(f"{IMAGE} x", listed(count, "v{i} = LeakyRelu<alpha={i}.5>(x)") + f" y = Sum({names(count)})", f"{IMAGE} y")


def identical(count):
    return model(f"{IMAGE} x", listed(count, "v{i} = Relu(x)") + f" y = Sum({names(count)})", f"{IMAGE} y")


def many_outputs(count):
    return model(f"{IMAGE} x", listed(count, "v{i} = LeakyRelu<alpha={i}.5>(x)"), ", ".join(f"{IMAGE} v{i}" for i in range(count)))


def many_inputs(count):
    return model(", ".join(f"{IMAGE} v{i}" for i in range(count)), f"y = Sum({names(count)})", f"{IMAGE} y")


def many_symbols(count):
    return model(", ".join(f"float[1,S{i},4] v{i}" for i in range(count)), f"a = Concat<axis=1>({names(count)}) y = Relu(a)", "float[1,T,4] y")


def wide_concat(count):
    return model(f"{IMAGE} x", listed(count, "v{i} = LeakyRelu<alpha={i}.5>(x)") + f" y = Concat<axis=1>({names(count)})", "float[1,C,6,6] y")


def concats(count):
    return model(f"{IMAGE} v0", listed(count, "v{j} = Concat<axis=1>(v{i}, v0)"), f"float[1,C,6,6] v{count}")


def tree(count):
    lines, open_values = [], [f"v{i}" for i in range(count)]
    body = listed(count, "v{i} = LeakyRelu<alpha={i}.5>(x)")
    while len(open_values) > 1:
        a, b = open_values.pop(0), open_values.pop(0)
        open_values.append(f"w{len(lines)}")
        lines.append(f"w{len(lines)} = Add({a}, {b})")
    return model(f"{IMAGE} x", f"{body} {' '.join(lines)} y = Relu({open_values[0]})", f"{IMAGE} y")


def slices(count):
    return model("float[1,20000,4] x", listed(count, "v{i} = Slice(x, k{i}, k{j}, one)") + f" y = Sum({names(count)})", "float[1,A,4] y",
                 [constant(f"k{i}", [i]) for i in range(count + 1)])


def folded(count):
    return model(f"{IMAGE} x", "v0 = Neg(t) " + listed(count, "v{j} = Add(v{i}, t)") + f" y = Add(x, v{count})", f"{IMAGE} y")


def unused(count):
    return model(f"{IMAGE} x", listed(count, "v{i} = LeakyRelu<alpha={i}.5>(x)") + " y = Relu(x)", f"{IMAGE} y")


def unused_constants(count):
    return model(f"{IMAGE} x", "y = Relu(x)", f"{IMAGE} y", [constant(f"k{i}", [i]) for i in range(count)])


def loop(count):
    return model(f"{ROWS} x, int64[1] unused", f"y = Loop<body = g (int64 i, bool on, float[1,6,16] a) => (bool go, float[1,6,16] e) {{ go = Identity(on) e = Sigmoid(a) }}>(times, yes, x)", f"{ROWS} y",
                 [constant("times", np.int64(min(count, 60000)))])


def nested_functions(count):
    """Functions that call each other, 16 deep, and the last one is called by each."""
    text = f'<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g ({ROWS} x) => ({ROWS} y) {{ {" ".join(f"v{i} = own.F15(x)" for i in range(count))} y = Sum({names(count)}) }}'
    for depth in range(16):
        call = "y = Relu(x)" if depth == 0 else f"a = own.F{depth - 1}(x) y = Neg(a)"
        text += f' <domain: "own", opset_import: ["" : 18, "own" : 1]> F{depth} (x) => (y) {{ {call} }}'
    return parser.parse_model(text)


def after_unknown(count):
    return model(f"{IMAGE} x", "v0 = own.G(x) " + listed(count, "v{j} = LeakyRelu<alpha={i}.5>(v{i})"), f"{IMAGE} v{count}")


def before_invalid(count):
    return model(f"{IMAGE} v0", listed(count, "v{j} = LeakyRelu<alpha={i}.5>(v{i})") + f" s = Shape(v{count}) y = Slice(s, one, two, one)", "int64[A] y")


def after_invalid(count):
    return model(f"{IMAGE} x", "s = Shape(x) r = Slice(s, one, two, one) v0 = Cast<to=1>(r) " + listed(count, "v{j} = LeakyRelu<alpha={i}.5>(v{i})"), f"float[A] v{count}")


def unknown(count):
    return model(f"{IMAGE} x", listed(count, "v{i} = own.G(x)") + f" y = Sum({names(count)})", f"{IMAGE} y")


GRAPHS = {
    "fan-out": fan_out, "identical branches": identical, "many outputs": many_outputs, "many inputs": many_inputs, "many free sizes": (many_symbols, 500), "wide concat": wide_concat,
    "concat of concats": concats, "tree of sums": tree, "slices of one value": slices, "folded constants": folded, "unused nodes": unused, "unused constants": unused_constants,
    "loop": loop, "functions of functions": (nested_functions, 100), "unknown operators": unknown, "chain after an unknown operator": after_unknown,
    "chain after an invalid operator": after_invalid, "chain before an invalid operator": before_invalid,
}


def seconds(convert, made, folder, runs):
    path = folder + "/model.onnx"
    save(made, path)
    words = convert.format(model=path, param=folder + "/o.param", bin=folder + "/o.bin").split()
    least, code = math.inf, 0
    for _ in range(runs):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        least = min(least, used.ru_utime + used.ru_stime)
        if least > 20:
            break
    return least, {0: "", 1: "refused"}.get(code, f"code {code}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--convert", default="onnx2ncnn {model} {param} {bin}")
    options.add_argument("--match", default="")
    options.add_argument("--out")
    options = options.parse_args()
    kinds = {name: (chain(*given), STEPS) for name, given in CHAINS.items()}
    kinds.update((name, made if isinstance(made, tuple) else (made, STEPS)) for name, made in GRAPHS.items())
    lines = ["# Time by size", "", "Seconds of the processor for conversions at three sizes, and the exponent of the last two. Made by `scaling.py`.", ""]
    lines += ["| graph | steps | s | four times | sixteen times | exponent | |", "| --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    steep = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, steps) in kinds.items():
            if not re.search(options.match, name):
                continue
            start, _ = seconds(options.convert, make(1), folder, 5)
            sizes = [seconds(options.convert, make(times * steps), folder, 5 if times < 16 else 3) for times in (1, 4, 16)]
            times = [used for used, _ in sizes]
            exponent = math.log(max(times[2] - start, 1e-4) / max(times[1] - start, 1e-4)) / math.log(4)
            if exponent > MOST:
                steep.append(name)
            lines.append(f"| {name} | {steps} | {times[0]:.3f} | {times[1]:.3f} | {times[2]:.3f} | {exponent:.2f} | {sizes[2][1]} |")
            print(lines[-1], flush=True)
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(lines) + "\n")
    if steep:
        sys.exit(f"above {MOST}: {', '.join(steep)}")


if __name__ == "__main__":
    main()
