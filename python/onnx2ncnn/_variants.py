"""Nets of one model for several sizes, over one `.bin` file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import _native, _options
from ._model import Model, source
from ._net import Net, param_and_bin

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._native import Options


class Variants:
    """Nets of one model for several sizes. `convert_variants` makes them.

    Attributes:
        nets: The nets by their names.
        skipped: The bytes of weights that each net loads, and that only other nets need.
    """

    def __init__(self, variants: _native.Variants, *, fp16: bool) -> None:
        self._variants = variants
        self.nets: dict[str, Net] = {}
        self.skipped: dict[str, int] = {}
        for name, net, skipped in variants.nets():
            self.nets[name] = Net(net, fp16=fp16)
            self.skipped[name] = skipped

    def save(self, param: str | os.PathLike[str], bin: str | os.PathLike[str] | None = None) -> None:
        """Writes the files, or none: `model.small.param` and so on for `model.param`, and one `.bin` file.

        Args:
            param: The path of the `.param` files without the names of the nets.
            bin: The path of the `.bin` file; by default beside the `.param` files, by their names: `model.small+large.bin`.

        Raises:
            OSError: A file cannot be written, or the model cannot be read or was changed.
            ValueError: A file would overwrite the model, or the name of `param` does not end in `.param` and `bin` is missing.
        """
        path, named = param_and_bin(param, bin)
        self._variants.save(path, None if bin is None else named)

    def __repr__(self) -> str:
        return f"<onnx2ncnn.Variants {', '.join(self.nets)}>"


@_options.signature
def convert_variants(model: Model, variants: Mapping[str, _options.Shapes], **options: Unpack[Options]) -> Variants:
    """Converts a model for several sizes to nets over one `.bin` file. Equal weights are stored once.

    Args:
        model: A model, as for `convert`.
        variants: Names of the nets, each with the shapes of its inputs, as `input_shapes` has them.

    The options are those of `convert`.

    Raises:
        Refused: A net is refused, or would load many weights that only other nets need.
        ValueError: A name is invalid, or an option does not fit the model.
        TypeError: An argument has the wrong type.
        OSError: The model or its external data cannot be read.
    """
    named = _options.mapping("variants", variants).items()
    shapes = [(name, [shape for _, shape in _options.normalized(input_shapes=inputs)]) for name, inputs in named]
    if not shapes:
        raise ValueError("variants has no nets")
    converter = _native.Converter(_options.normalized(**options))
    return Variants(converter.convert_variants(source(model), shapes), fp16=options.get("fp16", False))
