"""Simplification with the signature of onnxsim."""

import numpy as np
import onnx
import onnx2ncnn
import onnxruntime
import pytest
from conftest import model
from onnx import TensorProto, helper, numpy_helper

CONVOLUTIONAL = model("network/convolutional")


def make(nodes, inputs, outputs, constants=()):
    info = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    initializers = [numpy_helper.from_array(array, name) for name, array in constants]
    graph = helper.make_graph(
        nodes, "g", [info(*i) for i in inputs.items()], [info(*o) for o in outputs.items()], initializers
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_result_is_a_smaller_model_that_computes_the_same():
    given = onnx.load(CONVOLUTIONAL)
    before = given.SerializeToString()
    simplified, ok = onnx2ncnn.simplify(given, check_n=3)
    assert ok is True and isinstance(simplified, onnx.ModelProto)
    assert given.SerializeToString() == before
    onnx.checker.check_model(simplified)
    assert len(simplified.graph.node) <= len(given.graph.node)
    for other in (str(CONVOLUTIONAL), CONVOLUTIONAL.read_bytes()):
        assert onnx2ncnn.simplify(other)[0] == simplified
    x = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    run = lambda proto: onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(run(simplified), run(given), rtol=1e-4, atol=1e-5)


def test_arithmetic_on_shapes_is_folded():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = [("zero", np.array([0])), ("one", np.array([1])), ("rest", np.array([12]))]
    proto = make(nodes, {"x": [2, 3, 4]}, {"y": [2, 12]}, constants)
    simplified, ok = onnx2ncnn.simplify(proto, 1)
    assert ok and [node.op_type for node in simplified.graph.node] == ["Reshape"]


def test_batch_normalizations_are_fused_unless_skipped():
    ones = np.ones(4, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "a", "b", "m", "v"], ["y"]),
    ]
    constants = [("w", np.ones((4, 3, 1, 1), np.float32)), *((name, ones) for name in "abmv")]
    proto = make(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 4, 8, 8]}, constants)
    count = lambda **options: len(onnx2ncnn.simplify(proto, **options)[0].graph.node)
    assert count() == 1
    assert count(skip_fuse_bn=True) == count(skipped_optimizers=["fuse_bn_into_conv"]) == 2
    assert count(skipped_optimizers=["a_pass_of_onnxsim"]) == 1
    assert count(perform_optimization=False) == 2


def test_shapes_and_outputs_are_changed():
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    proto = make(nodes, {"x": ["N", 3]}, {"y": ["N", 3], "z": ["N", 3]})
    dims = lambda value: [d.dim_value or d.dim_param for d in value.type.tensor_type.shape.dim]
    simplified, ok = onnx2ncnn.simplify(proto, 2, overwrite_input_shapes={"x": [5, 3]}, unused_output=["z"])
    assert ok and dims(simplified.graph.input[0]) == [5, 3]
    assert [output.name for output in simplified.graph.output] == ["y"] and len(simplified.graph.node) == 1
    with pytest.warns(DeprecationWarning):
        assert dims(onnx2ncnn.simplify(proto, input_shapes={"x": [4, 3]})[0].graph.input[0]) == [4, 3]
    free, ok = onnx2ncnn.simplify(proto, 1, test_input_shapes={"x": [7, 3]})
    assert ok and dims(free.graph.input[0]) == ["N", 3]
    assert onnx2ncnn.simplify(proto, 1, input_data={"x": np.ones((2, 3), np.float32)})[1]
    for unused in (["none"], ["y", "z"]):
        with pytest.raises(ValueError, match="unused_output"):
            onnx2ncnn.simplify(proto, unused_output=unused)


@pytest.mark.parametrize(
    "options", [{"skip_constant_folding": True}, {"custom_lib": "a.so"}, {"mutable_initializer": True}]
)
def test_options_that_are_not_supported_are_refused(options):
    with pytest.raises(ValueError, match="does not support"):
        onnx2ncnn.simplify(CONVOLUTIONAL, **options)


def test_unknown_operators_stay():
    proto = make([helper.make_node("NoSuchOperator", ["x"], ["y"], domain="mine")], {"x": [1]}, {"y": [1]})
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    simplified, ok = onnx2ncnn.simplify(proto)
    assert ok and simplified.graph.node[0].op_type == "NoSuchOperator"
    with pytest.raises(ValueError, match="nothing could be compared"):
        onnx2ncnn.simplify(proto, check_n=1)
    with pytest.raises(onnx2ncnn.Refused):
        onnx2ncnn.simplify(b"not a model")
