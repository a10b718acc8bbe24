"""Compares what ultralytics finds with the ONNX model, with the folder of `--ultralytics`, and what the programs of `--example` find.

usage: yolo.py CONVERTER [NCNN] [--match RE]

The networks are YOLO11 and YOLO26 for each task, as ultralytics exports them with several options, with random weights. Where the model selects its boxes
itself, it is refused, and the program is that of the printed command. With NCNN, a folder where ncnn is installed, programs in C++ are compared, too.
Where the Python package onnx2ncnn is installed, the folders that it exports are compared, too.
Needs ncnn, opencv-python-headless and the packages of benches/defaults.txt, 2 GB.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch

from defaults import lively, picture
from ultralytics import YOLO

try:
    import onnx2ncnn.ultralytics
except ImportError:
    onnx2ncnn = None

SIDE = 320
# A picture of other proportions than those of the network.
WIDTH, HEIGHT = 500, 375
TASKS = {"detect": "", "segment": "-seg", "pose": "-pose", "classify": "-cls", "obb": "-obb"}
EXPORTS = {"default": {}, "dynamic": {"dynamic": True}, "nms": {"nms": True}, "end2end": {"end2end": True}, "heads": {"end2end": False}}
# A pixel, or a part of the largest coordinate of a box far outside of the picture, and a hundredth of a score.
PIXELS, PART, SCORES = 1, 0.002, 0.01
# The part of boxes that may differ: scores that are nearly equal may be in another order.
FEW = 0.01


def found_by(path, task, least):
    """What ultralytics finds: rows of class, score and corners; or the probabilities."""
    result = YOLO(path, task=task).predict("picture.png", imgsz=SIDE, conf=least, verbose=False)[0]
    if result.probs is not None:
        return np.array([[index, result.probs.data[index]] for index in result.probs.top5])
    boxes, corners = (result.boxes, result.boxes.xyxy) if result.obb is None else (result.obb, result.obb.xyxyxyxy.flatten(1))
    return np.concatenate([boxes.cls[:, None], boxes.conf[:, None], corners], axis=1)


def printed_by(command, names):
    """The same of what a program prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"{done.stdout}{done.stderr}"
    lines = [re.split(r"\s{2,}", line, maxsplit=2) for line in done.stdout.splitlines() if "result.png" not in line]
    return np.array([[names.index(name), float(score), *map(float, "".join(rest).split())] for name, score, *rest in lines])


def difference(expected, actual):
    """What differs, or nothing: each row of one has one of the other near it."""
    if isinstance(actual, str):
        return actual
    if expected.size == 0 or actual.size == 0 or abs(len(expected) - len(actual)) > max(1, FEW * len(expected)):
        return f"{len(expected)} and {len(actual)} boxes"

    def is_near(row, rows):
        corners = rows[:, 2:]
        # The corners of a box with an angle may begin with any of them.
        turns = [np.roll(corners, 2 * turn, axis=1) for turn in range(4 if corners.shape[1] == 8 else 1)]
        limits = np.array([0, SCORES] + [max(PIXELS, PART * np.abs(row[2:]).max(initial=0))] * (len(row) - 2))
        return any((np.abs(np.concatenate([rows[:, :2], turn], axis=1) - row) <= limits).all(axis=1).any() for turn in turns)

    far = [row for row in expected if not is_near(row, actual)] + [row for row in actual if not is_near(row, expected)]
    return f"{len(far)} of {len(expected)} differ, as {far[0].round(3)}" if len(far) > max(2, 2 * FEW * len(expected)) else None


def exported(name, task, least, options):
    torch.manual_seed(0)
    model = YOLO(f"{name}.yaml", task=task)
    lively(model.model, torch.from_numpy(picture(SIDE, SIDE)).repeat(2, 1, 1, 1))
    head = model.model.model[-1]
    if task == "classify":
        # Probabilities that differ.
        head.linear.weight *= 20
    elif head.reg_max == 1:
        # Boxes with positive sizes.
        for branches in ("cv2", "one2one_cv2"):
            for branch in getattr(head, branches, None) or []:
                branch[-1].weight *= 0.01
                branch[-1].bias.fill_(6)
    # Angles of a quarter turn at most: a network of random weights amplifies noise by a thousand.
    for branches in ("cv4", "one2one_cv4") if task == "obb" else ():
        for branch in getattr(head, branches, None) or []:
            branch[-1].weight *= 0.01
    for branches in ("cv3", "one2one_cv3"):
        for branch in getattr(head, branches, None) or []:
            # Scores that differ: a Sigmoid of large numbers is 1.
            branch[-1].weight *= 0.004
            branch[-1].bias.zero_()
    path = model.export(format="onnx", imgsz=SIDE, verbose=False, **options, **({"conf": least} if "nms" in options else {}))
    return path, model


def programs(converter, path, ncnn, least):
    """The commands that run the programs, with this threshold, and whether the model was refused."""
    commands = [[sys.executable, "run.py"]] + ([["./run"]] if ncnn else [])
    line, refused = [converter, path, "net.param", "net.bin", "--quiet"], False
    for program in ["run.py"] + (["run.cpp"] if ncnn else []):
        done = subprocess.run([*line, "--example", program], capture_output=True, text=True)
        if done.returncode == 1 and (part := re.search(r"--outputs (\S+)", done.stderr)):
            refused = True
            line += ["--outputs", part[1].strip('"')]
            done = subprocess.run([*line, "--example", program], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"refused: {done.stderr}")
        Path(program).write_text(re.sub(r"(THRESHOLD(?:, MOST)? = )[\d.]+", rf"\g<1>{least}", Path(program).read_text()))
    if ncnn:
        library = next(ncnn.glob("lib*/libncnn.a"))
        subprocess.run(["g++", "-O2", "run.cpp", f"-I{ncnn}/include", library, "-fopenmp", "-o", "run"], check=True)
    return commands, refused


def differences(commands, expected, names):
    """What programs find otherwise."""
    wrong = {" ".join(command[-1:]): difference(expected, printed_by([*command, "picture.png"], names)) for command in commands}
    return {where: what for where, what in wrong.items() if what}


def arguments_of(text):
    """The converter, the folder of ncnn if there is one, and the pattern of names."""
    parser = argparse.ArgumentParser(usage=text)
    parser.add_argument("converter")
    parser.add_argument("ncnn", nargs="?")
    parser.add_argument("--match", default="")
    found = parser.parse_args()
    return Path(found.converter).resolve(), found.ncnn and Path(found.ncnn).resolve(), found.match


def package_exports(model, kind):
    """The folders that the package onnx2ncnn writes for a model of ultralytics, one after the other, by the names of the functions."""
    if onnx2ncnn is None:
        return
    if kind == "default":
        onnx2ncnn.ultralytics.install()
        yield "torch2ncnn", model.export(format="ncnn", imgsz=SIDE, verbose=False)
    yield "export", onnx2ncnn.ultralytics.export(model, imgsz=SIDE, verbose=False, **EXPORTS[kind])


def compare(converter, ncnn, task, name, kind):
    threshold = 0.01
    if task != "classify":
        # About a hundred boxes, with a limit between two scores.
        scores = found_by(exported(name, task, threshold, {**EXPORTS[kind], "nms": False})[0], task, threshold)[:, 1]
        threshold = float(scores[min(99, len(scores) - 2) : min(99, len(scores) - 2) + 2].mean())
    path, model = exported(name, task, threshold, EXPORTS[kind])
    names = list(model.names.values())
    expected = found_by(path, task, threshold)
    commands, refused = programs(converter, path, ncnn, threshold)
    if task == "classify":
        # C++ has no reader that smooths as Pillow does: these networks, which amplify noise, give other classes.
        commands = commands[:1]
    wrong = differences(commands, expected, names)
    if not refused:
        subprocess.run([converter, path, "--quiet", "--ultralytics", f"{name}_ncnn_model"], check=True)
        if what := difference(expected, found_by(f"{name}_ncnn_model", task, threshold)):
            wrong["folder"] = what
        for export, folder in package_exports(model, kind):
            if what := difference(expected, found_by(folder, task, threshold)):
                wrong[export] = what
    print(f"{name:13} {kind:8} {len(expected)} found{', refused: program of the printed command' if refused else ''}: {wrong or 'equal'}", flush=True)
    return not wrong


def main():
    converter, ncnn, match = arguments_of(__doc__)
    torch.set_grad_enabled(False)
    right = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pixels = (picture(HEIGHT, WIDTH)[0].transpose(1, 2, 0) * 255).astype(np.uint8)
        cv2.imwrite("picture.png", pixels)
        for family in ("yolo11n", "yolo26n"):
            for task, ending in TASKS.items():
                # YOLO11 has one head; classes need no selection.
                kinds = [kind for kind in EXPORTS if not (family == "yolo11n" and kind in ("end2end", "heads")) and not (task == "classify" and kind not in ("default", "dynamic"))]
                for kind in kinds:
                    if re.search(match, f"{family}{ending} {kind}"):
                        right.append(compare(converter, ncnn, task, f"{family}{ending}", kind))
        os.chdir("/")
    print(f"{sum(right)} of {len(right)} are equal{'' if onnx2ncnn is None else ', with the exports of the package'}")
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
