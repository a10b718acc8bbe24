"""What computes in float32 on processors that compute in float16, chosen by samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native, _options
from ._convert import convert_source
from ._model import Model, source
from ._net import HalfPrecision, Net
from ._samples import given_samples
from ._verify import Distance, answer_of, model_of

if TYPE_CHECKING:
    from ._samples import Data


def tune(model: Model, data: Data, *, half_error: float = 0.01, **options: Any) -> Net:
    """Converts a model, and chooses by samples what computes in float32 on processors that compute in float16.

    Each of the first four samples is run in float32, and the error of the outputs in float16 is predicted. The choice of the least time is
    taken of which it is at most `half_error`: the options `careful`, `precise` and `float32` of `convert`.

    Args:
        model: The model, as for `convert`.
        data: The samples, as for `quantize`.
        half_error: The largest error in float16, relative to the largest magnitude of an output.
        options: The options of `convert`, other than `kv_cache`, `dequantize` and `int8`.

    Returns:
        The net. `Net.half_precision` is the choice, with its predicted error.

    Raises:
        Refused: The model is refused.
        ValueError: The samples or an option do not fit the model, or an output differs in float32.
        RuntimeError: ncnn does not load the net.
        OSError: A file cannot be read.
        ImportError: A package is missing: install `onnx2ncnn[verify]`, and pillow for images.
    """
    import ncnn  # noqa: F401
    import onnxruntime  # noqa: F401

    if not half_error > 0:
        raise ValueError(f"half_error is a positive number, not {half_error!r}")
    for name in ("kv_cache", "dequantize", "int8"):
        if name in options:
            raise TypeError(f"tune takes no option {name}")
    given = source(model)
    converted = convert_source(given, **options)
    fields = ("name", "blob", "bottom", "work", "terms", "is_transformed")
    modes = list(_native.HALF_MODES)
    first = max((modes.index(mode) for mode in modes if options.get(mode)), default=0)
    answer = answer_of(
        model_of(given, converted, options, set()),
        converted,
        converted.load(),
        measured=[dict(zip(fields, blob)) for blob in converted._conversion.half_blobs()],
        data=given_samples(data),
        sampled=True,
        half_error=half_error,
        modes=modes[first:],
        cosine=_native.INT8_COSINE if options.get("weights", "float") not in ("float", "keep") else None,
    )
    for output in (Distance(**row) for row in answer["outputs"]):
        if not output.same and not output.note:
            raise ValueError(f"the output {output.name!r} differs in float32: {output.why or output.relative}")
    choice = answer["choice"]
    kept = [*_options.names("float32", options.get("float32")), *choice["float32"]]
    mode = {} if choice["mode"] == modes[0] else {choice["mode"]: True}
    net = convert_source(given, **{**options, **mode, "float32": kept})
    net.half_precision = HalfPrecision(choice["mode"], tuple(choice["float32"]), choice["error"], choice["default"], choice["samples"])
    return net
