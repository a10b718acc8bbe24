"""Models of the repository, and the command of the wheel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FIXTURES = REPOSITORY / "fixtures"

# The functions that judge converted models.
sys.path.insert(0, str(REPOSITORY / "tests" / "conformance"))


def names():
    """The names of all fixtures."""
    return sorted(path.parent.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/*/model.onnx"))


def model(name):
    return FIXTURES / name / "model.onnx"


def run_command(*words, **arguments):
    """Runs the command that the wheel installs beside the interpreter."""
    command = Path(sys.executable).with_name("onnx2ncnn")
    return subprocess.run([command, *map(str, words)], capture_output=True, text=True, **arguments)


@pytest.fixture(scope="session")
def commanded(tmp_path_factory):
    """The results of the command for all fixtures: a folder, and the status and diagnostics of each by name."""
    out = tmp_path_factory.mktemp("commanded")
    run = run_command("batch", FIXTURES, "-o", out, "--json-lines", "--quiet")
    assert run.returncode == 2, run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return out, {row["name"].removesuffix("/model"): row for row in rows}
