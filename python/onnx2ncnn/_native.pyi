"""The extension; the package has the documented interface."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from ._model import Source
from ._options import Shapes

VERSION: str
COMPARE: str
QUANTIZE: str
WEIGHTS: str
BITS: list[tuple[str, int]]
BLOCK_SIZES: list[tuple[str, int]]
INT8_COSINE: float
MOST_LOSS: float
HALF_MODES: list[str]
SIZES: list[int]
MODELS_TOLERANCE: float

_PortParts = tuple[str, str, list[int | str], str, list[int | str], bool, str | None]

class Options(TypedDict, total=False):
    """The options of `convert`; `BLESS=1 pytest python/tests/test_docs.py` writes them."""

    input_shapes: Shapes | None
    set: Mapping[str, Any] | None
    scale: float | Iterable[float] | None
    mean: float | Iterable[float] | None
    norm: float | Iterable[float] | None
    bgr: bool
    chw: bool
    inputs: str | Iterable[str] | None
    outputs: str | Iterable[str] | None
    auto_cut: bool
    random_as_input: bool
    data_dir: str | os.PathLike[str] | None
    max_size: int | None
    skip: str | Iterable[str] | None
    double_as_float: bool
    fp16: bool
    weights: str
    precise: bool
    careful: bool
    float32: str | Iterable[str] | None
    kv_cache: bool
    int8: bool
    dequantize: bool
    ncnn_version: int | str | None
    strict: bool
    rename: Mapping[str, str] | None
    numbered: bool
    check: bool
    keep_onnx: bool

class Converter:
    def __new__(cls, options: list[tuple[str, Any]]) -> Converter: ...
    def convert(self, model: Source) -> Conversion: ...
    def convert_chain(self, model: Source, cuts: list[list[str]]) -> Chain: ...
    def simplify(self, model: Source) -> Simplified: ...
    def part(self, model: Source) -> Simplified: ...
    def outputs(self, model: Source) -> list[str]: ...
    def inspect(self, model: Source) -> str: ...

class Conversion:
    inputs: list[_PortParts]
    outputs: list[_PortParts]
    warnings: list[str]
    assumptions: list[tuple[str, str, str]]
    input_axes: list[list[list[int]]]
    conditions: list[str]
    since: int
    def __len__(self) -> int: ...
    def sorts(self) -> bool: ...
    def weight_warnings(self) -> list[str]: ...
    def param(self) -> str: ...
    def bin(self) -> bytes: ...
    def save(self, param: str, bin: str) -> None: ...
    def report(self) -> str: ...
    def html(self) -> str: ...
    def onnx(self) -> bytes: ...
    def resolve(self, shapes: dict[str, list[int]]) -> tuple[list[list[int | None]], list[list[int | None]]]: ...
    def shapes_at(self, size: int) -> dict[str, list[int]] | None: ...
    def calls_at(self, size: int) -> list[dict[str, list[int]]]: ...
    def inner_blobs(self) -> list[tuple[str, str, bool]]: ...
    def half_blobs(self) -> list[tuple[str, str, str | None, int, int, bool]]: ...
    def int8_candidates(self, depthwise: bool) -> list[str]: ...
    def expose(self, values: set[str]) -> bytes: ...

class Chain:
    def steps(self) -> list[tuple[list[str], list[str], Conversion | None, Simplified | None, list[str]]]: ...
    def save(self, param: str, bin: str) -> None: ...

class Simplified:
    warnings: list[str]
    def onnx(self) -> bytes: ...
    def save(self, path: str) -> None: ...

def options() -> list[tuple[str, str, str, str | None]]: ...
def passes() -> list[tuple[str, str]]: ...
def supported() -> list[tuple[str, str, list[int], str, str, str]]: ...
def main(words: list[str], interpreter: str, before: list[str], library: str) -> int: ...
