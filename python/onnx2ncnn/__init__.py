"""Converts ONNX models to the two files that ncnn loads, `.param` and `.bin`.

    import onnx2ncnn

    net = onnx2ncnn.convert("model.onnx")
    net.save("model.ncnn.param", "model.ncnn.bin")

Either the net computes the same as the model, or `Refused` names each node that cannot be converted.

`convert` and `verify` need no other package. `Net.load` and `Net.run` need ncnn and numpy, `simplify` needs onnx, `tune` needs onnxruntime,
comparisons in the runtimes need ncnn and onnxruntime, and `quantize` needs all of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _native
from ._convert import Operator, convert, inspect, passes, supported
from ._net import Assumption, HalfPrecision, Layer, Net, Port, Quantization, Rounding
from ._refused import Diagnostic, Refused

if TYPE_CHECKING:
    from . import torch, ultralytics
    from ._bundle import Bundle, BundleNet, convert_folder
    from ._chain import Chain, Step, convert_chain
    from ._many import Converted, convert_many
    from ._proof import Proof, WindowProof
    from ._quantize import quantize
    from ._simplify import simplify
    from ._tune import tune
    from ._variants import Variants, convert_variants
    from ._verify import Distance, Verification, verify

__version__ = _native.VERSION

__all__ = [
    "Assumption",
    "Bundle",
    "BundleNet",
    "Chain",
    "Converted",
    "Diagnostic",
    "Distance",
    "HalfPrecision",
    "Layer",
    "Net",
    "Operator",
    "Port",
    "Proof",
    "Quantization",
    "Refused",
    "Rounding",
    "Step",
    "Variants",
    "Verification",
    "WindowProof",
    "convert",
    "convert_chain",
    "convert_folder",
    "convert_many",
    "convert_variants",
    "inspect",
    "passes",
    "quantize",
    "simplify",
    "supported",
    "torch",
    "tune",
    "ultralytics",
    "verify",
]


# Modules that are imported when they are used, and their names: programs that only convert start sooner.
_LATER = {
    "_bundle": ("Bundle", "BundleNet", "convert_folder"),
    "_chain": ("Chain", "Step", "convert_chain"),
    "_many": ("Converted", "convert_many"),
    "_proof": ("Proof", "WindowProof"),
    "_quantize": ("quantize",),
    "_simplify": ("simplify",),
    "_tune": ("tune",),
    "_variants": ("Variants", "convert_variants"),
    "_verify": ("Distance", "Verification", "verify"),
}


def __getattr__(name: str) -> Any:
    if name in ("torch", "ultralytics"):
        return importlib.import_module(f".{name}", __name__)
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
