"""The scripts of the command that use onnxruntime: the comparison of `verify`, the quantization of `quantize`, and the rounding of weights."""

from __future__ import annotations

import types
from typing import Any, Protocol, cast

from . import _native

# Sizes to try for free axes until a model runs, the tolerance for two models, and the least cosine of an output in int8.
SIZES = _native.SIZES
MODELS_TOLERANCE = _native.MODELS_TOLERANCE
INT8_COSINE = _native.INT8_COSINE


class _Compare(Protocol):
    DeviceFailure: type[Exception]
    Failure: type[Exception]
    NetFailure: type[Exception]

    def compare_models(self, request: dict[str, Any]) -> dict[str, Any]: ...

    def compare_net(self, request: dict[str, Any]) -> dict[str, Any]: ...


class _Quantize(Protocol):
    IMAGES: tuple[str, ...]
    METHODS: dict[str, str]
    Failure: type[Exception]
    Missing: type[Exception]

    def quantize_model(self, request: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]: ...


class _Weights(Protocol):
    Failure: type[Exception]
    Missing: type[Exception]

    def round_model(self, request: dict[str, Any]) -> dict[str, Any]: ...


def _load(name: str, text: str) -> types.ModuleType:
    module = types.ModuleType(f"{__name__}.{name}")
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


compare = cast(_Compare, _load("compare", _native.COMPARE))
quantize = cast(_Quantize, _load("quantize", _native.QUANTIZE))
weights = cast(_Weights, _load("weights", _native.WEIGHTS))
