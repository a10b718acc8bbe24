"""The choice for half precision by samples."""

import numpy as np
import onnx
import onnx2ncnn
import pytest
from conftest import model, run_command
from onnx import TensorProto, helper, numpy_helper

NETWORK = model("network/convolutional")
SAMPLES = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("half_error", [0.001, 0.5])
def test_the_choice_is_that_of_the_command(half_error, tmp_path):
    np.savez(tmp_path / "samples.npz", x=SAMPLES)
    files = [tmp_path / "a.param", tmp_path / "a.bin"]
    run = run_command("convert", NETWORK, *files, "--data", tmp_path / "samples.npz", "--half-error", half_error)
    assert run.returncode == 0, run.stderr
    net = onnx2ncnn.tune(NETWORK, {"x": SAMPLES}, half_error=half_error)
    assert (net.param.encode(), net.bin) == tuple(file.read_bytes() for file in files)
    choice = net.half_precision
    assert 0 < choice.error <= half_error and choice.error <= choice.default and choice.samples == 2
    assert (choice.mode, choice.float32) == ("default", ()) or half_error < choice.default
    assert net.param == onnx2ncnn.convert(NETWORK, float32=choice.float32, **{choice.mode: True for _ in [0] if choice.mode != "default"}).param


def test_given_options_stay():
    net = onnx2ncnn.tune(NETWORK, [{"x": SAMPLES[:1]}], half_error=0.5, careful=True)
    assert net.half_precision.mode == "careful"
    assert net.param == onnx2ncnn.convert(NETWORK, careful=True).param


@pytest.mark.parametrize(
    "data, options, error, message",
    [
        ({"y": SAMPLES}, {}, ValueError, 'has no array "x"'),
        (SAMPLES, {"half_error": 0.0}, ValueError, "half_error is a positive number"),
        (SAMPLES, {"half_error": "1%"}, TypeError, "half_error is a number, such as 0.01"),
        (SAMPLES, {"int8": True}, TypeError, "no option int8"),
        (3, {}, TypeError, "data are arrays"),
    ],
)
def test_what_does_not_fit_is_an_error(data, options, error, message):
    with pytest.raises(error, match=message):
        onnx2ncnn.tune(NETWORK, data, **options)


def encoder():
    """Two products with a function between them."""
    generator = np.random.default_rng(0)
    weights = [numpy_helper.from_array(generator.normal(0, 0.1, shape).astype(np.float32), name) for name, shape in (("w", (96, 128)), ("v", (128, 64)))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["r"]), helper.make_node("MatMul", ["r", "v"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, size]) for name, size in (("x", 96), ("y", 64)))
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights), ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def correlated(count):
    generator = np.random.default_rng(1)
    samples = generator.normal(size=(count, 16, 12)) @ generator.normal(size=(12, 96)) + 0.1 * generator.normal(size=(count, 16, 96))
    return samples.astype(np.float32)


@pytest.mark.parametrize("weights, term", [("int4", 401), ("int6", 601)])
def test_weights_are_rounded_by_samples(weights, term, tmp_path):
    samples = correlated(64)
    net = onnx2ncnn.tune(encoder(), {"x": samples}, half_error=0.5, weights=weights)
    assert net.rounding.samples == 8 and net.rounding.by_samples and net.rounding.warnings == ()
    assert 0 < net.rounding.errors["y"] < 0.6 * net.rounding.nearest["y"]
    assert [layer.params["quantize_term"] for layer in net.layers if layer.type == "Gemm"] == [term] * 2
    # The net computes what was measured.
    wanted, got = (np.stack([made.run(sample[None])["y"].reshape(16, 64) for sample in samples[7::8]]) for made in (onnx2ncnn.convert(encoder()), net))
    error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
    assert abs(error - net.rounding.errors["y"]) < 1e-3
    onnx.save(encoder(), tmp_path / "m.onnx")
    np.savez(tmp_path / "samples.npz", x=samples)
    files = [tmp_path / "a.param", tmp_path / "a.bin"]
    run = run_command("convert", tmp_path / "m.onnx", *files, "--data", tmp_path / "samples.npz", "--half-error", "0.5", "--weights", weights)
    assert run.returncode == 0, run.stderr
    assert f'{net.rounding.errors["y"]:.4f}  "y", {net.rounding.nearest["y"]:.4f} to the nearest integers' in run.stderr
    assert (net.param.encode(), net.bin) == tuple(file.read_bytes() for file in files)


@pytest.mark.parametrize("half", [3, 7])
def test_weights_are_rounded_to_the_nearest_integers_if_these_come_nearer(half, tmp_path):
    # Values that the rounding has not seen, in one half of the samples that are held out. The errors are those of samples 7 and 15.
    samples = correlated(16)
    samples[half::8] = np.random.default_rng(2).normal(size=samples[half::8].shape)
    net, plain = onnx2ncnn.tune(encoder(), {"x": samples}, weights="int4"), onnx2ncnn.convert(encoder(), weights="int4")
    assert net.half_precision is None and "may be too few" in net.warnings[0] and "192 rows" in net.warnings[0]
    rounding = net.rounding
    assert rounding.by_samples == (rounding.errors["y"] < rounding.nearest["y"]) == (half == 3)
    # The net is the nearer one of the two.
    assert (net.bin == plain.bin) == (half == 7)
    wanted, got = (np.stack([made.run(sample[None])["y"].reshape(16, 64) for sample in samples[7::8]]) for made in (onnx2ncnn.convert(encoder()), net))
    error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
    assert abs(error - min(rounding.errors["y"], rounding.nearest["y"])) < 1e-3
    onnx.save(encoder(), tmp_path / "m.onnx")
    np.savez(tmp_path / "samples.npz", x=samples)
    files = [tmp_path / "a.param", tmp_path / "a.bin"]
    run = run_command("convert", tmp_path / "m.onnx", *files, "--data", tmp_path / "samples.npz", "--weights", "int4")
    assert run.returncode == 0, run.stderr
    assert "may be too few" in run.stderr and "error in float16" not in run.stderr
    chosen = "by samples" if half == 3 else "to the nearest integers"
    assert f"with weights rounded {chosen}, on 2 samples held out" in run.stderr
    assert (net.param.encode(), net.bin) == tuple(file.read_bytes() for file in files)


@pytest.mark.parametrize("max_loss, terms", [(0.02, [401, 401]), (0.001, [401, 601]), (0.0001, [601, 601]), (0.00005, [601, None])])
def test_matrices_have_the_bits_that_a_loss_permits(max_loss, terms, tmp_path):
    samples = correlated(64)
    net = onnx2ncnn.tune(encoder(), {"x": samples}, weights="int4", max_loss=max_loss)
    found = [layer.params.get("quantize_term") for layer in net.layers if layer.type in ("Gemm", "InnerProduct")]
    assert sorted(found, key=str) == terms
    assert net.rounding.bits == {bits: found.count(term) for bits, term in ((4, 401), (6, 601), (32, None)) if term in found}
    wanted, got = ([made.run(sample[None])["y"].ravel() for sample in samples[3::4]] for made in (onnx2ncnn.convert(encoder()), net))
    loss = max(1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other) for one, other in zip(got, wanted))
    assert loss <= max_loss and abs(loss - net.rounding.loss) < 1e-5
    onnx.save(encoder(), tmp_path / "m.onnx")
    np.savez(tmp_path / "samples.npz", x=samples)
    files = [tmp_path / "a.param", tmp_path / "a.bin"]
    run = run_command("convert", tmp_path / "m.onnx", *files, "--data", tmp_path / "samples.npz", "--weights", "int4", "--max-loss", max_loss)
    assert run.returncode == 0, run.stderr
    assert f"for a loss of {net.rounding.loss:.2e}".replace("e-0", "e-") in run.stderr
    assert (net.param.encode(), net.bin) == tuple(file.read_bytes() for file in files)


def test_a_loss_that_no_rounding_has_is_an_error():
    with pytest.raises(ValueError, match="no matrix can be rounded with a loss of at most 1e-09"):
        onnx2ncnn.tune(encoder(), correlated(16), weights="int4", max_loss=1e-9)
    for weights, loss in (("int8", 0.01), ("int4", 1.0), ("int4", 0.0)):
        with pytest.raises(ValueError, match="max_loss is a number between 0 and 1, for weights"):
            onnx2ncnn.tune(encoder(), correlated(16), weights=weights, max_loss=loss)


def test_weights_of_a_model_without_matrices_are_not_rounded():
    with pytest.raises(ValueError, match="no product and no table"):
        onnx2ncnn.tune(NETWORK, SAMPLES, weights="int4")
    with pytest.raises(ValueError, match="omit scale"):
        onnx2ncnn.tune(encoder(), correlated(2), weights="int4", scale=1 / 255)
