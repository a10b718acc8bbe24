"""Models as chains of nets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _native, _options
from ._model import Model, source
from ._net import Net, param_and_bin
from ._packages import need

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Unpack

    from ._native import Options


@dataclass(frozen=True)
class Step:
    """A part of a model.

    Attributes:
        inputs: The names of its inputs in the model.
        outputs: The names of its outputs.
        net: The net; None if the part cannot be converted.
        reasons: The reasons for which it cannot.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    net: Net | None
    reasons: tuple[str, ...] = ()
    _rest: _native.Simplified | None = field(default=None, repr=False, compare=False)

    def onnx(self) -> bytes:
        """Returns a part that cannot be converted as an ONNX file.

        Raises:
            ValueError: The part is a net.
        """
        if self._rest is None:
            raise ValueError("the part is a net")
        return self._rest.onnx()


class Chain:
    """A model as a chain of nets. `convert_chain` makes chains.

    Attributes:
        steps: The parts in order. Each reads inputs of the model and outputs of earlier parts, by their names.
    """

    def __init__(self, chain: _native.Chain, *, fp16: bool) -> None:
        self._chain = chain
        self.steps = [
            Step(tuple(inputs), tuple(outputs), None if net is None else Net(net, fp16=fp16), tuple(reasons), rest)
            for inputs, outputs, net, rest, reasons in chain.steps()
        ]

    def save(self, param: str | os.PathLike[str], bin: str | os.PathLike[str] | None = None) -> None:
        """Writes the files of all parts, or none: `model.1.param` and so on for `model.param`, a part for onnxruntime as
        `model.2.onnx`, and the list of them, `model.json`.

        Args:
            param: The path of the `.param` files without the numbers of the parts.
            bin: The path of the `.bin` files without these numbers; by default beside the `.param` files.

        Raises:
            OSError: A file cannot be written, or the model cannot be read or was changed.
            ValueError: A file would overwrite the model, or the name of `param` does not end in `.param` and `bin` is missing.
        """
        self._chain.save(*param_and_bin(param, bin))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs the parts one after the other: nets in ncnn, others in onnxruntime.

        Args:
            inputs: Arrays by the names of the inputs of the model.

        Returns:
            All outputs of the parts by their names; those of the last part are outputs of the model.

        Raises:
            ValueError: An input is missing, or `Net.run` refuses it.
            ImportError: ncnn or numpy is missing, or onnxruntime, if a part needs it.
        """
        values, found = dict(inputs), {}
        for step, session in zip(self.steps, self._sessions):
            names = [port.name for port in step.net.inputs] if step.net else [port.name for port in session.get_inputs()]
            missing = [name for name in names if name not in values]
            if missing:
                raise ValueError(f"no array for {', '.join(missing)}")
            given = {name: values[name] for name in names}
            if step.net:
                results = step.net.run(given)
            else:
                results = dict(zip([port.name for port in session.get_outputs()], session.run(None, given)))
            values.update(results)
            found.update(results)
        return found

    @cached_property
    def _sessions(self) -> list[Any]:
        """A session of onnxruntime for each part that it runs."""
        if all(step.net for step in self.steps):
            return [None] * len(self.steps)
        need("verify", "numpy", "onnxruntime")
        import onnxruntime

        return [None if step.net else onnxruntime.InferenceSession(step.onnx(), providers=["CPUExecutionProvider"]) for step in self.steps]

    def __repr__(self) -> str:
        return f"<onnx2ncnn.Chain of {len(self.steps)} parts>"


@_options.signature
def convert_chain(model: Model, split_at: Iterable[str | Iterable[str]], **options: Unpack[Options]) -> Chain:
    """Converts a model to a chain of nets, for a model of which a node in the middle has no layer.

    Args:
        model: A model, as for `convert`.
        split_at: The values of each cut, in order; one value may stand alone. Others that a later part reads are added. A value of
            which the model states no type has one after its name, such as "ids:int64[1,S]".

    The options are those of `convert`.

    Raises:
        Refused: The model is invalid, or no part of it can be expressed in ncnn.
        ValueError: A value is unknown, a cut needs results of a later one, or an option does not fit the model.
        TypeError: An argument has the wrong type.
        OSError: The model or its external data cannot be read.
    """
    if isinstance(split_at, str):
        raise TypeError("split_at is a list of cuts, each a name or a list of names")
    cuts = [_options.names("split_at", cut) for cut in split_at]
    converter = _native.Converter(_options.normalized(**options))
    return Chain(converter.convert_chain(source(model), cuts), fp16=options.get("fp16", False))
