"""Converted models."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from ._packages import need

if TYPE_CHECKING:
    import ncnn
    import numpy as np

    from . import _native
    from ._proof import Proof
    from ._verify import Verification


@dataclass(frozen=True)
class Port:
    """An input or output of a net.

    Attributes:
        name: The name in the model.
        dtype: The element type in the model, by its ONNX name, such as `"float"`.
        shape: The shape in the model: numbers, and expressions such as `"H"` for free sizes.
        blob: The name of the blob.
        form: The shape of the blob, outermost axis first.
        int32: Whether the blob has 32-bit integers instead of floats.
        cache: For a cache that the runtime keeps, the blob of the other side: of the output that continues an input, and reverse. It
            is an `ncnn.Mat` in the runtime's own layout: extracted with type 1, and given to the next call as it is; the first call is
            given none.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    blob: str
    form: tuple[int | str, ...]
    int32: bool
    cache: str | None = None


@dataclass(frozen=True)
class Assumption:
    """A fact of a value on which the net relies, although it could not be proved.

    Attributes:
        value: The name of the value.
        fact: `exact_integer`, `not_negative`, `small_angle`, `exact_quotient`, `fixed_sizes`, `finite`, `sees_key`,
            `not_tiny`, `whole_exponent` or `whole_length`.
        text: The fact as a predicate of the elements, with the reason why it matters.
    """

    value: str
    fact: str
    text: str


@dataclass(frozen=True)
class Layer:
    """A layer of a net.

    Attributes:
        name: The name.
        type: The type in ncnn.
        bottoms: The names of the blobs that the layer reads.
        tops: The names of the blobs that it computes.
        params: The values of its params by name, without those that have their default.
        nodes: The indices of the nodes of the model whose work it does.
        multiply_adds: The number of multiply-adds: a number, an expression of free sizes, or None if it is not counted.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    params: dict[str, Any]
    nodes: tuple[int, ...]
    multiply_adds: int | str | None


@dataclass(frozen=True)
class Quantization:
    """A quantization by samples, and the distance of its results from those of the float model.

    Attributes:
        method: The calibration method.
        samples: The number of samples.
        errors: The error of the result of each quantized node, with those before it: the norm of the difference over that of the float
            result, the largest of the first samples, by the names of the nodes.
        cosines: The smallest cosine between each output of the net in ncnn and that of the float model, by the names of the outputs; None
            if it is not defined, as for infinities.
        warnings: What a program of the net does not know. `Net.warnings` has it, too.
    """

    method: str
    samples: int
    errors: dict[str, float]
    cosines: dict[str, float | None]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class HalfPrecision:
    """What was chosen by samples for processors that compute in float16.

    Attributes:
        mode: The mode of all layers: `"default"`, `"careful"` or `"precise"`.
        float32: The nodes that were chosen to stay in float32.
        error: The predicted error of the outputs in float16, relative to the largest magnitude of each.
        default: The predicted error without the choice.
        samples: The number of samples.
    """

    mode: str
    float32: tuple[str, ...]
    error: float
    default: float
    samples: int


@dataclass(frozen=True)
class Rounding:
    """A rounding of weights by samples.

    Attributes:
        samples: The number of samples that were held out for the errors.
        by_samples: Whether the weights are rounded by samples, not to the nearest integers, which may come nearer.
        errors: The error of each output of floats by samples: the norm of the difference over that of the exact output.
        nearest: These errors if each weight is rounded to the nearest integer.
        warnings: What may be wrong with the samples. `Net.warnings` has it, too.
        loss: One minus the least cosine of an output, if there is a largest one.
        bits: The number of matrices by their bits, 32 for floats, if there is a largest loss.
    """

    samples: int
    by_samples: bool
    errors: dict[str, float]
    nearest: dict[str, float]
    warnings: tuple[str, ...]
    loss: float | None
    bits: dict[int, int]


class Net:
    """A converted model. `convert` makes nets.

    A net that was converted from a file reads its weights from there, so the file must stay as it is: `OSError` is raised if it
    was changed.

    Attributes:
        quantization: The quantization, if `quantize` made the net.
        half_precision: What was chosen for half precision, if `tune` made the net.
        rounding: The rounding of the weights, if `tune` rounded them.
        proof: The last comparison with the model without a runtime, by `verify` or `save`.
        verification: The last comparison with the model in the runtimes, if `verify` was given the net. `report` and `html` have it, too.
    """

    quantization: Quantization | None = None
    half_precision: HalfPrecision | None = None
    rounding: Rounding | None = None
    proof: Proof | None = None
    verification: Verification | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a net cannot be pickled or copied: save it, or pass on its `param` and `bin`")

    def __init__(self, conversion: _native.Conversion, *, fp16: bool) -> None:
        self._conversion = conversion
        self._fp16 = fp16
        self._lock = threading.Lock()
        self._loaded: ncnn.Net | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs."""
        return tuple(_port(*parts) for parts in self._conversion.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs."""
        return tuple(_port(*parts) for parts in self._conversion.outputs)

    @cached_property
    def warnings(self) -> list[str]:
        """Choices that were made for the user, changed names, and weights that stay in float32."""
        weights = self._conversion.weight_warnings() if self._fp16 else []
        made = [*(self.rounding.warnings if self.rounding else ()), *(self.quantization.warnings if self.quantization else ())]
        return [*made, *self._conversion.warnings, *weights]

    @property
    def assumptions(self) -> list[Assumption]:
        """Facts of values on which the net relies without proof. If one does not hold, the net may compute something else."""
        return [Assumption(*parts) for parts in self._conversion.assumptions]

    @property
    def conditions(self) -> list[str]:
        """The conditions on free sizes under which the net is valid, such as `H >= 7`."""
        return self._conversion.conditions

    @property
    def since(self) -> int:
        """The oldest release of ncnn that loads the net, by its date."""
        return self._conversion.since

    @cached_property
    def param(self) -> str:
        """The text of the `.param` file."""
        return self._conversion.param()

    @cached_property
    def bin(self) -> bytes:
        """The bytes of the `.bin` file, which are then kept as long as the net. `save` and `load` need less memory."""
        return self._conversion.bin()

    @property
    def report(self) -> dict[str, Any]:
        """The report, with the fields of docs/report.md."""
        report = self._report
        if self.verification is not None:
            report = {**report, "comparison": json.loads(self._conversion.report(self._comparison()))["comparison"]}
        return report

    @cached_property
    def _report(self) -> dict[str, Any]:
        report = json.loads(self._conversion.report(None))
        if self.quantization is not None:
            report["quantization"] = _quantization(self.quantization)
        return report

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers, in the order of execution."""
        return [_layer(part) for part in self._report["net"]["layers"]]

    def onnx(self) -> bytes:
        """Returns the simplified model as an ONNX file; with `dequantize` the model in float32.

        Raises:
            ValueError: The model was converted without `keep_onnx`.
        """
        try:
            return self._conversion.onnx()
        except ValueError as error:
            raise ValueError(f"{error}: convert with keep_onnx=True") from None

    def html(self) -> str:
        """Returns the report as a whole page that needs no network, with a drawing of the net: for a file or a frame. A notebook displays
        the net itself.
        """
        return self._conversion.html(self._comparison())

    def _comparison(self) -> str | None:
        """The comparison with the model as the extension reads it."""
        if self.verification is None:
            return None
        return json.dumps({name: value for name, value in asdict(self.verification).items() if name != "magnitudes"})

    def save(
        self,
        param: str | os.PathLike[str],
        bin: str | os.PathLike[str] | None = None,
        *,
        example: str | os.PathLike[str] | None = None,
        verify: bool = False,
    ) -> None:
        """Writes both files, or neither. Weights are copied from file to file.

        Args:
            param: The path of the `.param` file.
            bin: The path of the `.bin` file; by default beside the `.param` file, by its name.
            example: Also write a program that runs the net, in the language of the ending: `.py`, `.cpp` or `.kt`.
            verify: Read the files back and compare them with the model, as `onnx2ncnn.verify` does, before they are put in place. The
                result is `proof`. If a window differs, no file is written.

        Raises:
            OSError: A file cannot be written, or the model cannot be read or was changed.
            ValueError: A file would overwrite the model, the ending of `example` names no language, or the name of `param` does not end in `.param` and `bin` is missing; or,
                with `verify`, no free sizes are found for which the net is valid.
            Refused: With `verify`, a window differs.
        """
        files = param_and_bin(param, bin)
        program = [] if example is None else self._conversion.program(os.fsdecode(os.fspath(example)), *files)
        if verify:
            from ._proof import proof_of

            self.proof = proof_of(self._conversion.save_proved(*files))
        else:
            self._conversion.save(*files)
        for path, text in program:
            with open(path, "w", encoding="utf8") as file:
                file.write(text)

    def load(self, **options: Any) -> ncnn.Net:
        """Returns the net as an `ncnn.Net`, without files.

        The net computes in float32 on the processor, which is as exact as the conversion. `options` are fields of `ncnn.Option`, such
        as `use_vulkan_compute=True` or `num_threads=4`.

        Raises:
            ImportError: ncnn is missing: install `onnx2ncnn[run]`.
            TypeError: `ncnn.Option` lacks a field.
            RuntimeError: ncnn does not load the net; it says why on standard error.
        """
        need("run", "numpy", "ncnn")
        from . import _runtime

        return _runtime.load(self.param, self._conversion.bin(), options)

    def run(
        self,
        inputs: Mapping[str, Any] | Any,
        outputs: str | Sequence[str] | None = None,
        *,
        round_integers: bool = False,
    ) -> dict[str, np.ndarray | ncnn.Mat]:
        """Runs the net in ncnn on arrays in the shapes of the model, and returns its outputs in theirs.

        The net is loaded by the first call. Several threads may call at the same time.

        Args:
            inputs: Arrays by the names of the inputs, or the array of the only input. Free first axes are batches, of size 1. A cache that
                the runtime keeps is the `ncnn.Mat` of the call before, and left out at first.
            outputs: The names of the outputs to compute; by default all.
            round_integers: Round integers that float32 does not represent. Otherwise they are an error.

        Returns:
            Arrays by the names of the outputs, in the types and shapes of the model; bfloat16 and narrower floats become float32. Caches
            that the runtime keeps are `ncnn.Mat`.

        Raises:
            ValueError: An input is missing, has another shape, violates a condition of the net, or has integers that float32 does not
                represent.
            TypeError: An input has another kind of elements.
            RuntimeError: ncnn fails.
            ImportError: ncnn or numpy is missing: install `onnx2ncnn[run]`.
        """
        need("run", "numpy", "ncnn")
        from . import _runtime

        with self._lock:
            if self._loaded is None:
                self._loaded = self.load()
        return _runtime.run(self, self._loaded, inputs, outputs, round_integers)

    def __repr__(self) -> str:
        ports = [f"{port.name} {list(port.shape)}" for port in (*self.inputs, *self.outputs)]
        ends = f"{', '.join(ports[: len(self.inputs)])} -> {', '.join(ports[len(self.inputs) :])}"
        return f"<onnx2ncnn.Net of {len(self._conversion)} layers: {ends}>"

    def _repr_html_(self) -> str:
        """What the net is, for notebooks: inputs, outputs, a drawing, its size, and what is known of its results."""
        from html import escape

        from ._notebook import described

        try:
            return described(self)
        except OSError as error:
            # The weights are in the file of the model.
            return f"<div>{escape(repr(self))}</div><div>It cannot be shown: {escape(str(error))}</div>"


def param_and_bin(param: str | os.PathLike[str], bin: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The paths of both files."""
    param = os.fsdecode(os.fspath(param))
    if bin is None:
        if not param.endswith(".param"):
            raise ValueError(f"the name of {param} does not end in .param: name the .bin file too")
        bin = param[: -len("param")] + "bin"
    return param, os.fsdecode(os.fspath(bin))


def _port(
    name: str, dtype: str, shape: list[int | str], blob: str, form: list[int | str], int32: bool, cache: str | None
) -> Port:
    return Port(name, dtype, tuple(shape), blob, tuple(form), int32, cache)


def _quantization(done: Quantization) -> dict[str, Any]:
    """The part of the report."""
    return {
        "method": done.method,
        "samples": done.samples,
        "nodes": [{"name": name, "error": error} for name, error in done.errors.items()],
        "outputs": [{"name": name, "cosine": cosine} for name, cosine in done.cosines.items()],
    }


def _layer(part: dict[str, Any]) -> Layer:
    return Layer(
        name=part["name"],
        type=part["type"],
        bottoms=tuple(part["bottoms"]),
        tops=tuple(part["tops"]),
        params={param["name"]: param["value"] for param in part["params"]},
        nodes=tuple(part["nodes"]),
        multiply_adds=part["multiply_adds"],
    )
