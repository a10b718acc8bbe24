"""Conversions, beside those of the command."""

import io
import os

import numpy as np
import onnx
import onnx2ncnn
import pytest
from conftest import model, names
from onnx import TensorProto, helper, numpy_helper

CONVOLUTIONAL = model("network/convolutional")


def files(net, folder):
    """The bytes of both files."""
    net.save(folder / "net.param", folder / "net.bin")
    return (folder / "net.param").read_bytes(), (folder / "net.bin").read_bytes()


def weighted(shape=(64, 64), name="w"):
    """A model with a weight."""
    weight = numpy_helper.from_array(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), name)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, shape[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, shape[1]])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", name], ["y"])], "g", [x], [y], [weight])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_results_equal_those_of_the_command(commanded, tmp_path):
    out, rows = commanded
    assert set(rows) == set(names())
    counts = dict.fromkeys(["converted", "refused", "failed"], 0)
    for name, row in rows.items():
        counts[row["status"]] += 1
        try:
            net = onnx2ncnn.convert(model(name))
        except OSError as error:
            # Its external data is missing.
            assert row["status"] == "failed" and error.strerror in row["output"], f"{name}: {error}"
            continue
        except onnx2ncnn.Refused as refused:
            assert row["status"] == "refused", f"{name}: {refused}"
            assert refused.report["diagnostics"] == row["diagnostics"], name
            continue
        assert row["status"] == "converted", name
        param, weights = files(net, tmp_path)
        assert param == (out / name / "model.ncnn.param").read_bytes(), name
        assert weights == (out / name / "model.ncnn.bin").read_bytes(), name
        assert (net.param.encode(), net.bin) == (param, weights), name
    assert counts["converted"] > 700 and counts["refused"] > 50 and counts["failed"] < 5


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "file", "text path", "proto"])
def test_every_kind_of_model_gives_the_same_files(kind, tmp_path):
    data = CONVOLUTIONAL.read_bytes()
    models = {
        "bytes": lambda: data,
        "bytearray": lambda: bytearray(data),
        "file": lambda: io.BytesIO(data),
        "text path": lambda: str(CONVOLUTIONAL),
        "proto": lambda: onnx.load(CONVOLUTIONAL),
    }
    net = onnx2ncnn.convert(models[kind]())
    assert files(net, tmp_path) == files(onnx2ncnn.convert(CONVOLUTIONAL), tmp_path)


def test_external_data_is_read_from_a_folder(tmp_path):
    path = model("weights/external_file_each")
    with open(path, "rb") as file:
        net = onnx2ncnn.convert(file, data_dir=path.parent)
    assert files(net, tmp_path) == files(onnx2ncnn.convert(path), tmp_path)
    with pytest.raises((onnx2ncnn.Refused, OSError)):
        onnx2ncnn.convert(path.read_bytes())


def test_weights_of_a_model_above_the_limit_of_protobuf_are_passed_beside_it(monkeypatch, tmp_path):
    whole = weighted((256, 256))
    from onnx2ncnn import _model

    small, external = _model._detach_weights(whole)
    assert len(small) < 1 << 10 and [len(weight) for _, weight in external] == [256 * 256 * 4]
    expected = files(onnx2ncnn.convert(whole), tmp_path)
    monkeypatch.setattr(_model, "_serialize", _model._detach_weights)
    assert files(onnx2ncnn.convert(whole), tmp_path) == expected


def test_options_are_those_of_the_command(tmp_path):
    net = onnx2ncnn.convert(CONVOLUTIONAL, fp16=True, rename={"x": "in0", "y": "out0"})
    assert [port.blob for port in (*net.inputs, *net.outputs)] == ["in0", "out0"]
    whole = onnx2ncnn.convert(CONVOLUTIONAL)
    assert len(net.bin) < len(whole.bin)
    assert files(net, tmp_path)[1] == net.bin
    free = onnx2ncnn.convert(CONVOLUTIONAL, input_shapes={"x": [1, 3, "H", "W"]})
    assert free.inputs[0].shape == (1, 3, "H", "W") and free.conditions
    assert free.inputs == onnx2ncnn.convert(CONVOLUTIONAL, input_shapes=(1, 3, "H", "W")).inputs
    assert onnx2ncnn.convert(CONVOLUTIONAL, ncnn_version="1.0.20260526").since <= 20260526


def test_constants_of_any_form_are_set():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    s = helper.make_tensor_value_info("s", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "s"], ["y"])], "g", [x, s], [y])
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    nets = [onnx2ncnn.convert(proto, set={"s": value}) for value in ([1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3]))]
    assert len({net.bin for net in nets}) == 1 and len(nets[0].inputs) == 1
    assert onnx2ncnn.convert(proto, set={"s": 2}).run({"x": np.ones((2, 3))})["y"].tolist() == [[2, 2, 2]] * 2


def test_random_numbers_become_inputs():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    proto = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    net = onnx2ncnn.convert(proto, random_as_input=True)
    assert [port.name for port in net.inputs] == ["x", "n"]
    assert net.run({"x": np.ones((2, 3)), "n": np.ones((2, 3))})["y"].tolist() == [[2, 2, 2]] * 2


def test_contents_of_a_net():
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    assert net.param.startswith("7767517\n")
    assert net.bin is net.bin and memoryview(net.bin).readonly
    assert net.inputs == (onnx2ncnn.Port("x", "float", (1, 3, 16, 16), "x", (3, 16, 16), False),)
    assert net.warnings == [] and net.conditions == []
    assert [(assumption.value, assumption.fact) for assumption in net.assumptions] == [("x", "finite")]
    assert net.report["status"] == "converted" and net.report["model"]["file"] == str(CONVOLUTIONAL)
    assert len(net.layers) == int(net.param.split()[1])
    convolution = next(layer for layer in net.layers if layer.type == "Convolution")
    assert convolution.params["num_output"] > 0 and convolution.multiply_adds > 0 and convolution.nodes
    assert repr(net) == f"<onnx2ncnn.Net of {len(net.layers)} layers: x [1, 3, 16, 16] -> y [1, 10]>"
    assert 20240410 <= net.since


def test_assumptions_and_strict():
    path = model("assumption/angles")
    (assumption,) = onnx2ncnn.convert(path).assumptions
    assert (assumption.value, assumption.fact) == ("x", "small_angle")
    with pytest.raises(onnx2ncnn.Refused, match="without `strict`"):
        onnx2ncnn.convert(path, strict=True)


def test_simplified_model_is_kept_if_asked():
    net = onnx2ncnn.convert(CONVOLUTIONAL, keep_onnx=True)
    onnx.checker.check_model(onnx.load_model_from_string(net.onnx()))
    with pytest.raises(ValueError, match="was not kept"):
        onnx2ncnn.convert(CONVOLUTIONAL).onnx()


def test_bin_file_is_named_after_the_param_file(tmp_path):
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    net.save(str(tmp_path / "a.b.param"))
    assert sorted(os.listdir(tmp_path)) == ["a.b.bin", "a.b.param"]
    with pytest.raises(ValueError, match="does not end in .param"):
        net.save(tmp_path / "net")


def test_inspection_and_tables():
    report = onnx2ncnn.inspect(CONVOLUTIONAL)
    assert report["status"] == "convertible" and report["model"]["operators"]["Conv"] > 0
    operators = {(row.domain, row.name): row for row in onnx2ncnn.supported()}
    assert operators["", "Conv"].since[0] == 1 and "Convolution" in operators["", "Conv"].lowers_to
    assert "fuse_bn_into_conv" in onnx2ncnn.passes()


def test_weights_in_blocks():
    path = model("blocks/symmetric")
    floats, kept = onnx2ncnn.convert(path), onnx2ncnn.convert(path, weights="keep")
    assert 3 * len(kept.bin) < len(floats.bin) and "18=400" in kept.param
    assert any("ncnn 20261020" in warning for warning in kept.warnings)
    with pytest.raises(ValueError, match="int5"):
        onnx2ncnn.convert(path, weights="int5")
    with pytest.raises(TypeError, match="weights is a str"):
        onnx2ncnn.convert(path, weights=4)


def test_a_program_is_written_beside_the_net(tmp_path):
    net = onnx2ncnn.convert(model("network/digits"))
    net.save(tmp_path / "digits.param", example=tmp_path / "run.cpp")
    assert 'load_param' in (tmp_path / "run.cpp").read_text() and "digits.param" in (tmp_path / "run.cpp").read_text()
    assert (tmp_path / "CMakeLists.txt").exists()
    with pytest.raises(ValueError, match="language"):
        net.save(tmp_path / "other.param", example=tmp_path / "run.js")
    assert not (tmp_path / "other.param").exists()


def test_what_is_no_model_is_told():
    class Module:
        def state_dict(self):
            return {}

    class Program:
        model_proto = onnx.load(model("network/digits"))

    with pytest.raises(TypeError, match="onnx2ncnn.torch.export"):
        onnx2ncnn.convert(Module())
    assert onnx2ncnn.convert(Program()).outputs[0].name == "digit"
    with pytest.raises(ValueError, match="keep_onnx=True"):
        onnx2ncnn.convert(model("network/digits")).onnx()
    with pytest.raises(TypeError, match="read the file first"):
        onnx2ncnn.convert(model("network/digits")).run("digits.png")


def test_messages_name_arguments_of_python():
    with pytest.raises(ValueError) as failure:
        onnx2ncnn.convert(model("network/digits"), mean=[1, 2])
    assert "`mean`" in str(failure.value) and "--" not in str(failure.value)


def test_layers_of_your_own_are_declared(tmp_path):
    node = helper.make_node("Lift", ["x", "table"], ["y"], domain="my.ops", gain=0.5)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8]) for name in "xy")
    table = numpy_helper.from_array(np.arange(4, dtype=np.float32), "table")
    graph = helper.make_graph([node], "g", [x], [y], [table])
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)])
    layer = {"operator": "my.ops.Lift", "type": "Lift", "params": {"0": "gain"}, "weights": [1], "elementwise": True}
    net = onnx2ncnn.convert(made, custom_layers=[layer])
    assert "Lift" in net.param and " 0=5.0e-01" in net.param and np.frombuffer(net.bin, np.float32)[1:].tolist() == [0, 1, 2, 3]
    assert net.report["options"]["custom_layers"] == [layer] and "declared and not checked: Lift" in net.warnings[0]
    with pytest.raises(ValueError, match="as in the name of a class"):
        onnx2ncnn.convert(made, custom_layers={**layer, "type": "My Lift"})
    onnx.save(made, tmp_path / "m.onnx")
    onnx2ncnn.convert_many([tmp_path / "m.onnx"], tmp_path / "out", custom_layers=layer)
    assert (tmp_path / "out" / "m.ncnn.param").read_text() == net.param
