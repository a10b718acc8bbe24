"""Nets of one model for several sizes, over one `.bin` file."""

import numpy as np
import onnx2ncnn
import pytest
from conftest import model, run_command

SIZES = {"small": {"x": [1, 12, 4]}, "large": {"x": [1, 16, 4]}}


def test_variants_are_run_and_saved_as_by_the_command(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = model("free/rows_by_distance")
    variants = onnx2ncnn.convert_variants(path, SIZES)
    assert repr(variants) == "<onnx2ncnn.Variants small, large>" and min(variants.skipped.values()) > 0
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for name, shapes in SIZES.items():
        given = np.random.default_rng(0).normal(size=shapes["x"]).astype(np.float32)
        [expected] = session.run(None, {"x": given})
        np.testing.assert_allclose(variants.nets[name].run({"x": given})["y"], expected, rtol=1e-5, atol=1e-6)
    variants.save(tmp_path / "a.param")
    words = [f"--variant={name}=x:{','.join(map(str, shapes['x']))}" for name, shapes in SIZES.items()]
    command = run_command(path, tmp_path / "b.param", *words)
    assert command.returncode == 0, command.stderr
    for ending in ("small.param", "large.param", "small+large.bin"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_wrong_variants_are_refused():
    path = model("free/rows_by_distance")
    with pytest.raises(onnx2ncnn.Refused, match="lacks 480000 bytes"):
        onnx2ncnn.convert_variants(path, {"a": {"x": [1, 100, 4]}, "b": {"x": [1, 200, 4]}})
    for wrong, error, reason in [
        ([[1, 8, 4]], TypeError, "variants"),
        ({8: {"x": [1, 8, 4]}}, TypeError, "variants has names as keys, not int"),
        ({"a": {"x": [1, None, 4]}}, TypeError, "a size is an integer"),
        ({}, ValueError, "variants has no nets"),
    ]:
        with pytest.raises(error, match=reason):
            onnx2ncnn.convert_variants(path, wrong)
    with pytest.raises(ValueError, match="letters, digits"):
        onnx2ncnn.convert_variants(path, {"a b": {"x": [1, 8, 4]}})
