"""The comparison of models and nets, which is that of the command `onnx2ncnn verify`."""

from __future__ import annotations

import types
from typing import Any, Protocol, cast

from . import _native

# Sizes to try for free axes until a model runs, and the tolerance for two models.
SIZES = _native.SIZES
MODELS_TOLERANCE = _native.MODELS_TOLERANCE


class _Script(Protocol):
    Failure: type[Exception]
    NetFailure: type[Exception]

    def compare_models(self, request: dict[str, Any]) -> dict[str, Any]: ...

    def compare_net(self, request: dict[str, Any]) -> dict[str, Any]: ...


def _load() -> _Script:
    module = types.ModuleType(__name__ + "_script")
    exec(compile(_native.COMPARE, "compare.py", "exec"), module.__dict__)
    return cast(_Script, module)


script = _load()
