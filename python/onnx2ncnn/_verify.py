"""Comparison of a net with its model."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union, overload

from . import _options
from ._convert import convert_source
from ._model import Model, Source, source
from ._net import Net, Port
from ._packages import need
from ._proof import Proof, proof_of
from ._refused import Refused
from ._samples import is_array

if TYPE_CHECKING:
    import ncnn
    from typing_extensions import Unpack

    from ._native import Options

# A net, or the paths of its files.
_Files = Union[Net, tuple[Union[str, "os.PathLike[str]"], Union[str, "os.PathLike[str]"]]]

# Options with which onnxruntime runs another model than the given one.
_CHANGING = ("inputs", "outputs", "set", "data_dir", "scale", "mean", "norm", "bgr", "chw", "input_shapes")

# The tolerance in float32, relative to the largest magnitude of an output.
_TOLERANCE = 1e-3

# That in half precision.
_HALF_TOLERANCE = 0.02

# The precisions of a device, by their names, as the script has them.
_PRECISIONS = {"float32": None, "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Distance:
    """The distance of an output or a blob from its value in the model.

    Attributes:
        name: The name of the value.
        same: Whether they are the same within the tolerance.
        max_abs: The maximum absolute difference.
        relative: That difference, relative to the largest magnitude of the value.
        cosine: The cosine of the angle between both.
        why: The reason why the numbers are missing.
        note: What was not compared, such as the order of nearly equal scores.
        alone: With `layers`, the relative error of the layers since the blobs before, where these have the values of the model; not on a
            device.
        seconds: On a device, the time of the layers since the blob before.
    """

    name: str
    same: bool
    max_abs: float | None = None
    relative: float | None = None
    cosine: float | None = None
    why: str = ""
    note: str = ""
    alone: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, repr=False)
class Verification:
    """The result of a comparison. Its text is the verdict in one line.

    Attributes:
        outputs: The outputs of the model.
        layers: The intermediate blobs in the order of layers, if they were compared.
        magnitudes: The largest magnitudes above 16376, a quarter of the largest float16, in the order of layers, if blobs were measured.
            Their names are those of nodes, of their outputs or of inputs: `convert` keeps them with `float32`.
        seconds: The time of a run on the device.
        recorded: The outputs of the model in onnxruntime, as distances from those in `data`: what the export changed.
    """

    outputs: list[Distance]
    layers: list[Distance]
    magnitudes: dict[str, float]
    seconds: float | None = None
    recorded: list[Distance] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether all outputs are the same within the tolerance, and the same as those in `data`."""
        return all(output.same for output in (*self.outputs, *self.recorded))

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        return f"<onnx2ncnn.Verification: {self}>"

    def __str__(self) -> str:
        exported = [f'"{output.name}"' for output in self.recorded if not output.same]
        if exported:
            return f"the export differs: onnxruntime computes {', '.join(exported)} differently"
        differing = [f'"{output.name}" ({_reason(output)})' for output in self.outputs if not output.same]
        if differing:
            of = f"{len(self.outputs)} output{'' if len(self.outputs) == 1 else 's'}"
            return f"{len(differing)} of {of} differ{'s' if len(differing) == 1 else ''}: {', '.join(differing)}"
        error = max((output.relative or 0.0 for output in self.outputs), default=0.0)
        notes = "".join(f'; "{output.name}": {output.note}' for output in self.outputs if output.note)
        return f"the same: outputs {len(self.outputs)}, largest relative error {error:.1e}{notes}"


def _reason(output: Distance) -> str:
    """Why an output differs."""
    return output.why or (f"relative error {output.relative:.1e}" if output.relative is not None else "an infinite error")


@overload
def verify(model: Model, net: _Files | None = None, *, runtime: Literal[False] = False, **options: Unpack[Options]) -> Proof: ...


@overload
def verify(
    model: Model,
    net: _Files | None = None,
    *,
    runtime: bool = False,
    data: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    rounds: int | None = None,
    tolerance: float | None = None,
    layers: bool = False,
    magnitudes: bool = False,
    device: str | None = None,
    precision: str = "float32",
    vulkan: bool = False,
    threads: int | None = None,
    **options: Any,
) -> Verification: ...


@_options.named
def verify(
    model: Model,
    net: _Files | None = None,
    *,
    runtime: bool = False,
    data: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    rounds: int | None = None,
    tolerance: float | None = None,
    layers: bool = False,
    magnitudes: bool = False,
    device: str | None = None,
    precision: str = "float32",
    vulkan: bool = False,
    threads: int | None = None,
    **options: Any,
) -> Proof | Verification:
    """Compares a net with its model: window by window without a runtime, or as a whole in the runtimes.

    Without `runtime` each part between blobs with names of values of the model is computed twice from the same numbers: by the meaning of
    the layers, and by the nodes of the model. This needs no other package. The arguments from `data` on need the runtimes, and imply
    `runtime`.

    Args:
        model: The model, as for `convert`.
        net: The paths of the `.param` and `.bin` files, or a net, which then has the result as `Net.proof` or `Net.verification`; by
            default the model is converted. Without `runtime`, a net of `quantize` or of `tune` is compared with its quantized or rounded
            model.
        runtime: Run the model in onnxruntime and the net in ncnn, in this process or on a device, and compare the results.
        data: Arrays by the names of the inputs, the array of the only input, or an `.npz` file; by default random ones. Arrays by the names of outputs, as the
            framework of the model computed them, are compared with onnxruntime's.
        rounds: The number of random inputs, by default 1.
        tolerance: The tolerance, relative to the largest magnitude of an output. Integers must be equal, as far as float32 represents
            them. By default 1e-3, and 0.02 in half precision or for weights in float16; with `int8` a cosine of 0.99 decides.
        layers: Also compare intermediate blobs.
        magnitudes: Also measure all blobs in float32, other than those that stay in float32 on any processor.
        device: The command that starts on a device the program whose source `onnx2ncnn runner` prints, such as
            `"adb shell /data/local/tmp/runner"`. This process then needs no ncnn.
        precision: That of the device: `"float32"`, `"float16"` or `"bfloat16"`.
        vulkan: Run the net on the GPU of the device.
        threads: The number of threads on the device; by default its large cores.
        options: The options of the conversion; a net has them already. With `dequantize` the net is compared with the model without its rounding.

    Returns:
        A `Proof`, and with `runtime` a `Verification`. Each is true if nothing differs.

    Raises:
        Refused: The model is refused.
        ValueError: The files are not those of a net, nothing could be compared, or an option does not fit the model.
        RuntimeError: ncnn does not load the net, or the device does not run it.
        OSError: A file cannot be read.
        ImportError: A package is missing for `runtime`: install `onnx2ncnn[verify]`.
    """
    if isinstance(net, list):
        net = tuple(net)
    if isinstance(net, Net):
        # A net has the options of its conversion.
        options = {**net._report["options"], **options}
    elif net is not None and not (isinstance(net, tuple) and len(net) == 2):
        raise TypeError(f"net is a net, or a pair of paths, the .param file and the .bin file, not {type(net).__name__}")
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds is at least 1, not {rounds}")
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"tolerance is at least 0, not {tolerance}")
    if data is not None and not isinstance(data, (Mapping, str, os.PathLike)) and not is_array(data):
        raise TypeError(f"data is an array, a dictionary of arrays, or the path of an .npz file, not {type(data).__name__}")
    if isinstance(data, (str, os.PathLike)) and not os.fsdecode(os.fspath(data)).endswith(".npz"):
        raise ValueError(f"data is an .npz file, which has arrays by the names of the inputs, not {os.fspath(data)!r}")
    asked = [runtime, layers, magnitudes, vulkan, precision != "float32"]
    asked += [value is not None for value in (data, rounds, tolerance, device, threads)]
    if not any(asked):
        return _prove(model, net, options)
    need("verify", "numpy", "onnxruntime", *(["ncnn"] if device is None else []))
    if precision not in _PRECISIONS:
        raise ValueError(f"precision is one of {', '.join(_PRECISIONS)}, not {precision!r}")
    if device is None and (precision != "float32" or vulkan or threads is not None):
        raise ValueError("precision, vulkan and threads are for a device")
    if device is not None and magnitudes:
        raise ValueError("magnitudes are not measured on a device")

    from . import _scripts

    given = source(model)
    dequantize = options.get("dequantize", False)
    converted = convert_source(given, **{**options, "keep_onnx": dequantize})
    inner = converted._conversion.inner_blobs() if layers else []
    measured = converted._conversion.half_blobs() if magnitudes else []
    exposed = {value for value, _, _ in inner}
    reference: str | bytes
    if dequantize:
        reference = converted.onnx()
        if exposed:
            reference = convert_source(reference)._conversion.expose(exposed)
    else:
        reference = model_of(given, converted, options, exposed)
    calls = [converted._conversion.calls_at(size) for size in _scripts.SIZES]
    if any(calls) and (data is not None or layers or magnitudes):
        raise ValueError("data, layers and magnitudes do not fit caches that the runtime keeps")
    shapes = [converted._conversion.shapes_at(size) for size in _scripts.SIZES]
    half = _PRECISIONS[precision]
    if tolerance is None and (half or options.get("fp16")):
        tolerance = _HALF_TOLERANCE
    with contextlib.ExitStack() as stack:
        on_device: dict[str, Any] = {}
        if device is None:
            loaded = _loaded(converted, net)
        else:
            loaded = None
            param, bin = net if isinstance(net, tuple) else _saved(net or converted, stack.enter_context(tempfile.TemporaryDirectory()))
            files = {"param": os.fspath(param), "bin": os.fspath(bin)}
            on_device = {**files, "device": device, "threads": threads, "vulkan": vulkan, "timed": True, **({half: True} if half else {})}
        result = compare_net(
            reference,
            converted,
            loaded,
            layers=[{"name": value, "blob": blob, "int32": int32} for value, blob, int32 in inner],
            measured=[{"name": name, "blob": blob} for name, blob, *_ in measured],
            shapes=[found for found in shapes if found is not None],
            calls=[found for found in calls if found],
            data=_by_name(data, converted),
            rounds=1 if rounds is None else rounds,
            tolerance=_TOLERANCE if tolerance is None else tolerance,
            cosine=_scripts.INT8_COSINE if tolerance is None and options.get("int8") else None,
            unrounded=_unrounded(given, options) if tolerance is None and options.get("int8") else None,
            **on_device,
        )
    if isinstance(net, Net):
        net.verification = result
    return result


def _by_name(data: Any, net: Net) -> dict[str, Any] | str | None:
    """The data as the script reads them."""
    if isinstance(data, Mapping):
        return dict(data)
    if not is_array(data):
        return None if data is None else os.fsdecode(os.fspath(data))
    if len(net.inputs) != 1:
        raise ValueError(f"data is one array, and the model has {len(net.inputs)} inputs: give a dictionary of arrays by name")
    return {net.inputs[0].name: data}


def _unrounded(given: Source, options: Mapping[str, Any]) -> bytes | None:
    """The model without its rounding, if it can be computed in float."""
    try:
        return convert_source(given, **{**options, "int8": False, "dequantize": True, "keep_onnx": True}).onnx()
    except Refused:
        return None


def _prove(model: Model, net: _Files | None, options: Mapping[str, Any]) -> Proof:
    """Compares a net with its model without a runtime."""
    # A net of quantize or tune has other weights than the model: it is compared with the model of which it was converted.
    is_rounded = isinstance(net, Net) and (net.quantization is not None or net.rounding is not None)
    converted = net if isinstance(net, Net) and is_rounded else convert_source(source(model), **options)
    if isinstance(net, tuple):
        files = tuple(_content(path) for path in net)
    else:
        files = ((net or converted).param.encode(), (net or converted)._conversion.bin())
    proof = proof_of(converted._conversion.prove(*files))
    if isinstance(net, Net):
        net.proof = proof
    return proof


def _content(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _loaded(converted: Net, net: _Files | None) -> ncnn.Net:
    from . import _runtime

    if isinstance(net, tuple):
        param, bin = net
        with open(param, encoding="utf8") as text, open(bin, "rb") as weights:
            return _runtime.load(text.read(), weights.read(), {})
    return (net or converted).load()


def _saved(net: Net, folder: str) -> tuple[str, str]:
    """The files of a net, in a folder."""
    param, bin = (os.path.join(folder, f"net.{end}") for end in ("param", "bin"))
    net.save(param, bin)
    return param, bin


def model_of(given: Source, converted: Net, options: Mapping[str, Any], exposed: set[str]) -> str | bytes:
    """The part of a model that was converted, with further values as outputs, as onnxruntime reads it."""
    rounds = converted._conversion.rounded_by_onnxruntime()
    if exposed or rounds or isinstance(given, tuple) or any(options.get(name) for name in _CHANGING):
        return converted._conversion.expose(exposed)
    return given


def compare_net(model: str | bytes, net: Net, loaded: ncnn.Net | None, **request: Any) -> Verification:
    """Runs an ONNX model and its loaded net by the script of the command, whose request has further fields."""
    answer = answer_of(model, net, loaded, **request)
    outputs, layers, recorded = ([Distance(**row) for row in answer.get(kind, [])] for kind in ("outputs", "layers", "recorded"))
    magnitudes = {row["name"]: row["magnitude"] for row in answer["magnitudes"]}
    return Verification(outputs, layers, magnitudes, answer.get("seconds"), recorded)


def answer_of(model: str | bytes, net: Net, loaded: ncnn.Net | None, **request: Any) -> dict[str, Any]:
    """The answer of the script to a request for a net."""
    from . import _scripts

    request = {
        "model": model,
        "net": loaded,
        "inputs": [_pair(port, axes) for port, axes in zip(net.inputs, net._conversion.input_axes)],
        "outputs": [_pair(port) for port in net.outputs],
        "sorts": net._conversion.sorts(),
        "layers": [],
        "measured": [],
        "calls": [],
        "data": None,
        "tolerance": _TOLERANCE,
        **request,
    }
    try:
        return _scripts.compare.compare_net(request)
    except (_scripts.compare.NetFailure, _scripts.compare.DeviceFailure) as failure:
        raise RuntimeError(f"{failure}: {failure.advice}" if failure.advice else str(failure)) from None
    except _scripts.compare.Failure as failure:
        raise ValueError(f"nothing could be compared: {failure}") from None


def _pair(port: Port, axes: list[list[int]] | None = None) -> dict[str, Any]:
    return {"name": port.name, "blob": port.blob, "int32": port.int32, "axes": axes, "cache": port.cache}
