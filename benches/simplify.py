"""Models simplified by this program and by onnxsim: nodes, and the results in onnxruntime.

usage: simplify.py CONVERTER CASES [TABLE]

CASES holds a folder a model: model.onnx and inputs.npz. TABLE, in Markdown, gets a line a model: its nodes, those that are left
here and by onnxsim, and how far the outputs of our model are from those of the original, as a part of their largest magnitude.
Python needs numpy, onnx, onnxruntime and onnxsim. The answer is 1 where a model is wrong or has more nodes than that of onnxsim.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

# The tolerance of outputs: weights are folded in float32; float16 is rounded after every operator.
TOLERANCE = 1e-5
HALF_TOLERANCE = 2**-9

HEAD = """Nodes of each model, and how far its outputs are from those of the original.

| model | nodes | onnx2ncnn | onnxsim | difference |
| --- | ---: | ---: | ---: | ---: |
"""


def count_nodes(graph):
    """The nodes of a graph and of the bodies in it."""
    bodies = [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return len(graph.node) + sum(map(count_nodes, bodies))


def nodes_of(path):
    return count_nodes(onnx.load(path, load_external_data=False).graph)


def simplify_ours(converter, model, folder):
    """-> the path of the simplified model, or None if it is refused."""
    path = folder / "ours.onnx"
    command = [converter, "simplify", model, path]
    return path if subprocess.run(command, capture_output=True).returncode == 0 else None


def simplify_theirs(model, folder):
    """-> the path, or None if onnxsim fails, also by a crash of its process."""
    path = folder / "theirs.onnx"
    command = [sys.executable, "-m", "onnxsim", model, path]
    return path if subprocess.run(command, capture_output=True).returncode == 0 and path.exists() else None


def run(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    # Constants may be inputs only of the original.
    inputs = {value.name: inputs[value.name] for value in session.get_inputs()}
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, inputs)))


def difference(expected, got):
    """The largest error over the outputs; infinite if names, shapes, types, infinities or NaNs differ."""
    if expected.keys() != got.keys():
        return np.inf
    worst = 0.0
    for name, a in expected.items():
        b = got[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return np.inf
        if a.size == 0 or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        if a.dtype.kind not in "fiu":
            return np.inf
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(a)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(b[finite]).all():
            return np.inf
        worst = max(worst, np.abs(a[finite] - b[finite]).max() / max(np.abs(a[finite]).max(), 1e-30))
    return worst


def is_half(outputs):
    return any(value.dtype == np.float16 for value in outputs.values())


def measure(converter, case, folder):
    """-> a line of the table, and whether the result is right."""
    model, inputs = case / "model.onnx", dict(np.load(case / "inputs.npz"))
    ours, theirs = simplify_ours(converter, model, folder), simplify_theirs(model, folder)
    before = nodes_of(model)
    theirs = nodes_of(theirs) if theirs else None
    if not ours:
        return f"| {case.name} | {before} | refused | {theirs or 'failed'} | |", True
    after, expected = nodes_of(ours), run(model, inputs)
    distance = difference(expected, run(ours, inputs))
    good = distance <= (HALF_TOLERANCE if is_half(expected) else TOLERANCE) and (not theirs or after <= theirs)
    return f"| {case.name} | {before} | {after} | {theirs or 'failed'} | {distance:.1e} |", good


def main():
    converter, cases = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    lines, bad = [], []
    for case in sorted(path.parent for path in cases.glob("*/model.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            line, good = measure(converter, case, Path(folder))
        print(line, "" if good else "BAD", flush=True)
        lines.append(line)
        if not good:
            bad.append(case.name)
    if len(sys.argv) > 3:
        Path(sys.argv[3]).write_text(HEAD + "\n".join(lines) + "\n", encoding="utf8")
    sys.exit(f"{len(bad)} are wrong or larger: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
