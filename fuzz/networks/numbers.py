"""Distributions of numbers: functions from a generator and a shape to an array."""

import numpy as np

# Magnitudes up to the largest float32.
LARGE = [1e5, -1e8, 2.0**24 + 2, 1e20, -1e30, 3e38]
# The bounds of int32, and of the integers that float32 represents exactly.
BOUNDS = [2**24 - 1, 2**24, 2**24 + 1, -(2**24), -(2**24) - 1, 2**30 + 1, 2**31 - 1, -(2**31), 2**31]
# The magnitudes of the integers of an array.
MAGNITUDES = [9, 2**24, 2**31]
# The proportion of extremes in an array that has any.
SHARE = 0.15


def floats(infinite, large):
    """Float32 numbers, including infinities and large magnitudes."""

    def draw(random, shape):
        array = random.standard_normal(shape).astype(np.float32)
        for wanted, options in ((large, LARGE), (infinite, [np.inf, -np.inf])):
            if wanted:
                array = np.where(random.random(shape) < SHARE, random.choice(options, shape), array).astype(np.float32)
        return array

    return draw


def integers(dtype, magnitude):
    """Small integers, including bounds and integers up to a magnitude."""
    least, largest = max(-magnitude, np.iinfo(dtype).min), min(magnitude, np.iinfo(dtype).max)
    bounds = [number for number in (*BOUNDS, least, largest) if least <= number <= largest]

    def draw(random, shape):
        array = random.integers(max(-9, least), min(9, largest) + 1, shape)
        array = np.where(random.random(shape) < SHARE, random.choice(bounds, shape), array)
        array = np.where(random.random(shape) < SHARE, random.integers(least, largest + 1, shape), array)
        return array.astype(dtype)

    return draw


def places(size):
    """Indices along an axis of this size, counted from either end."""
    return lambda random, shape: random.integers(-size, size, shape)


def booleans(random, shape):
    return random.random(shape) < 0.5
