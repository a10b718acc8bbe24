"""Runs the commands of refusals after which a program computes the rest of the model, and compares its results with onnxruntime's of the whole model.

usage: rest.py CONVERTER FOLDER MODEL...

FOLDER is for the files. Pictures are random; the results of a model may not depend on the order of nearly equal scores.
"""

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime


def loaded(path):
    """A program as a module, which finds the file of operators next to it."""
    sys.path.insert(0, str(path.parent))
    sys.modules.pop("onnx_operators", None)
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.pop(0)
    return module


def differences(model, program):
    """The outputs that differ."""
    session = onnxruntime.InferenceSession(model)
    random = np.random.default_rng(0)
    (given,) = session.get_inputs()
    array = random.uniform(0, 1, given.shape).astype(np.float32)
    module = loaded(program)
    blob = array[0] if array.ndim == 4 else module.as_blob(given.name, array)
    results = module.rest(module.run(module.load(), {given.name: blob}))
    expected = session.run(None, {given.name: array})
    for output, there in zip(session.get_outputs(), expected):
        here = results[output.name]
        if here.shape != there.shape or np.abs(here - there).max(initial=0) > 1e-4 * max(1, np.abs(there).max(initial=0)):
            yield f"{output.name} {here.shape} {there.shape}"


def main():
    converter, folder, failures, count = sys.argv[1], Path(sys.argv[2]).resolve(), [], 0
    for model in sys.argv[3:]:
        place = folder / Path(model).parent.name
        place.mkdir(parents=True)
        refused = subprocess.run([converter, model, place / "net.param"], capture_output=True, text=True)
        lines = (refused.stdout + refused.stderr).splitlines()
        commands = [after for line, after in zip(lines, lines[1:]) if line.endswith("computes the rest of the model")]
        for command in commands:
            words = [*shlex.split(command)[1:], "--quiet", "--example", place / "program.py"]
            subprocess.run([converter, *words], check=True)
            failures.extend(f"{model}: {what}" for what in differences(model, place / "program.py"))
            count += 1
    print(f"{count} programs compute the rest of a model")
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
