"""The exception of a model that is not converted."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import shorten
from typing import Any

from . import _native

# The number of reasons in the text of the exception.
_MOST = 20
# The number of remedies in it.
_MOST_REMEDIES = 3
# The number of characters of a reason in its representation.
_WIDTH = 160


@dataclass(frozen=True)
class Diagnostic:
    """A reason why a model is not converted, and its place.

    Attributes:
        kind: `unsupported` (valid, but not expressible in ncnn), `invalid` (against the specification), `parse` (no ONNX
            model), `limit` (too large), `mismatch` (the net differs from the model, by `Net.save` with `verify`), or `internal` (a fault
            of the converter).
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
    def remedies(self) -> list[dict[str, Any]]:
        """Options of `convert` with which the model, or a part of it, can be converted, the best first. Each was tried."""
        return [options for options in self._remedies if "split_at" not in options]

    @property
    def chains(self) -> list[dict[str, Any]]:
        """Options of `convert_chain` with which more of the model can be converted."""
        return [options for options in self._remedies if "split_at" in options]

    @property
    def _remedies(self) -> list[dict[str, Any]]:
        return [remedy["options"] for remedy in self.report["remedies"]]

    def __repr__(self) -> str:
        """The first reason on one line; the report that the exception carries is long."""
        first, *others = self.diagnostics
        more = f", and {len(others)} more" if others else ""
        return f"<onnx2ncnn.Refused: {first.kind}: {shorten(first.reason, _WIDTH)}{more}>"

    def __str__(self) -> str:
        lines, helped = [], set()
        for diagnostic in self.diagnostics[:_MOST]:
            # The same advice helps several nodes.
            lines.append(str(replace(diagnostic, help=None) if diagnostic.help in helped else diagnostic))
            helped.add(diagnostic.help)
        more = len(self.diagnostics) - len(lines)
        if more:
            lines.append(f"and {more} more")
        for remedy in self.report["remedies"][:_MOST_REMEDIES]:
            percent = remedy["percent"]
            what = "the whole model" if percent == 100 else f"a part with {percent} % of the {remedy['counted']}"
            options = ", ".join(f"{name}={value!r}" for name, value in remedy["options"].items())
            function = "convert_chain" if "split_at" in remedy["options"] else "convert"
            lines.append(f"this converts {what}: {function}(..., {options})")
        return "\n".join(lines)


def diagnostics(parts: list[dict[str, Any]]) -> list[Diagnostic]:
    """The errors among the diagnostics of a report."""
    return [_diagnostic(part) for part in parts if part["severity"] == "error"]


def _diagnostic(part: dict[str, Any]) -> Diagnostic:
    at = part["at"]
    node = at["node"] or {"name": None, "op_type": None, "version": None, "index": None}
    return Diagnostic(
        kind=part["kind"],
        code=part["code"],
        reason=_native.with_arguments(part["reason"]),
        help=part["help"] and _native.with_arguments(part["help"]),
        node=node["name"],
        op=node["op_type"],
        version=node["version"],
        index=node["index"],
        graph=tuple(at["graph"]),
        part=at["part"],
        file=at["file"],
        causes=tuple(part["causes"]),
    )
