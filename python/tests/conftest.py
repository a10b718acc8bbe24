"""Models of the repository, and the command of the wheel."""

import json
import re
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


needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def peak():
    """The peak bytes of this process in memory. That of `getrusage` includes the parent process."""
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\s*(\d+) kB", file.read())[1]) * 1024


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A model with weights of 256 MiB, which is much beside the memory of an interpreter."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    side = 8192
    weight = numpy_helper.from_array(np.ones((side, side), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, side])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, side])
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    path = tmp_path_factory.mktemp("large") / "large.onnx"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert path.stat().st_size > 256 << 20
    return path
