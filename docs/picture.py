"""Draws a conversion as SVG: the nodes of a model, the layers of its net, and which layer does the work of which node.

usage: picture.py report.json picture.svg

The report is that of `onnx2ncnn model.onnx --report report.json`.
"""

import json
import sys
from html import escape

WIDTH, ROW, BOX = 640, 34, 24
LEFT, RIGHT, SIDE = 20, 400, 220
COLOURS = {"Conv": "#4c78a8", "Gemm": "#72569c", "Pool": "#54a24b", "Soft": "#e45756"}


def colour(kind):
    return next((value for part, value in COLOURS.items() if part in kind), "#8a8a8a")


def boxes(items, x):
    for row, (kind, note) in enumerate(items):
        y = 40 + row * ROW
        yield f'<rect x="{x}" y="{y}" width="{SIDE}" height="{BOX}" rx="4" fill="{colour(kind)}"/>'
        yield f'<text x="{x + 10}" y="{y + 16}" fill="#fff">{escape(kind)} <tspan opacity="0.75">{escape(note)}</tspan></text>'


def main():
    report, result = sys.argv[1:]
    with open(report) as file:
        report = json.load(file)
    nodes = [(node["op_type"], node["name"] or node["outputs"][0]) for node in report["nodes"]]
    layers = report["net"]["layers"]
    shown = [(layer["type"], "x".join(map(str, layer["shapes"][0]))) for layer in layers]
    lines = []
    for row, layer in enumerate(layers):
        for node in layer["nodes"]:
            ys = [52 + node * ROW, 52 + row * ROW]
            middle = (LEFT + SIDE + RIGHT) / 2
            lines.append(
                f'<path d="M{LEFT + SIDE} {ys[0]} C{middle} {ys[0]} {middle} {ys[1]} {RIGHT} {ys[1]}" fill="none" stroke="#8a8a8a" stroke-width="1.5"/>'
            )
    height = 40 + ROW * max(len(nodes), len(shown))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">'
    titles = f'<text x="{LEFT}" y="24" fill="#8a8a8a">ONNX</text><text x="{RIGHT}" y="24" fill="#8a8a8a">ncnn</text>'
    with open(result, "w") as file:
        file.write("\n".join([head, titles, *lines, *boxes(nodes, LEFT), *boxes(shown, RIGHT), "</svg>", ""]))


if __name__ == "__main__":
    main()
