"""The code of the documentation runs."""

import inspect
import os
import shutil

import numpy as np
import onnx2ncnn
import pytest
from conftest import REPOSITORY, model


def blocks(path):
    """The indented blocks of a page that are Python, by their sections."""
    section, lines, found = "", [], []
    for line in [*path.read_text().splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line):
            lines.append(line[4:])
            continue
        code = "\n".join(lines).strip()
        if code and not code.startswith(("python3 ", "cargo ", "onnx2ncnn ")):
            found.append((section, code))
        lines = []
        if line.startswith("## "):
            section = line[3:]
    return found


PAGE = blocks(REPOSITORY / "docs" / "python.md")
NEEDED = {"From PyTorch": "onnxscript", "Quantize": "PIL", "From Keras": "keras", "From scikit-image": "skimage"}


@pytest.mark.parametrize("section", dict.fromkeys(section for section, _ in PAGE))
def test_code_of_the_page(section, tmp_path, monkeypatch):
    for package in {"From PyTorch": ["torch"]}.get(section, []) + [NEEDED.get(section, "numpy")]:
        pytest.importorskip(package)
    (tmp_path / "models").mkdir()
    for place in ("model.onnx", "models/model.onnx"):
        shutil.copy(model("network/convolutional"), tmp_path / place)
    if section == "Quantize":
        from PIL import Image

        (tmp_path / "photos").mkdir()
        Image.linear_gradient("L").save(tmp_path / "photos" / "gradient.png")
    monkeypatch.chdir(tmp_path)
    names = {"onnx2ncnn": onnx2ncnn, "np": np}
    for other, code in PAGE:
        if other == section:
            exec(compile(code, f"{section} of docs/python.md", "exec"), names)


def test_code_of_the_readme(tmp_path, monkeypatch):
    shutil.copy(model("network/convolutional"), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    code = [code for _, code in blocks(REPOSITORY / "python" / "README.md")]
    assert code
    for block in code:
        exec(compile(block, "python/README.md", "exec"), {})


def test_every_public_name_is_documented():
    for name in set(onnx2ncnn.__all__) - {"torch"}:
        value = getattr(onnx2ncnn, name)
        assert value.__doc__ and value.__module__.startswith("onnx2ncnn"), name
        for attribute, inner in vars(value).items() if isinstance(value, type) else ():
            if not attribute.startswith("_") and (callable(inner) or hasattr(inner, "__get__")):
                inner = getattr(inner, "func", getattr(inner, "fget", inner))
                # The attributes of a data class are described by its own text.
                assert inner.__doc__ or attribute in value.__doc__, f"{name}.{attribute}"


def test_every_option_is_documented_and_has_its_type():
    parameters = inspect.signature(onnx2ncnn.convert).parameters
    options = [parameter for parameter in parameters.values() if parameter.kind is parameter.KEYWORD_ONLY]
    assert len(options) > 20
    for option in options:
        assert f"        {option.name}: " in onnx2ncnn.convert.__doc__, option.name
    path = REPOSITORY / "python" / "onnx2ncnn" / "_native.pyi"
    before, rest = path.read_text().split("writes them.\"\"\"\n")
    written, after = rest.split("\nclass Converter", 1)
    expected = "\n" + "".join(f"    {option.name}: {option.annotation}\n" for option in options)
    if os.environ.get("BLESS"):
        path.write_text(f'{before}writes them."""\n{expected}\nclass Converter{after}')
        return
    assert written == expected
