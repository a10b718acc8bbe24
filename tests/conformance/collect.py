"""Writes the cases that the onnx package ships as folders of model.onnx, inputs.npz and outputs.npz.

usage: collect.py FOLDER

FOLDER/node/NAME             an operator case as it is published: every tensor is an input of the graph
FOLDER/node_const/NAME       the same with every input but the first as an initializer, as weights are
FOLDER/published/KIND/NAME   whole models and layers

Where an input or output cannot be held by an ncnn Mat at all (a sequence, text, complex numbers, no elements), the folder has
no arrays: such a model must be refused.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

PUBLISHED = Path(onnx.__file__).parent / "backend" / "test" / "data"


def as_array(value):
    """The array of a test value, or None if it is not a tensor of numbers."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic, int, float, bool)):
        return None
    array = np.asarray(value)
    if array.dtype.isbuiltin == 2:  # the types of ml_dtypes, which npz files cannot hold
        array = array.astype(np.int32 if "int" in array.dtype.name else np.float32)
    return array if array.dtype.kind in "fiub" else None


def named(names, values):
    """The arrays by name, or None if one of them is missing."""
    arrays = [as_array(value) for value in values]
    if len(names) != len(arrays) or any(array is None for array in arrays):
        return None
    return dict(zip(names, arrays))


def write(folder, model, inputs, outputs):
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    if inputs is not None and outputs is not None and all(array.size for array in outputs.values()):
        np.savez(folder / "inputs.npz", **inputs)
        np.savez(folder / "outputs.npz", **outputs)


def with_constants(model, values):
    """The model with every input but the first as an initializer, or None if one of them is not a tensor."""
    if len(model.graph.input) < 2 or len(values) != len(model.graph.input):
        return None
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for declared, value in list(zip(model.graph.input, values))[1:]:
        if isinstance(value, onnx.TensorProto):
            tensor = onnx.TensorProto()
            tensor.CopyFrom(value)
            tensor.name = declared.name
        elif isinstance(value, (np.ndarray, np.generic)) and declared.type.HasField("tensor_type"):
            tensor = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), declared.name)
        else:
            return None
        changed.graph.initializer.append(tensor)
    del changed.graph.input[1:]
    return changed


def collect_node_cases(folder):
    for case in collect_testcases(None):
        inputs, outputs = case.data_sets[0]
        graph = case.model.graph
        input_names, output_names = [v.name for v in graph.input], [v.name for v in graph.output]
        expected = named(output_names, outputs)
        write(folder / "node" / case.name, case.model, named(input_names, inputs), expected)
        changed = with_constants(case.model, inputs)
        if changed is not None:
            write(folder / "node_const" / case.name, changed, named(input_names[:1], inputs[:1]), expected)


def read_values(folder, stem):
    """The test values input_0.pb, input_1.pb and so on; None for values that are not tensors."""
    for index in range(len(list(folder.glob(f"{stem}_*.pb")))):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString((folder / f"{stem}_{index}.pb").read_bytes())
            yield numpy_helper.to_array(tensor)
        except Exception:
            yield None


def collect_published_cases(folder):
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        for source in sorted((PUBLISHED / kind).iterdir()):
            model = onnx.load(source / "model.onnx")
            initialized = {tensor.name for tensor in model.graph.initializer}
            input_names = [v.name for v in model.graph.input if v.name not in initialized]
            output_names = [v.name for v in model.graph.output]
            data = source / "test_data_set_0"
            inputs = named(input_names, list(read_values(data, "input")))
            outputs = named(output_names, list(read_values(data, "output")))
            write(folder / "published" / kind / source.name, model, inputs, outputs)


def collect_light_models(folder):
    """These cases have no values: the inputs are drawn, the outputs are computed by onnxruntime without graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for source in sorted((PUBLISHED / "light").glob("*.onnx")):
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        random = np.random.default_rng(0)
        inputs = {}
        for value in session.get_inputs():
            shape = [size if isinstance(size, int) else 1 for size in value.shape]
            inputs[value.name] = random.standard_normal(shape).astype(np.float32)
        outputs = dict(zip([value.name for value in session.get_outputs()], session.run(None, inputs)))
        write(folder / "published" / "light" / source.stem, onnx.load(source), inputs, outputs)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    destination = Path(sys.argv[1])
    collect_node_cases(destination)
    collect_published_cases(destination)
    collect_light_models(destination)
