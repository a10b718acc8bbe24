"""Random graphs of supported operators: converted, run in ncnn, and compared with onnxruntime.

usage: graphs.py CONVERTER [--first SEED] [--count N] [--free] [--keep FOLDER]

Each seed makes one graph of a few operators, patterns that are fused among them, over values of any rank with a batch over 1 at
times. A graph in four has extremes: infinities, large magnitudes, axes of no or one element, integers up to 2^31, booleans. Integers
and booleans have to be equal in both runtimes. A graph whose result is not right is kept in FOLDER as a case: a model with its inputs
and outputs. Exit code 1 where there was any.
"""

import argparse
import collections
import itertools
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from networks import arrays, elements, integers, layers
from networks.graph import Graph, Unfit, fits_float32, is_in_int32, is_tame, model, run
from networks.steady import is_steady, shaken

RUN = Path(__file__).resolve().parent.parent / "tests/conformance/run.py"
sys.path.insert(0, str(RUN.parent))
from conditions import satisfies  # noqa: E402

TOLERANCE = 1e-3
FORK = multiprocessing.get_context("fork")
OPERATORS = layers.OPERATORS + elements.OPERATORS + arrays.OPERATORS


def make(seed):
    """-> (graph, model, inputs, outputs), or None if the seed gives no graph."""
    g = Graph(seed)
    for _ in range(g.int(1, 7)):
        typed = g.extremes & {"integer", "boolean"} and g.chance(0.7)
        try:
            g.choose(integers.OPERATORS if typed else OPERATORS)(g)
        except Unfit:
            continue
    read = {name for node in g.nodes for name in node.input}
    ends = [name for node in g.nodes for name in node.output if name and (name not in read or g.chance(0.05))]
    if not ends:
        return None
    inputs = {name: array for name, array in g.inputs.items() if name in read}
    constants = {name: array for name, array in g.constants.items() if name in read}
    outputs = ends[-4:]
    whole = model(g.nodes, inputs, constants, outputs)
    try:
        whole = onnx.shape_inference.infer_shapes(whole)
        expected = run(whole, inputs)
        if not is_steady(expected, shaken(g, outputs), TOLERANCE):
            return None
        return g, whole, inputs, dict(zip(outputs, expected))
    except Exception:
        return None


def describe(g):
    """The extremes of a graph, whether float32 rounds some of its integers, and its operators."""
    extremes = sorted(g.extremes) or ["no extremes"]
    if not all(fits_float32(array) for array in (g.others | g.constants).values()):
        extremes.append("(beyond float32)")
    return f"{' '.join(extremes)}: {' '.join(node.op_type for node in g.nodes)}"


def free(made, seed):
    """Makes about half of the sizes of the inputs free, except for the first, which would be set to 1."""
    random = np.random.default_rng(seed)
    for info in made.graph.input:
        for axis, size in enumerate(info.type.tensor_type.shape.dim):
            if axis > 0 and size.dim_value > 1 and random.random() < 0.5:
                size.dim_param = f"{info.name}_{axis}"
    # The inferred shapes have known sizes.
    del made.graph.value_info[:]
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")


def is_ambiguous(made, outputs):
    """Whether a free size of an output is 1: readers of the result must know that the axis is not dropped."""
    infos = onnx.shape_inference.infer_shapes(made).graph.output
    axes = [
        (dim.dim_value, size)
        for info, array in zip(infos, outputs.values())
        for dim, size in itertools.zip_longest(info.type.tensor_type.shape.dim, array.shape, fillvalue=onnx.TensorShapeProto.Dimension())
    ]
    return any(size == 1 and known != 1 for known, size in axes)


def compute(made, inputs, names):
    """The arrays of intermediate values."""
    inside = sorted(names - inputs.keys() - {constant.name for constant in made.graph.initializer})
    watched = onnx.ModelProto()
    watched.CopyFrom(made)
    del watched.graph.output[:]
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inside)
    constants = {constant.name: numpy_helper.to_array(constant) for constant in made.graph.initializer}
    return constants | inputs | (dict(zip(inside, run(watched, inputs))) if inside else {})


def has_defined_casts(made, inputs):
    """Whether every float32 that is cast to an integer is in the range of int32: other results depend on the processor."""
    targets = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    casts = [node for node in made.graph.node if node.op_type == "Cast"]
    names = {node.input[0] for node in casts if helper.get_attribute_value(node.attribute[0]) in targets}
    values = compute(made, inputs, names)
    return all(is_in_int32(values[name]) for name in names if values[name].dtype == np.float32)


def has_room(made, inputs):
    """Whether every window fits into its axes with their padding. onnxruntime rounds the number of windows towards zero, and so
    finds one even if none fits."""
    windows = []
    for node in made.graph.node:
        read = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if "kernel_shape" in read and node.op_type != "ConvTranspose":
            windows.append((node.input[0], read))
    values = compute(made, inputs, {name for name, _ in windows})
    for name, read in windows:
        count = len(read["kernel_shape"])
        pads, dilations = read.get("pads", [0] * 2 * count), read.get("dilations", [1] * count)
        sizes = zip(values[name].shape[2:], pads[:count], pads[count:], read["kernel_shape"], dilations)
        if any(size + begin + end < (kernel - 1) * dilation + 1 for size, begin, end, kernel, dilation in sizes):
            return False
    return True


def resized(g, made, seed):
    """Inputs of other sizes, and the outputs, if the model accepts them."""
    random = np.random.default_rng(seed)
    sizes = collections.defaultdict(lambda: int(random.integers(1, 41)))
    others = {}
    for info in made.graph.input:
        dims = info.type.tensor_type.shape.dim
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims]
        others[info.name] = g.draws[info.name](random, shape)
    try:
        outputs = run(made, others)
    except Exception:
        return None
    if not has_room(made, others) or not has_defined_casts(made, others) or not (g.extremes or all(is_tame(array) for array in outputs)):
        return None
    return others, {info.name: array for info, array in zip(made.graph.output, outputs)}


def draw(seed, folder, with_free_sizes):
    """Writes the cases of a seed, in a child process: onnxruntime aborts on some graphs with extremes, which are left out."""
    child = FORK.Process(target=write_cases, args=(seed, folder, with_free_sizes))
    child.start()
    child.join()


def write_cases(seed, folder, with_free_sizes):
    made = make(seed)
    if made is None:
        return
    g, whole, *fixed = made
    cases = {str(seed): fixed}
    if with_free_sizes:
        free(whole, seed)
        other = resized(g, whole, seed)
        if other is not None:
            cases[f"{seed}-resized"] = other
    for name, (inputs, outputs) in cases.items():
        if with_free_sizes and is_ambiguous(whole, outputs):
            continue
        case = folder / name
        case.mkdir()
        onnx.save(whole, case / "model.onnx")
        np.savez(case / "inputs.npz", **inputs)
        np.savez(case / "outputs.npz", **outputs)
        # The last file: a case is complete if it has it.
        (case / "CONTENT").write_text(describe(g))


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
        listed, contents = [], {}
        for seed in range(arguments.first, arguments.first + arguments.count):
            draw(seed, folder, arguments.free)
        for case in sorted(path.parent for path in folder.glob("*/CONTENT")):
            listed.append(f"{case.name}\t{case}\n")
            contents[case.name] = (case / "CONTENT").read_text()
        verdicts = folder / "verdicts"
        command = [sys.executable, RUN, "--exact", Path(arguments.converter).resolve(), verdicts, str(TOLERANCE)]
        subprocess.run(command, input="".join(listed), text=True, check=True)
        counts, bad = collections.Counter(), 0
        for line in verdicts.read_text().splitlines():
            name, verdict, reason = (line.split("\t") + [""])[:3]
            reason, _, conditions = reason.removesuffix("]").partition(" [valid if: ")
            if conditions and not satisfies(conditions, folder / name):
                verdict = "not valid for the sizes"
            counts[verdict] += 1
            if verdict == "refused":
                counts[f"refused: {reason}"] += 1
            elif verdict not in ("pass", "not valid for the sizes"):
                bad += 1
                counts[f"{verdict}: {contents[name].split(':')[0]}"] += 1
                print(f"{name}: {verdict}: {reason} [{contents[name]}]")
                arguments.keep.mkdir(parents=True, exist_ok=True)
                shutil.copytree(folder / name, arguments.keep / name, dirs_exist_ok=True)
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
