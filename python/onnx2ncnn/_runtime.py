"""Nets in ncnn."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ncnn
import numpy as np

from ._options import check_names, names

if TYPE_CHECKING:
    from ._net import Net, Port

# The fields of ncnn.Option with which a net computes in float32 on the processor.
_EXACT = {
    "use_vulkan_compute": False,
    "use_fp16_packed": False,
    "use_fp16_storage": False,
    "use_fp16_arithmetic": False,
    "use_bf16_storage": False,
}

# The types of numpy of ONNX's types; float32 for all others.
_TYPES = {"float": "float32", "double": "float64"}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class _Reader(ncnn.DataReader):
    """Reads bytes in memory. `Net.load_model_mem` copies them, and returns no error."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self._address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        self._at = 0

    def read(self, buffer: Any, size: int) -> int:
        size = min(size, len(self._data) - self._at)
        ctypes.memmove(_pointer(buffer, None), self._address + self._at, size)
        self._at += size
        return size


def load(param: str, data: bytes, options: Mapping[str, Any]) -> ncnn.Net:
    """The net of both files' contents."""
    net = ncnn.Net()
    check_names("ncnn.Option", options, [name for name in dir(net.opt) if not name.startswith("_")], "field")
    for name, value in {**_EXACT, **options}.items():
        try:
            setattr(net.opt, name, value)
        except TypeError:
            kind = type(getattr(net.opt, name)).__name__
            raise TypeError(f"the field {name} of ncnn.Option is of type {kind}, not {type(value).__name__}") from None
    if net.load_param_mem(param) != 0 or net.load_model(_Reader(data)) != 0:
        raise RuntimeError("ncnn does not load the net; it says why on standard error")
    return net


def run(
    net: Net, loaded: ncnn.Net, inputs: Any, outputs: str | Sequence[str] | None, round_integers: bool
) -> dict[str, Any]:
    """The outputs of a net, by name."""
    caches = {}
    if isinstance(inputs, Mapping):
        caches = {port.name: inputs[port.name] for port in net.inputs if port.cache and port.name in inputs}
        inputs = {name: array for name, array in inputs.items() if name not in caches}
    for name, mat in caches.items():
        if not isinstance(mat, ncnn.Mat):
            raise TypeError(f'the cache "{name}" is the ncnn.Mat of the call before, not {type(mat).__name__}')
    arrays = _arrays(net, inputs)
    _check_assumptions(net, arrays)
    given = {name: list(array.shape) for name, array in arrays.items()}
    for port in net.inputs:
        if port.cache:
            # The height of a cache is its length in any layout.
            length = caches[port.name].h if port.name in caches else 0
            given[port.name] = [size if isinstance(size, int) else length for size in port.shape]
    forms, shapes = net._conversion.resolve(given)
    if isinstance(outputs, Mapping):
        raise TypeError("outputs are names; the inputs come first")
    wanted = names("outputs", outputs)
    for name in wanted:
        if all(port.name != name for port in net.outputs):
            raise ValueError(f'the net has no output "{name}"; its outputs are {", ".join(port.name for port in net.outputs)}')
    extractor = loaded.create_extractor()
    for port, form in zip(net.inputs, forms):
        if port.cache:
            if port.name in caches and extractor.input(port.blob, caches[port.name]) != 0:
                raise RuntimeError(f'ncnn does not take the input "{port.name}"')
            continue
        array = _elements(port, arrays[port.name], round_integers).reshape(form)
        # The extractor keeps the blob, but not the array.
        if extractor.input(port.blob, ncnn.Mat(array).clone()) != 0:
            raise RuntimeError(f'ncnn does not take the input "{port.name}"')
    results = {}
    for port, shape in zip(net.outputs, shapes):
        if wanted and port.name not in wanted:
            continue
        code, mat = extractor.extract(port.blob, 1 if port.cache else 0)
        if code != 0:
            raise RuntimeError(f'ncnn does not compute the output "{port.name}": error {code}')
        if port.cache:
            results[port.name] = mat
            continue
        results[port.name] = _result(port, np.array(mat), shape)
    return results


def _arrays(net: Net, inputs: Any) -> dict[str, np.ndarray]:
    if inputs is None:
        raise TypeError("inputs are arrays by the names of the inputs, or the array of the only input, and come first; not None")
    if not isinstance(inputs, Mapping):
        if len(net.inputs) != 1:
            raise TypeError(f"the net has {len(net.inputs)} inputs: give a dictionary of arrays by name")
        inputs = {net.inputs[0].name: inputs}
    for name, array in inputs.items():
        if isinstance(array, (str, bytes, os.PathLike)):
            raise TypeError(f'the input "{name}" is an array of numbers, not {type(array).__name__}: read the file first')
        if array is None:
            raise TypeError(f'the input "{name}" is an array of numbers, not None')
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    known = {port.name for port in net.inputs}
    for name, array in arrays.items():
        # The net lacks inputs without elements.
        if name not in known and array.size:
            raise ValueError(f'the net has no input "{name}"; its inputs are {", ".join(sorted(known))}')
    return {name: array for name, array in arrays.items() if name in known}


def _check_assumptions(net: Net, arrays: Mapping[str, np.ndarray]) -> None:
    """Fails if elements of an input are below 0 where the net relies on it, or indices beyond a table: ncnn would read others."""
    for name, rows in net._conversion.index_limits.items():
        array = arrays.get(name)
        if array is not None and array.size and array.max() >= rows:
            raise ValueError(f'the input "{name}" has {array.max()}, and selects rows of a table of {rows}: its numbers are at most {rows - 1}')
    for assumption in net.assumptions:
        array = arrays.get(assumption.value)
        if assumption.fact == "not_negative" and array is not None and array.dtype.kind in "if" and (array < 0).any():
            raise ValueError(f'the input "{assumption.value}" has {array.min()}, and the net is right for numbers from 0 on')


def _dtype(port: Port) -> np.dtype:
    try:
        return np.dtype(_TYPES.get(port.dtype, port.dtype))
    except TypeError:
        return np.dtype(np.float32)


def _elements(port: Port, array: np.ndarray, round_integers: bool) -> np.ndarray:
    """The elements of an input as the net reads them."""
    whole = _dtype(port).kind in "iub"
    if array.dtype.kind not in ("iub" if whole else "fiub"):
        raise TypeError(f'the input "{port.name}" is of type {port.dtype}, not {array.dtype}')
    with np.errstate(over="ignore", invalid="ignore"):
        elements = np.asarray(array, np.int32 if port.int32 else np.float32, order="C")
        is_rounded = array.dtype.kind == "f" or (round_integers and not port.int32)
        kept = is_rounded or np.array_equal(elements.astype(array.dtype), array)
    if not kept:
        kind = "32-bit integers" if port.int32 else "float32"
        raise ValueError(f'the input "{port.name}" has integers that {kind} cannot represent')
    return elements


def _result(port: Port, array: np.ndarray, shape: list[int | None]) -> np.ndarray:
    """An output in the type and shape of the model."""
    if port.int32:
        array = array.view(np.int32)
    unknown = shape.count(None)
    sizes = [-1 if size is None else size for size in shape]
    if unknown > 1 or (not unknown and array.size != np.prod(sizes, dtype=np.int64)):
        raise RuntimeError(f'the output "{port.name}" has shape {list(array.shape)} in ncnn instead of {shape}')
    return _cast(array.reshape(sizes), _dtype(port))


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The elements in the type of the model. The nearest float32 of the largest integers is beyond them."""
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype, copy=False)
    if dtype.kind in "iu" and array.dtype.kind == "f":
        limits = np.iinfo(dtype)
        result[array >= limits.max] = limits.max
        result[array <= limits.min] = limits.min
    return result
