"""Runs each command that refusals print, and compares what its net computes with onnxruntime.

usage: commands.py CONVERTER FOLDER...

All `model.onnx` below the folders are converted. Of a refused one each printed command is run. Inputs are those of `inputs.npz`, or random if the case has none; values
inside of the model, which a part takes as inputs, are computed from them by onnxruntime. Chains of nets are run whole. A part that reads values which
another printed part computes needs a chain that is printed, too.
Needs ncnn, onnx, onnxruntime and the package of `python`.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx2ncnn
import onnxruntime

LEAST = "help: this converts "
# The largest difference, as a part of the largest magnitude.
TOLERANCE = 1e-3
# Of a model that onnxruntime refuses.
NOT_COMPARED = "not compared: onnxruntime does not load the model"


def run(*command, timeout=600):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout + done.stderr


def values_of(text):
    """The items of a list such as "a,b:float[1,S]"."""
    return re.split(r",(?![^\[]*\])", text)


def names_of(text):
    """The names in such a list."""
    return [re.sub(r":\w+(\[.*\])?$", "", value) for value in values_of(text)]


def options_of(words):
    """Pairs of options and their values: several of one option have several pairs."""
    found = []
    for word in words:
        if word.startswith("--"):
            found.append([word, ""])
        else:
            found[-1][1] = word
    return found


def values_inside(model, names, inputs):
    """What onnxruntime computes of values of the model."""
    proto = onnx.load(model, load_external_data=False)
    known = {port.name for port in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Next to the model, where its external data are found.
    with tempfile.NamedTemporaryFile(dir=model.parent) as changed:
        changed.write(proto.SerializeToString())
        changed.flush()
        return dict(zip(names, onnxruntime.InferenceSession(changed.name, options).run(names, inputs)))


def values_before(model, names):
    """The values that nodes compute on the way to some values."""
    producers = {output: node for node in onnx.load(model, load_external_data=False).graph.node for output in node.output}
    found, pending = set(), list(names)
    while pending:
        name = pending.pop()
        if name in producers and name not in found:
            found.add(name)
            pending.extend(producers[name].input)
    return found


def random_inputs(model):
    """Arrays for the inputs of a model; free sizes are 16."""
    random = np.random.default_rng(0)
    inputs = {}
    proto = onnx.load(model, load_external_data=False)
    constants = {tensor.name for tensor in proto.graph.initializer}
    for port in proto.graph.input:
        if port.name not in constants:
            kind = port.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            shape = [size.dim_value or 16 for size in kind.shape.dim]
            inputs[port.name] = (random.random(shape) if dtype.kind == "f" else random.integers(0, 4, shape)).astype(dtype)
    return inputs


def inputs_of(model, options):
    """Arrays for a part of the model, or nothing: the case has none, or the command changes the inputs."""
    path = model.with_name("inputs.npz")
    if not path.exists() or any(name == "--input-shape" for name, _ in options):
        return None
    arrays = dict(np.load(path, allow_pickle=True))
    fixed = {value.split("=")[0] for name, value in options if name == "--set"}
    cut = [name for option, value in options if option == "--inputs" for name in names_of(value)]
    computed = [name for name in cut if name not in arrays]
    if computed:
        try:
            arrays.update(values_inside(model, computed, arrays))
        except Exception:
            # A part may be valid where the model is not: it is compared on random inputs.
            return None
    return {name: array for name, array in arrays.items() if name not in fixed and (not cut or name in cut)}


def difference_of_net(converter, model, words, folder):
    """What differs between the net of a command and onnxruntime, or nothing."""
    line = [converter, "verify", str(model), f"{folder}/a.param", f"{folder}/a.bin", "--python", sys.executable, *words]
    arrays = inputs_of(model, options_of(words))
    if arrays is not None:
        # The net of a model with a free batch computes one item.
        items = {name: array[:1] if array.ndim > 1 else array for name, array in arrays.items()}
        for inputs in (arrays, items):
            np.savez(f"{folder}/inputs.npz", **inputs)
            code, text = run(*line, "--data", f"{folder}/inputs.npz")
            if code == 0:
                break
    else:
        code, text = run(*line, "--runtime")
    if "onnxruntime does not load" in text:
        return NOT_COMPARED
    return "" if code == 0 and "the same in onnxruntime and ncnn" in text else text.strip()[-300:]


def difference_of_chain(model, options):
    """What differs between the outputs of a chain and the outputs of the model, or nothing."""
    cuts = [values_of(value) for name, value in options if name == "--split-at"]
    others = [name for name, _ in options if name != "--split-at"]
    if others:
        return f"a chain with {others} is not run here"
    path = model.with_name("inputs.npz")
    inputs = dict(np.load(path, allow_pickle=True)) if path.exists() else random_inputs(model)
    found = onnx2ncnn.convert_chain(str(model), cuts).run(inputs)
    names = [port.name for port in onnx.load(model, load_external_data=False).graph.output]
    for name, expected in values_inside(model, names, inputs).items():
        actual = np.asarray(found[name])
        if actual.size != expected.size:
            return f"{name}: {actual.shape} for {expected.shape}"
        if expected.size:
            scale = max(float(np.abs(expected.astype(np.float64)).max()), 1e-6)
            error = float(np.abs(actual.reshape(expected.shape).astype(np.float64) - expected).max()) / scale
            if not error <= TOLERANCE:
                return f"{name}: a relative error of {error:.1e}"
    return ""


def results_of(converter, model):
    """Pairs of a command and what is wrong with it, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        code, text = run(converter, str(model), f"{folder}/a.param", f"{folder}/a.bin")
    if code == 0:
        return None
    lines = text.splitlines()
    commands = [shlex.split(line)[4:] for before, line in zip(lines, lines[1:]) if before.startswith(LEAST) and line.startswith("  onnx2ncnn ")]
    chained = any("--split-at" in words for words in commands)
    first_parts = [value for words in commands for name, value in options_of(words) if name == "--outputs" and "--inputs" not in words]
    computed = values_before(model, [name for value in first_parts for name in names_of(value)])
    results = []
    for words in commands:
        with tempfile.TemporaryDirectory() as folder:
            options = options_of(words)
            code, text = run(converter, str(model), f"{folder}/a.param", f"{folder}/a.bin", *words)
            if code != 0:
                wrong = text.strip()[-300:]
            elif not chained and any(name in computed for option, value in options if option == "--inputs" for name in names_of(value)):
                wrong = "reads what another part computes, and no chain is printed"
            elif "--random-as-input" in words:
                wrong = ""  # Random numbers have no expected results.
            else:
                try:
                    wrong = difference_of_chain(model, options) if "--split-at" in words else difference_of_net(converter, model, words, folder)
                except Exception as error:
                    wrong = f"{type(error).__name__}: {error}"[:300]
            results.append((words, wrong))
    return results


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    converter, *folders = sys.argv[1:]
    converter = os.path.abspath(converter)
    models = sorted({path.resolve() for folder in folders for path in Path(folder).rglob("model.onnx")})
    refused = count = right = skipped = 0
    with ThreadPoolExecutor(2) as executor:
        for model, results in zip(models, executor.map(lambda model: results_of(converter, model), models)):
            refused += results is not None
            for words, wrong in results or []:
                count += 1
                right += not wrong
                skipped += wrong == NOT_COMPARED
                print(f"{model.parent.name}: {shlex.join(words)}: {wrong or 'right'}", flush=True)
    print(f"{len(models)} models, {refused} refused, {count} commands, {right} right, {skipped} not compared")
    sys.exit(0 if right + skipped == count else 1)


if __name__ == "__main__":
    main()
