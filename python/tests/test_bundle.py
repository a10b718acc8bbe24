"""Folders of exporters as bundles."""

import json
import subprocess
import sys
from pathlib import Path

import onnx2ncnn
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_folder_becomes_a_bundle(tmp_path):
    pytest.importorskip("PIL")
    exported = tmp_path / "exported"
    subprocess.run([sys.executable, ROOT / "tests/programs/bundle.py", exported, "decoder"], check=True)
    bundle = onnx2ncnn.convert_folder(exported, tmp_path / "bundle")
    assert [(net.name, net.model) for net in bundle.nets] == [("decoder", exported / "onnx" / "model.onnx")]
    assert bundle.folder / "run.py" in bundle.files
    assert json.loads((bundle.folder / "bundle.json").read_text())["task"] == "text-generation"
    assert {Path(file).name for file in bundle.files} == {file.name for file in bundle.folder.iterdir()}
    with pytest.raises(ValueError, match="the folder has files"):
        onnx2ncnn.convert_folder(exported, tmp_path / "bundle")
    (exported / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json is missing"):
        onnx2ncnn.convert_folder(exported, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_is_no_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for name, error in [("none", FileNotFoundError), ("file", NotADirectoryError)]:
        with pytest.raises(error, match=name):
            onnx2ncnn.convert_folder(tmp_path / name, tmp_path / "to")
