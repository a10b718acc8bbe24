"""The proof that a net computes its model, without a runtime."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

_STATES = ("proved", "tested", "not_covered", "differs")


@dataclass(frozen=True)
class WindowProof:
    """A part of a net between blobs with the elements of values of the model, up to one of them.

    Attributes:
        value: The name of the value at its end.
        blob: The name of the blob.
        layers: The names of its layers.
        nodes: The nodes of the model that compute the same.
        state: `"proved"`, if both sides move each element to the same place; `"tested"`, if both are equal within the rounding of float32;
            `"not_covered"`, if one side cannot be computed; `"differs"`, if an element or a weight differs.
        evaluator: What computed its nodes, the least independent of the conversion: `"engine"`, `"folding"` for the code that computes
            constants in a conversion, or `"definition"` for simpler nodes that define the operator; None if nothing was computed.
        error: The largest error, relative to the largest magnitude of the value; None if it is infinite, or nothing was compared.
        reason: What differs, or why the window is not covered; empty otherwise.
    """

    value: str
    blob: str
    layers: tuple[str, ...]
    nodes: tuple[str, ...]
    state: str
    evaluator: str | None
    error: float | None
    reason: str


@dataclass(frozen=True, repr=False)
class Proof:
    """The comparison of each window of a net with the model. Its text is the verdict in one line, as the command prints it.

    Attributes:
        windows: The windows in the order of their last layers; with free sizes, those of each size in turn.
        loose_layers: The names of layers in no window.
        sizes: The number of sizes that were tried: 1 unless the model has free ones.
        other_layers: Layers, wiring and params that a conversion with the same options has otherwise. If there are any, weights are compared
            by their effect alone, and else with those of the conversion, too.
    """

    windows: list[WindowProof]
    loose_layers: list[str]
    sizes: int
    other_layers: list[str]
    _verdict: str

    @property
    def same(self) -> bool:
        """Whether no window differs."""
        return not self.differences

    @property
    def differences(self) -> list[WindowProof]:
        """The windows that differ."""
        return [window for window in self.windows if window.state == "differs"]

    @property
    def counts(self) -> dict[str, int]:
        """The number of windows of each state."""
        found = Counter(window.state for window in self.windows)
        return {state: found[state] for state in _STATES}

    @property
    def error(self) -> float:
        """The largest error of a window that does not differ."""
        return max((window.error or 0.0 for window in self.windows if window.state != "differs"), default=0.0)

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        return f"<onnx2ncnn.Proof: {self}>"

    def __str__(self) -> str:
        if not (differences := self.differences):
            return f"verified: {self._verdict}"
        return f'{self._verdict}: "{differences[0].value}": {differences[0].reason}'


def proof_of(parts: tuple[str, str]) -> Proof:
    """The proof as the extension gives it: JSON, and the verdict."""
    text, verdict = parts
    proofs = json.loads(text)
    windows = [_window(**row) for proof in proofs for row in proof["windows"]]
    loose = dict.fromkeys(name for proof in proofs for name in proof["loose_layers"])
    other = proofs[0]["other_layers"] if proofs else []
    return Proof(windows, list(loose), len(proofs), other, verdict)


def _window(layers: list[str], nodes: list[str], **rest: str | float | None) -> WindowProof:
    return WindowProof(layers=tuple(layers), nodes=tuple(nodes), **rest)  # type: ignore[arg-type]
