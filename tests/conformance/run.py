"""Converts cases, runs the results in ncnn, and writes a verdict on each.

usage: run.py [--exact] CONVERTER VERDICTS TOLERANCE [OPTION...] < CASES

CASES has a line a case: its name, a tab, its folder. VERDICTS gets a line a case: its name, the verdict, the reason, with tabs
between them. TOLERANCE is how far outputs may be off, as a part of their largest magnitude; the options go to the converter,
FOLDER in them stands for the folder of the results. Integers and booleans must be the nearest float32, or with --exact, equal.

pass      ncnn computes every output as expected, and onnxruntime does from the simplified graph; with --dequantize, ncnn computes
          what onnxruntime does from that graph
refused   the converter said why it does not convert the model, and left no file
crashed   the converter ended in another way than by converting or refusing
broken    it converted, but the result cannot be loaded, fed or run, or takes the runtime down
wrong     the result runs, and a shape or a number is wrong
"""

import multiprocessing
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from conditions import parts

# The timeout of a hang: debug builds on a busy machine are slow.
SECONDS = 600
PARAM, BIN = "net.param", "net.bin"

# A row of the table of inputs and outputs: name, type and shape in the model, name and sizes in the net.
PORT = re.compile(
    r'(?P<kind>input|output) +"(?P<name>.*)"  +\S+ +\[(?P<shape>.*)\] +-> +("(?P<blob>.*)" )?(?P<sizes>[whdc]=.*?)(?P<int32> as int32)?'
)

# A size that is too long for the table.
LONG_SIZE = re.compile(r"(#\d+) = (.*)")


class Judge:
    """A child process that answers calls of the functions of judge.py; it is restarted after a crash."""

    def __init__(self):
        self.process = None

    def ask(self, function, *arguments):
        if self.process is None:
            self.start()
        self.connection.send((function, arguments))
        try:
            if self.connection.poll(SECONDS):
                return self.connection.recv()
            reason = f"{function}: no end after {SECONDS} s"
        except EOFError:
            reason = f"{function}: the process died"
        self.stop()
        return "broken", reason

    def start(self):
        self.connection, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def serve(connection):
    # Only the child imports ncnn and onnxruntime.
    import judge

    judge.serve(connection)


def first_words(output):
    lines = output.decode("utf8", "replace").splitlines()
    return next((line.replace("\t", " ") for line in lines if line and not line.startswith("warning")), "")


def told_ports(output):
    """The table of inputs and outputs, by kind and name."""
    lines = output.decode("utf8", "replace").splitlines()
    rows = [row.groupdict() for row in map(PORT.fullmatch, lines) if row]
    long = dict(row.groups() for row in map(LONG_SIZE.fullmatch, lines) if row)
    for row in rows:
        row["shape"] = [long.get(part, part) for part in parts(row["shape"])]
        row["sizes"] = {axis: long.get(size, size) for axis, size in re.findall(r"([whdc])=(.*?)(?= [whdc]=|$)", row["sizes"])}
    return {(row["kind"], row["name"]): row for row in rows}


def told_conditions(output):
    """The conditions on free sizes, as they are printed."""
    lines = [line.partition("valid if: ")[2] for line in output.decode("utf8", "replace").splitlines()]
    return "".join(lines)


def has_assumptions(output):
    return any(line.startswith((b"assumed:", b"expected:")) for line in output.splitlines())


def convert(converter, case, folder, *options):
    """-> ("converted", output) or another verdict with its reason."""
    for left in folder.iterdir():
        left.unlink()
    options = [str(option).replace("FOLDER", str(folder)) for option in options]
    command = [converter, "--check", "--verbose", *options, case / "model.onnx", folder / PARAM, folder / BIN]
    try:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "crashed", f"no end after {SECONDS} s"
    if run.returncode == 0:
        return "converted", run.stdout + run.stderr
    words = first_words(run.stderr)
    if run.returncode not in (1, 2):
        return "crashed", f"exit code {run.returncode}: {words}"
    left = [path.name for path in folder.iterdir()]
    if left:
        return "broken", f"refused, and left {', '.join(left)}"
    return ("refused", words) if words else ("crashed", "refused without a reason")


def judge_case(converter, case, folder, judge, tolerance, exact, options):
    simplified = folder / "simplified.onnx"
    verdict, told = convert(converter, case, folder, *options, "--emit-onnx", simplified)
    if verdict == "refused":
        # No operator set of ONNX may fit all nodes of the simplified graph, which does not matter for ncnn.
        verdict, told = convert(converter, case, folder, *options)
    if verdict != "converted":
        return verdict, told
    verdict, reason = judge.ask("judge_net", case, folder / PARAM, folder / BIN, told_ports(told), tolerance, exact)
    if verdict == "pass" and "--dequantize" in options:
        verdict, reason = judge.ask("judge_float", case, simplified, folder / PARAM, folder / BIN, told_ports(told))
    elif verdict == "pass" and simplified.exists():
        verdict, reason = judge.ask("judge_simplified", case, simplified)
    # A net may be wrong where a fact does not hold that the converter states as assumed or expected.
    if verdict == "wrong" and has_assumptions(told):
        reason = f"assumed: {reason}"
    # The net holds for the sizes that satisfy the conditions: the caller knows the sizes of the case.
    if verdict in ("broken", "wrong") and told_conditions(told):
        reason = f"{reason} [valid if: {told_conditions(told)}]"
    return verdict, reason


def main():
    arguments = sys.argv[1:]
    exact = arguments[0] == "--exact"
    converter, verdicts, tolerance, *options = arguments[exact:]
    judge = Judge()
    with tempfile.TemporaryDirectory() as folder, open(verdicts, "w", encoding="utf8") as file:
        for line in sys.stdin:
            name, case = line.rstrip("\n").split("\t")
            verdict, reason = judge_case(converter, Path(case), Path(folder), judge, float(tolerance), exact, options)
            print(name, verdict, " ".join(reason.split()), sep="\t", file=file, flush=True)
    judge.stop()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
