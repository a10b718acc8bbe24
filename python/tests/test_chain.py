"""Models as chains of nets."""

import numpy as np
import onnx2ncnn
import pytest
from conftest import model, run_command
from test_errors import unknown

CUTS = [["n"], ["frames:int64[S]"]]


def test_a_chain_is_run_and_saved_as_by_the_command(tmp_path):
    chain = onnx2ncnn.convert_chain(model("remedy/both_halves"), CUTS)
    first, rest, last = chain.steps
    assert (first.inputs, first.outputs, rest.outputs, last.outputs) == (("ids",), ("n",), ("frames",), ("wave",))
    assert first.net and last.net and not rest.net and "constant" in rest.reasons[0]
    with pytest.raises(ValueError, match="the part is a net"):
        first.onnx()
    chain.save(tmp_path / "a.param")
    command = run_command(model("remedy/both_halves"), tmp_path / "b.param", "--split-at", "n", "--split-at", "frames:int64[S]")
    assert command.returncode == 0, command.stderr
    for ending in ("1.param", "1.bin", "2.onnx", "3.param", "3.bin"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text().replace("b.", "a.")


def test_a_chain_computes_what_the_model_does():
    onnxruntime = pytest.importorskip("onnxruntime")
    path = model("network/convolutional")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {port.name: np.random.default_rng(0).normal(size=port.shape).astype(np.float32) for port in session.get_inputs()}
    [expected] = session.run(None, given)
    chain = onnx2ncnn.convert_chain(path, ["r2"])
    assert len(chain.steps) == 2 and "2 parts" in repr(chain)
    np.testing.assert_allclose(chain.run(given)["y"], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="no array for"):
        chain.run({})


def test_a_refusal_proposes_a_chain():
    with pytest.raises(onnx2ncnn.Refused) as caught:
        onnx2ncnn.convert(model("remedy/both_halves"))
    [options] = caught.value.chains
    assert "convert_chain(..., split_at=" in str(caught.value)
    assert len(onnx2ncnn.convert_chain(model("remedy/both_halves"), **options).steps) == 3


def test_cuts_that_fit_no_chain_are_errors():
    path = model("network/convolutional")
    with pytest.raises(ValueError, match='no value "nothing"'):
        onnx2ncnn.convert_chain(path, ["nothing"])
    with pytest.raises(ValueError, match="later cut"):
        onnx2ncnn.convert_chain(path, ["sum", "r1"])
    with pytest.raises(TypeError):
        onnx2ncnn.convert_chain(path, "r2")
    with pytest.raises(onnx2ncnn.Refused):
        onnx2ncnn.convert_chain(unknown(2), ["v1"])
