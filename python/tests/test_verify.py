"""Comparison of nets with their models."""

import re
import subprocess
import sys

import numpy as np
import onnx
import onnx2ncnn
import pytest
from conftest import FIXTURES, model
from onnx import helper, numpy_helper
from onnx2ncnn import _scripts

CONVOLUTIONAL = model("network/convolutional")


def wrong_files(net, folder):
    """The paths of a net whose last weight is wrong."""
    weights = bytearray(net.bin)
    weights[-4:] = np.float32(1e3).tobytes()
    (folder / "a.param").write_text(net.param)
    (folder / "a.bin").write_bytes(weights)
    return folder / "a.param", folder / "a.bin"


def test_net_is_proved(tmp_path):
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    proof = onnx2ncnn.verify(CONVOLUTIONAL, net)
    assert isinstance(proof, onnx2ncnn.Proof) and proof and proof.same and not proof.differences
    assert net.proof is proof and net.verification is None
    assert proof.counts["tested"] > 0 and sum(proof.counts.values()) == len(proof.windows) and proof.sizes == 1
    assert re.fullmatch(r"verified: \d+ of \d+ windows, \d+ proved, largest error \d\.\de-?\d+; not covered: 0", str(proof))
    assert 0 < proof.error < 1e-4
    last = proof.windows[-1]
    assert (last.value, last.blob) == ("y", net.outputs[0].blob) and last.layers and last.nodes
    assert last.state in ("tested", "proved") and last.reason == ""
    assert {name for window in proof.windows for name in window.layers} <= {layer.name for layer in net.layers}
    net.save(tmp_path / "a.param")
    assert onnx2ncnn.verify(onnx.load(CONVOLUTIONAL), (tmp_path / "a.param", tmp_path / "a.bin"))
    assert onnx2ncnn.verify(CONVOLUTIONAL.read_bytes())


def test_window_that_differs_is_named(tmp_path):
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    proof = onnx2ncnn.verify(CONVOLUTIONAL, wrong_files(net, tmp_path))
    assert not proof and not proof.same and proof.counts["differs"] == 1
    assert re.fullmatch(r'1 of \d+ windows differ: "logits": element .*', str(proof))
    (window,) = proof.differences
    assert window.state == "differs" and window.reason and window.layers


def test_sizes_and_options_are_those_of_the_conversion():
    proof = onnx2ncnn.verify(CONVOLUTIONAL, input_shapes={"x": [1, 3, "H", "W"]})
    assert proof and proof.sizes > 1 and f" at {proof.sizes} sizes, " in str(proof)
    inner = onnx.load(CONVOLUTIONAL).graph.node[0].output[0]
    proof = onnx2ncnn.verify(CONVOLUTIONAL, outputs=inner)
    assert proof and proof.windows[-1].value == inner
    assert onnx2ncnn.verify(model("decoder/causal_attention"), kv_cache=True)


def test_proof_needs_no_other_package():
    from test_help import _MISSING

    code = f"{_MISSING}\nimport onnx2ncnn\nprint(onnx2ncnn.verify({str(CONVOLUTIONAL)!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0 and " windows, " in run.stdout, run.stderr


def test_net_is_verified_before_it_is_saved(tmp_path):
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    net.save(tmp_path / "a.param", verify=True)
    assert net.proof and (tmp_path / "a.bin").read_bytes() == net.bin
    # What cannot be compared is not written, and what was there stays.
    before = (tmp_path / "a.param").read_bytes()
    other = tmp_path / "other.onnx"
    other.write_bytes((FIXTURES / "elementwise/elu/model.onnx").read_bytes())
    converted = onnx2ncnn.convert(other)
    other.unlink()
    with pytest.raises(OSError):
        converted.save(tmp_path / "a.param", verify=True)
    assert (tmp_path / "a.param").read_bytes() == before and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "options",
    [{"runtime": True}, {"rounds": 1}, {"tolerance": 1e-3}, {"layers": True}, {"magnitudes": True}],
)
def test_options_of_the_runtimes_imply_them(options):
    assert isinstance(onnx2ncnn.verify(CONVOLUTIONAL, **options), onnx2ncnn.Verification)


def test_net_is_compared_with_its_model(tmp_path):
    result = onnx2ncnn.verify(CONVOLUTIONAL, rounds=2, layers=True)
    assert result and result.same and [output.name for output in result.outputs] == ["y"]
    assert result.outputs[0].max_abs < 1e-3 and result.outputs[0].cosine > 0.999
    assert result.layers and all(layer.same for layer in result.layers)
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    net.save(tmp_path / "a.param")
    assert onnx2ncnn.verify(onnx.load(CONVOLUTIONAL), (tmp_path / "a.param", tmp_path / "a.bin"), runtime=True)
    assert onnx2ncnn.verify(CONVOLUTIONAL.read_bytes(), net, runtime=True)
    with open(CONVOLUTIONAL, "rb") as file:
        assert onnx2ncnn.verify(file, net, runtime=True)


def test_difference_is_found(tmp_path):
    result = onnx2ncnn.verify(CONVOLUTIONAL, wrong_files(onnx2ncnn.convert(CONVOLUTIONAL), tmp_path), runtime=True)
    assert not result and not result.outputs[0].same


def test_options_select_the_part_that_is_compared():
    shape = {"input_shapes": {"x": [1, 3, "H", "W"]}}
    assert onnx2ncnn.verify(CONVOLUTIONAL, runtime=True, **shape)
    x = np.random.default_rng(0).standard_normal((1, 3, 24, 16)).astype(np.float32)
    assert onnx2ncnn.verify(CONVOLUTIONAL, data={"x": x}, **shape)
    assert onnx2ncnn.verify(CONVOLUTIONAL, data={"x": x[:, :, :16]}, **shape)
    inner = onnx.load(CONVOLUTIONAL).graph.node[0].output[0]
    result = onnx2ncnn.verify(CONVOLUTIONAL, outputs=inner, runtime=True)
    assert result and result.outputs[0].name == inner
    with pytest.raises(ValueError, match="has no array"):
        onnx2ncnn.verify(CONVOLUTIONAL, data={"none": x})


def test_dequantized_net_is_compared_with_the_model_without_rounding():
    path = next(
        folder / "model.onnx" for folder in sorted((FIXTURES / "quantized").iterdir()) if (folder / "expected.err").exists()
    )
    with pytest.raises(onnx2ncnn.Refused):
        onnx2ncnn.verify(path)
    assert onnx2ncnn.verify(path, dequantize=True)
    assert onnx2ncnn.verify(path, dequantize=True, runtime=True)
    assert onnx2ncnn.verify(path, dequantize=True, layers=True).layers


def test_outputs_are_not_judged_more_finely_than_the_model_rounds():
    compare = onnx2ncnn._scripts.compare
    compare.load("numpy", "onnxruntime")
    expected = np.float32([1, 0])
    for unrounded, net, same in [([1, 0.5], [1, 0.6], True), ([1, 0.5], [0, 1], False), ([1, 0], [1, 0.6], False)]:
        told = compare.distance("y", np.float32(net), expected, 1e-3, 0.99)
        judged = compare.rounded_as_far(told, np.float32(unrounded), expected)
        assert judged["same"] is same and ("within the rounding" in judged["note"]) is same
    quantized = model("quantized/network")
    assert onnx2ncnn.verify(quantized, runtime=True, int8=True)


def test_tables_are_rounded_as_other_weights():
    random = np.random.default_rng(0)
    tables = [numpy_helper.from_array(random.standard_normal((1024, 64)).astype(np.float32), name) for name in ("table", "w")]
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("MatMul", ["rows", "w_t"], ["y"])]
    nodes.insert(0, helper.make_node("Transpose", ["w"], ["w_t"], perm=[1, 0]))
    graph = helper.make_graph(nodes, "g", [value("ids", 7, [5])], [value("y", 1, [5, 1024])], tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for weights in ("int8", "int6", "int4"):
        net = onnx2ncnn.convert(model, weights=weights)
        assert any(layer.type == "Embed" for layer in net.layers)
        proof = onnx2ncnn.verify(model, net)
        assert proof and proof.error > 1e-4, (weights, str(proof))


def test_recorded_outputs_are_compared_with_onnxruntime():
    arrays = dict(np.load(FIXTURES / "network/convolutional/inputs.npz"))
    outputs = dict(np.load(FIXTURES / "network/convolutional/outputs.npz"))
    right = onnx2ncnn.verify(CONVOLUTIONAL, data=arrays | outputs)
    assert right and [row.name for row in right.recorded] == list(outputs)
    wrong = onnx2ncnn.verify(CONVOLUTIONAL, data=arrays | {name: array + 1 for name, array in outputs.items()})
    assert not wrong and all(row.same for row in wrong.outputs) and str(wrong).startswith("the export differs")


def test_a_net_has_the_options_of_its_conversion():
    inner = onnx.load(CONVOLUTIONAL).graph.node[0].output[0]
    for options in [{"numbered": True}, {"outputs": [inner]}, {"fp16": True}]:
        net = onnx2ncnn.convert(CONVOLUTIONAL, **options)
        assert onnx2ncnn.verify(CONVOLUTIONAL, net), options
        result = onnx2ncnn.verify(CONVOLUTIONAL, net, runtime=True, tolerance=1e-2)
        assert result and str(result).startswith("the same: outputs 1, largest relative error "), options
    net = onnx2ncnn.convert(CONVOLUTIONAL, scale=[0.5])
    result = onnx2ncnn.verify(CONVOLUTIONAL, net, runtime=True, scale=None)
    assert not result and str(result).startswith("1 of 1 output differs: ")


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"net": "a.param"}, TypeError, "a pair of paths"),
        ({"net": ("a.param",)}, TypeError, "a pair of paths"),
        ({"rounds": 0}, ValueError, "rounds is at least 1"),
        ({"tolerance": -1}, ValueError, "tolerance is at least 0"),
        ({"data": 3}, TypeError, "data is an array, a dictionary"),
        ({"data": "a.npy"}, ValueError, "data is an .npz file, .* not 'a.npy'"),
        ({"data": np.zeros((8, 8), np.float32)}, ValueError, "shape .8, 8. for the input"),
    ],
)
def test_arguments_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        onnx2ncnn.verify(CONVOLUTIONAL, **options)


def test_a_comparison_of_nothing_is_an_error():
    path = model("recurrent/rnn_relu")
    with pytest.raises(ValueError, match="no part of the net could be compared"):
        onnx2ncnn.verify(path)
    assert onnx2ncnn.verify(path, runtime=True)


def test_nets_that_do_not_load_are_errors(tmp_path):
    (tmp_path / "a.param").write_text("nonsense")
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(RuntimeError, match="does not load"):
        onnx2ncnn.verify(CONVOLUTIONAL, (tmp_path / "a.param", tmp_path / "a.bin"), runtime=True)
    with pytest.raises(ValueError, match="not those of a net"):
        onnx2ncnn.verify(CONVOLUTIONAL, (tmp_path / "a.param", tmp_path / "a.bin"))


def test_results_beyond_float16_are_measured():
    path = model("network/beyond_float16")
    result = onnx2ncnn.verify(path, rounds=2, magnitudes=True)
    assert result.same and list(result.magnitudes) == ["r"]
    assert all(16376 < magnitude < 1e7 for magnitude in result.magnitudes.values())
    net = onnx2ncnn.convert(path, float32=result.magnitudes)
    kept = {layer["name"]: layer["needs_float32"] for layer in net.report["net"]["layers"]}
    assert kept["c"] and kept["p"] and not kept["y"]
    again = onnx2ncnn.verify(path, net, magnitudes=True, float32=list(result.magnitudes))
    assert again.same and again.magnitudes == {}
    assert onnx2ncnn.verify(path, runtime=True).magnitudes == {}
    with pytest.raises(ValueError, match='the name "none"'):
        onnx2ncnn.convert(path, float32="none")
    with pytest.raises(TypeError, match="float32 has names"):
        onnx2ncnn.convert(path, float32=[1])
    with pytest.raises(RuntimeError, match='does not compute "r"'):
        onnx2ncnn.verify(path, onnx2ncnn.convert(path, rename={"r": "features"}), magnitudes=True, rename={})


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"device": "exit 3"}, RuntimeError, "did not start: it ended with 3"),
        ({"device": "no-such-program"}, RuntimeError, "compile the source"),
        ({"device": "exit 3", "magnitudes": True}, ValueError, "not measured on a device"),
        ({"device": "exit 3", "precision": "half"}, ValueError, "precision is one of"),
        ({"precision": "float16"}, ValueError, "are for a device"),
    ],
)
def test_devices_that_do_not_run_the_net_are_errors(options, error, message):
    with pytest.raises(error, match=message):
        onnx2ncnn.verify(CONVOLUTIONAL, **options)


def test_the_order_of_nearly_equal_scores_is_not_compared():
    compare = _scripts.compare
    compare.load("numpy")
    expected = np.arange(40, dtype=np.float32).reshape(10, 4)
    swapped = expected[[0, 1, 2, 3, 4, 5, 6, 7, 9, 8]]

    def judged(got, others):
        told = compare.distance("y", got, expected, 1e-3)
        return compare.where_determined(told, got, {"y": expected}, [{"y": other} for other in others], 1e-3)

    # Two rows change their order in runs of the model: the others are compared.
    result = judged(swapped, [expected, swapped])
    assert result["same"] and "without 8 of 40 elements" in result["note"]
    wrong = swapped.copy()
    wrong[0, 0] = 9
    assert not judged(wrong, [expected, swapped])["same"]
    # The model always has this order.
    assert not judged(swapped, [expected, expected])["same"]
    # No element has the same place in all runs.
    result = judged(swapped, [expected, expected[::-1] + 100])
    assert not result["same"] and "which rounding decides" in result["note"]


def test_rows_that_change_their_order_are_not_compared():
    compare = _scripts.compare
    compare.load("numpy")
    # Boxes and their classes. The last eight have nearly equal scores.
    boxes, classes = np.arange(40, dtype=np.float32).reshape(1, 10, 4), np.float32([[1, 0, 2, 0, 0, 0, 0, 0, 0, 1]])
    orders = [np.r_[0, 1, 9, 8, 7, 6, 5, 4, 3, 2], np.r_[0, 1, 3, 4, 5, 6, 7, 8, 9, 2]]
    others = [{"boxes": boxes[:, order], "classes": classes[:, order]} for order in orders[:1]]
    found = {"boxes": boxes[:, orders[1]], "classes": classes[:, orders[1]]}

    def judged(name, got):
        told = compare.distance(name, got, {"boxes": boxes, "classes": classes}[name], 1e-3)
        return compare.where_determined(told, got, {"boxes": boxes, "classes": classes}, others, 1e-3)

    # Most classes are the same in the other run, where the rows are others.
    assert not (others[0]["classes"] == found["classes"]).all()
    for name, got in found.items():
        assert judged(name, got)["same"], name
        wrong = got.copy()
        wrong[0, 0] += 1
        assert not judged(name, wrong)["same"], name


def test_the_net_of_another_model_is_no_net_of_this_one():
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in ("here", "there"))
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["here"], ["there"])], "g", [x], [y])
    other = onnx2ncnn.convert(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]))
    with pytest.raises(ValueError, match="is it the net of another model"):
        onnx2ncnn.verify(CONVOLUTIONAL, other)


def test_results_are_short_in_a_cell():
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    for result in (onnx2ncnn.verify(CONVOLUTIONAL, net), onnx2ncnn.verify(CONVOLUTIONAL, net, layers=True)):
        assert repr(result) == f"<onnx2ncnn.{type(result).__name__}: {result}>" and len(repr(result)) < 200


def test_fixed_sizes_may_be_others():
    """onnxruntime runs the model at the sizes of the conversion."""
    net = onnx2ncnn.convert(CONVOLUTIONAL, input_shapes=[1, 3, 12, 20])
    result = onnx2ncnn.verify(CONVOLUTIONAL, net, runtime=True)
    assert result.same, result


def test_differences_are_in_the_text(tmp_path):
    files = wrong_files(onnx2ncnn.convert(CONVOLUTIONAL), tmp_path)
    proof = onnx2ncnn.verify(CONVOLUTIONAL, list(files))
    assert not proof and '"logits": element ' in str(proof) and proof.other_layers == []
    result = onnx2ncnn.verify(CONVOLUTIONAL, files, runtime=True)
    assert re.fullmatch(r'1 of 1 output differs: "y" \(relative error \d\.\de[+-]\d\d\)', str(result))
