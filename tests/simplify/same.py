"""usage: same.py ORIGINAL SIMPLIFIED SIZES: checks that both give the same result in onnxruntime for an input "x" of these sizes."""

import sys

import numpy as np
import onnxruntime

inputs = {"x": np.random.default_rng(0).random([int(size) for size in sys.argv[3].split(",")], dtype=np.float32)}
expected, got = (onnxruntime.InferenceSession(path).run(None, inputs) for path in sys.argv[1:3])
for one, other in zip(expected, got, strict=True):
    np.testing.assert_allclose(other, one, rtol=1e-5, strict=True)
