"""Compares the boxes that programs of `--example` find with those of detectors of several libraries.

usage: detectors.py CONVERTER [NCNN] [--match RE]

The networks have random weights, and are exported as each library does it. The picture has the size of the network, and onnxruntime gets the pixels
that the program gives the net. Where the model selects its boxes itself, its outputs are the boxes; elsewhere they are selected here, by the form that
the library documents. With NCNN, a folder where ncnn is installed, programs in C++ are compared, too. Needs ncnn, opencv-python-headless and the
packages of benches/detectors.txt, 6 GB.
"""

import ast
import os
import re
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import torch
import torchvision

from defaults import lively, picture
from yolo import arguments_of, differences, programs

OVERLAP, MOST = 0.45, 300


def centres(rows):
    """Corners of centres and sizes."""
    return np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], axis=1)


def corners(rows):
    return rows[:, :4]


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


# From the outputs of a model, and the side of the picture, to boxes and the scores of their classes.
FORMS = {
    "rows of corners": lambda outputs, side: (corners(outputs[0][0]), outputs[0][0][:, 4:]),
    "rows with a score of an object": lambda outputs, side: (centres(outputs[0][0]), outputs[0][0][:, 5:] * outputs[0][0][:, 4:5]),
    "columns of corners": lambda outputs, side: (corners(outputs[0][0].T), outputs[0][0].T[:, 4:]),
    "boxes and scores": lambda outputs, side: (corners(outputs[0][0]), outputs[1][0]),
    "queries": lambda outputs, side: (centres(outputs[1][0]) * side, 1 / (1 + np.exp(-outputs[0][0]))),
    "queries with no object": lambda outputs, side: (centres(outputs[1][0]) * side, softmax(outputs[0][0])[:, :-1]),
}

# Libraries, networks, and what the library documents about the outputs.
OF_LIBREYOLO = {
    "YOLOX": "rows with a score of an object",
    "YOLO3": "columns of corners",
    "YOLO4": "columns of corners",
    "YOLO7": "columns of corners",
    "YOLO9": "columns of corners",
    "YOLONAS": "boxes and scores",
    "PPYOLOE": "boxes and scores",
    "PICODET": "rows of corners",
    "RTMDet": "rows of corners",
    "DETR": "queries with no object",
    "DFINE": "queries",
    "DEIM": "queries",
    "RTDETRv2": "queries",
    "LWDETR": "queries",
    "CenterNet": "selected rows",
    "EfficientDet": "candidates",
    "YOLO9:nms": "selected rows",
}
OF_TORCHVISION = ["ssdlite320_mobilenet_v3_large", "ssd300_vgg16", "retinanet_resnet50_fpn", "fcos_resnet50_fpn"]
SIDE_OF_TORCHVISION = 320


def of_libreyolo(name):
    import libreyolo

    family, *options = name.split(":")
    kind = getattr(libreyolo, f"Libre{family}")
    size, side = next(iter(kind.INPUT_SIZES.items()))
    model = kind(None, size=size, device="cpu")
    network = model.model.eval()
    try:
        lively(network, torch.from_numpy(picture(side, side)).repeat(2, 1, 1, 1))
    except Exception as error:
        print(f"{name}: weights as they are: {type(error).__name__}")
    for part_name, part in network.named_modules():
        # Scores that differ: a Sigmoid of large numbers is 1. Offsets of about a pixel, as trained ones: large ones in features that are noise
        # amplify the rounding, and onnxruntime finds other boxes without its optimizations.
        if re.search(r"pred_cls|conv_offset|head_conv|cv3\.\d\.2$", part_name) and isinstance(part, torch.nn.Conv2d):
            part.weight *= 0.02
            if "cv3" in part_name:
                part.bias.zero_()
    model.export(format="onnx", output_path="model.onnx", **{option: True for option in options})
    return side


def of_torchvision(name):
    build = getattr(torchvision.models.detection, name)
    sizes = {"min_size": SIDE_OF_TORCHVISION, "max_size": SIDE_OF_TORCHVISION} if "_fpn" in name else {}
    model = build(weights=None, weights_backbone=None, num_classes=21, **sizes).eval()
    side = 300 if "300" in name else SIDE_OF_TORCHVISION
    pixels = torch.from_numpy(picture(side, side))
    lively(model, pixels.repeat(2, 1, 1, 1))
    for name, part in model.head.named_modules():
        # Scores that differ: a Sigmoid of large numbers is 1.
        if "cls_logits" in name and isinstance(part, torch.nn.Conv2d):
            part.weight *= 0.02
            part.bias.zero_()
    # The exporter by torch.export refuses sizes that depend on scores.
    torch.onnx.export(model, (pixels,), "model.onnx", dynamo=False, opset_version=17)
    return side


def selected(outputs, form, side, threshold):
    """Rows of class, score and corners, as a program prints them."""
    if form == "model":
        # Boxes, and their scores and labels in any order: labels are integers.
        boxes = outputs[0]
        labels, scores = sorted(outputs[1:3], key=lambda array: array.dtype.kind != "i")
        return rows_of(boxes, labels, scores, threshold, side)
    if form in ("selected rows", "candidates"):
        rows = outputs[0][0][outputs[0][0][:, 5] >= 0]
        return rows_of(rows[:, :4], rows[:, 5], rows[:, 4], threshold, side)
    boxes, scores = FORMS[form](outputs, side)
    labels, scores = scores.argmax(axis=1), scores.max(axis=1)
    if not form.startswith("queries"):
        above = np.flatnonzero(scores > threshold)
        tensors = (torch.from_numpy(np.ascontiguousarray(array[above])) for array in (boxes, scores, labels))
        kept = above[torchvision.ops.batched_nms(*tensors, OVERLAP).numpy()]
        boxes, labels, scores = boxes[kept], labels[kept], scores[kept]
    return rows_of(boxes, labels, scores, threshold, side)


def rows_of(boxes, labels, scores, threshold, side):
    rows = np.concatenate([labels[:, None], scores[:, None], boxes.clip(0, side)], axis=1)
    rows = rows[np.argsort(-rows[:, 1], kind="stable")]
    return rows[rows[:, 1] > threshold][:MOST]


def compare(converter, ncnn, name, form, export):
    torch.manual_seed(0)
    side = export()
    pixels = (picture(side, side)[0].transpose(1, 2, 0) * 255).astype(np.uint8)
    cv2.imwrite("picture.png", pixels[:, :, ::-1])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession("model.onnx", options)
    given = (pixels.transpose(2, 0, 1) / np.float32(255)).astype(np.float32)
    given = given.reshape([given.shape[axis - 4] if axis else 1 for axis in range(4)][-len(session.get_inputs()[0].shape):])
    outputs = session.run(None, {session.get_inputs()[0].name: given})
    scores = np.unique(selected(outputs, form, side, 0)[:, 1])[::-1]
    # About a hundred boxes, with a limit between two scores.
    at = min(100, len(scores) - 2)
    threshold = float(scores[at : at + 2].mean()) if at >= 0 else 0.25
    expected = selected(outputs, form, side, threshold)
    commands, refused = programs(converter, "model.onnx", ncnn, threshold)
    found = re.search(r"^NAMES = (.*)$", Path("run.py").read_text(), re.M)
    names = ast.literal_eval(found[1]) if found else []
    # Classes without names are printed as numbers.
    wrong = differences(commands, expected, names + [str(label) for label in range(len(names), 1000)])
    return f"{len(expected)} found{', program of the printed command' if refused else ''}: {wrong or 'equal'}"


def main():
    converter, ncnn, match = arguments_of(__doc__)
    torch.set_grad_enabled(False)
    cases = [(name, form, lambda name=name: of_libreyolo(name)) for name, form in OF_LIBREYOLO.items()]
    cases += [(name, "model", lambda name=name: of_torchvision(name)) for name in OF_TORCHVISION]
    results = []
    for name, form, export in cases:
        if re.search(match, name):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    results.append(compare(converter, ncnn, name, form, export))
                except Exception as error:
                    results.append(f"{type(error).__name__}: {error}"[:300])
                os.chdir("/")
            print(f"{name}: {results[-1]}", flush=True)
    right = sum(result.endswith(": equal") for result in results)
    print(f"{right} of {len(results)} are equal")
    sys.exit(0 if right == len(results) else 1)


if __name__ == "__main__":
    main()
