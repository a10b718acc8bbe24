"""Writes the programs of tests/programs/run.py in Kotlin, the nets, and a program that runs them all.

usage: cases.py CONVERTER FOLDER
"""

import json
import subprocess
import sys
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import run

# A picture by its width, its height and the colour of its pixels.
PICTURES = {"wide.png": "128, 128, 0xff0a141e", "long.png": "128, 64, 0xff0a141e", "tall.png": "64, 128, 0xff0a141e", "red.png": "20, 20, 0xfffaf8f6"}
# The arrays of the calls of a sequence.
ARRAYS = {"steps": ["1f, 0f", "0f, 2f"], "step": ["1f, 0f, 0f, 2f"], "row": ["0.5f, 0.5f, 0.25f, 0.25f"]}


# What a class in Kotlin returns for what other programs draw and write: a layer by its size and its first and last colour, or samples.
RETURNED = {
    "heat": "64 64 8000007f 807f0000\n",
    "segments": "64 64 80ff4040 8040d040\n",
    "labels": "64 64 80ff4040 8040d040\n",
    "orange": "64 64 ffff7f00 ffff7f00\n",
    "sound": "0.0 0.5 -0.5 1.0\n",
    "selecting_nothing": "\n",
    "selecting_above_a_bound": "\n",
}


def calls(words):
    """What a program is given, once or in turn."""
    if words[0] in PICTURES:
        return [f"picture({PICTURES[words[0]]})"]
    if "=" not in words[0]:
        return [f"intArrayOf({', '.join(words)})"]
    given = dict(word.split("=") for word in words)
    given = {name: ARRAYS.get(text) or [", ".join(f"{number}f" for number in text.split(","))] for name, text in given.items()}
    turns = range(max(len(arrays) for arrays in given.values()))
    at = lambda turn: ", ".join(f'"{name}" to floatArrayOf({arrays[min(turn, len(arrays) - 1)]})' for name, arrays in given.items())
    return [f"mapOf({at(turn)})" for turn in turns]


def main():
    converter, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, (make, words, expected, *options) in run.CASES.items():
        onnx.save(make(), folder / f"{name}.onnx")
        subprocess.run([converter, folder / f"{name}.onnx", "--quiet", "--example", folder / f"{name}.kt", *options], check=True)
        run.change(name, folder / f"{name}.kt")
        given = ["it.pixels, it.width, it.height" if call.startswith("picture") else "it" for call in calls(words)]
        shown = [f"{call}.let {{ show(program.run({words})) }}" for call, words in zip(calls(words), given)]
        expected = RETURNED.get(name, expected.replace("result.png\n", ""))
        text = json.dumps(expected, ensure_ascii=False).replace("$", "\\$")
        lines.append(f'    check("{name}", {text}) {{ net -> {name[0].upper() + name[1:]}(net).use {{ program -> {" + ".join(shown)} }} }}')
    (folder / "Cases.kt").write_text((Path(__file__).parent / "Cases.kt").read_text().replace("    // CASES", "\n".join(lines)))


if __name__ == "__main__":
    main()
