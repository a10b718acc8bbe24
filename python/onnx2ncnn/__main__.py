"""The command `onnx2ncnn`."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from . import _native


def main() -> NoReturn:
    """Runs the command line of this process and ends it with its exit code."""
    # The handler of Python runs only between instructions of Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Comparisons run in this interpreter unless the user chooses another.
    os.environ.setdefault("ONNX2NCNN_PYTHON", sys.executable)
    sys.exit(_native.main(["onnx2ncnn", *sys.argv[1:]], sys.executable, _child(), str(_native.__file__)))


# Loads the extension alone: an interpreter takes longer to import the package than to convert a small model.
_CHILD = """
import importlib.util, signal, sys
spec = importlib.util.spec_from_file_location("_native", {library!r})
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(native.main(["onnx2ncnn", *sys.argv[1:]], sys.executable, [], {library!r}))
"""


def _child() -> list[str]:
    """The words of the interpreter before those of the command line of one model of a batch."""
    return ["-S", "-c", _CHILD.format(library=_native.__file__)]


def command() -> list[str]:
    """The words of a process that runs the command with the modules of this one."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from onnx2ncnn.__main__ import main; main()"
    return [sys.executable, "-c", code]


if __name__ == "__main__":
    main()
