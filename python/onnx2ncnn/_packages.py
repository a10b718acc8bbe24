"""Packages that are imported where they are used."""

from __future__ import annotations

import importlib


def need(extra: str, *packages: str) -> None:
    """Imports packages, or says which extra of this package has them."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            raise ModuleNotFoundError(f"{package} is missing: pip install \"onnx2ncnn[{extra}]\"", name=package) from None
