"""Options as the extension takes them, and as words of the command line."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

Shape = Sequence[Union[int, str]]
# Shapes by the names of inputs, or the shape of the only input.
Shapes = Union[Mapping[str, Shape], Shape]

_FLAGS = ("fp16", "precise", "kv_cache", "int8", "dequantize", "double_as_float", "random_as_input", "strict", "keep_onnx")
_DEFAULTS: dict[str, Any] = {
    "input_shapes": None,
    "inputs": None,
    "outputs": None,
    "set": None,
    "rename": None,
    "float32": None,
    "ncnn_version": None,
    "skip": None,
    "data_dir": None,
    "max_size": None,
    "weights": "float",
    **dict.fromkeys(_FLAGS, False),
}


def normalized(**options: Any) -> dict[str, Any]:
    """Every option in the form of the extension."""
    unknown = options.keys() - _DEFAULTS.keys()
    if unknown:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    given = {**_DEFAULTS, **options}
    for name in _FLAGS:
        if not isinstance(given[name], bool):
            raise TypeError(f"{name} is True or False, not {type(given[name]).__name__}")
    if not isinstance(given["weights"], str):
        raise TypeError(f"weights is a str, not {type(given['weights']).__name__}")
    if given["int8"] and given["dequantize"]:
        raise ValueError("int8 and dequantize exclude each other")
    return {
        **given,
        "input_shapes": _shapes(given["input_shapes"]),
        "inputs": names("inputs", given["inputs"]),
        "outputs": names("outputs", given["outputs"]),
        "skip": names("skip", given["skip"]),
        "float32": names("float32", given["float32"]),
        "rename": _pairs("rename", given["rename"]),
        "set": [(name, *elements(name, value)) for name, value in _mapping("set", given["set"]).items()],
        "ncnn_version": _release(given["ncnn_version"]),
        "data_dir": None if given["data_dir"] is None else os.fsdecode(os.fspath(given["data_dir"])),
        "max_size": None if given["max_size"] is None else _count("max_size", given["max_size"]),
    }


def names(option: str, value: str | Iterable[str] | None) -> list[str]:
    """A list of names; one name may stand alone."""
    if value is None:
        return []
    found = [value] if isinstance(value, str) else list(value)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{option} has names, not {type(name).__name__}")
    return found


def _mapping(option: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{option} is a dictionary, not {type(value).__name__}")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"{option} has names as keys, not {type(name).__name__}")
    return value


def _pairs(option: str, value: Any) -> list[tuple[str, str]]:
    pairs = list(_mapping(option, value).items())
    for _, new in pairs:
        if not isinstance(new, str):
            raise TypeError(f"{option} has names as values, not {type(new).__name__}")
    return pairs


def _shapes(value: Shapes | None) -> list[tuple[str, list[str]]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        value = {"": value}
    return [(name, _sizes(shape)) for name, shape in _mapping("input_shapes", value).items()]


def _sizes(shape: Shape) -> list[str]:
    if isinstance(shape, str):
        raise TypeError("a shape is a sequence of sizes, not a str")
    return [size if isinstance(size, str) else str(_count("a size", size)) for size in shape]


def _count(what: str, value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{what} is a number, not bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is an integer, not {type(value).__name__}") from None
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{what} is out of range: {number}")
    return number


def _release(value: int | str | None) -> int | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else str(_count("ncnn_version", value))
    date = text[4:] if text.startswith("1.0.") else text
    if not (len(date) == 8 and date.isdecimal() and "01" <= date[4:6] <= "12" and "01" <= date[6:] <= "31"):
        raise ValueError(f"ncnn_version is the date of a release of ncnn, such as 20250503, not {value!r}")
    return int(date)


def elements(name: str, value: Any) -> tuple[list[int], list[int] | list[float]]:
    """Shape and elements of a number, of nested sequences of numbers, or of an array."""
    if hasattr(value, "tolist"):
        shape, flat = list(value.shape), value.ravel().tolist()
    else:
        shape, flat = _flatten(name, value)
    if all(isinstance(element, int) for element in flat):
        if not all(-(1 << 63) <= element < 1 << 63 for element in flat):
            raise ValueError(f'set: an integer of "{name}" is out of range')
        return shape, [int(element) for element in flat]
    if not all(isinstance(element, (int, float)) for element in flat):
        raise TypeError(f'set: the elements of "{name}" are not numbers')
    return shape, [float(element) for element in flat]


def _flatten(name: str, value: Any) -> tuple[list[int], list[Any]]:
    if isinstance(value, (list, tuple)):
        parts = [_flatten(name, part) for part in value]
        if any(shape != parts[0][0] for shape, _ in parts):
            raise ValueError(f'set: the rows of "{name}" have different lengths')
        return [len(parts), *(parts[0][0] if parts else [])], [element for _, flat in parts for element in flat]
    return [], [value]
