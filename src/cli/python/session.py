"""Packages, sessions of onnxruntime and nodes of models, for the scripts that this text precedes."""

import sys


class Failure(Exception):
    """The work cannot be done."""


class Missing(Failure):
    """A package is missing."""


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


def attribute(node, name, default):
    for given in node.attribute:
        if given.name == name:
            return onnx.helper.get_attribute_value(given)
    return default


