"""Sensitivity to rounding: on some graphs runtimes differ, and neither is wrong."""

import numpy as np
from onnx import helper

from networks.graph import model, run

# A graph is skipped if changes of this proportion in all float32 values change its results by more than this part of the tolerance.
SHAKE, MOVED = 1e-6, 0.05
# ncnn computes these to this proportion of 1, not of the result.
NEAR_ONE, NEAR_ZERO = 1e-7, {"Tanh", "Elu", "Selu", "Celu"}


def shaken(g, outputs):
    """The outputs after a small change of each float32 value but the exact ones."""
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


def is_steady(expected, found, tolerance):
    """Whether float32 outputs differ by at most the part of the tolerance, and all others are equal."""
    return all(is_same(a, b, MOVED * tolerance) for a, b in zip(expected, found))


def is_same(a, b, part):
    if a.dtype != np.float32:
        return np.array_equal(a, b)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    a, b = a[finite].astype(np.float64), b[finite].astype(np.float64)
    return bool((np.abs(a - b) <= part * np.abs(a).max(initial=0)).all())
