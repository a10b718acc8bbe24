"""Export of PyTorch modules."""

import numpy as np
import onnx2ncnn
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, image, scale=None):
        image = self.drop(torch.relu(self.norm(self.conv(image))))
        return image if scale is None else (image * scale, image.mean((2, 3)))


def test_module_becomes_files(tmp_path):
    module = Small().train()
    image = torch.randn(1, 3, 8, 8)
    net = onnx2ncnn.torch.export(module, (image,), tmp_path / "a.param", input_names=["image"], output_names=["out"])
    assert module.training and module.drop.training
    assert (tmp_path / "a.bin").read_bytes() == net.bin
    module.eval()
    np.testing.assert_allclose(net.run(image.numpy())["out"], module(image).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_free_sizes_and_keyword_arguments():
    module = Small()
    shapes = {"image": {2: torch.export.Dim("H"), 3: torch.export.Dim("W")}, "scale": None}
    net = onnx2ncnn.torch.export(
        module, (torch.randn(1, 3, 8, 10),), kwargs={"scale": torch.tensor(2.0)}, dynamic_shapes=shapes
    )
    assert any(isinstance(size, str) for size in net.inputs[0].shape) and len(net.outputs) == 2
    results = net.run(dict(zip([port.name for port in net.inputs], [np.ones((1, 3, 6, 4)), np.float32(1)])))
    assert next(iter(results.values())).shape == (1, 4, 6, 4)


def test_difference_writes_no_file(tmp_path):
    class Random(torch.nn.Module):
        calls = 0

        def forward(self, x):
            if torch.compiler.is_exporting():
                return x + 1
            return x + 2

    with pytest.raises(ArithmeticError, match="differs from that of the module"):
        onnx2ncnn.torch.export(Random(), torch.zeros(1, 3), tmp_path / "a.param")
    assert list(tmp_path.iterdir()) == []
    net = onnx2ncnn.torch.export(Random(), torch.zeros(1, 3), tmp_path / "a.param", tolerance=None)
    assert net.run(np.zeros((1, 3)))[net.outputs[0].name].tolist() == [[1, 1, 1]]
