"""Writes the cases of families to a folder: `run.py FOLDER [FAMILY...]`, by default of all."""

import importlib
import itertools
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(__file__))
import core

FAMILIES = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*.py") if path.stem not in ("core", "run"))


if __name__ == "__main__":
    modules = [importlib.import_module(name) for name in sys.argv[2:] or FAMILIES]
    count = core.run(itertools.chain.from_iterable(module.cases() for module in modules), sys.argv[1])
    print(f"{count} cases")
