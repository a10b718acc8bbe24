"""The code of the documentation runs."""

import importlib.util
import inspect
import os
import re
import shutil

import onnx2ncnn
import pytest
from conftest import REPOSITORY, model

DOCS = REPOSITORY / "docs"
PAGES = sorted(path.name for path in DOCS.glob("python*.md"))
# Sections that stand alone, and what they need.
ALONE = {
    "From PyTorch": ["torch", "onnxscript"],
    "From ultralytics": ["ultralytics"],
    "From Keras": ["keras", "torch", "onnxscript"],
    "From scikit-image": ["skimage"],
}
# The words that a sentence may have.
MOST_WORDS = 30


def blocks(path):
    """The indented blocks of a page that are Python, by their sections."""
    section, lines, found = "", [], []
    for line in [*path.read_text().splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line):
            lines.append(line[4:])
            continue
        code = "\n".join(lines).strip()
        if code and not code.startswith("python3 -m pip install "):
            found.append((section, code))
        lines = []
        if line.startswith("## "):
            section = line[3:]
    return found


# The sections of a page in one room, as a reader pastes them, and those that stand alone.
PASTED = sorted({(page, name if name in ALONE else "") for page in PAGES for name, _ in blocks(DOCS / page)})


@pytest.mark.parametrize("page, section", PASTED)
def test_blocks_of_a_page_run_in_their_order(page, section, tmp_path, monkeypatch):
    missing = [package for package in ALONE.get(section, []) if not importlib.util.find_spec(package)]
    if missing:
        pytest.skip(f"without {', '.join(missing)}")
    pasted = [code for name, code in blocks(DOCS / page) if (name if name in ALONE else "") == section]
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for at, code in enumerate(pasted):
        exec(compile(code, f"block {at} of {page}", "exec"), names)


def test_pages_have_blocks():
    assert {section for _, section in PASTED if section} == set(ALONE)
    assert {page for page, _ in PASTED} == set(PAGES) and "python.md" in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_short(page):
    text = (DOCS / page).read_text()
    assert len(text.splitlines()) <= 150
    prose = [part for part in text.split("\n\n") if not part.startswith(("    ", "|", "#"))]
    for paragraph in prose:
        for sentence in re.split(r"(?<=[.:;?])\s+", " ".join(paragraph.split())):
            assert len(sentence.split()) <= MOST_WORDS, sentence


def test_code_of_the_readme(tmp_path, monkeypatch):
    shutil.copy(model("network/convolutional"), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    code = [code for _, code in blocks(REPOSITORY / "python" / "README.md")]
    assert code
    for block in code:
        exec(compile(block, "python/README.md", "exec"), {})


def test_every_public_name_is_documented():
    for name in set(onnx2ncnn.__all__) - {"torch", "ultralytics"}:
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
