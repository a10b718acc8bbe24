"""Options as the extension takes them, and as words of the command line."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Union, cast

from . import _native

Shape = Sequence[Union[int, str]]
# Shapes by the names of inputs, or the shape of the only input.
Shapes = Union[Mapping[str, Shape], Shape]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def normalized(**options: Any) -> list[tuple[str, Any]]:
    """The options as the extension takes them: a name and an item of the value each."""
    check_names("the conversion", options, _OPTIONS)
    items = [(name, item) for name, (_, form, _) in _OPTIONS.items() if name in options for item in form.items(name, options[name])]
    for name, (_, _, other) in _OPTIONS.items():
        if other and options.get(name) and options.get(other):
            raise ValueError(f"{name} and {other} exclude each other")
    return items


def words(options: Iterable[tuple[str, Any]], folder: Path) -> list[str]:
    """Normalized options as words of the command line; arrays are files in a folder."""
    found = []
    for name, item in options:
        word, form, _ = _OPTIONS[name]
        text = form.text(name, item, folder / f"{len(found)}.npy")
        found.append(f"--{word}" if text is None else f"--{word}={text}")
    return found


# Names of other tools for options.
_ALIASES = {"float16": "fp16", "half": "fp16"}


def check_names(what: str, names: Iterable[str], known: Iterable[str], noun: str = "argument") -> None:
    """Refuses a name that is not known, and tells the nearest one that is."""
    known = list(known)
    for name in names:
        if name in known:
            continue
        alias = [other for other in [_ALIASES.get(name)] if other in known]
        near = alias or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        advice = f": did you mean {near[0]}?" if near else ""
        raise TypeError(f"{what} has no {noun} {name}{advice}")


def named(function: _Function) -> _Function:
    """Lets a function refuse keyword arguments that it does not take, and tell the nearest one that it takes."""
    parameters = inspect.signature(function).parameters.values()
    own = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    takes_options = len(own) < len(parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_names(f"{function.__name__}()", kwargs, [*own, *_OPTIONS] if takes_options else own)
        return function(*args, **kwargs)

    return cast(_Function, call)


def signature(function: _Function) -> _Function:
    """Gives a function the options as arguments, instead of `**options`."""
    given = inspect.signature(function)
    function = named(function)
    own = [parameter for parameter in given.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=form.default, annotation=form.annotation)
        for name, (_, form, _) in _OPTIONS.items()
    ]
    function.__signature__ = given.replace(parameters=own + more)  # type: ignore[attr-defined]
    return function


def _flag(option: str, value: Any) -> list[bool]:
    if not isinstance(value, bool):
        raise TypeError(f"{option} is True or False, not {type(value).__name__}")
    return [True] if value else []


def _weights(option: str, value: Any) -> list[str]:
    if not isinstance(value, str):
        raise TypeError(f"{option} is a str, not {type(value).__name__}")
    return [] if value == "float" else [value]


def _path(option: str, value: Any) -> list[str]:
    return [] if value is None else [os.fsdecode(os.fspath(value))]


def _bytes(option: str, value: Any) -> list[int]:
    return [] if value is None else [_count(option, value)]


def names(option: str, value: str | Iterable[str] | None) -> list[str]:
    """A list of names; one name may stand alone."""
    return _items(option, value, str, "names")


def _items(option: str, value: Any, kind: type, what: str) -> list[Any]:
    """A list of items of a type; one item may stand alone."""
    if value is None:
        return []
    found = [value] if isinstance(value, kind) else list(value)
    for item in found:
        if not isinstance(item, kind):
            raise TypeError(f"{option} has {what}, not {type(item).__name__}")
    return found


def _numbers(option: str, value: Any) -> list[float]:
    if value is None:
        return []
    found = list(value) if hasattr(value, "__iter__") and not isinstance(value, str) else [value]
    for number in found:
        if isinstance(number, (bool, str)) or not hasattr(number, "__float__"):
            raise TypeError(f"{option} has numbers, not {type(number).__name__}")
    return [float(number) for number in found]


def mapping(option: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{option} is a dictionary, not {type(value).__name__}")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"{option} has names as keys, not {type(name).__name__}")
    return value


def _pairs(option: str, value: Any) -> list[tuple[str, str]]:
    pairs = list(mapping(option, value).items())
    for _, new in pairs:
        if not isinstance(new, str):
            raise TypeError(f"{option} has names as values, not {type(new).__name__}")
    return pairs


def _layers(option: str, value: Any) -> list[str]:
    return [json.dumps(dict(layer)) for layer in _items(option, value, Mapping, "dictionaries")]


def _arrays(option: str, value: Any) -> list[tuple[str, list[int], list[int] | list[float]]]:
    return [(name, *elements(name, array)) for name, array in mapping(option, value).items()]


def _shapes(option: str, value: Any) -> list[tuple[str, list[str]]]:
    if value is not None and not isinstance(value, Mapping):
        value = {"": value}
    return [(name, _sizes(shape)) for name, shape in mapping(option, value).items()]


def _sizes(shape: Shape) -> list[str]:
    if isinstance(shape, str):
        raise TypeError("a shape is a sequence of sizes, not a str")
    for size in shape:
        if isinstance(size, int) and size < 1:
            raise ValueError(f'a size is a number from 1, or a name such as "H", which leaves it free, not {size}')
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


def _release(option: str, value: Any) -> list[int]:
    if value is None:
        return []
    text = value if isinstance(value, str) else str(_count(option, value))
    date = text[4:] if text.startswith("1.0.") else text
    if not (len(date) == 8 and date.isdecimal() and "01" <= date[4:6] <= "12" and "01" <= date[6:] <= "31"):
        raise ValueError(f"{option} is the date of a release of ncnn, such as 20250503, not {value!r}")
    return [int(date)]


def elements(name: str, value: Any) -> tuple[list[int], list[int] | list[float] | list[str]]:
    """Shape and elements of a number, of the name of a free size, of nested sequences of them, or of an array."""
    if hasattr(value, "tolist"):
        shape, flat = list(value.shape), value.ravel().tolist()
    else:
        shape, flat = _flatten(name, value)
    if all(isinstance(element, int) for element in flat):
        if not all(-(1 << 63) <= element < 1 << 63 for element in flat):
            raise ValueError(f'set: an integer of "{name}" is out of range')
        return shape, [int(element) for element in flat]
    if any(isinstance(element, str) for element in flat):
        return shape, [element if isinstance(element, str) else str(_count("a size", element)) for element in flat]
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


def _text(option: str, item: Any, file: Path) -> str:
    return str(item)


def _no_text(option: str, item: Any, file: Path) -> None:
    return None


def _name_text(option: str, name: str, file: Path) -> str:
    if "," in name:
        raise ValueError(f'{option}: the command line splits the name "{name}" at its comma')
    return name


def _shape_text(option: str, item: tuple[str, list[str]], file: Path) -> str:
    name, sizes = item
    return f"{name + ':' if name else ''}{','.join(sizes)}"


def _array_text(option: str, item: tuple[str, list[int], list[Any]], file: Path) -> str:
    name, shape, flat = item
    if len(shape) <= 1:
        return f"{name}={','.join(map(repr, flat))}"
    import numpy as np

    np.save(file, np.array(flat).reshape(shape))
    return f"{name}=@{file}"


def _layer_text(option: str, item: str, file: Path) -> str:
    file = file.with_suffix(".json")
    file.write_text(f'{{"layer": [{item}]}}')
    return str(file)


def _pair_text(option: str, item: tuple[str, str], file: Path) -> str:
    return "=".join(item)


class _Form(NamedTuple):
    """The form of an option's values in Python.

    Attributes:
        annotation: The type of the argument.
        items: Returns the items of a value, after checks.
        text: Returns an item as the command line has it; arrays are written to a file.
        default: The default of the argument.
    """

    annotation: str
    items: Callable[[str, Any], list[Any]]
    text: Callable[[str, Any, Path], str | None] = _text
    default: Any = None


# The forms by the kinds of the extension.
_FORMS = {
    "flag": _Form("bool", _flag, _no_text, False),
    "name": _Form("str | Iterable[str] | None", names, _name_text),
    "number": _Form("float | Iterable[float] | None", _numbers),
    "path": _Form("str | os.PathLike[str] | None", _path),
    "release": _Form("int | str | None", _release),
    "bytes": _Form("int | None", _bytes),
    "weights": _Form("str", _weights, default="float"),
    "shape": _Form("Shapes | None", _shapes, _shape_text),
    "array": _Form("Mapping[str, Any] | None", _arrays, _array_text),
    "layer": _Form("Mapping[str, Any] | Iterable[Mapping[str, Any]] | None", _layers, _layer_text),
    "pair": _Form("Mapping[str, str] | None", _pairs, _pair_text),
}

# The word, the form and the excluded option of each option.
_OPTIONS = {name: (word, _FORMS[kind], other) for name, word, kind, other in _native.options()}
