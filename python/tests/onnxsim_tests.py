"""Runs the tests of onnxsim with `onnx2ncnn.simplify` in the place of `onnxsim.simplify`.

usage: python onnxsim_tests.py [FILE [ARGUMENT...]]

FILE is tests/test_python_api.py of onnxsim at the commit below; without it, it is fetched. The arguments are those of pytest: some
tests take gigabytes and minutes, and `-k "not rcnn and not 2gb"` leaves them out. Needs torch and torchvision. The exit code is 0 if
exactly the tests of OTHERS fail.
"""

import functools
import hashlib
import sys
import tempfile
import types
import urllib.request
from pathlib import Path

import onnx2ncnn
import pytest
import torch

URL = "https://raw.githubusercontent.com/daquexian/onnx-simplifier/{}/tests/test_python_api.py"
COMMIT = "f89308cfba9f28ebaea734d8ab7069b5f651e067"
SHA256 = "21d34febe5850950bb7985ec80da91cd7c0ae2692f82b2f57949a27e3a3f75dc"

# The tests that expect another result, with the reasons.
OTHERS = {
    "test_unused_output": "it expects 4 nodes for ((x + 2) - 2) * 2 / 2, which becomes one here",
    "test_exprimental_simplify_subgraph": "it expects bodies of an If without Constant nodes; bodies stay as they are here",
}


class Plugin:
    def pytest_collection_modifyitems(self, items):
        for item in items:
            if item.name in OTHERS:
                item.add_marker(pytest.mark.xfail(reason=OTHERS[item.name], strict=True, raises=AssertionError))


def main(file=None, *arguments):
    text = Path(file).read_bytes() if file else urllib.request.urlopen(URL.format(COMMIT)).read()
    if hashlib.sha256(text).hexdigest() != SHA256:
        sys.exit("the file is not that of the commit")
    sys.modules["onnxsim"] = types.ModuleType("onnxsim")
    sys.modules["onnxsim"].simplify = onnx2ncnn.simplify
    # The tests were written for the exporter that was the default then.
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_python_api.py"
        path.write_bytes(text)
        return pytest.main(["-q", "-rxX", "-W", "ignore", str(path), *arguments], plugins=[Plugin()])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
