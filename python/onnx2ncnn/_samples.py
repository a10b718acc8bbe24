"""Samples of the inputs of a model, as callers give them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    # The arrays of inputs by name, or the array of the only input.
    Arrays = Union[Mapping[str, ArrayLike], ArrayLike]
    Data = Union[Arrays, Iterable[Arrays], str, "os.PathLike[str]"]


def given_samples(data: Any) -> Any:
    """The data in the form of the script: a path, a dictionary, or an iterator of dictionaries."""
    if isinstance(data, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(data))
        os.stat(path)
        return path
    if is_array(data) or isinstance(data, Mapping):
        return _by_name(data)
    if not isinstance(data, Iterable):
        raise TypeError(f"data are arrays, an iterable of them, or a path, not {type(data).__name__}")
    return _items(data)


def _items(data: Iterable[Any]) -> Iterator[dict[str | None, Any]]:
    for item in data:
        if not is_array(item) and not isinstance(item, Mapping):
            raise TypeError(f"an item of data is an array or a dictionary of arrays, not {type(item).__name__}")
        yield _by_name(item)


def is_array(value: Any) -> bool:
    return hasattr(value, "__array__")


def _by_name(item: Any) -> dict[str | None, Any]:
    """The arrays by the names of the inputs; the array of the only input has the name None."""
    return dict(item) if isinstance(item, Mapping) else {None: item}
