"""The choice for half precision by samples."""

import numpy as np
import onnx2ncnn
import pytest
from conftest import model, run_command

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
        (SAMPLES, {"int8": True}, TypeError, "no option int8"),
        (3, {}, TypeError, "data are arrays"),
    ],
)
def test_what_does_not_fit_is_an_error(data, options, error, message):
    with pytest.raises(error, match=message):
        onnx2ncnn.tune(NETWORK, data, **options)
