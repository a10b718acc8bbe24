"""Runs windows and interpolations over small free sizes in ncnn, and compares them with onnxruntime.

usage: sizes.py [--all] [--only TEXT] CONVERTER

Each model is converted once, with free sizes, and run for every size that the conditions of the converter allow, those shorter than
the window among them. Models that are refused count as right. The sizes of fixtures in the table and in the report are evaluated at
random sizes, and compared with the shapes in onnxruntime. Exit code 1 if a result is wrong. --all takes more sizes, and all models
instead of every third.
"""

import argparse
import collections
import itertools
import json
import multiprocessing
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from conditions import holds
from run import BIN, PARAM, Judge, convert, told_ports

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
TOLERANCE = 1e-3
AXES = "DHW"
LONGEST = 12


class Model:
    """A graph in ONNX's text syntax with constants, and its largest sizes."""

    def __init__(self, name, graph, opset=17, **constants):
        self.name, self.graph, self.opset, self.constants = name, graph, opset, constants

    def write(self, path):
        head = f'<ir_version: 8, opset_import: ["" : {self.opset}]>'
        model = onnx.parser.parse_model(f"{head} g {self.graph}")
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items())
        path.write_bytes(model.SerializeToString())


def weights(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def free(rank):
    return ",".join(AXES[-rank:])


def ints(values):
    return "[" + ",".join(map(str, values)) + "]"


def pools(every):
    """Windows of 2 to 4 elements with each kind of padding, over one, two and three axes."""
    averages = [("AveragePool", f"count_include_pad={flag}, ") for flag in (0, 1)]
    kinds = [("MaxPool", ""), *averages, ("LpPool", "p=2, ")]
    for rank, (op, more), kernel, stride in itertools.product((1, 2, 3), kinds, (2, 3, 4), (1, 2, 3)):
        if not every and (rank > 1 and kernel == 4 or rank == 3 and stride == 3):
            continue
        pads = [f"auto_pad=\"{name}\"" for name in ("SAME_UPPER", "SAME_LOWER", "VALID")]
        pads += [f"pads={ints([begin] * rank + [end] * rank)}" for begin, end in ((0, 0), (1, 1), (1, 0), (0, 1)) if max(begin, end) < kernel]
        for pad, ceil in itertools.product(pads, (0, 1)):
            if ceil and (op == "LpPool" and "pads" not in pad or "SAME" in pad):
                continue
            shape = f"kernel_shape={ints([kernel] * rank)}, strides={ints([stride] * rank)}, {pad}" + (", ceil_mode=1" if ceil else "")
            opset = 19 if op == "AveragePool" else 18 if op == "LpPool" else 17
            yield Model(f"{op} {more}{shape}", f"(float[1,2,{free(rank)}] x) => (float[] y) {{ y = {op}<{more}{shape}>(x) }}", opset)
    for (op, more), (kernel, dilation), stride, (begin, end), ceil in itertools.product(kinds, ((2, 2), (2, 3), (3, 2)), (1, 2, 3), ((0, 0), (1, 1), (0, 1)), (0, 1)):
        shape = f"kernel_shape=[{kernel},2], strides=[{stride},1], dilations=[{dilation},1], pads=[{begin},1,{end},0]" + (", ceil_mode=1" if ceil else "")
        yield Model(f"{op} {more}{shape}", f"(float[1,2,H,W] x) => (float[] y) {{ y = {op}<{more}{shape}>(x) }}", 19)
    for op, kernel, stride, begin in itertools.product(("MaxPool", "AveragePool"), (2, 3), (1, 2), (0, 1)):
        shape = f"kernel_shape=[{kernel},{kernel}], strides=[{stride},{stride}], pads=[{begin},0,0,{begin}], ceil_mode=1"
        yield Model(f"{op} {shape} over a fixed height", f"(float[1,2,2,W] x) => (float[] y) {{ y = {op}<{shape}>(x) }}", 19)


def convolutions(every):
    kinds = [("Conv", 1), ("Conv", 2), ("ConvTranspose", 1), ("ConvTranspose", 2)]
    for rank, (op, group), kernel, stride, dilation in itertools.product((1, 2, 3), kinds, (1, 2, 3), (1, 2, 3), (1, 2)):
        if not every and (stride == 3 and rank > 1 or dilation == 2 and kernel == 2):
            continue
        pads = ["auto_pad=\"SAME_UPPER\"", "auto_pad=\"SAME_LOWER\"", "auto_pad=\"VALID\""]
        reach = (kernel - 1) * dilation + 1
        pads += [f"pads={ints([begin] * rank + [end] * rank)}" for begin, end in ((1, 1), (1, 0)) if max(begin, end) < reach]
        for pad in pads:
            shape = f"group={group}, kernel_shape={ints([kernel] * rank)}, strides={ints([stride] * rank)}, dilations={ints([dilation] * rank)}, {pad}"
            w = weights(4, 2 // group, *[kernel] * rank) if op == "Conv" else weights(2, 2, *[kernel] * rank)
            yield Model(f"{op} {shape}", f"(float[1,2,{free(rank)}] x) => (float[] y) {{ y = {op}<{shape}>(x, w) }}", w=w)
    for kernel, stride, pad in itertools.product((2, 3), (1, 2), (0, 1)):
        pads = f"kernel_shape=[{kernel},{kernel}], strides=[{stride},{stride}], pads=[{pad},{pad},{pad},{pad}]"
        w = np.random.default_rng(7).integers(-9, 9, (3, 2, kernel, kernel)).astype(np.int8)
        x = "(uint8[1,2,H,W] x)"
        yield Model(f"ConvInteger {pads}", f"{x} => (int32[] y) {{ y = ConvInteger<{pads}>(x, w, xz, wz) }}", w=w, xz=np.uint8(3), wz=np.int8(1))
        yield Model(
            f"QLinearConv {pads}",
            f"{x} => (uint8[] y) {{ y = QLinearConv<{pads}>(x, xs, xz, w, ws, wz, ys, yz) }}",
            w=w,
            xs=np.float32(0.1),
            xz=np.uint8(3),
            ws=np.float32(0.2),
            wz=np.int8(0),
            ys=np.float32(0.5),
            yz=np.uint8(100),
        )


def interpolations(every):
    transforms = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    modes = [("linear", ""), ("cubic", "")] + [("nearest", f", nearest_mode=\"{mode}\"") for mode in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")]
    for transform, (mode, more), rank in itertools.product(transforms, modes, (1, 2, 3)):
        if rank == 3 and mode == "cubic":
            continue
        attributes = f"coordinate_transformation_mode=\"{transform}\", mode=\"{mode}\"{more}"
        x = f"float[1,2,{free(rank)}] x"
        for scale in (0.25, 0.5, 2 / 3, 0.75, 1.5, 2.0, 2.5, 3.0):
            scales = np.array([1, 1] + [scale] * rank, np.float32)
            yield Model(f"Resize {attributes} by {scale} {rank}", f"({x}) => (float[] y) {{ y = Resize<{attributes}>(x, , s) }}", s=scales)
        targets = {1: [(1,), (2,), (5,)], 2: [(1, 5), (5, 1), (1, 1), (4, 6)], 3: [(3, 1, 5)]}[rank]
        if every or mode != "nearest":
            yield Model(
                f"Resize {attributes} to parts {rank}",
                f"({x}) => (float[] y) {{ a = Shape<end=2>(x) b = Shape<start=2>(x) f = Cast<to=1>(b) m = Mul(f, part) l = Floor(m) i = Cast<to=7>(l) s = Concat<axis=0>(a, i) y = Resize<{attributes}>(x, , , s) }}",
                part=np.float32(0.5),
            )
        for target in targets:
            sizes = np.array([1, 2, *target], np.int64)
            yield Model(f"Resize {attributes} to {target}", f"({x}) => (float[] y) {{ y = Resize<{attributes}>(x, , , s) }}", s=sizes)
        if every or mode != "nearest":
            other = f"float[1,1,{free(rank).lower()}] other"
            yield Model(
                f"Resize {attributes} to another {rank}",
                f"({x}, {other}) => (float[] y) {{ a = Shape<start=0, end=2>(x) b = Shape<start=2>(other) s = Concat<axis=0>(a, b) y = Resize<{attributes}>(x, , , s) }}",
            )
        table = weights(1, 2, *[6] * rank)
        yield Model(
            f"Resize {attributes} of a table {rank}",
            f"({x}) => (float[] y) {{ s = Shape(x) t = Resize<{attributes}>(w, , , s) y = Add(x, t) }}",
            w=table,
        )
    for mode, scale in itertools.product(("nearest", "linear"), (1.5, 2.0)):
        yield Model(f"Upsample {mode} {scale}", f"(float[1,2,H,W] x) => (float[] y) {{ y = Upsample<mode=\"{mode}\">(x, s) }}", 9, s=np.array([1, 1, scale, scale], np.float32))


def others(every):
    """Further windows and samplings: edges, parts, grids and neighbours."""
    for mode in ("constant", "reflect", "edge", "wrap"):
        for begin, end in ((0, 1), (2, 1), (3, 3)):
            pads = np.array([0, 0, begin, begin, 0, 0, end, end], np.int64)
            yield Model(f"Pad {mode} {begin} {end}", f"(float[1,2,H,W] x) => (float[] y) {{ y = Pad<mode=\"{mode}\">(x, p) }}", 19, p=pads)
    for mode, corners, padding in itertools.product(("bilinear", "nearest", "bicubic"), (0, 1), ("zeros", "border", "reflection")):
        attributes = f"mode=\"{mode}\", align_corners={corners}, padding_mode=\"{padding}\""
        yield Model(f"GridSample {attributes}", f"(float[1,2,H,W] x, float[1,3,4,2] g) => (float[] y) {{ y = GridSample<{attributes}>(x, g) }}", 16)
    for block in (2, 3):
        yield Model(f"SpaceToDepth {block}", f"(float[1,2,H,W] x) => (float[] y) {{ y = SpaceToDepth<blocksize={block}>(x) }}")
        yield Model(f"DepthToSpace {block}", f"(float[1,{2 * block * block},H,W] x) => (float[] y) {{ y = DepthToSpace<blocksize={block}>(x) }}")
    for size in (3, 5):
        yield Model(f"LRN {size}", f"(float[1,7,H,W] x) => (float[] y) {{ y = LRN<size={size}>(x) }}")
    backwards = ((9, 0, -1), (-1, -99, -1), (-2, -99, -1), (-2, -99, -2), (-1, -99, -3), (-1, -4, -1), (7, 1, -2))
    for start, end, step in ((0, -1, 1), (1, 9, 2), (0, 5, 2), (1, -1, 3), (-2, 99, 1), (3, 5, 1), *backwards):
        bounds = {"a": [start], "b": [end], "c": [2], "d": [step]}
        yield Model(
            f"Slice {start} {end} {step}",
            "(float[1,2,H,W] x) => (float[] y) { y = Slice(x, a, b, c, d) }",
            **{name: np.array(value, np.int64) for name, value in bounds.items()},
        )
    for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        yield Model(op, f"(float[1,2,H,W] x) => (float[] y) {{ y = {op}(x) }}")


def expressions(every):
    """Numbers, reshapes and products of sizes, as exporters write them."""
    number = "(float[1,T,4] x) => (float[] y) { s = Shape<start=1,end=2>(x) n = Squeeze(s) %s f = Cast<to=1>(m) y = Mul(x, f) }"
    for name, body in (("T - 5", "m = Sub(n, five)"), ("min(T, 5) - 3", "l = Min(n, five) m = Sub(l, three)"), ("max(T - 5, 0)", "l = Sub(n, five) m = Max(l, zero)")):
        yield Model(f"number {name}", number % body, five=np.int64(5), three=np.int64(3), zero=np.int64(0))
    for area, inferred in itertools.product((2, 4), (False, True)):
        part = "q = Identity(rest)" if inferred else "a = Mul(h, w) q = Div(a, areas)"
        yield Model(
            f"attention within {area} areas{' of inferred size' if inferred else ''}",
            f"""(float[1,4,H,W] x) => (float[] y) {{ h = Shape<start=2,end=3>(x) w = Shape<start=3>(x) {part} r = Reshape(x, flat) t = Transpose<perm=[0,2,1]>(r)
                n = Concat<axis=0>(areas, q, four) v = Reshape(t, n) k = Transpose<perm=[0,2,1]>(v) p = MatMul(v, k) e = Softmax<axis=-1>(p) o = MatMul(e, v)
                m = Concat<axis=0>(one, h, w, four) b = Reshape(o, m) y = Transpose<perm=[0,3,1,2]>(b) }}""",
            areas=np.array([area]), rest=np.array([-1]), four=np.array([4]), one=np.array([1]), flat=np.array([1, 4, -1]),
        )
    equations = {"bchw,bkc->bkhw": ("1,3,H,W", "1,4,3"), "bnc,bchw->bhwn": ("1,4,3", "1,3,H,W"), "bhwc,bhkc->bhwk": ("1,H,W,3", "1,H,K,3"), "bchw,bcde->bhwde": ("1,3,H,W", "1,3,2,E")}
    for equation, (a, b) in equations.items():
        yield Model(f"Einsum {equation}", f"(float[{a}] a, float[{b}] b) => (float[] y) {{ y = Einsum<equation=\"{equation}\">(a, b) }}")
    for name, pads in (("rows", (0, 0, 1, 0, 0, 0, 2, 0)), ("columns", (0, 0, 0, 2, 0, 0, 0, 1)), ("channels", (0, 1, 0, 0, 0, 1, 0, 0))):
        yield Model(f"Pad {name} with infinities", "(float[1,2,H,W] x) => (float[] y) { p = Pad(x, n, v) y = Max(p, low) }", n=np.array(pads), v=np.float32(-np.inf), low=np.float32(-2))
    for elements, stride, first in itertools.product((2, 4, 5), (1, 2, 5), (False, True)):
        axis = np.arange(elements).reshape(-1, 1) if first else np.arange(elements)
        column = "c = Identity(m)" if first else "c = Unsqueeze(m, axis)"
        yield Model(
            f"frames of {elements} by {stride}{' transposed' if first else ''}",
            f"(float[1,T,3] x) => (float[] y) {{ s = Shape<start=1,end=2>(x) t = Squeeze(s) e = Sub(t, k) d = Div(e, by) n = Add(d, one) r = Range(zero, n, one) m = Mul(r, by) {column} i = Add(c, places) y = Gather<axis=1>(x, i) }}",
            k=np.int64(elements), by=np.int64(stride), one=np.int64(1), zero=np.int64(0), axis=np.array([1]), places=axis,
        )
    for kind, gates, flag in (("LSTM", 4, ""), ("GRU", 3, ", linear_before_reset=1"), ("RNN", 1, "")):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            yield Model(
                f"{kind} {direction} of rows",
                f"(float[1,3,H,W] x) => (float[] y, float[] z) {{ t = Transpose<perm=[3,2,0,1]>(x) s = Squeeze(t, two) u, h = {kind}<hidden_size=4, direction=\"{direction}\"{flag}>(s, w, r, b) y = Transpose<perm=[1,0,2,3]>(u) z = Transpose<perm=[0,2,1]>(h) }}",
                two=np.array([2]), w=weights(count, gates * 4, 3), r=weights(count, gates * 4, 4), b=weights(count, gates * 8),
            )


def selections(every):
    """Gathers at indices that the net computes, and updates of slices as exporters write them."""
    for axis, keep in itertools.product((1, 2), (0, 1)):
        best = f"i = ArgMax<axis={axis}, keepdims={keep}>(x)"
        for taken in (1, 2):
            # Each index is one of the gathered axis.
            if axis == taken:
                yield Model(f"Gather {axis} {keep}", f"(float[1,H,W] x) => (float[] y) {{ {best} y = Gather<axis={taken}>(x, i) }}")
        if keep:
            yield Model(f"GatherElements {axis}", f"(float[2,H,W] x) => (float[] y) {{ {best} y = GatherElements<axis={axis}>(x, i) }}")
            expanded = f"{best} s = Shape(x) a = Expand(i, s) y = GatherElements<axis={axis}>(x, a)"
            yield Model(f"GatherElements expanded {axis}", f"(float[2,H,W] x) => (float[] y) {{ {expanded} }}")
    for index in (0, 2, -1, -2):
        one = "s = Shape(u) i = Expand(at, s) y = ScatterElements<axis=1>(x, i, u)"
        yield Model(f"ScatterElements {index}", f"(float[2,H,3] x, float[2,1,3] u) => (float[] y) {{ {one} }}", at=np.array([[[index]]], np.int64))
    for reduction, width in itertools.product(("none", "add", "mul", "max", "min"), (0, 3)):
        more = f",{width}" if width else ""
        rows = f"r = ArgMax<axis=1, keepdims=0>(x) i = Reshape(r, column) u = Squeeze(v, zero) d = Squeeze(z, zero) y = ScatterND<reduction=\"{reduction}\">(d, i, u)"
        yield Model(
            f"ScatterND {reduction} of rows {width}",
            f"(float[1,H,W] x, float[1,H{more}] z, float[1,W{more}] v) => (float[] y) {{ {rows} }}",
            18,
            column=np.array([-1, 1]),
            zero=np.array([0]),
        )
    for start, end, step in ((0, 2, 1), (1, 3, 1), (1, 4, 2), (0, 99, 1)):
        count = len(range(*slice(start, end, step).indices(LONGEST)))
        rows = count if end < 99 else "H"
        body = """n = Shape<start=1, end=2>(x) l = Squeeze(n) every = Range(zero, l, one) part = Slice(every, a, b, first, c)
            column = Reshape(two, upright) sum = Add(column, part) s = Shape(sum) e = Expand(column, s) f = Expand(part, s)
            g = Unsqueeze(e, last) h = Unsqueeze(f, last) at = Concat<axis=-1>(g, h) y = ScatterND(x, at, u)"""
        yield Model(
            f"ScatterND {start} {end} {step}",
            f"(float[2,H,3] x, float[2,{rows},3] u) => (float[] y) {{ {body} }}",
            zero=np.int64(0),
            one=np.int64(1),
            two=np.array([0, 1]),
            upright=np.array([-1, 1]),
            first=np.array([0]),
            last=np.array([-1]),
            a=np.array([start]),
            b=np.array([end]),
            c=np.array([step]),
        )


def symbols(path):
    model = onnx.load(path)
    names = [dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param]
    return sorted(set(names))


def tried(names, every):
    """Sizes of all axes, of which few axes have many."""
    few = [1, 2, 3, 4, 5, 8]
    counts = range(1, LONGEST + 1)
    choices = {1: [counts], 2: [counts if every else few] * 2}.get(len(names), [few if every and len(names) < 4 else [1, 2, 3, 5]] * len(names))
    return [dict(zip(names, sizes)) for sizes in itertools.product(*choices)]


def models(every):
    """All models; fewer unless `every`."""
    return itertools.chain.from_iterable(family(every) for family in (pools, convolutions, interpolations, others, expressions, selections))


def allowed(case, report, every):
    """The sizes that satisfy the conditions of a report."""
    diagnostics = json.loads(report.read_text())["diagnostics"]
    conditions = [found["reason"] for found in diagnostics if found["severity"] == "condition"]
    return [one for one in tried(symbols(case / "model.onnx"), every) if all(holds(condition, one) for condition in conditions)]


def printed_sizes(arguments, judge, out, report):
    """The name, the verdict and the reason for each fixture with free sizes."""
    for model in sorted(FIXTURES.glob("*/*/model.onnx")):
        name = f"{model.parent.parent.name}/{model.parent.name}"
        if arguments.only not in name:
            continue
        verdict, told = convert(arguments.converter, model.parent, out, "--report", report)
        ports = told_ports(told) if verdict == "converted" else {}
        if any(not size.isdigit() for port in ports.values() for size in port["shape"]):
            yield name, *judge.ask("judge_printed", model, ports, report)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("converter")
    arguments = parser.parse_args()
    judge, counts, wrong = Judge(), collections.Counter(), []
    taken = itertools.islice(models(arguments.all), 0, None, 1 if arguments.all or arguments.only else 3)
    with tempfile.TemporaryDirectory() as folder:
        case, out = Path(folder) / "case", Path(folder) / "out"
        case.mkdir()
        out.mkdir()
        for model in taken:
            if arguments.only not in model.name:
                continue
            model.write(case / "model.onnx")
            report = case / "report.json"
            verdict, told = convert(arguments.converter, case, out, "--report", report)
            if verdict != "converted":
                counts[verdict] += 1
                if verdict != "refused":
                    wrong.append(f"{model.name}: {verdict}: {told}")
                continue
            sizes = allowed(case, report, arguments.all)
            verdict, reason = judge.ask("judge_sizes", case / "model.onnx", out / PARAM, out / BIN, told_ports(told), sizes, TOLERANCE)
            counts[verdict] += 1
            counts["runs"] += len(sizes)
            if verdict in ("broken", "wrong"):
                wrong.append(f"{model.name}: {verdict}: {reason}")
        for name, verdict, reason in printed_sizes(arguments, judge, out, case / "report.json"):
            counts[f"printed: {verdict}"] += 1
            if verdict in ("broken", "wrong"):
                wrong.append(f"{name}: {verdict}: {reason}")
    judge.stop()
    print(dict(counts))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
