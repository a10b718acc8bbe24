"""Memory: no leaks, and no copies of weights."""

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import onnx2ncnn
import pytest
from conftest import model, needs_proc

MEGABYTE = 1 << 20

# The weights of the models below: large beside the memory of an interpreter.
WEIGHTS = 256 * MEGABYTE


def resident():
    """The bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@needs_proc
@pytest.mark.parametrize("name", ["network/convolutional", "refused/unknown_operator"])
def test_conversions_leak_nothing(name, tmp_path):
    data = model(name).read_bytes()

    def convert(times):
        for _ in range(times):
            try:
                net = onnx2ncnn.convert(data)
                net.bin, net.report, net.param
                net.save(tmp_path / "a.param")
            except onnx2ncnn.Refused as refused:
                refused.diagnostics

    convert(300)
    gc.collect()
    before = resident()
    convert(1000)
    gc.collect()
    # A kilobyte for each would be a megabyte.
    assert resident() - before < MEGABYTE


SCRIPT = """
    import sys
    import onnx2ncnn
    from conftest import peak

    path, folder = sys.argv[1:]
    given = {given}
    before = peak()
    net = onnx2ncnn.convert(given)
    {work}
    print(peak() - before)
"""


def growth(tmp_path, path, given, work):
    """The growth of the peak memory of a process that converts a model."""
    script = textwrap.dedent(SCRIPT).format(given=given, work=work)
    words = [sys.executable, "-c", script, path, tmp_path]
    run = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return int(run.stdout)


@needs_proc
def test_files_are_converted_without_loading_them(large, tmp_path):
    assert growth(tmp_path, large, "path", "net.save(folder + '/a.param')") < 64 * MEGABYTE


@needs_proc
def test_bytes_are_converted_without_a_copy(large, tmp_path):
    given = "open(path, 'rb').read()"
    assert growth(tmp_path, large, given, "net.save(folder + '/a.param')") < 32 * MEGABYTE


@needs_proc
def test_bin_is_made_in_its_place(large, tmp_path):
    given = "open(path, 'rb').read()"
    assert growth(tmp_path, large, given, "assert len(memoryview(net.bin)) > 0") < WEIGHTS + 32 * MEGABYTE


def test_given_bytes_live_as_long_as_the_net():
    data = bytes(bytearray(model("network/convolutional").read_bytes()))
    before = sys.getrefcount(data)
    net = onnx2ncnn.convert(data)
    assert sys.getrefcount(data) > before
    del net
    gc.collect()
    assert sys.getrefcount(data) == before
