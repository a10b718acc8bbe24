"""Runs layers of ncnn over their params, for the test of the reference.

A module of a family has a function `cases`, which yields `Case`s. `run` computes them in ncnn and writes them for
`tests/reference.rs`: `cases.json`, and the elements of weights, bottoms and tops in `data.bin`.
"""

import json
import os
import tempfile
from dataclasses import dataclass, field

import ncnn
import numpy as np

TAG = {"float32": b"\0\0\0\0", "float16": b"\x47\x6b\x30\x01", "int8": b"\x38\x4b\x0d\x00"}


@dataclass
class Case:
    """A net of one layer.

    `params` is the text after the names of the blobs. `weights` are in the order of `load_model`: those of `Tagged` are arrays in
    float32, float16 or int8, the others float32 arrays after the word "raw". `bottoms` are arrays of float32 or int32. `tolerance` is
    relative to the largest magnitude of a top, and `why` gives the reason of one that is not the usual one.
    """

    layer: str
    params: str = ""
    weights: list = field(default_factory=list)
    bottoms: list = field(default_factory=list)
    tops: int = 1
    integers: bool = False
    tolerance: float = 1e-5
    why: str = ""


def raw(array):
    """A weight without a tag."""
    return ("raw", np.asarray(array, np.float32))


def weight_bytes(weight):
    if isinstance(weight, tuple):
        return weight[1].astype("<f4").tobytes()
    data = np.ascontiguousarray(weight).tobytes()
    return TAG[weight.dtype.name] + data + b"\0" * (-len(data) % 4)


def param_text(case):
    inputs = [f"Input in{i} 0 1 in{i}" for i in range(len(case.bottoms))]
    bottoms = "".join(f" in{i}" for i in range(len(case.bottoms)))
    tops = "".join(f" out{i}" for i in range(case.tops))
    layer = f"{case.layer} layer {len(case.bottoms)} {case.tops}{bottoms}{tops} {case.params}".rstrip()
    return f"7767517\n{len(inputs) + 1} {len(inputs) + case.tops}\n" + "\n".join([*inputs, layer]) + "\n"


def compute(case, folder):
    """The tops in ncnn."""
    net = ncnn.Net()
    net.opt.num_threads = 1
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
    text, binary = param_text(case), b"".join(weight_bytes(weight) for weight in case.weights)
    with open(f"{folder}/x.param", "w") as file:
        file.write(text)
    with open(f"{folder}/x.bin", "wb") as file:
        file.write(binary)
    described = f"{case.layer} {case.params} on {[b.shape for b in case.bottoms]}"
    if net.load_param(f"{folder}/x.param") != 0 or net.load_model(f"{folder}/x.bin") != 0:
        raise AssertionError(f"ncnn does not load {described}")
    extractor = net.create_extractor()
    for index, bottom in enumerate(case.bottoms):
        # The array has a name until the Mat, which does not keep it alive, is copied.
        bottom = np.ascontiguousarray(bottom)
        extractor.input(f"in{index}", ncnn.Mat(bottom).clone())
    tops = []
    for index in range(case.tops):
        code, mat = extractor.extract(f"out{index}")
        if code != 0:
            raise AssertionError(f"ncnn does not compute {described}")
        array = np.array(mat)
        tops.append(array.view(np.int32) if case.integers else array)
    return text, binary, tops


def run(cases, out):
    """Computes cases and writes them to the folder `out`."""
    os.makedirs(out, exist_ok=True)
    described = []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder, open(f"{out}/data.bin", "wb") as data:

        def put(content):
            offset = data.tell()
            data.write(content)
            return [offset, len(content)]

        def array(values):
            kind = "int32" if values.dtype == np.int32 else "float32"
            return {"type": kind, "shape": list(values.shape), "data": put(np.ascontiguousarray(values, kind).tobytes())}

        for case in cases:
            text, binary, tops = compute(case, folder)
            described.append({
                "param": text,
                "bin": put(binary),
                "bottoms": [array(bottom) for bottom in case.bottoms],
                "tops": [array(top) for top in tops],
                "tolerance": case.tolerance,
            })
    with open(f"{out}/cases.json", "w") as file:
        json.dump(described, file)
    return len(described)
