"""Measures the Python package beside the command: import, threads, leaks, and a large model.

usage: python benches/python.py [GIGABYTES]

Run it with the interpreter that has the package, numpy and onnx. ONNX2NCNN is the command; by default that of the wheel. Both sides
of a comparison run in turn, each first in every other round. The first ratio is that of the least times: other work on the machine, and
new pages of a virtual one, which cost up to three seconds a gigabyte, only add to a time. The second is the median of the ratios of the
rounds. Times of the processor leave waiting out. Files are in memory if /dev/shm has room for them: a disk writes a gigabyte in its own
time, during the next run.
"""

import gc
import os
import resource
import shutil
import statistics
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

RUNS = 9
SIDE = 8192
MEGABYTE = 1 << 20
FIXTURES = Path(__file__).parents[1] / "fixtures"


def compare(name, first, second):
    """Prints the ratio of the times of two functions that return the seconds of the clock and of the processor."""
    rounds = []
    for index in range(RUNS):
        pair = [first, second] if index % 2 else [second, first]
        times = [work() for work in pair]
        rounds.append(times if index % 2 else times[::-1])
    columns = []
    for kind in (0, 1):
        one, other = ([times[side][kind] for times in rounds] for side in (0, 1))
        ratios = sorted(b / a for a, b in zip(one, other))
        spread = f"{statistics.median(ratios):.2f} by the rounds ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        columns.append(f"{min(other) / min(one):.2f} by the least times, {min(other):.2f} s to {min(one):.2f} s; {spread}")
    print(f"{name}\n  clock             {columns[0]}\n  processor         {columns[1]}", flush=True)


def timed(work):
    """The seconds of the clock and of the processor that a function takes."""
    start, begun = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - begun


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
    print(f"import              {min(float(python(script)) for _ in range(RUNS)) * 1000:.1f} ms", flush=True)


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
    start, begun = time.perf_counter(), time.process_time()
    onnx2ncnn.convert(given).save(sys.argv[2] + "/b.param")
    print(time.perf_counter() - start, time.process_time() - begun, peak() - before, peak() - given_peak)
"""


def measure_large(folder, gigabytes):
    path = folder / "large.onnx"
    write_model(path, gigabytes)
    command = [os.environ.get("ONNX2NCNN", Path(sys.executable).with_name("onnx2ncnn")), "--quiet", path, folder / "a.param"]
    peaks = {}

    def clear(name):
        """The removal of old files, and the writing of new ones, take none of the measured time."""
        for ending in ("param", "bin"):
            (folder / f"{name}.{ending}").unlink(missing_ok=True)
        os.sync()

    def run_command():
        clear("a")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, _ = timed(lambda: subprocess.run(command, check=True))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run_python(kind):
        clear("b")
        seconds, processor, *peaks[kind] = [float(word) for word in python(CONVERT, path, folder, kind).split()]
        return seconds, processor

    for kind in ("path", "bytes"):
        compare(f"convert({kind}).save of {gigabytes} GB, in times of the command", run_command, lambda: run_python(kind))
        beside, own = peaks[kind]
        print(f"  peak              {beside:.0f} MiB beside the interpreter, {own:.0f} MiB beside the model")
    for half in ("param", "bin"):
        assert (folder / f"a.{half}").read_bytes() == (folder / f"b.{half}").read_bytes()


def measure_threads():
    """Two conversions of a model of many nodes."""
    count = 20000
    nodes = [helper.make_node(["Relu", "Sigmoid"][i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 8])
    graph = helper.make_graph(nodes, "g", [value("v0")], [value(f"v{count}")])
    data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()

    def convert():
        for _ in range(3):
            onnx2ncnn.convert(data)

    def at_once():
        threads = [threading.Thread(target=convert) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def in_turn():
        convert()
        convert()

    compare("two threads at once, in times of one after the other", lambda: timed(in_turn), lambda: timed(at_once))


def measure_leaks(count=10_000):
    """The growth of the memory of this process during conversions, half of them refused."""
    models = [(FIXTURES / name / "model.onnx").read_bytes() for name in ("network/convolutional", "refused/unknown_operator")]

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE

    def convert(times):
        for index in range(times):
            try:
                net = onnx2ncnn.convert(models[index % 2])
                net.bin, net.report
            except onnx2ncnn.Refused as refused:
                refused.diagnostics

    convert(count // 10)
    before = resident()
    convert(count)
    print(f"leaks               {resident() - before:.1f} MiB more after {count} conversions", flush=True)


def folder_in_memory(gigabytes):
    """The folder for temporary files: in memory, if it has room for the model and both results."""
    memory = Path("/dev/shm")
    enough = memory.is_dir() and shutil.disk_usage(memory).free > 4 * gigabytes * (1 << 30)
    return memory if enough else None


if __name__ == "__main__":
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1
    measure_import()
    measure_threads()
    measure_leaks()
    with tempfile.TemporaryDirectory(dir=folder_in_memory(gigabytes)) as name:
        measure_large(Path(name), gigabytes)
