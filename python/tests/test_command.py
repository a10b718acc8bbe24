"""The command of the wheel."""

import subprocess
import sys

import onnx2ncnn
from conftest import model, run_command

CONVOLUTIONAL = model("network/convolutional")


def test_command_is_the_converter(tmp_path):
    run = run_command(CONVOLUTIONAL, "a.param", cwd=tmp_path)
    assert run.returncode == 0 and "w=16 h=16 c=3" in run.stderr
    net = onnx2ncnn.convert(CONVOLUTIONAL)
    assert (tmp_path / "a.param").read_text() == net.param and (tmp_path / "a.bin").read_bytes() == net.bin
    assert run_command("--version").stdout == f"onnx2ncnn {onnx2ncnn.__version__}\n"


def test_exit_codes_are_those_of_the_converter(tmp_path):
    assert run_command(model("refused/unknown_operator"), tmp_path / "a.param").returncode == 1
    run = run_command("none.onnx", tmp_path / "a.param")
    assert run.returncode == 2 and "i/o error: none.onnx" in run.stderr
    assert run_command("--no-such-option").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_module_is_the_command():
    words = [sys.executable, "-m", "onnx2ncnn", "--list-passes"]
    run = subprocess.run(words, capture_output=True, text=True)
    assert run.stdout == run_command("--list-passes").stdout and "fuse_bn_into_conv" in run.stdout


def test_comparisons_run_in_the_same_interpreter(tmp_path):
    run_command(CONVOLUTIONAL, tmp_path / "a.param")
    words = ["verify", CONVOLUTIONAL, tmp_path / "a.param", tmp_path / "a.bin"]
    run = run_command(*words)
    assert run.returncode == 0 and "verified: 7 of 7 windows" in run.stdout
    run = run_command(*words, "--runtime")
    assert run.returncode == 0 and "the same in onnxruntime and ncnn" in run.stdout


def test_batch_starts_the_same_interpreter(tmp_path):
    (tmp_path / "onnx2ncnn.py").write_text("raise SystemExit('another module')")
    for _ in range(2):
        run = run_command("batch", CONVOLUTIONAL, "-o", "out", cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    assert "0 converted, 1 up to date" in run.stderr
    assert (tmp_path / "out/model.ncnn.param").read_text() == onnx2ncnn.convert(CONVOLUTIONAL).param


def test_the_package_is_imported_fast_and_alone():
    script = "import sys; before = set(sys.modules); import onnx2ncnn; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "onnx", "onnxruntime", "ncnn", "torch", "google"}.intersection(loaded)
