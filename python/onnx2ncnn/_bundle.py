"""Folders of exporters as bundles."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import _native, _options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._native import Options


@dataclass(frozen=True)
class BundleNet:
    """A net of a bundle.

    Attributes:
        name: What it is: "decoder", "encoder", or "keys" for the keys and values that a decoder reads of an encoder.
        model: The model that was converted.
        added: The options that were chosen, as words of the command.
    """

    name: str
    model: Path
    added: tuple[str, ...]


@dataclass(frozen=True)
class Bundle:
    """A written bundle. `convert_folder` makes bundles.

    Attributes:
        folder: The folder.
        nets: The nets, in the order in which they compute.
        files: The files.
    """

    folder: Path
    nets: tuple[BundleNet, ...]
    files: tuple[Path, ...]


@_options.signature
def convert_folder(folder: str | os.PathLike[str], to: str | os.PathLike[str], **options: Unpack[Options]) -> Bundle:
    """Converts the folder of a model of texts or speech, as optimum and transformers write it, to a bundle: the nets, a program that
    runs them, `bundle.json`, and the files of the tokenizer. All files are written, or none.

    Args:
        folder: The folder, with a model, `config.json` and `tokenizer.json`.
        to: A new or empty folder.

    The options are those of `convert`.

    Raises:
        Refused: The model is invalid, or cannot be expressed in ncnn.
        ValueError: A file is missing or contradicts the model, or the new folder has files.
        TypeError: An argument has the wrong type.
        OSError: A file cannot be read or written.
    """
    if not os.path.isdir(folder):
        found = os.path.exists(folder)
        kind, number = (NotADirectoryError, errno.ENOTDIR) if found else (FileNotFoundError, errno.ENOENT)
        raise kind(number, os.strerror(number), os.fspath(folder))
    converter = _native.Converter(_options.normalized(**options))
    nets, files = converter.convert_folder(os.fspath(folder), os.fspath(to))
    nets = tuple(BundleNet(name, Path(model), tuple(added)) for name, model, added in nets)
    return Bundle(Path(to), nets, tuple(Path(file) for file in files))
