"""Export of PyTorch modules to ncnn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator

from . import _options
from ._convert import convert
from ._net import Net
from ._verify import Distance, Verification

# The packages are imported by the functions: the help of onnx2ncnn describes this module where they are missing, too.
if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["export"]


@_options.named
def export(
    module: torch.nn.Module,
    args: tuple[Any, ...] | torch.Tensor,
    param: str | os.PathLike[str] | None = None,
    bin: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    tolerance: float | None = 1e-3,
    **options: Any,
) -> Net:
    """Exports a module with PyTorch's own exporter, converts the model, and compares the net with the module on `args`.

    The module is exported and run in evaluation mode, without gradients, and is then in its mode of before.

    Args:
        module: The module.
        args: The positional arguments of the module, or its only one.
        param: The path of the `.param` file; by default no files are written.
        bin: The path of the `.bin` file; by default beside the `.param` file, by its name.
        kwargs: The keyword arguments of the module.
        dynamic_shapes: The free axes, as in `torch.export.export`.
        input_names: The names of the inputs.
        output_names: The names of the outputs.
        opset_version: The version of ONNX's operator set; by default the exporter's.
        tolerance: The tolerance, relative to the largest magnitude of an output; None compares nothing, and needs no ncnn.
        options: The options of `onnx2ncnn.convert`.

    Returns:
        The net.

    Raises:
        Refused: Something in the model cannot be expressed in ncnn.
        ArithmeticError: An output of the net differs from that of the module; no file has been written.
        ValueError: An option does not fit the model.
        OSError: A file cannot be written.
        ImportError: A package is missing: the exporter needs onnxscript, and the comparison `onnx2ncnn[run]`.
        torch.onnx.errors.OnnxExporterError: The module cannot be exported.
    """
    import torch

    args = args if isinstance(args, tuple) else (args,)
    kwargs = dict(kwargs or {})
    with _evaluating(module), torch.no_grad():
        program = torch.onnx.export(
            module,
            args,
            kwargs=kwargs,
            dynamic_shapes=dynamic_shapes,
            input_names=input_names,
            output_names=output_names,
            opset_version=opset_version,
            dynamo=True,
            verbose=False,
        )
        net = convert(program.model_proto, **options)
        if tolerance is not None:
            outputs = _compare(net, args, kwargs, module(*args, **kwargs), tolerance)
            net.verification = Verification(outputs, [], {})
    if param is not None:
        net.save(param, bin)
    return net


@contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _tensors(values: Any) -> list[np.ndarray]:
    import torch
    from torch.utils._pytree import tree_flatten

    return [leaf.detach().cpu().numpy() for leaf in tree_flatten(values)[0] if isinstance(leaf, torch.Tensor)]


def _compare(net: Net, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any, tolerance: float) -> list[Distance]:
    import numpy as np

    given, expected = _tensors((args, kwargs)), _tensors(outputs)
    if len(given) != len(net.inputs) or len(expected) != len(net.outputs):
        raise ValueError(
            f"the module has {len(given)} inputs and {len(expected)} outputs, the net {len(net.inputs)} and "
            f"{len(net.outputs)}: they cannot be compared; tolerance=None compares nothing"
        )
    results = net.run({port.name: array for port, array in zip(net.inputs, given)})
    distances = []
    for (name, result), array in zip(results.items(), expected):
        if result.shape != array.shape:
            raise ArithmeticError(f'the output "{name}" has shape {list(result.shape)} instead of {list(array.shape)}')
        got, wanted = result.astype(np.float64), array.astype(np.float64)
        finite = np.isfinite(wanted)
        bound = tolerance * (np.abs(wanted[finite]).max(initial=0) + 1e-6)
        with np.errstate(invalid="ignore"):
            close = np.where(finite, np.abs(got - wanted) <= bound, (got == wanted) | (np.isnan(got) & np.isnan(wanted)))
        if not close.all():
            with np.errstate(invalid="ignore"):
                error = np.nanmax(np.abs(got - wanted)[~close], initial=0)
            raise ArithmeticError(f'the output "{name}" differs from that of the module by {error:.3g}')
        error = float(np.abs(got[finite] - wanted[finite]).max(initial=0))
        distances.append(Distance(name, True, error, error / (float(np.abs(wanted[finite]).max(initial=0)) or 1.0)))
    return distances
