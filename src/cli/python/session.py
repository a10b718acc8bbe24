"""Packages, sessions of onnxruntime, models and answers, for the scripts that this text precedes."""

import json
import os
import sys


class Failure(Exception):
    """The work cannot be done. `advice` is what helps; empty if that is unknown, None for the installation of packages."""

    def __init__(self, text, advice=""):
        super().__init__(text)
        self.advice = advice


class Missing(Failure):
    """A package is missing."""

    def __init__(self, text):
        super().__init__(text, None)


def load(*names):
    """Imports packages as global names."""
    missing = []
    for name in names:
        try:
            globals()[{"numpy": "np"}.get(name, name)] = __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise Missing(f"{sys.executable} has no {' and no '.join(missing)}")


def open_session(model):
    """The session of a path or of the bytes of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Beyond this, weights are rounded to narrower types for speed.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        given = "the model" if isinstance(model, bytes) else model
        raise Failure(f"onnxruntime does not load {given}: {error}") from None


def loss(got, expected):
    """One minus the cosine of each output; the largest."""
    largest = 0.0
    for one, other in zip(got, expected):
        one, other = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
        norm = np.linalg.norm(one) * np.linalg.norm(other)
        largest = max(largest, 1 - float(one @ other) / norm if norm else float(not np.array_equal(one, other)))
    return largest


def attribute(node, name, default):
    for given in node.attribute:
        if given.name == name:
            return onnx.helper.get_attribute_value(given)
    return default


def save_with_weights(model, path):
    """Saves a model with its weights in a file beside it."""
    onnx.save_model(model, path, save_as_external_data=True, location=os.path.basename(path) + ".weights")


def answer_request(act, describe=lambda failure: {}):
    """Reads the request from the file that is the argument, and prints what `act` returns for it, both in JSON; `describe` adds to a failure."""
    with open(sys.argv[1], encoding="utf8") as file:
        request = json.load(file)
    try:
        answer = act(request)
    except Failure as failure:
        answer = {"failure": str(failure), "advice": failure.advice, **describe(failure)}
    # Output of libraries precedes the answer, which is the last line.
    print()
    print(json.dumps(answer))


