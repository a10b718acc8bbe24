"""Simplification of models, with the signature of onnxsim."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _options
from ._model import Model, Source, source
from ._options import Shapes
from ._packages import need
from ._refused import Refused

if TYPE_CHECKING:
    import onnx

# The pass of onnxsim's option `skip_fuse_bn`.
_FUSE_BN = "fuse_bn_into_conv"


@_options.named
def simplify(
    model: Model,
    check_n: int = 0,
    perform_optimization: bool = True,
    skip_fuse_bn: bool = False,
    overwrite_input_shapes: Shapes | None = None,
    test_input_shapes: Mapping[str, Sequence[int]] | None = None,
    skipped_optimizers: Sequence[str] | None = None,
    skip_constant_folding: bool = False,
    skip_shape_inference: bool = False,
    input_data: Mapping[str, Any] | None = None,
    dynamic_input_shape: bool = False,
    custom_lib: str | None = None,
    include_subgraph: bool = False,
    unused_output: Sequence[str] | None = None,
    tensor_size_threshold: str = "1.5GB",
    mutable_initializer: bool = False,
    *,
    input_shapes: Shapes | None = None,
    check_rtol: float = _native.MODELS_TOLERANCE,
) -> tuple[onnx.ModelProto, bool]:
    """Returns the simplified model, and whether it computes the same as the model.

    The signature is that of `onnxsim.simplify`. The model is not changed. Unknown operators stay as they are, and free sizes stay
    free. Nodes whose folding would make the model larger stay nodes.

    Args:
        model: A path, bytes, a binary file or an `onnx.ModelProto`.
        check_n: The number of random inputs on which both models are compared in onnxruntime.
        perform_optimization: False keeps all nodes but those that are folded.
        skip_fuse_bn: Skip the pass `fuse_bn_into_conv`.
        overwrite_input_shapes: Shapes of inputs by name, or the shape of the only input.
        test_input_shapes: Shapes of the random inputs by name.
        skipped_optimizers: Passes to skip, see `passes`. Other passes of onnxsim are never run.
        input_data: Arrays for the comparison by name, instead of random ones.
        unused_output: Outputs to remove, with the nodes that only they need.
        input_shapes: The old name of `overwrite_input_shapes`.
        check_rtol: The tolerance of the comparison, relative to the largest magnitude of an output.
        skip_shape_inference: No effect: shapes are always inferred.
        include_subgraph: No effect: a body of control flow is simplified as far as it is inlined.
        tensor_size_threshold: No effect: folding never makes the model larger.
        dynamic_input_shape: No effect, as in onnxsim.
        skip_constant_folding: Must be False: later shapes depend on folded constants.
        custom_lib: Must be None.
        mutable_initializer: Must be False: constants are not inputs.

    Raises:
        Refused: The model cannot be read or breaks the specification.
        ValueError: An option does not fit the model or is not supported, or nothing could be compared.
        OSError: The model or its external data cannot be read.
        ImportError: A package is missing: install `onnx2ncnn[simplify]`.
    """
    need("simplify", "onnx")
    import onnx

    for option, value in [
        ("skip_constant_folding", skip_constant_folding),
        ("custom_lib", custom_lib),
        ("mutable_initializer", mutable_initializer),
    ]:
        if value:
            raise ValueError(f"onnx2ncnn does not support {option}")
    if input_shapes is not None:
        warnings.warn("input_shapes is the old name of overwrite_input_shapes", DeprecationWarning, stacklevel=2)
    given = source(model)
    known = set(dict(_native.passes()))
    skip = known if not perform_optimization else known.intersection(skipped_optimizers or ())
    if skip_fuse_bn:
        skip = skip | {_FUSE_BN}
    unused = _options.names("unused_output", unused_output)
    options = _options.normalized(
        input_shapes=input_shapes if overwrite_input_shapes is None else overwrite_input_shapes,
        outputs=_remaining(given, unused),
        skip=sorted(skip),
    )
    simplified = _native.Converter(options).simplify(given)
    data: bytes | None
    try:
        data = simplified.onnx()
        result = onnx.load_model_from_string(data)
    except Refused as refused:
        if all(diagnostic.kind != "limit" for diagnostic in refused.diagnostics):
            raise
        # Protobuf ends at 2 GiB.
        data, result = None, _above_limit(simplified)
    if not check_n:
        return result, True
    return result, _same(given, data, simplified, unused, check_n, test_input_shapes, input_data, check_rtol)


def _remaining(model: Source, unused: list[str]) -> list[str]:
    """The outputs that stay; none for all."""
    if not unused:
        return []
    outputs = [name for name in _native.Converter(_options.normalized()).outputs(model)]
    for name in unused:
        if name not in outputs:
            raise ValueError(f'unused_output: the model has no output "{name}"')
    remaining = [name for name in outputs if name not in unused]
    if not remaining:
        raise ValueError("unused_output names all outputs of the model")
    return remaining


def _above_limit(simplified: _native.Simplified) -> onnx.ModelProto:
    import tempfile

    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        simplified.save(str(path))
        return onnx.load(path)


def _same(
    model: Source,
    result: bytes | None,
    simplified: _native.Simplified,
    unused: list[str],
    rounds: int,
    shapes: Mapping[str, Sequence[int]] | None,
    data: Mapping[str, Any] | None,
    tolerance: float,
) -> bool:
    import tempfile

    from . import _scripts

    with tempfile.TemporaryDirectory() as folder:
        other: bytes | str | None = result
        if other is None:
            other = os.path.join(folder, "result.onnx")
            simplified.save(other)
        original = model
        if isinstance(model, tuple) or unused:
            part = _native.Converter(_options.normalized(outputs=_remaining(model, unused))).part(model)
            original = os.path.join(folder, "original.onnx")
            part.save(original)
        request = {
            "original": original,
            "other": other,
            "rounds": rounds,
            "sizes": _scripts.SIZES,
            "shapes": None if shapes is None else {name: list(shape) for name, shape in shapes.items()},
            "tolerance": tolerance,
            "data": None if data is None else dict(data),
        }
        try:
            answer = _scripts.compare.compare_models(request)
        except _scripts.compare.Failure as failure:
            raise ValueError(f"nothing could be compared: {failure}") from None
    return all(output["same"] for output in answer["outputs"])
