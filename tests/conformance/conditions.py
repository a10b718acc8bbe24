"""Evaluates the conditions on free sizes that the converter tells."""

import re

import numpy as np
import onnx

FUNCTIONS = {"floor_div": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}


def holds(condition, sizes):
    """Whether a condition holds for sizes by their names."""
    names = FUNCTIONS | sizes
    condition, either = condition.removesuffix(", or one of them is 1"), condition.endswith(" is 1")
    if match := re.fullmatch("(.*) is a multiple of (.*)", condition):
        return eval(match[1], names) % eval(match[2], names) == 0
    if match := re.fullmatch("(.*) is 1 or (.*)", condition):
        return eval(match[1], names) in (1, eval(match[2], names))
    a, operator, b = re.fullmatch("(.*) (>=|<=|=) (.*)", condition).groups()
    a, b = eval(a, names), eval(b, names)
    return {">=": a >= b, "<=": a <= b, "=": a == b or either and 1 in (a, b)}[operator]


def satisfies(conditions, case):
    """Whether the sizes of a case satisfy printed conditions, which semicolons separate."""
    with np.load(case / "inputs.npz") as inputs:
        shapes = {name: inputs[name].shape for name in inputs.files}
    sizes = {}
    for info in onnx.load(case / "model.onnx", load_external_data=False).graph.input:
        axes = zip(info.type.tensor_type.shape.dim, shapes.get(info.name, ()))
        sizes |= {axis.dim_param: int(size) for axis, size in axes if axis.dim_param}
    return all(holds(condition, sizes) for condition in conditions.split("; "))
