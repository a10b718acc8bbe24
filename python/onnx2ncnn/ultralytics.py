"""Exports of ultralytics to ncnn, through ONNX."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .__main__ import command

# The packages are imported by the functions: the help of onnx2ncnn describes this module where they are missing, too.
if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["export", "install", "torch2ncnn"]

# The ending by which ultralytics recognizes a folder.
_ENDING = "_ncnn_model"


def export(
    model: str | os.PathLike[str] | Any,
    *,
    quantize: int | None = None,
    data: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    imgsz: int | Sequence[int] = 640,
    **arguments: Any,
) -> str:
    """Exports a model of ultralytics to a folder that `YOLO(folder)` reads, as `YOLO(model).export(format="ncnn")` does.

    The model is exported to ONNX first. So the end-to-end head of `nms=False` stays, which ultralytics switches off for the format `ncnn`.

    Args:
        model: A `YOLO`, or the path of its weights.
        quantize: 16 for weights in float16, 8 for layers in int8; by default float32.
        data: For int8, pictures like those that the net will see: a folder, or their paths. Some hundred are enough.
        imgsz: The side of the pictures, or their height and width.
        arguments: Further arguments of `YOLO.export` for the format `onnx`.

    Returns:
        The path of the folder, next to the ONNX model.

    Raises:
        RuntimeError: The model is refused; the message has the reasons.
        ValueError: An argument does not fit the others, or a file of `data` is not a picture.
        ImportError: ultralytics is missing, or a package that it needs for ONNX; for int8, `onnx2ncnn[quantize]`.
    """
    from ultralytics import YOLO

    if quantize not in (None, 8, 16, 32):
        raise ValueError(f"quantize is 8, 16 or 32, not {quantize!r}")
    if (quantize == 8) != (data is not None):
        raise ValueError("quantize=8 needs pictures as data, and only it does")
    path = Path((model if isinstance(model, YOLO) else YOLO(model)).export(format="onnx", imgsz=imgsz, **arguments))
    folder = path.with_name(path.stem + _ENDING)
    net = None
    if data is not None:
        from . import quantize as quantized

        sides = (imgsz, imgsz) if isinstance(imgsz, int) else tuple(imgsz)
        net = quantized(path, _samples(data, sides), numbered=True)
    _convert(path, folder, *(["--fp16"] if quantize == 16 else []))
    if net is not None:
        net.save(folder / "model.ncnn.param")
    return str(folder)


def torch2ncnn(
    model: torch.nn.Module,
    im: torch.Tensor,
    output_dir: str | os.PathLike[str],
    quantize: int | str | None = None,
    metadata: dict[str, Any] | None = None,
    device: torch.device | None = None,
    prefix: str = "",
) -> str:
    """Takes the place of the function of this name in ultralytics, which needs pnnx.

    Args:
        model: The module.
        im: An input of the module.
        output_dir: The folder; its name ends in `_ncnn_model`.
        quantize: 16 for weights in float16.
        metadata: The metadata of the export.
        device: Not used: the module and its input are where they are.
        prefix: Not used: no messages are printed.

    Returns:
        The path of the folder.

    Raises:
        RuntimeError: The model is refused; the message has the reasons.
        ValueError: int8 has no samples here: use `export`.
    """
    import onnx
    import torch

    if quantize not in (None, 16, 32):
        raise ValueError(f"quantize is 16 or 32, not {quantize!r}: for 8, call onnx2ncnn.ultralytics.export with pictures")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        with torch.no_grad():
            # The net computes one picture of a batch.
            torch.onnx.export(model, (im[:1],), str(path), dynamo=False, input_names=["images"])
        made = onnx.load(path)
        onnx.helper.set_model_props(made, {key: str(value) for key, value in (metadata or {}).items()})
        onnx.save(made, path)
        _convert(path, Path(output_dir), *(["--fp16"] if quantize == 16 else []))
    return str(output_dir)


def install() -> None:
    """Makes `YOLO(model).export(format="ncnn")` and `yolo export format=ncnn` of this process use this package instead of pnnx.

    Raises:
        ImportError: ultralytics is missing, or it is older than 8.4.
    """
    import ultralytics.utils.export.ncnn as module

    module.torch2ncnn = torch2ncnn


def _convert(path: Path, folder: Path, *options: str) -> None:
    words = [*command(), str(path), "--quiet", "--ultralytics", str(folder), *options]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    sys.stderr.write(done.stderr)


def _samples(data: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], sides: tuple[int, ...]) -> list[np.ndarray]:
    """Pictures as ultralytics gives them to a model: within a gray border, red first, from 0 to 1."""
    import cv2
    import numpy as np
    from ultralytics.data.augment import LetterBox

    from . import _scripts

    if isinstance(data, (str, os.PathLike)):
        folder = Path(data)
        data = sorted(path for path in folder.iterdir() if path.suffix.lower() in _scripts.quantize.IMAGES) if folder.is_dir() else [folder]
    fit = LetterBox(sides, auto=False)
    samples = []
    for path in data:
        picture = cv2.imread(str(path))
        if picture is None:
            raise ValueError(f"{path} is not a picture")
        samples.append(np.ascontiguousarray(fit(image=picture)[:, :, ::-1].transpose(2, 0, 1)[None] / 255, np.float32))
    if not samples:
        raise ValueError("data has no pictures")
    return samples
