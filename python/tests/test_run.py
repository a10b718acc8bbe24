"""Nets in ncnn, beside the expected outputs."""

import shutil
import threading

import cases
import ncnn
import numpy as np
import onnx2ncnn
import pytest
from cases import judge_case
from conftest import FIXTURES, REPOSITORY, model, names
from judge import load_arrays
from onnx import TensorProto, helper

CONVOLUTIONAL = model("network/convolutional")
KNOWN = {line.split("\t")[0].split(":")[0] for line in (REPOSITORY / "tests/known_refusals.txt").read_text().splitlines()}


def one_node(op, inputs, shape, dtype=TensorProto.FLOAT, out=TensorProto.FLOAT, out_shape=None, **attributes):
    values = [helper.make_tensor_value_info(name, dtype, shape) for name in inputs]
    y = helper.make_tensor_value_info("y", out, shape if out_shape is None else out_shape)
    graph = helper.make_graph([helper.make_node(op, inputs, ["y"], **attributes)], "g", values, [y])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_every_fixture_computes_its_outputs():
    known = [name for name in names() if (FIXTURES / name / "inputs.npz").exists()]
    refused = lambda name: (FIXTURES / name / "expected.err").exists() or f"fixtures/{name}" in KNOWN
    verdicts = {name: judge_case(FIXTURES / name, exact=True) for name in known}
    wrong = [
        f"{name}: {verdict}: {reason}"
        for name, (verdict, reason) in verdicts.items()
        if verdict != "pass" and not (verdict == "refused" and refused(name))
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(verdict == "pass" for verdict, _ in verdicts.values()) > 700


def test_a_folder_of_cases_is_judged(tmp_path, capsys):
    for name in ("network/convolutional", "refused/unknown_operator"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    bad = tmp_path / "other"
    shutil.copytree(FIXTURES / "network/convolutional", bad)
    arrays = load_arrays(bad / "outputs.npz")
    np.savez(bad / "outputs.npz", **{name: array * 1.01 for name, array in arrays.items()})
    assert cases.main(tmp_path) == {"pass": 1, "refused": 1, "wrong": 1}
    assert "wrong  other: y: " in capsys.readouterr().out


def test_caches_of_the_runtime_are_given_to_the_next_call():
    net = onnx2ncnn.convert(model("decoder/causal_attention"), kv_cache=True)
    plain = onnx2ncnn.convert(model("decoder/causal_attention"))
    kept = {port.name: port.cache for port in net.inputs}
    assert kept == {"q": None, "k": None, "v": None, "pk": "nk", "pv": "nv", "kv_length": None}
    rng, caches = np.random.default_rng(0), {}
    past = {name: np.zeros((1, 2, 0, 16), np.float32) for name in ("pk", "pv")}
    for length in (4, 1, 3):
        given = {name: rng.normal(size=(1, length, size)).astype(np.float32) for name, size in (("q", 64), ("k", 32), ("v", 32))}
        whole = np.ones(length + past["pk"].shape[2], np.float32)
        outputs = net.run({**given, "kv_length": whole, **caches})
        if past["pk"].size:
            expected = plain.run({**given, **past})
            assert np.abs(outputs["y"] - expected["y"]).max() < 1e-4
            past = {"pk": expected["nk"], "pv": expected["nv"]}
        else:
            past = {f"p{name}": given[name].reshape(1, length, 2, 16).transpose(0, 2, 1, 3) for name in "kv"}
        caches = {port.name: outputs[port.cache] for port in net.inputs if port.cache}
        assert all(isinstance(mat, ncnn.Mat) and mat.h == past["pk"].shape[2] for mat in caches.values())
    with pytest.raises(TypeError, match="the ncnn.Mat of the call before"):
        net.run({**given, "kv_length": whole, **past})


def test_calls_in_turn_are_verified():
    assert onnx2ncnn.verify(model("decoder/causal_attention"), kv_cache=True, runtime=True)
    with pytest.raises(ValueError, match="do not fit caches"):
        onnx2ncnn.verify(model("decoder/causal_attention"), kv_cache=True, layers=True)


def test_outputs_have_the_types_of_the_model():
    y = onnx2ncnn.convert(one_node("Less", ["a", "b"], [1, 3], out=TensorProto.BOOL)).run(
        {"a": np.zeros((1, 3)), "b": np.array([[0, 1, -1]])}
    )["y"]
    assert y.dtype == bool and y.tolist() == [[False, True, False]]
    y = onnx2ncnn.convert(one_node("Neg", ["x"], [2], TensorProto.INT32, TensorProto.INT32)).run(np.array([1, -2]))["y"]
    assert y.dtype == np.int32 and y.tolist() == [-1, 2]


def test_free_sizes_follow_from_the_inputs():
    net = onnx2ncnn.convert(CONVOLUTIONAL, input_shapes={"x": [1, 3, "H", "W"]})
    fixed = onnx2ncnn.convert(CONVOLUTIONAL, input_shapes={"x": [1, 3, 32, 20]})
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 20)).astype(np.float32)
    np.testing.assert_allclose(net.run({"x": x})["y"], fixed.run(x)["y"], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="has shape"):
        net.run({"x": x[0]})
    with pytest.raises(ValueError, match="valid only if"):
        net.run({"x": x[:, :, :1, :1]})
    with pytest.raises(ValueError, match="has shape"):
        net.run({"x": x[:, :, :0]})
    with pytest.raises(ValueError, match="has shape"):
        fixed.run({"x": x[:, :, :, :4]})
    with pytest.raises(ValueError, match="has shape"):
        net.run({"x": np.repeat(x, 2, axis=0)})


def test_inputs_that_do_not_fit_are_errors():
    net = onnx2ncnn.convert(one_node("Add", ["a", "b"], [2], TensorProto.INT64, TensorProto.INT64))
    ones = np.ones(2, np.int64)
    with pytest.raises(ValueError, match="missing"):
        net.run({"a": ones})
    with pytest.raises(ValueError, match="no input"):
        net.run({"a": ones, "b": ones, "c": ones})
    with pytest.raises(TypeError, match="2 inputs"):
        net.run(ones)
    with pytest.raises(TypeError, match="int64"):
        net.run({"a": ones, "b": np.ones(2, np.float32)})
    for large in ((1 << 24) + 1, (1 << 53) + 1, (1 << 63) - 1):
        with pytest.raises(ValueError, match="cannot represent"):
            net.run({"a": ones, "b": np.array([0, large])})
        assert net.run({"a": ones, "b": np.array([0, large])}, round_integers=True)["y"][1] == np.float32(large)
    assert net.run({"a": ones, "b": np.array([0, 1 << 30])})["y"][0] == 1
    with pytest.raises(ValueError, match="no output"):
        net.run({"a": ones, "b": ones}, outputs="z")


def test_net_is_loaded_without_files():
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    arrays = load_arrays(CONVOLUTIONAL.with_name("inputs.npz"))
    loaded = net.load(num_threads=1)
    del net
    assert isinstance(loaded, ncnn.Net) and loaded.opt.num_threads == 1 and not loaded.opt.use_fp16_storage
    extractor = loaded.create_extractor()
    array = arrays["x"][0]
    extractor.input("x", ncnn.Mat(array).clone())
    code, mat = extractor.extract("y")
    assert code == 0
    np.testing.assert_allclose(
        np.array(mat), load_arrays(CONVOLUTIONAL.with_name("outputs.npz"))["y"][0], rtol=1e-3, atol=1e-5
    )
    with pytest.raises(TypeError, match="no field"):
        onnx2ncnn.convert(CONVOLUTIONAL).load(no_such_field=True)
    with pytest.raises(TypeError, match="the field num_threads of ncnn.Option is of type int, not str"):
        onnx2ncnn.convert(CONVOLUTIONAL).load(num_threads="2")


def test_threads_share_a_net():
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    x, expected = (load_arrays(CONVOLUTIONAL.with_name(f"{kind}puts.npz")) for kind in ("in", "out"))
    results = []
    threads = [threading.Thread(target=lambda: results.append(net.run(x)["y"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, expected["y"], rtol=1e-3, atol=1e-5)


def test_inputs_come_first():
    net = onnx2ncnn.convert(model("network/digits"))
    picture = np.zeros((1, 1, 8, 8), np.float32)
    for arguments, said in [
        ((None, {"picture": picture}), "come first; not None"),
        ((picture, {"picture": picture}), "outputs are names; the inputs come first"),
        (({"picture": None},), 'the input "picture" is an array of numbers, not None'),
    ]:
        with pytest.raises(TypeError, match=said):
            net.run(*arguments)


def test_assumptions_on_inputs_are_checked():
    net = onnx2ncnn.convert(next(FIXTURES.glob("*/rows_of_a_long_table/model.onnx")))
    shape = [size if isinstance(size, int) else 1 for size in net.inputs[0].shape]
    net.run(np.zeros(shape, np.int64))
    with pytest.raises(ValueError, match='the input "ids" has -1, and the net is right for numbers from 0 on'):
        net.run(np.full(shape, -1))
    rows = net._conversion.index_limits["ids"]
    net.run(np.full(shape, rows - 1))
    with pytest.raises(ValueError, match=f'the input "ids" has {rows}, and selects rows of a table of {rows}'):
        net.run(np.full(shape, rows))
