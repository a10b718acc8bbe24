"""Runs the nets of the fixtures, and nets of free sizes, in each release of ncnn that their conversions claim.

usage: releases.py [--all] [--only TEXT] [--wheels FOLDER] CONVERTER

Every fixture is converted without an option, and runs in each release from the first one that the conversion names. With --all it is also
converted for each release, and then runs in that one and all later ones; without it, that is a tenth of the fixtures. The models of
sizes.py run in the same way, all or a tenth of them. A refusal is right, and so are nets whose inputs or outputs no Mat holds, or whose
conditions the sizes of the fixture do not satisfy. The wheels of the releases are installed into FOLDER, target/releases if it is not
given. Exit code 1 if a net is not right.
"""

import argparse
import collections
import itertools
import multiprocessing
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import sizes
from conditions import satisfies
from run import BIN, PARAM, Judge, convert, told_conditions, told_ports

ROOT = Path(__file__).resolve().parent.parent.parent
# The release that each wheel contains: 1.0.20260114 was built a day after the release.
WHEELS = {
    20240410: "1.0.20240410",
    20240820: "1.0.20240820",
    20241226: "1.0.20241226",
    20250428: "1.0.20250428",
    20250503: "1.0.20250503",
    20250916: "1.0.20250916",
    20260113: "1.0.20260114",
    20260526: "1.0.20260526",
}
BEARS_EMPTY = re.compile(r"may be 0: .* \(ncnn (\d+) or later\)")
LOADS = re.compile(r"loads in ncnn (\d+) and later")
PART = 10


class Release(Judge):
    """A judge whose runtime is of a release."""

    def __init__(self, release, folder):
        super().__init__()
        self.release, self.folder = release, str(folder)

    def start(self):
        # The child searches where its parent does.
        sys.path.insert(0, self.folder)
        super().start()
        sys.path.remove(self.folder)


def install(folder):
    """-> the judges of all releases."""
    for version in WHEELS.values():
        target = folder / version
        if not (target / "ncnn").exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*command, "--target", target, f"ncnn=={version}"], check=True)
    return {release: Release(release, folder / version) for release, version in WHEELS.items()}


class Matrix:
    """The nets that were run, and those that were not right."""

    def __init__(self, converter, judges):
        self.converter, self.judges = converter, judges
        self.counts, self.wrong, self.seen = collections.Counter(), {}, set()

    def run(self, name, case, folder, options, ask):
        """Converts a case, and asks each judge whose release the run claims; each net runs once in a release."""
        verdict, told = convert(self.converter, case, folder, *options)
        if verdict != "converted":
            self.counts[verdict] += 1
            if verdict != "refused":
                self.note(name, options, verdict, told)
            return
        least = int(LOADS.search(told.decode("utf8", "replace"))[1])
        if "--ncnn-version" in options and least > int(options[options.index("--ncnn-version") + 1]):
            self.note(name, options, "wrong", f"loads only in ncnn {least}")
        net = (folder / PARAM).read_bytes() + (folder / BIN).read_bytes()
        for release, judge in self.judges.items():
            if release < least or (name, release, net) in self.seen:
                continue
            self.seen.add((name, release, net))
            verdict, reason = ask(judge, told)
            self.counts[verdict] += 1
            if verdict in ("wrong", "broken"):
                self.note(name, options, f"{release} {verdict}", reason)

    def note(self, name, options, verdict, reason):
        self.wrong.setdefault((name, reason), []).append(f"{' '.join(map(str, options))} {verdict}".strip())


def has_empty_input(case):
    with np.load(case / "inputs.npz") as inputs:
        return any(inputs[name].size == 0 for name in inputs.files)


def options_of(is_part):
    return [()] + [("--ncnn-version", release) for release in WHEELS if is_part]


def run_fixtures(matrix, folder, arguments):
    cases = sorted(path.parent for path in (ROOT / "fixtures").glob("*/*/expected.param"))
    for place, case in enumerate(cases):
        name = f"{case.parent.name}/{case.name}"
        if arguments.only not in name:
            continue

        def ask(judge, told):
            conditions, ports = told_conditions(told), told_ports(told)
            if conditions and not satisfies(conditions, case, ports):
                return "condition", ""
            since = BEARS_EMPTY.search(told.decode("utf8", "replace"))
            if since and judge.release < int(since[1]) and has_empty_input(case):
                return "empty", ""
            verdict, reason = judge.ask("judge_net", case, folder / PARAM, folder / BIN, ports, sizes.TOLERANCE, False)
            return ("no Mat", reason) if "no Mat" in reason else (verdict, reason)

        for options in options_of(arguments.all or place % PART == 0):
            matrix.run(name, case, folder, [str(option) for option in options], ask)


def run_sizes(matrix, folder, arguments):
    case = folder.with_name("case")
    case.mkdir()
    models = itertools.islice(sizes.models(False), 0, None, 1 if arguments.all else PART)
    for model in models:
        if arguments.only not in model.name:
            continue
        model.write(case / "model.onnx")
        report = case / "report.json"

        def ask(judge, told):
            return judge.ask("judge_sizes", case / "model.onnx", folder / PARAM, folder / BIN, told_ports(told), sizes.allowed(case, report, False), sizes.TOLERANCE)

        for options in options_of(arguments.all):
            matrix.run(model.name, case, folder, [*map(str, options), "--report", report], ask)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--wheels", type=Path, default=ROOT / "target/releases")
    parser.add_argument("converter")
    arguments = parser.parse_args()
    matrix = Matrix(arguments.converter, install(arguments.wheels))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        out.mkdir()
        run_fixtures(matrix, out, arguments)
        run_sizes(matrix, out, arguments)
    for judge in matrix.judges.values():
        judge.stop()
    print(dict(matrix.counts))
    for (name, reason), runs in matrix.wrong.items():
        print(f"{name}: {reason} [{', '.join(runs)}]")
    sys.exit(bool(matrix.wrong))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
