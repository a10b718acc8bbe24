"""What computes in float32 on processors that compute in float16, and rounded weights, chosen by samples."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from . import _native, _options
from ._convert import convert_source
from ._model import Model, Source, source
from ._net import HalfPrecision, Net, Rounding
from ._packages import need
from ._samples import given_samples
from ._verify import Distance, answer_of, model_of

if TYPE_CHECKING:
    from ._samples import Data


@_options.named
def tune(model: Model, data: Data, *, half_error: float | None = None, max_loss: float | None = None, **options: Any) -> Net:
    """Converts a model, and chooses by samples what computes in float32 on processors that compute in float16, and how weights are rounded.

    Each of the first four samples is run in float32, and the error of the outputs in float16 is predicted. The choice of the least time is
    taken of which it is at most `half_error`: the options `careful`, `precise` and `float32` of `convert`.

    With `weights` of integers, the weights of matrix products are rounded by the samples first: three of four are for the rounding, the
    others choose between it and plain rounding, and are for the error. Matrices need several times as many rows of values as they have
    columns: hundreds of samples of few tokens, or fewer long ones.

    Args:
        model: The model, as for `convert`.
        data: The samples, as for `quantize`.
        half_error: The largest error in float16, relative to the largest magnitude of an output. The default is 0.01, or with `weights` of
            integers, to choose nothing for half precision.
        max_loss: The largest loss of an output by rounding to "int4" or "int6", one minus the cosine, on samples that are held out: matrices have
            as many bits, or floats, as are needed for it.
        options: The options of `convert`, other than `kv_cache`, `dequantize` and `int8`.

    Returns:
        The net. `Net.half_precision` is the choice for half precision, with its predicted error, and `Net.rounding` has the errors of rounded weights.

    Raises:
        Refused: The model is refused.
        ValueError: The samples or an option do not fit the model, or an output differs in float32.
        RuntimeError: ncnn does not load the net.
        OSError: A file cannot be read.
        ImportError: A package is missing: install `onnx2ncnn[verify]`, onnx for rounded weights, and pillow for images.
    """
    need("verify", "numpy", "ncnn", "onnxruntime")

    for option, value in (("half_error", half_error), ("max_loss", max_loss)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise TypeError(f"{option} is a number, such as 0.01, not {value!r}")
    if half_error is not None and not half_error > 0:
        raise ValueError(f"half_error is a positive number, not {half_error!r}")
    for name in ("kv_cache", "dequantize", "int8"):
        if name in options:
            raise TypeError(f"tune takes no option {name}")
    given, samples, rounding, kind = source(model), _kept(given_samples(data)), None, options.get("weights", "float")
    if max_loss is not None and not (0 < max_loss < _native.MOST_LOSS and kind in ("int4", "int6")):
        raise ValueError(f"max_loss is a number between 0 and 1, for weights \"int4\" and \"int6\", not {max_loss!r} for {kind!r}")
    if bits := dict(_native.BITS).get(kind):
        given, options, rounding = _rounded(given, samples, bits, max_loss, options)
        if half_error is None:
            net = convert_source(given, **options)
            net.rounding = rounding
            return net
    converted = convert_source(given, **options)
    measured = _half_blobs(converted)
    if kind != "float":
        # The runtime computes products with integers in float32, many times slower than those with floats.
        sums = {blob["name"]: blob["terms"] for blob in measured}
        converted = convert_source(given, **{**options, "weights": "float"})
        measured = [{**blob, "terms": min(blob["terms"], sums.get(blob["name"], blob["terms"]))} for blob in _half_blobs(converted)]
    modes = list(_native.HALF_MODES)
    first = max((modes.index(mode) for mode in modes if options.get(mode)), default=0)
    answer = answer_of(
        model_of(given, converted, options, set()),
        converted,
        converted.load(),
        measured=measured,
        data=samples,
        sampled=True,
        half_error=0.01 if half_error is None else half_error,
        modes=modes[first:],
        cosine=_native.INT8_COSINE if kind in dict(_native.BITS) else None,
    )
    for output in (Distance(**row) for row in answer["outputs"]):
        if not output.same:
            raise ValueError(f"the output {output.name!r} differs in float32: {output.why or output.relative}")
    choice = answer["choice"]
    kept = [*_options.names("float32", options.get("float32")), *choice["float32"]]
    mode = {} if choice["mode"] == modes[0] else {choice["mode"]: True}
    net = convert_source(given, **{**options, **mode, "float32": kept})
    net.rounding = rounding
    net.half_precision = HalfPrecision(choice["mode"], tuple(choice["float32"]), choice["error"], choice["default"], choice["samples"])
    return net


def _half_blobs(net: Net) -> list[dict[str, Any]]:
    """The blobs that float16 would hold, as the script reads them."""
    fields = ("name", "blob", "bottom", "work", "terms", "is_roughly_transformed")
    return [dict(zip(fields, blob)) for blob in net._conversion.half_blobs()]


def _kept(samples: Any) -> Any:
    """Samples that can be read more than once."""
    return samples if isinstance(samples, (str, dict)) else list(samples)


def _rounded(given: Source, samples: Any, bits: int, max_loss: float | None, options: dict[str, Any]) -> tuple[Source, dict[str, Any], Rounding]:
    """The model with weights that are rounded by samples, and the options with which it is converted."""
    need("quantize", "onnx")

    from . import _scripts
    from ._quantize import read_again, split_options

    for name in ("scale", "mean", "norm", "bgr", "chw"):
        if options.get(name):
            raise ValueError(f"with samples, the weights of a model whose input is pixels are not rounded: omit {name}")
    selecting, of_net = split_options(options)
    with tempfile.TemporaryDirectory() as folder:
        exact, rounded = (os.path.join(folder, f"{name}.onnx") for name in ("float", "rounded"))
        _native.Converter(_options.normalized(**selecting)).simplify(given).save(exact)
        try:
            sizes = dict(_native.BLOCK_SIZES)
            request = {"model": exact, "data": samples, "bits": bits, "sizes": sizes, "max_loss": max_loss, "rounded": rounded}
            answer = _scripts.weights.round_model(request)
        except _scripts.weights.Missing as missing:
            raise ImportError(str(missing)) from None
        except _scripts.weights.Failure as failure:
            raise ValueError(f"nothing could be rounded: {failure}") from None
        read = read_again(rounded)
    errors, nearest = ({output["name"]: output[kind] for output in answer["outputs"]} for kind in ("error", "plain"))
    if max_loss is not None:
        # Matrices that are not in blocks stay in float.
        of_net = {**of_net, "weights": "keep"}
    warnings, bits_of = tuple(answer["warnings"]), dict(answer["bits"])
    return read, of_net, Rounding(answer["samples"], answer["by_samples"], errors, nearest, warnings, answer["loss"], bits_of)
