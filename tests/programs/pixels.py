"""Converts models with the scaling of pixels in the net, and compares what they give for pixels with the models after numpy's scaling.

usage: pixels.py CONVERTER FOLDER
"""

import subprocess
import sys
from pathlib import Path

import ncnn
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)

SIZE = 16
IMAGENET = ["--scale", "1/255", "--mean", "0.485,0.456,0.406", "--norm", "1/0.229,1/0.224,1/0.225"]
# Options, and the scale, mean and norm that they say.
SCALINGS = [
    (["--scale", "1/255"], 1 / 255, 0, 1),
    (["--mean", "127.5", "--norm", "1/127.5"], 1, 127.5, 1 / 127.5),
    (IMAGENET, 1 / 255, np.array([0.485, 0.456, 0.406]), 1 / np.array([0.229, 0.224, 0.225])),
    ([], 1, 0, 1),
]


def model(pads, version=17, last=False, channels=3):
    """A convolution of a picture, perhaps with channels as its last axis."""
    random = np.random.default_rng(7)
    nodes = [helper.make_node("Transpose", ["picture"], ["turned"], perm=[0, 3, 1, 2])] if last else []
    nodes.append(helper.make_node("Conv", ["turned" if last else "picture", "w", "b"], ["h"], kernel_shape=[3, 3], pads=[pads] * 4))
    nodes.append(helper.make_node("Relu", ["h"], ["y"]))
    constants = {"w": random.standard_normal((8, channels, 3, 3)), "b": random.standard_normal(8)}
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()]
    shape = [1, SIZE, SIZE, channels] if last else [1, channels, SIZE, SIZE]
    inputs = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)]
    if version < 9:
        # Constants were inputs.
        inputs += [helper.make_tensor_value_info(t.name, TensorProto.FLOAT, t.dims) for t in tensors]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8 if version >= 9 else 3)


# A model, and whether a mean of pixels is a layer of its own; None if the factors are, too.
MODELS = {
    "padded": (model(1), True),
    "whole": (model(0), False),
    "last": (model(0, last=True), None),
    "old": (model(0, version=6), None),
    "old_padded": (model(1, version=6), None),
    "gray": (model(1, channels=1), True),
}


def check_planes(converter, folder, options, reversed_):
    """A net of planes is that of the model with channels first."""
    flags = ["--quiet", *options] + (["--bgr"] if reversed_ else [])
    nets = []
    for name, more in (("last", ["--chw"]), ("whole", [])):
        param, binary = (folder / f"planes.{ending}" for ending in ("param", "bin"))
        subprocess.run([converter, str(folder / f"{name}.onnx"), str(param), str(binary), *flags, *more], check=True)
        nets.append((param.read_text(), binary.read_bytes()))
    assert nets[0] == nets[1], (options, reversed_)


def check(converter, folder, name, options, scale, mean, norm, reversed_):
    path, param, binary = (str(folder / f"{name}.{ending}") for ending in ("onnx", "param", "bin"))
    flags = options + (["--bgr"] if reversed_ else [])
    subprocess.run([converter, path, param, binary, "--quiet", *flags], check=True)
    made = MODELS[name][0]
    shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    axis = 3 if shape[3] in (1, 3) else 1
    pixels = np.random.default_rng(3).integers(0, 256, shape).astype(np.float32)
    read = np.moveaxis(pixels, axis, -1)
    read = read[..., ::-1] if reversed_ else read
    read = np.ascontiguousarray(np.moveaxis((read * scale - mean) * norm, -1, axis).astype(np.float32))
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"picture": read})[0]
    net = ncnn.Net()
    assert net.load_param(param) == 0 and net.load_model(binary) == 0
    extractor = net.create_extractor()
    # A Mat does not keep its array alive.
    picture = np.ascontiguousarray(pixels[0])
    mat = ncnn.Mat(picture).clone()
    assert extractor.input("picture", mat) == 0
    result = np.array(extractor.extract("y")[1])
    error = np.abs(result - expected[0]).max() / np.abs(expected).max()
    assert error < 1e-5, (name, flags, error)
    layers = Path(param).read_text().splitlines()[1].split()[0]
    subprocess.run([converter, path, param, binary, "--quiet"], check=True)
    more = int(layers) - int(Path(param).read_text().splitlines()[1].split()[0])
    # One mean is a number of its layer; several are a constant beside it.
    expected_more = (0 if not np.any(mean) else 1 if np.ndim(mean) == 0 else 2) if MODELS[name][1] else 0
    assert MODELS[name][1] is None or more == expected_more, (name, flags, more)


def main():
    converter, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (made, _) in MODELS.items():
        onnx.save(made, folder / f"{name}.onnx")
        for options, scale, mean, norm in SCALINGS:
            for reversed_ in (False, True):
                is_plain = not options and not reversed_
                is_gray = name == "gray" and (np.ndim(mean) or reversed_)
                if not is_plain and not is_gray:
                    check(converter, folder, name, options, scale, mean, norm, reversed_)
    for options, *_ in SCALINGS:
        for reversed_ in (False, True):
            check_planes(converter, folder, options, reversed_)
    print("pixels become what the models read")


if __name__ == "__main__":
    main()
