"""Exceptions."""

import copy
import errno
import io
import os
import pickle

import numpy as np
import onnx
import onnx2ncnn
import pytest
from conftest import model
from onnx import TensorProto, helper, numpy_helper

CONVOLUTIONAL = model("network/convolutional")


def unknown(count=1):
    """A model with operators that nobody knows."""
    value = lambda i: helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, [1, 3])
    nodes = [helper.make_node("NoSuchOperator", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(count)]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["v0"]), *nodes], "g", [], [value(count)])
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3]))
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_refusal_names_every_node():
    with pytest.raises(onnx2ncnn.Refused) as caught:
        onnx2ncnn.convert(unknown(2))
    refused = caught.value
    first, second = refused.diagnostics
    assert (first.kind, first.node, first.op, first.index) == ("unsupported", "n0", "NoSuchOperator", 1)
    assert "NoSuchOperator" in first.reason and second.node == "n1"
    assert str(first) in str(refused) and 'node 1 "n0" NoSuchOperator-17' in str(first)
    assert refused.remedies == [{"outputs": ["v0"]}] and "convert(..., outputs=['v0'])" in str(refused)
    assert onnx2ncnn.convert(unknown(2), **refused.remedies[0]).outputs[0].name == "v0"
    assert onnx2ncnn.convert(unknown(2), auto_cut=True).outputs[0].name == "v0"
    assert refused.report["status"] == "refused" and refused.report["model"]["operators"]["Relu"] == 1


def test_refusal_is_short_where_it_is_represented():
    with pytest.raises(onnx2ncnn.Refused) as caught:
        onnx2ncnn.convert(unknown(30))
    text = repr(caught.value)
    assert text.startswith("<onnx2ncnn.Refused: unsupported: ") and text.endswith(", and 29 more>")
    assert "NoSuchOperator" in text and len(text) < 250 and "\n" not in text


def test_refusal_can_be_sent_to_another_process():
    with pytest.raises(onnx2ncnn.Refused) as caught:
        onnx2ncnn.convert(unknown())
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.diagnostics == caught.value.diagnostics


def test_refusal_of_free_sizes_proposes_shapes():
    path = model("spatial/resize_to_the_size_of_another")
    with pytest.raises(onnx2ncnn.Refused) as caught:
        onnx2ncnn.convert(path)
    shapes = caught.value.remedies[0]["input_shapes"]
    net = onnx2ncnn.convert(path, input_shapes=shapes)
    assert shapes and shapes == {port.name: list(port.shape) for port in net.inputs}


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x80\x02", b"PK\x03\x04", bytes(100)])
def test_bytes_that_are_no_model_are_refused(data):
    with pytest.raises(onnx2ncnn.Refused) as caught:
        onnx2ncnn.convert(data)
    assert {diagnostic.kind for diagnostic in caught.value.diagnostics} <= {"parse", "invalid"}


def test_missing_files_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        onnx2ncnn.convert(tmp_path / "none.onnx")
    assert caught.value.errno == errno.ENOENT and caught.value.filename == str(tmp_path / "none.onnx")
    with pytest.raises(IsADirectoryError):
        onnx2ncnn.convert(tmp_path)
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    with pytest.raises(FileNotFoundError):
        net.save(tmp_path / "none" / "a.param")
    assert os.listdir(tmp_path) == []


def test_changed_models_are_errors_of_the_system(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(CONVOLUTIONAL.read_bytes())
    net = onnx2ncnn.convert(path)
    os.utime(path, (1, 1))
    with pytest.raises(OSError, match="changed"):
        net.save(tmp_path / "a.param")
    with pytest.raises(OSError, match="changed"):
        net.bin
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_a_model_that_became_shorter_is_no_signal(tmp_path):
    path = tmp_path / "m.onnx"
    weights = numpy_helper.from_array(np.ones((512, 512), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 512])],
        [helper.make_tensor_value_info("y", 1, [1, 512])],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    net = onnx2ncnn.convert(path, keep_onnx=True)
    os.truncate(path, 100)
    arrays = np.zeros((1, 512), np.float32)
    for read in (
        lambda: net.run(arrays), lambda: net.bin, lambda: net.report, net.html, net.onnx, lambda: onnx2ncnn.verify(path, net),
        lambda: net.save(tmp_path / "a.param"), lambda: net.save(tmp_path / "a.param", verify=True),
    ):  # fmt: skip
        with pytest.raises((OSError, onnx2ncnn.Refused)):
            read()
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_the_model_is_not_overwritten(tmp_path):
    path = tmp_path / "m.param"
    path.write_bytes(CONVOLUTIONAL.read_bytes())
    with pytest.raises(ValueError, match="overwrite"):
        onnx2ncnn.convert(path).save(path)
    assert path.read_bytes() == CONVOLUTIONAL.read_bytes()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"input_shapes": {"none": [1]}}, "none"),
        ({"input_shapes": {"x": [0, 3]}}, "a size is a number from 1"),
        ({"input_shapes": {"x": ["H*2"]}}, "not a size"),
        ({"input_shapes": {"x": [-1]}}, "which leaves it free, not -1"),
        ({"outputs": "none"}, "none"),
        ({"skip": ["none"]}, "none"),
        ({"rename": {"none": "a"}}, "none"),
        ({"set": {"none": 1}}, "none"),
        ({"set": {"x": [[1], [1, 2]]}}, "different lengths"),
        ({"set": {"x": 1 << 70}}, "out of range"),
        ({"set": {"x": "S"}}, "no input has a free size"),
        ({"ncnn_version": 20200101}, "oldest"),
        ({"ncnn_version": "2026"}, "date of a release"),
        ({"int8": True, "dequantize": True}, "exclude"),
    ],
)
def test_options_that_do_not_fit_are_value_errors(options, message):
    with pytest.raises(ValueError, match=message):
        onnx2ncnn.convert(CONVOLUTIONAL, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"fp16": "yes"},
        {"inputs": [1]},
        {"input_shapes": {"x": "1,3"}},
        {"input_shapes": {"x": [1.5]}},
        {"input_shapes": {1: [1]}},
        {"rename": [("a", "b")]},
        {"rename": {"a": 1}},
        {"ncnn_version": 1.5},
        {"no_such_option": 1},
    ],
)
def test_arguments_of_other_types_are_type_errors(options):
    with pytest.raises(TypeError):
        onnx2ncnn.convert(CONVOLUTIONAL, **options)


@pytest.mark.parametrize("given", [None, 1, ["m.onnx"], io.StringIO("text"), object()])
def test_models_of_other_types_are_type_errors(given):
    with pytest.raises(TypeError):
        onnx2ncnn.convert(given)


def test_damaged_models_raise_nothing_else():
    data = bytearray(CONVOLUTIONAL.read_bytes())
    allowed = (onnx2ncnn.Refused, ValueError, OSError)
    for at in range(0, len(data), max(1, len(data) // 400)):
        damaged = bytes(data[:at]) + bytes([data[at] ^ 0x55]) + bytes(data[at + 1 :])
        for given in (damaged, bytes(data[:at])):
            try:
                onnx2ncnn.convert(given).bin
            except allowed as error:
                for diagnostic in getattr(error, "diagnostics", []):
                    assert diagnostic.kind != "internal", diagnostic


def test_a_net_is_not_pickled():
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    for copied in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="cannot be pickled or copied: save it"):
            copied(net)
