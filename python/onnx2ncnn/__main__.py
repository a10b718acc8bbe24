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
    sys.exit(_native.main(["onnx2ncnn", *sys.argv[1:]], sys.executable, before(), str(_native.__file__)))


def before() -> list[str]:
    """The words of the interpreter before those of a command line: the same modules are loaded."""
    return ["-c", f"import sys; sys.path[:] = {sys.path!r}; from onnx2ncnn.__main__ import main; main()"]


if __name__ == "__main__":
    main()
