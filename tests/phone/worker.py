"""Runs nets with the options that ncnn has by default: a request of JSON on a line, a verdict on a line.

A result passes if it has the expected infinities and NaN, and differs by at most a hundredth of the largest magnitude. In half precision
cases are skipped with numbers that float16 does not represent; a request for float32 disables it.
"""

import json
import os
import sys
from pathlib import Path

import ncnn
import numpy as np

MAX_AXES = 4
TOLERANCE = 0.01
LARGEST_HALF, LEAST_HALF = 65504, 2**-14


def mat_shape(shape, axes):
    """The sizes of the blob of a value of this shape, which has this number of axes, outermost first."""
    sizes = list(shape) or [1]
    if len(sizes) == axes:
        return sizes
    if len(sizes) >= 2 and sizes[0] == 1:
        del sizes[0]
    while len(sizes) > MAX_AXES and 1 in sizes:
        sizes.remove(1)
    if len(sizes) > MAX_AXES:
        sizes = [int(np.prod(sizes[: -(MAX_AXES - 1)])), *sizes[-(MAX_AXES - 1) :]]
    return sizes


def fits(array):
    """Whether float16 represents the magnitudes of an array."""
    if array.dtype.kind != "f":
        return True
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return finite.max(initial=0) <= LARGEST_HALF and (finite.size == 0 or finite.max() == 0 or finite.max() >= LEAST_HALF)


def difference(array, expected):
    """The difference from the expected result, or None."""
    if array.size != expected.size:
        return f"{array.size} elements for {expected.size}"
    array, expected = array.reshape(expected.shape).astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    same = (array == expected) | (np.isnan(array) & np.isnan(expected))
    if not same[~finite].all() or not np.isfinite(array[finite]).all():
        return "infinite or NaN"
    error = np.abs(array - expected)[finite].max(initial=0) / (np.abs(expected[finite]).max(initial=0) + 1e-6)
    return None if error <= TOLERANCE else f"error {error:.3g}"


def run(request):
    case = Path(request["case"])
    with np.load(case / "inputs.npz") as inputs, np.load(case / "outputs.npz") as outputs:
        inputs, outputs = dict(inputs), dict(outputs)
    if not request["float32"] and not all(fits(array) for array in [*inputs.values(), *outputs.values()]):
        return "skipped"
    net = ncnn.Net()
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic") if request["float32"] else ():
        setattr(net.opt, f"use_{option}", False)
    if net.load_param(request["param"]) != 0 or net.load_model(request["bin"]) != 0:
        return "the net does not load"
    extractor = net.create_extractor()
    for name, blob, int32, axes in request["input"]:
        array = inputs[name].astype(np.int32 if int32 else np.float32)
        if array.size == 0:
            return "skipped"
        # The array has a name until the Mat, which does not keep it alive, is copied.
        array = np.ascontiguousarray(array.reshape(mat_shape(array.shape, axes)))
        extractor.input(blob, ncnn.Mat(array).clone())
    for name, blob, int32, _ in request["output"]:
        code, mat = extractor.extract(blob)
        if code != 0:
            return f"{name} cannot be extracted"
        array = np.array(mat)
        found = difference(array.view(np.int32) if int32 else array, outputs[name])
        if found:
            return f"{name}: {found}"
    return "pass"


def main():
    # ncnn reports errors on standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
