"""Conversion of many models."""

import shutil
import sys

import numpy as np
import onnx2ncnn
import pytest
from conftest import model


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    (folder / "a").mkdir(parents=True)
    shutil.copy(model("network/convolutional"), folder / "a" / "good.onnx")
    shutil.copy(model("refused/unknown_operator"), folder / "bad.onnx")
    return folder


def test_every_model_is_a_row(models, tmp_path):
    out = tmp_path / "out"
    bad_and_good = lambda rows: sorted(rows, key=lambda row: row.status, reverse=True)
    bad, good = bad_and_good(onnx2ncnn.convert_many(models, out, workers=2))
    assert (bad.name, bad.status, bad.param) == ("bad", "refused", None)
    assert bad.diagnostics[0].kind == "unsupported" and "Shrug" in bad.diagnostics[0].reason and bad.output
    assert (good.name, good.status, good.diagnostics) == ("a/good", "converted", [])
    assert good.param.read_text() == onnx2ncnn.convert(models / "a/good.onnx").param
    assert good.layers > 0 and good.bytes == good.param.stat().st_size + good.bin.stat().st_size
    again, _ = bad_and_good(onnx2ncnn.convert_many(models, out, progress=False))
    assert (again.status, again.param) == ("up to date", good.param)


def test_models_are_paths_or_a_pattern(models, tmp_path):
    (row,) = onnx2ncnn.convert_many([models / "a" / "good.onnx"], tmp_path / "one", base=models)
    assert row.name == "a/good" and row.bin.exists()
    (row,) = onnx2ncnn.convert_many(f"{models}/a/*.onnx", tmp_path / "two")
    assert row.name == "good" and row.bin.exists()
    assert onnx2ncnn.convert_many([], tmp_path / "three") == []


def test_options_are_those_of_convert(models, tmp_path):
    options = {"fp16": True, "float32": ["c1"], "rename": {"x": "in0"}, "input_shapes": {"x": [1, 3, 32, "W"]}, "outputs": ["y"]}
    (row,) = onnx2ncnn.convert_many([models / "a/good.onnx"], tmp_path, **options)
    net = onnx2ncnn.convert(models / "a/good.onnx", **options)
    assert row.param.read_text() == net.param and row.bin.read_bytes() == net.bin
    for x in (0.5, np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)):
        (row,) = onnx2ncnn.convert_many([models / "a/good.onnx"], tmp_path / "set", set={"x": x})
        assert row.bin.read_bytes() == onnx2ncnn.convert(models / "a/good.onnx", set={"x": x}).bin


def test_errors_of_the_whole(models, tmp_path):
    with pytest.raises(ValueError, match="no matching file"):
        onnx2ncnn.convert_many(tmp_path / "models" / "*.none.onnx", tmp_path / "out")
    with pytest.raises(OSError):
        onnx2ncnn.convert_many(tmp_path / "none", tmp_path / "out")
    with pytest.raises(ValueError, match="simplified"):
        onnx2ncnn.convert_many(models, tmp_path / "out", keep_onnx=True)
    (row,) = onnx2ncnn.convert_many([models / "none.onnx"], tmp_path / "out")
    assert row.status == "failed" and "i/o error" in row.output


def test_a_killed_command_is_an_error(models, tmp_path, monkeypatch):
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr("onnx2ncnn._many.command", lambda: [sys.executable, "-c", script])
    with pytest.raises(RuntimeError, match="after 0 models"):
        onnx2ncnn.convert_many(models, tmp_path / "out")
