"""The exception of a model that is not converted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

# The number of reasons in the text of the exception.
_MOST = 20


@dataclass(frozen=True)
class Diagnostic:
    """A reason why a model is not converted, and its place.

    Attributes:
        kind: `unsupported` (valid, but not expressible in ncnn), `invalid` (against the specification), `parse` (no ONNX
            model), `limit` (too large), or `internal` (a fault of the converter).
        code: The code of the reason, such as `E0012`, which `onnx2ncnn explain` describes.
        reason: The message, one phrase.
        help: Advice, or None.
        node: The name of the node, which may be empty; None if the reason concerns no node.
        op: The operator of the node, with its domain unless that is ONNX's own.
        version: The version of the operator set that the node follows.
        index: The index of the node in its graph.
        graph: The names of the graphs around the node, outermost first.
        part: The input, output, attribute or tensor.
        file: The file.
        causes: The causes, the nearest first.
    """

    kind: str
    code: str
    reason: str
    help: str | None = None
    node: str | None = None
    op: str | None = None
    version: int | None = None
    index: int | None = None
    graph: tuple[str, ...] = ()
    part: str | None = None
    file: str | None = None
    causes: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = [*self.graph]
        if self.node is not None:
            name = f' "{self.node}"' if self.node else ""
            place.append(f"node {self.index}{name} {self.op}-{self.version}")
        elif self.file is not None:
            place.append(self.file)
        if self.part is not None:
            place.append(self.part)
        text = ": ".join([self.kind, *place, self.reason, *self.causes])
        return text if self.help is None else f"{text}\n  help: {self.help}"


class Refused(Exception):
    """The model is invalid, or something in it cannot be expressed in ncnn."""

    def __init__(self, report: str) -> None:
        super().__init__(report)

    @cached_property
    def report(self) -> dict[str, Any]:
        """The report of the refused model, with the fields of docs/report.md."""
        return json.loads(self.args[0])

    @cached_property
    def diagnostics(self) -> list[Diagnostic]:
        """Every reason, in the order of the nodes."""
        return diagnostics(self.report["diagnostics"])

    @property
    def cut(self) -> dict[str, list[str]] | None:
        """The options `inputs` and `outputs` of a part of the model that can be converted, if there is one."""
        cut = self.report["proposed_cut"]
        return cut and {name: values for name, values in cut.items() if values}

    @property
    def input_shapes(self) -> dict[str, list[int]]:
        """The option `input_shapes` with which the whole model can be converted, if free sizes are the only obstacle."""
        return {proposed["input"]: proposed["shape"] for proposed in self.report["proposed_input_shapes"]}

    def __str__(self) -> str:
        lines = [str(diagnostic) for diagnostic in self.diagnostics[:_MOST]]
        more = len(self.diagnostics) - len(lines)
        return "\n".join([*lines, f"and {more} more"] if more else lines)


def diagnostics(parts: list[dict[str, Any]]) -> list[Diagnostic]:
    """The errors among the diagnostics of a report."""
    return [_diagnostic(part) for part in parts if part["severity"] == "error"]


def _diagnostic(part: dict[str, Any]) -> Diagnostic:
    at = part["at"]
    node = at["node"] or {"name": None, "op_type": None, "version": None, "index": None}
    return Diagnostic(
        kind=part["kind"],
        code=part["code"],
        reason=part["reason"],
        help=part["help"],
        node=node["name"],
        op=node["op_type"],
        version=node["version"],
        index=node["index"],
        graph=tuple(at["graph"]),
        part=at["part"],
        file=at["file"],
        causes=tuple(part["causes"]),
    )
