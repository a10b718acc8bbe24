"""The package describes itself, and names what a user may have meant."""

import subprocess
import sys

import onnx2ncnn
import pytest
from conftest import model

# Makes the packages that only some functions need missing.
_MISSING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "ncnn", "onnx", "onnxruntime", "ultralytics"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


def test_help_needs_no_other_package():
    code = _MISSING + "import onnx2ncnn\nhelp(onnx2ncnn)\nhelp(onnx2ncnn.torch)\nhelp(onnx2ncnn.ultralytics)\nhelp(onnx2ncnn.convert)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for text in ["convert(", "quantize(", "verify(", "class Net", "class Refused", "export(", "torch2ncnn(", "input_shapes: 'Shapes | None' = None"]:
        assert text in run.stdout, text


def test_functions_tell_which_package_is_missing():
    code = _MISSING + "import onnx2ncnn\nonnx2ncnn.verify('model.onnx', runtime=True)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'is missing: pip install "onnx2ncnn[verify]"' in run.stderr


CASES = [
    ("convert", {"input_shape": [1, 3, 8, 8]}, "did you mean input_shapes?"),
    ("convert", {"input_shapess": [1, 3, 8, 8]}, "did you mean input_shapes?"),
    ("convert", {"outputss": "y"}, "did you mean outputs?"),
    ("convert", {"output": "y"}, "did you mean outputs?"),
    ("convert", {"float16": True}, "did you mean fp16?"),
    ("convert", {"half": True}, "did you mean fp16?"),
    ("convert", {"kvcache": True}, "did you mean kv_cache?"),
    ("convert", {"ncnn_versions": 20260526}, "did you mean ncnn_version?"),
    ("convert_chain", {"splitat": ["r2"]}, "did you mean split_at?"),
    ("inspect", {"input_shape": [1, 3, 8, 8]}, "did you mean input_shapes?"),
    ("quantize", {"methods": "min-max"}, "did you mean method?"),
    ("tune", {"halferror": 0.1}, "did you mean half_error?"),
    ("verify", {"round": 2}, "did you mean rounds?"),
    ("verify", {"layer": True}, "did you mean layers?"),
    ("convert_many", {"worker": 2}, "did you mean workers?"),
    ("simplify", {"overwrite_input_shape": [1]}, "did you mean overwrite_input_shapes?"),
]


@pytest.mark.parametrize("function, options, advice", CASES)
def test_near_names_are_told(function, options, advice):
    (name,) = options
    with pytest.raises(TypeError, match=f"{function}\\(\\) has no argument {name}") as raised:
        getattr(onnx2ncnn, function)(model("network/convolutional"), **options)
    assert advice in str(raised.value)


def test_other_names_are_told_without_advice():
    with pytest.raises(TypeError, match="has no argument zebra$"):
        onnx2ncnn.convert(model("network/convolutional"), zebra=1)
