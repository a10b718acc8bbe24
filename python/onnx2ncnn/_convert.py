"""Conversion and inspection of models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native, _options
from ._model import Model, Source, source
from ._net import Net

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._native import Options


@_options.signature
def convert(model: Model, **options: Unpack[Options]) -> Net:
    """Converts a model to a net of ncnn.

    Other threads run meanwhile.

    Args:
        model: A path, bytes, a binary file or an `onnx.ModelProto`. A file at a path is mapped, and its weights are never all in
            memory; it must not be truncated while the net is in use. `bytes` are not copied.
        input_shapes: Shapes of inputs by name, or the shape of the only input: numbers, or names such as "H" for free sizes.
        inputs: Values that become the inputs: only the nodes after them are kept.
        outputs: Values that become the outputs: only the nodes before them are kept.
        fp16: Write weights in float16.
        precise: Let all layers compute in float32 on processors that compute in float16.
        careful: Avoid the least exact transform of convolutions on such processors.
        custom_layers: Operators that layers of your own compute, as dictionaries with the fields of docs/custom-layers.md. They are written as
            declared, and not checked.
        float32: Nodes whose results stay in float32 on such processors, by their names or those of their outputs, and inputs. `verify`
            finds those that are too large for float16.
        weights: The weights of matrix products and tables: "float"; "keep" for the integers in blocks of the model; or "int8", "int6",
            "int4" to round floats to such integers as well. Other than floats they require ncnn 20261020.
        kv_cache: Let the runtime keep the caches of a decoder, see `Port.cache` (ncnn 20260113 or later).
        int8: Compute a quantized model with int8 layers of ncnn.
        dequantize: Remove the rounding of a quantized model, and compute in float32.
        scale: Factors of pixels, one for each channel or one for all, such as 1 / 255: the net is given pixels, and the model reads
            `(pixel * scale - mean) * norm`, in each input that is a picture. They become part of the first layer where that is exact.
        mean: What is subtracted from pixels after `scale`.
        norm: Factors of pixels after `mean`.
        bgr: Take the channels of pictures in the reverse order.
        chw: Take pictures as planes of channels, as ncnn makes them of pixels, where the model reads channels last.
        set: Inputs that become constants, by name: numbers, names of free sizes, nested lists, or arrays.
        rename: New names of blobs, by the names of the values.
        numbered: Name the inputs in0, in1, ... and the outputs out0, ..., as pnnx does.
        ncnn_version: The oldest release of ncnn that must load the net, by its date, such as 20260526 or `ncnn.__version__`.
        skip: Passes to skip, see `passes`.
        strict: Refuse a model if its net relies on assumed facts of values, other than that inputs are finite.
        double_as_float: Convert inputs of float64 to float32, the widest float of ncnn.
        auto_cut: Convert the largest part of a refused model. A warning names its inputs and outputs.
        random_as_input: Make random numbers inputs of the net.
        data_dir: The folder of external data; the default is that of the model.
        check: Check the graph after every pass, for developers.
        max_size: The maximum bytes of the model, without external data; the default is 16 GiB.
        keep_onnx: Keep the simplified model for `Net.onnx`; with `dequantize` the model in float32.

    Raises:
        Refused: The model is invalid, or something in it cannot be expressed in ncnn.
        ValueError: An option does not fit the model.
        TypeError: An argument has the wrong type.
        OSError: The model or its external data cannot be read.
    """
    return convert_source(source(model), **options)


def convert_source(given: Source, **options: Any) -> Net:
    """`convert` for a model as the extension reads it."""
    converter = _native.Converter(_options.normalized(**options))
    return Net(converter.convert(given), fp16=options.get("fp16", False))


@_options.named
def inspect(model: Model, **options: Any) -> dict[str, Any]:
    """Returns the contents of a model, and the nodes that would be refused.

    Takes the options of `convert`. The result has the fields of docs/report.md; `status` is `"convertible"` or `"refused"`.

    Raises:
        Refused: The model cannot be read.
        ValueError: An option does not fit the model.
        OSError: The model or its external data cannot be read.
    """
    return json.loads(_native.Converter(_options.normalized(**options)).inspect(source(model)))


@dataclass(frozen=True)
class Operator:
    """An operator that models may have.

    Attributes:
        domain: The domain; empty for ONNX's own.
        name: The name.
        since: The versions of the operator set that changed it. It is supported from the first of them on.
        lowers_to: The layers of ncnn, or the operators, to which it is lowered; empty if it is always refused.
        limits: The nodes that are refused.
        differs: The elements for which the result may differ from that of the specification.
    """

    domain: str
    name: str
    since: tuple[int, ...]
    lowers_to: str
    limits: str
    differs: str


def supported() -> list[Operator]:
    """Returns every known operator, by domain and name."""
    return [Operator(domain, name, tuple(since), *rest) for domain, name, since, *rest in _native.supported()]


def passes() -> dict[str, str]:
    """Returns the purposes of the passes that `skip` skips, by their names."""
    return dict(_native.passes())
