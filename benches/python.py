"""Measures the Python package beside the command: import, a large model, threads.

usage: python benches/python.py [GIGABYTES]

Run it with the interpreter that has the package, numpy and onnx. Times are the least of several runs.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnx2ncnn
from onnx import TensorProto, helper, numpy_helper

RUNS = 5
SIDE = 8192


def least(work, runs=RUNS):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def python(script, *words):
    """The output of a script in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write_model(path, gigabytes):
    """A chain of matrix products."""
    count = max(1, round(gigabytes * (1 << 30) / (4 * SIDE * SIDE)))
    random = np.random.default_rng(0)
    weights = [random.standard_normal((SIDE, SIDE), np.float32) for _ in range(count)]
    nodes = [helper.make_node("Gemm", [f"v{i}", f"w{i}"], [f"v{i + 1}"], transB=1) for i in range(count)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIDE])
    initializers = [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", [value("v0")], [value(f"v{count}")], initializers)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


def measure_import():
    script = "import time; start = time.perf_counter(); import onnx2ncnn; print(time.perf_counter() - start)"
    print(f"import              {min(float(python(script)) for _ in range(RUNS)) * 1000:.1f} ms")


CONVERT = r"""
    import re, sys, time
    import onnx2ncnn

    # The peak of `getrusage` includes that of the parent process.
    def peak():
        with open("/proc/self/status") as file:
            return int(re.search(r"VmHWM:\s*(\d+) kB", file.read())[1]) / 1024

    before = peak()
    given = sys.argv[1] if sys.argv[3] == "path" else open(sys.argv[1], "rb").read()
    given_peak = peak()
    start = time.perf_counter()
    onnx2ncnn.convert(given).save(sys.argv[2] + "/b.param")
    seconds = time.perf_counter() - start
    print(seconds, peak() - before, peak() - given_peak)
"""


def measure_large(folder, gigabytes):
    path = folder / "large.onnx"
    write_model(path, gigabytes)
    command = [os.environ.get("ONNX2NCNN", Path(sys.executable).with_name("onnx2ncnn")), "--quiet", path, folder / "a.param"]
    # In turn, so that other work on the machine slows all of them.
    times, runs = [], {"path": [], "bytes": []}
    for _ in range(RUNS):
        times.append(least(lambda: subprocess.run(command, check=True), 1))
        for kind, measured in runs.items():
            measured.append([float(word) for word in python(CONVERT, path, folder, kind).split()])
    alone = min(times)
    print(f"command             {alone:.2f} s for {gigabytes} GB")
    for kind, measured in runs.items():
        seconds, beside, own = (min(column) for column in zip(*measured))
        print(f"convert({kind}).save {seconds:.2f} s, {seconds / alone:.2f} times the command")
        print(f"  peak              {beside:.0f} MiB beside the interpreter, {own:.0f} MiB beside the model")
    for half in ("param", "bin"):
        assert (folder / f"a.{half}").read_bytes() == (folder / f"b.{half}").read_bytes()


def measure_threads(folder):
    """Two conversions of a model of many nodes."""
    count = 20000
    nodes = [helper.make_node(["Relu", "Sigmoid"][i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 8])
    graph = helper.make_graph(nodes, "g", [value("v0")], [value(f"v{count}")])
    data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()

    def convert():
        for _ in range(3):
            onnx2ncnn.convert(data)

    def both():
        threads = [threading.Thread(target=convert) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def in_turn():
        convert()
        convert()

    turn, together = least(in_turn), least(both)
    print(f"threads             {turn:.2f} s one after the other, {together:.2f} s at once")


if __name__ == "__main__":
    measure_import()
    with tempfile.TemporaryDirectory() as name:
        measure_threads(Path(name))
        measure_large(Path(name), float(sys.argv[1]) if len(sys.argv) > 1 else 1)
