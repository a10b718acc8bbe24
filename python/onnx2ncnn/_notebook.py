"""Nets in notebooks.

All styles stand at their elements: some notebooks remove sheets of styles. Colours are those of the notebook, which may be dark.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._net import Net, Port

# The inputs and outputs, and the messages, that are listed.
_MOST_PORTS = 20
_MOST_MESSAGES = 5

# A page that replaces itself by the one that it has in compressed form.
_UNPACK = """<script>
const packed = Uint8Array.from(atob("%s"), (c) => c.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
new Response(stream).text().then((page) => { document.open(); document.write(page); document.close(); });
</script>"""

_FAINT = "opacity: 0.7"
_CELL = "padding: 2px 14px 2px 0; text-align: left; vertical-align: top; background: none; border: 0"
# Long names break; short ones do not.
_MONO = "overflow-wrap: anywhere; min-width: 7em; font-family: ui-monospace, Menlo, Consolas, monospace"
# The cosine that `verify` asks for of a net in int8.
_NEAR = 0.99
_GOOD, _BAD, _WARN = "#2e9e4f", "#e5484d", "#c98200"


def described(net: Net) -> str:
    """A net as a part of a page."""
    parts = [_verdict(net), *_messages(net), _ports(net), _drawing(net), _page(net)]
    return f'<div style="max-width: 960px; line-height: 1.5">{"".join(parts)}</div>'


def _verdict(net: Net) -> str:
    part = net._report["net"]
    layers = f"{len(net._conversion):,} layer{'' if len(net._conversion) == 1 else 's'}"
    facts = f"{layers}, {_bytes(part['param_bytes'] + part['bin_bytes'])}; loads in ncnn {net.since} and later"
    return f"<div><b>ncnn net</b> of {facts}</div>{_quantized(net)}<div>{_checked(net)}</div>"


def _quantized(net: Net) -> str:
    """How near a quantized net is to the float model; `verify` compares it with the quantized model."""
    if net.quantization is None:
        return ""
    name, least = min(net.quantization.cosines.items(), key=lambda item: 0 if item[1] is None else item[1])
    near = "not defined" if least is None else f"{least:.4f}"
    colour = _GOOD if least is not None and least >= _NEAR else _WARN
    text = f'the smallest cosine to the float model is <b style="color: {colour}">{near}</b>, of {escape(name)}'
    return f"<div>int8 by {net.quantization.samples} samples: {text}. Below, the model is the quantized one.</div>"


def _checked(net: Net) -> str:
    result = net.verification
    if result is None and net.proof is not None:
        label, colour = ("Verified", _GOOD) if net.proof else ("Differs from the model", _BAD)
        return f'<b style="color: {colour}">{label}</b>: {escape(net.proof._verdict)}'
    if result is None:
        return f'<span style="{_FAINT}">Not compared with the model yet: <code>onnx2ncnn.verify(model, net)</code> does.</span>'
    wrong = [output for output in result.outputs if not output.same]
    if wrong:
        names = ", ".join(escape(output.name) for output in wrong[:_MOST_PORTS])
        return f'<b style="color: {_BAD}">Differs from the model</b>: {names}'
    errors = [output.relative for output in result.outputs if output.relative is not None]
    error = f"; the largest relative error is {max(errors):.1e}" if errors else ""
    return f'<b style="color: {_GOOD}">Checked</b>: the same as the model{error}'


def _messages(net: Net) -> list[str]:
    messages = [("warning", text, "warnings") for text in net.warnings]
    # Finite inputs are expected of nearly all nets.
    facts = [found for found in net.assumptions if found.fact != "finite"]
    messages += [("assumed", f"elements of {found.value} are {found.text}", "assumptions") for found in facts]
    conditions = net._conversion.conditions_in_words()
    messages += [("valid if", conditions, "conditions")] if conditions else []
    shown = [f'<div><b style="color: {_WARN}">{kind}</b>: {escape(text)}</div>' for kind, text, _ in messages[:_MOST_MESSAGES]]
    rest = dict.fromkeys(f"<code>net.{name}</code>" for _, _, name in messages[_MOST_MESSAGES:])
    if rest:
        shown.append(f'<div style="{_FAINT}">and {len(messages) - _MOST_MESSAGES} more: see {" and ".join(rest)}</div>')
    return shown


def _ports(net: Net) -> str:
    head = "".join(f'<th style="{_CELL}; {_FAINT}">{title}</th>' for title in ("", "name", "type and shape in the model", "blob in ncnn"))
    rows = [*_rows("input", net.inputs), *_rows("output", net.outputs)]
    table = f'<table style="margin: 6px 0; border-collapse: collapse; border: 0"><tr>{head}</tr>{"".join(rows)}</table>'
    return f'<div style="overflow-x: auto">{table}</div>'


def _rows(kind: str, ports: Sequence[Port]) -> list[str]:
    rows = []
    for port in ports[:_MOST_PORTS]:
        axes = " ".join(f"{axis}={size}" for axis, size in zip(_axes(len(port.form)), reversed(port.form)))
        blob = axes if port.blob == port.name else f"{port.blob}: {axes}"
        cells = (kind, f"<b>{escape(port.name)}</b>", escape(f"{port.dtype} {_sizes(port.shape)}"), escape(blob))
        rows.append("<tr>" + "".join(f'<td style="{_CELL}; {_MONO if at else _FAINT}">{cell}</td>' for at, cell in enumerate(cells)) + "</tr>")
    if len(ports) > _MOST_PORTS:
        rows.append(f'<tr><td style="{_CELL}; {_FAINT}" colspan="4">and {len(ports) - _MOST_PORTS} more {kind}s</td></tr>')
    return rows


def _axes(count: int) -> tuple[str, ...]:
    """ncnn's names of the axes of a blob, the innermost first."""
    return {1: ("w",), 2: ("w", "h"), 3: ("w", "h", "c")}.get(count, ("w", "h", "d", "c"))


def _sizes(shape: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _drawing(net: Net) -> str:
    svg = net._conversion.svg()
    if svg is None:
        return ""
    has_weights = any(layer["weights"] for layer in net._report["net"]["layers"])
    legend = f'<div style="{_FAINT}; font-size: 85%">Layers with weights are blue.</div>'
    return svg + (legend if has_weights else "")


def _page(net: Net) -> str:
    """The page of the report in a frame. Its scripts reach nothing outside of the frame.

    The page is compressed: a notebook keeps it in its file.
    """
    style = "width: 100%; height: 640px; border: 1px solid #8888"
    may = 'sandbox="allow-scripts allow-downloads" allow="clipboard-write"'
    packed = base64.b64encode(gzip.compress(net.html().encode(), mtime=0)).decode()
    frame = f'<iframe {may} style="{style}" srcdoc="{escape(_UNPACK % packed, quote=True)}"></iframe>'
    return f'<details><summary style="cursor: pointer">Graph and report</summary>{frame}</details>'


def _bytes(count: float) -> str:
    units = ["bytes", "KB", "MB", "GB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{count:.0f} {units[0]}" if count >= 100 or units[0] == "bytes" else f"{count:.1f} {units[0]}"
