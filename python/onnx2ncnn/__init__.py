"""Converts ONNX models to the two files that ncnn loads, `.param` and `.bin`.

    import onnx2ncnn

    net = onnx2ncnn.convert("model.onnx")
    net.save("model.ncnn.param", "model.ncnn.bin")

Either the net computes the same as the model, or `Refused` names each node that cannot be converted.

`convert` needs no other package. `Net.load` and `Net.run` need ncnn and numpy, `simplify` needs onnx, and comparisons with the
model need onnxruntime.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import _native
from ._convert import convert, inspect, passes, supported
from ._many import Converted, convert_many
from ._net import Assumption, Layer, Net, Port
from ._refused import Diagnostic, Refused
from ._simplify import simplify
from ._verify import Distance, Verification, verify

__version__ = _native.VERSION

__all__ = [
    "Assumption",
    "Converted",
    "Diagnostic",
    "Distance",
    "Layer",
    "Net",
    "Port",
    "Refused",
    "Verification",
    "convert",
    "convert_many",
    "inspect",
    "passes",
    "simplify",
    "supported",
    "torch",
    "verify",
]


def __getattr__(name: str) -> Any:
    # PyTorch takes seconds to import.
    if name == "torch":
        return importlib.import_module(".torch", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
