"""Quantization of models by samples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _options
from ._convert import convert_source
from ._model import Model, Source, source
from ._net import Net, Quantization
from ._packages import need
from ._samples import given_samples
from ._verify import compare_net

if TYPE_CHECKING:
    from ._samples import Data

# Options that select the model to quantize; the others are those of the net.
_SELECTING = ("input_shapes", "inputs", "outputs", "set", "data_dir", "max_size", "skip")


@_options.named
def quantize(
    model: Model,
    data: Data,
    *,
    method: str = "min-max",
    keep: str | Sequence[str] | None = None,
    mean: float | Sequence[float] | None = None,
    norm: float | Sequence[float] | None = None,
    bgr: bool = False,
    depthwise: bool = False,
    **options: Any,
) -> Net:
    """Quantizes a float model by samples with onnxruntime's own tool, and converts it to a net with int8 layers.

    Each sample is a value of every input. An array is a sample in the shape of the input, of which a batch axis of size 1 may be missing,
    or has a first axis of samples. All samples are in memory at once.

    Args:
        model: The float model, as for `convert`.
        data: The samples: arrays by the names of the inputs, the array of the only input, or an iterable of such; or the path of an
            `.npz` or `.npy` file, of an image, or of a folder of such files.
        method: How the range of a value follows from its samples: `"min-max"` or `"percentile"`.
        keep: Nodes that stay in float, by their names or those of their outputs.
        mean: The number that is subtracted from pixels from 0 to 255, or one for each channel; by default 0.
        norm: The factor of pixels after that, or one for each channel; by default 1/255 for inputs of floats, and 1 for those of
            integers. Images are resized to the input.
        bgr: Read the channels of images as blue, green, red. These three are not put into the net, unlike those of `convert`: a program
            has to read images in the same way, and `Net.warnings` says so.
        depthwise: Also quantize depthwise convolutions, which lose most in int8, hold few weights, and are slower than in float on x86.
        options: The options of `convert`, other than `int8` and `dequantize`. `keep_onnx` keeps the quantized model.

    Returns:
        The net. `Net.quantization` has the error of each quantized node and the cosine of each output.

    Raises:
        Refused: The model is refused.
        ValueError: The samples or an option do not fit the model, or no node can be quantized.
        TypeError: An argument has the wrong type.
        OSError: A file cannot be read.
        ImportError: A package is missing: install `onnx2ncnn[quantize]`, and pillow for images.
    """
    import tempfile

    need("quantize", "numpy", "ncnn", "onnx", "onnxruntime")

    from . import _scripts

    for name in ("int8", "dequantize", "scale"):
        if name in options:
            raise TypeError(f"quantize takes no option {name}")
    if method not in _scripts.quantize.METHODS:
        raise ValueError(f"method is one of {', '.join(_scripts.quantize.METHODS)}, not {method!r}")
    selecting, of_net = split_options(options)
    _options.normalized(**of_net)
    simplified = _native.Converter(_options.normalized(**selecting)).simplify(source(model))
    with tempfile.TemporaryDirectory() as folder:
        float_model, quantized = (os.path.join(folder, f"{name}.onnx") for name in ("float", "quantized"))
        simplified.save(float_model)
        converted = convert_source(float_model, **{**of_net, "keep_onnx": False})
        request = {
            "model": float_model,
            "data": given_samples(data),
            "mean": _numbers("mean", mean),
            "norm": _numbers("norm", norm),
            "bgr": bgr,
            "method": method,
            "keep": _options.names("keep", keep),
            "candidates": converted._conversion.int8_candidates(depthwise),
            "quantized": quantized,
        }
        try:
            samples, layers = _scripts.quantize.quantize_model(request)
        except _scripts.quantize.Missing as missing:
            raise ImportError(str(missing)) from None
        except _scripts.quantize.Failure as failure:
            raise ValueError(f"nothing could be quantized: {failure}") from None
        net = convert_source(read_again(quantized), **of_net, int8=True)
        outputs = compare_net(float_model, net, net.load(), samples=samples, cosine=_scripts.INT8_COSINE).outputs
    errors = {layer["name"]: layer["error"] for layer in layers}
    cosines = {output.name: output.cosine for output in outputs}
    read = [f"mean={mean}"] * (mean is not None) + [f"norm={norm}"] * (norm is not None) + ["bgr=True"] * bgr
    warning = f"the images were read with {', '.join(read)}: a program of `example` reads them as the model tells; write these numbers into it"
    net.quantization = Quantization(method, len(samples), errors, cosines, (warning,) if read else ())
    return net


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that select the model, and those of its net."""
    selecting = {name: value for name, value in options.items() if name in _SELECTING}
    return selecting, {name: value for name, value in options.items() if name not in _SELECTING or name == "skip"}


def read_again(path: str) -> Source:
    """The bytes of a model and of its weights beside it."""
    weights = Path(f"{path}.weights")
    external = [(weights.name, weights.read_bytes())] if weights.exists() else []
    return Path(path).read_bytes(), external


def _numbers(option: str, value: Any) -> list[float]:
    """One number, or one for each channel."""
    import numpy as np

    if value is None:
        return []
    try:
        numbers = np.atleast_1d(np.asarray(value, np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"{option} is a number or a list of numbers, not {value!r}") from None
    if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(f"{option} is a finite number or a list of them, not {value!r}")
    return numbers.tolist()
