"""Normalization of rows, groups, channels and positions, and Softmax."""

import itertools
import math

import numpy as np

import core
from activation import SHAPES

# Sizes of channels, which only Mats of three or four axes have.
CHANNELS = [shape for shape in SHAPES if len(shape) >= 3]


def blob(rng, shape):
    """Random numbers with a mean and deviation of their own in each channel."""
    centers = rng.normal(0, 1, (shape[0],) + (1,) * (len(shape) - 1))
    return (rng.normal(0, 1, shape) * rng.uniform(0.3, 3, centers.shape) + centers).astype(np.float32)


def weights(rng, size, count):
    return [core.raw(rng.normal(0, 1, size)) for _ in range(count)]


def batch_norm(rng):
    for shape in SHAPES:
        count = shape[0]
        for eps in ("", " 1=1e-3", " 1=0.5"):
            slope, mean, bias = weights(rng, count, 3)
            var = core.raw(rng.uniform(0.1, 2, count))
            yield core.Case("BatchNorm", f"0={count}{eps}", weights=[slope, mean, var, bias], bottoms=[blob(rng, shape)])
        # A variance of 0.
        slope, mean, bias = weights(rng, count, 3)
        zero = core.raw(np.zeros(count))
        yield core.Case("BatchNorm", f"0={count}", weights=[slope, mean, zero, bias], bottoms=[blob(rng, shape)])


def group_norm(rng):
    for shape in [*SHAPES, (24,), (12, 3), (24, 2), (6, 2, 3), (24, 2, 2), (32, 1, 2), (12, 2, 1, 3)]:
        count = shape[0]
        groups = [group for group in (1, 2, 3, 4, 8, 16) if count % group == 0]
        for group, affine, eps in itertools.product(groups, (None, 0, 1), (None, 1e-5)):
            # The mean of one element is the element: what is left is rounding, which the factor makes large.
            if math.prod(shape) == group:
                continue
            params = f"0={group} 1={count}" if group > 1 else f"1={count}"
            params += "" if eps is None else f" 2={eps}"
            params += "" if affine is None else f" 3={affine}"
            data = [] if affine == 0 else weights(rng, count, 2)
            yield core.Case("GroupNorm", params, weights=data, bottoms=[blob(rng, shape)])


def instance_norm(rng):
    for shape in CHANNELS:
        count = shape[0]
        for affine, eps in itertools.product((None, 0, 1), (None, 1e-5, 0.5)):
            params = f"0={count}" + ("" if eps is None else f" 1={eps}") + ("" if affine is None else f" 2={affine}")
            data = [] if affine == 0 else weights(rng, count, 2)
            yield core.Case("InstanceNorm", params, weights=data, bottoms=[blob(rng, shape)])


def rows(rng, layer, count):
    """LayerNorm and RMSNorm, with this number of weights."""
    for shape in [shape for shape in SHAPES if math.prod(shape) > 1] + [(8, 16), (4, 33), (8, 3, 17), (16, 2, 2, 19)]:
        inner = shape if len(shape) == 1 else shape[1:]
        sizes = {math.prod(inner[start:]) for start in range(len(inner))}
        for size, affine, eps in itertools.product(sorted(sizes), (None, 0, 1), (None, 1e-5, 0.5)):
            # As of GroupNorm.
            if layer == "LayerNorm" and size == 1:
                continue
            params = f"0={size}" + ("" if eps is None else f" 1={eps}") + ("" if affine is None else f" 2={affine}")
            data = [] if affine == 0 else weights(rng, size, count)
            # LayerNorm computes `x * a - mean * a`, which loses digits in short rows of a small variance.
            tolerance, why = (5e-5, "cancellation") if layer == "LayerNorm" and size < 8 else (1e-5, "")
            yield core.Case(layer, params, weights=data, bottoms=[blob(rng, shape)], tolerance=tolerance, why=why)
        # Without weights the size may be left out: a row has all axes but the outermost one.
        yield core.Case(layer, "2=0", bottoms=[blob(rng, shape)])


def lrn(rng):
    for shape in [shape for shape in SHAPES if len(shape) == 3] + [(7, 6, 9), (20, 2, 3)]:
        yield core.Case("LRN", "", bottoms=[blob(rng, shape)])
        for region, size in itertools.product((0, 1), (1, 2, 3, 4, 5, 8, 40)):
            for rest in ("", " 2=0.5", " 2=2.0 3=0.5 4=2.0", " 3=1.0 4=0.5"):
                params = (f"0={region} " if region else "") + f"1={size}{rest}"
                yield core.Case("LRN", params, bottoms=[blob(rng, shape)])


def mvn(rng):
    for shape in CHANNELS:
        for variance, across, eps in itertools.product((None, 0, 1), (None, 0, 1), ("", " 2=0.1")):
            params = ("" if variance is None else f"0={variance} ") + ("" if across is None else f"1={across}") + eps
            yield core.Case("MVN", params, bottoms=[blob(rng, shape)])


def normalize(rng):
    for shape in CHANNELS:
        for spatial, channel in itertools.product((None, 0, 1), (None, 0, 1)):
            for shared, mode, eps in itertools.product((None, 0, 1), (None, 0, 1, 2), (None, 2.0)):
                count = 1 if shared else shape[0]
                params = {0: spatial, 1: shared, 2: eps, 3: count, 4: channel, 9: mode}
                text = " ".join(f"{index}={value}" for index, value in params.items() if value is not None)
                yield core.Case("Normalize", text, weights=weights(rng, count, 1), bottoms=[blob(rng, shape)])


def softmax(rng):
    for shape in [*SHAPES, (8, 16), (5, 33), (24, 3), (32, 17), (3, 16, 8), (8, 4, 16), (16, 9, 21), (8, 2, 3, 16)]:
        yield core.Case("Softmax", "", bottoms=[blob(rng, shape)])
        for axis in range(-len(shape), len(shape)):
            yield core.Case("Softmax", f"0={axis} 1=1", bottoms=[blob(rng, shape)])
    # Magnitudes whose exponentials overflow, and masked elements.
    far = np.array([100.0, -100.0, 99.0, 0.0, -np.inf, 101.0, 3.0, -np.inf], np.float32)
    for shape in [(8,), (1, 8), (2, 4), (8, 1), (2, 2, 2)]:
        yield core.Case("Softmax", "0=-1 1=1", bottoms=[far.reshape(shape)])


def cases():
    rng = np.random.default_rng(3)
    yield from batch_norm(rng)
    yield from group_norm(rng)
    yield from instance_norm(rng)
    yield from rows(rng, "LayerNorm", 2)
    yield from rows(rng, "RMSNorm", 1)
    yield from lrn(rng)
    yield from mvn(rng)
    yield from normalize(rng)
    yield from softmax(rng)
