"""Compares the results of ultralytics for a folder of `--ultralytics` with those for the ONNX model, one network for each of its tasks.

usage: yolo.py CONVERTER

Needs ncnn, opencv-python-headless and the packages of benches/defaults.txt, 2 GB. The networks have random weights.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch

from defaults import lively, picture
from ultralytics import YOLO

SIDE = 320
TASKS = {"detect": "yolo11n", "segment": "yolo11n-seg", "pose": "yolo11n-pose", "classify": "yolo11n-cls", "obb": "yolo11n-obb"}
# Half a pixel, and a half of a percent of a score.
PIXELS, SCORES = 0.5, 0.005


def arrays(result):
    """What a result holds beside the mask of each pixel."""
    if result.probs is not None:
        return {"probabilities": (result.probs.data, SCORES)}
    boxes = result.boxes if result.boxes is not None else result.obb
    # The last two columns are score and class.
    found = {"boxes": (boxes.data[:, :-2], PIXELS), "scores": (boxes.conf, SCORES), "classes": (boxes.cls, 0)}
    if result.keypoints is not None:
        found["points"] = (result.keypoints.xy, PIXELS)
    if result.masks is not None:
        found["areas of masks"] = (result.masks.data.float().mean(dim=(1, 2)), SCORES)
    return found


def compare(converter, task, name):
    model = YOLO(f"{name}.yaml", task=task)
    lively(model.model, torch.from_numpy(picture(SIDE, SIDE)).repeat(2, 1, 1, 1))
    for branch in getattr(model.model.model[-1], "cv3", []):
        # Scores that differ: a Sigmoid of large numbers is 1.
        branch[-1].weight *= 0.02
        branch[-1].bias.zero_()
    path = model.export(format="onnx", imgsz=SIDE, verbose=False)
    subprocess.run([converter, path, "--quiet", "--ultralytics", f"{name}_ncnn_model"], check=True)
    # Ten boxes, with a limit between two scores.
    found = YOLO(path, task=task).predict("picture.png", imgsz=SIDE, conf=0.01, verbose=False)[0]
    boxes = found.boxes if found.boxes is not None else found.obb
    least = 0.01 if boxes is None else float(boxes.conf[9:11].mean())
    results = [YOLO(where, task=task).predict("picture.png", imgsz=SIDE, conf=least, verbose=False)[0] for where in (path, f"{name}_ncnn_model")]
    expected, actual = map(arrays, results)
    lines = []
    for key, (array, tolerance) in expected.items():
        other = actual[key][0]
        same = array.shape == other.shape and float((array - other).abs().max()) <= tolerance
        lines.append(f"{key} {tuple(array.shape)} {'agree' if same else f'differ: {array} {other}'}")
    print(f"{task:9} {'; '.join(lines)}", flush=True)
    return all("differ" not in line for line in lines)


def main():
    converter = Path(sys.argv[1]).resolve()
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        cv2.imwrite("picture.png", (picture(SIDE, SIDE)[0].transpose(1, 2, 0) * 255).astype(np.uint8))
        right = [compare(converter, task, name) for task, name in TASKS.items()]
        os.chdir("/")
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
