"""Quantization by samples."""

import logging
import os

import numpy as np
import onnx
import onnx2ncnn
import pytest
from conftest import model, run_command
from onnx import TensorProto, helper, numpy_helper

CONVOLUTIONAL = model("network/convolutional")
SAMPLES = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)


def image_network(shape, dtype=TensorProto.FLOAT):
    """The mean of each channel of an image, through a convolution."""
    channels_last = shape[-1] in (1, 3)
    channels = shape[-1] if channels_last else shape[1]
    nodes = [helper.make_node("Conv", ["c", "w"], ["f"]), helper.make_node("GlobalAveragePool", ["f"], ["y"])]
    before = "x"
    if dtype != TensorProto.FLOAT:
        nodes.insert(0, helper.make_node("Cast", ["x"], ["t"], to=TensorProto.FLOAT))
        before = "t"
    nodes.insert(-2, helper.make_node("Transpose", [before], ["c"], perm=[0, 3, 1, 2] if channels_last else [0, 1, 2, 3]))
    weight = numpy_helper.from_array(np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1), "w")
    x = helper.make_tensor_value_info("x", dtype, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], channels, 1, 1])
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def int8_layers(net):
    return sum("int8_scale_term" in layer.params for layer in net.layers)


def test_a_float_model_becomes_int8_layers(tmp_path):
    net = onnx2ncnn.quantize(CONVOLUTIONAL, {"x": SAMPLES}, depthwise=True, keep_onnx=True)
    quantization = net.quantization
    assert quantization.samples == 4 and quantization.method == "min-max"
    assert "int8 by 4 samples: the smallest cosine to the float model is" in net._repr_html_()
    assert set(quantization.cosines) == {"y"} and 0.99 < quantization.cosines["y"] <= 1
    assert quantization.errors and all(0 < error < 0.2 for error in quantization.errors.values())
    assert len(quantization.errors) == int8_layers(net) > 2
    assert net.report["quantization"]["nodes"][0].keys() == {"name", "error"}
    assert net.report["quantization"]["outputs"] == [{"name": "y", "cosine": quantization.cosines["y"]}]
    (name, *_) = quantization.errors
    kept = onnx2ncnn.quantize(CONVOLUTIONAL, SAMPLES, keep=name, method="percentile", depthwise=True)
    assert name not in kept.quantization.errors and int8_layers(kept) == int8_layers(net) - 1
    # The net outlives the files of the quantization.
    net.save(tmp_path / "a.param")
    assert net.bin == (tmp_path / "a.bin").read_bytes()
    again = onnx2ncnn.convert(net.onnx(), int8=True)
    assert again.bin == net.bin and again.param == net.param
    assert onnx2ncnn.verify(net.onnx(), net, int8=True, runtime=True)
    # It is compared with the quantized model, whichever of both is named.
    proof = onnx2ncnn.verify(CONVOLUTIONAL, net)
    assert proof and proof.counts["tested"] > 2 and net.proof is proof, proof


def test_results_equal_those_of_the_command(tmp_path):
    np.savez(tmp_path / "samples.npz", x=SAMPLES)
    run = run_command("quantize", CONVOLUTIONAL, tmp_path / "a.param", tmp_path / "a.bin", "--data", tmp_path / "samples.npz")
    assert run.returncode == 0, run.stderr
    net = onnx2ncnn.quantize(CONVOLUTIONAL.read_bytes(), tmp_path / "samples.npz")
    assert net.param == (tmp_path / "a.param").read_text() and net.bin == (tmp_path / "a.bin").read_bytes()
    for name, error in net.quantization.errors.items():
        assert f"{error:.4f}  {name}\n" in run.stderr
    assert f'output "y": cosine {net.quantization.cosines["y"]:.5f} or more, on 4 samples' in run.stderr


def test_the_command_reads_images_in_the_same_way(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.jpg"):
        Image.fromarray((SAMPLES[0].T * 40 + 128).clip(0, 255).astype(np.uint8)).save(tmp_path / "photos" / name)
    options = ["--data", tmp_path / "photos", "--mean", "120,110,-3.5", "--norm", "0.02", "--bgr"]
    run = run_command("quantize", CONVOLUTIONAL, tmp_path / "a.param", tmp_path / "a.bin", *options)
    assert run.returncode == 0 and "on 2 samples" in run.stderr, run.stderr
    net = onnx2ncnn.quantize(CONVOLUTIONAL, tmp_path / "photos", mean=[120, 110, -3.5], norm=0.02, bgr=True)
    assert "the images were read with mean=[120, 110, -3.5], norm=0.02, bgr=True: a program" in net.warnings[0]
    assert net.param == (tmp_path / "a.param").read_text() and net.bin == (tmp_path / "a.bin").read_bytes()
    # The scales are weights.
    assert onnx2ncnn.quantize(CONVOLUTIONAL, tmp_path / "photos").bin != net.bin


def test_every_kind_of_samples_gives_the_same_net(tmp_path):
    (tmp_path / "arrays").mkdir()
    for index, sample in enumerate(SAMPLES):
        np.save(tmp_path / "arrays" / f"{index}.npy", sample)
    expected = onnx2ncnn.quantize(CONVOLUTIONAL, SAMPLES)
    kinds = [
        {"x": SAMPLES},
        [{"x": sample[None]} for sample in SAMPLES],
        ({"x": sample} for sample in SAMPLES),
        iter(SAMPLES),
        SAMPLES.astype(np.float64),
        str(tmp_path / "arrays"),
    ]
    for data in kinds:
        net = onnx2ncnn.quantize(CONVOLUTIONAL, data)
        assert (net.param, net.bin, net.quantization) == (expected.param, expected.bin, expected.quantization)


@pytest.mark.parametrize("shape", [[1, 3, 8, 4], ["N", 8, 4, 3], [1, 1, 8, 4]])
def test_images_are_resized_and_normalized(shape, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    channels = 1 if 1 in shape[1:] else 3
    colour = (250, 100, 20)
    for name, factor in (("a.png", 1.0), ("b.PNG", 0.5)):
        Image.new("RGB", (10, 6), tuple(int(part * factor) for part in colour)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    mean, norm = ([10.0, 20.0, 30.0][:channels], [0.5, 0.25, 0.125][:channels])
    gray = np.asarray(Image.new("RGB", (1, 1), colour).convert("L"))[0, 0]
    for bgr in (False, True):
        net = onnx2ncnn.quantize(image_network(shape), tmp_path, mean=mean, norm=norm, bgr=bgr, keep_onnx=True)
        assert net.quantization.samples == 2
        pixel = np.array([gray] if channels == 1 else colour[::-1] if bgr else colour, np.float32)
        expected = (pixel - mean) * norm
        proto = onnx.load_model_from_string(net.onnx())
        scales = [numpy_helper.to_array(tensor).max() for tensor in proto.graph.initializer if "scale" in tensor.name]
        # The range of the input is its largest magnitude over the 127 levels of int8.
        assert any(np.isclose(scale, np.abs(expected).max() / 127, rtol=0.02) for scale in scales), scales


def test_pixels_of_inputs_of_integers_stay_as_they_are(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGB", (4, 8), (254, 3, 7)).save(tmp_path / "a.bmp")
    net = onnx2ncnn.quantize(image_network([1, 3, 8, 4], TensorProto.UINT8), tmp_path / "a.bmp")
    x = np.empty((1, 3, 8, 4), np.uint8)
    x[0] = np.array([254, 3, 7], np.uint8)[:, None, None]
    np.testing.assert_allclose(net.run(x)["y"].ravel(), [254, 3, 7], atol=2)


def test_options_select_the_model_and_the_net():
    shapes = {"input_shapes": {"x": [1, 3, 16, 16]}, "rename": {"x": "in0"}, "outputs": ["y"]}
    net = onnx2ncnn.quantize(CONVOLUTIONAL, SAMPLES, **shapes)
    assert net.inputs[0].blob == "in0" and net.quantization.cosines["y"] > 0.99
    for option in ({"int8": True}, {"dequantize": False}, {"none": 1}):
        with pytest.raises(TypeError):
            onnx2ncnn.quantize(CONVOLUTIONAL, SAMPLES, **option)


@pytest.mark.parametrize(
    "data, options, message",
    [
        (SAMPLES, {"method": "mean"}, "method is one of"),
        (SAMPLES, {"keep": "nothing"}, '"nothing"'),
        (SAMPLES, {"norm": 0.1}, "are for images"),
        (SAMPLES[:, :2], {}, "an array of shape"),
        (SAMPLES[:0], {}, "no samples"),
        ([], {}, "no samples"),
        ({"z": SAMPLES}, {}, 'has no array "x"'),
        ({"x": np.array(["text"])}, {}, "not of type float32"),
        (CONVOLUTIONAL, {}, "cannot be read"),
    ],
)
def test_samples_and_options_that_do_not_fit_are_value_errors(data, options, message):
    with pytest.raises(ValueError, match=message):
        onnx2ncnn.quantize(CONVOLUTIONAL, data, **options)


def test_other_errors(tmp_path):
    with pytest.raises(ValueError, match="no .npz"):
        onnx2ncnn.quantize(CONVOLUTIONAL, tmp_path)
    with pytest.raises(FileNotFoundError):
        onnx2ncnn.quantize(CONVOLUTIONAL, tmp_path / "none")
    with pytest.raises(ValueError, match="no node of the model can be an int8 layer"):
        onnx2ncnn.quantize(model("control/dropout"), {"x": np.zeros((2, 4))})
    with pytest.raises(onnx2ncnn.Refused):
        onnx2ncnn.quantize(model("refused/unknown_operator"), np.zeros(3))
    for data in (1, ["text"], [1]):
        with pytest.raises(TypeError):
            onnx2ncnn.quantize(CONVOLUTIONAL, data)
    with pytest.raises(TypeError, match="mean"):
        onnx2ncnn.quantize(CONVOLUTIONAL, tmp_path, mean="text")
    with pytest.raises(ValueError, match="norm"):
        onnx2ncnn.quantize(CONVOLUTIONAL, tmp_path, norm=float("nan"))


def test_the_process_stays_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = (logging.root.manager.disable, logging.root.handlers[:], np.random.get_state()[1].tolist())
    onnx2ncnn.quantize(CONVOLUTIONAL, SAMPLES)
    assert (logging.root.manager.disable, logging.root.handlers[:], np.random.get_state()[1].tolist()) == before
    assert os.listdir(tmp_path) == []
