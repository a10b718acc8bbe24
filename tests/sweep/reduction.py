"""Reductions and cumulative sums."""

import itertools

import numpy as np

import core
from activation import SHAPES

POSITIVE = (0.05, 3.0)
DOMAINS = {6: (0.7, 1.4), 9: POSITIVE}


def blob(rng, operation, shape):
    if operation in DOMAINS:
        return rng.uniform(*DOMAINS[operation], shape).astype(np.float32)
    return rng.normal(0.3, 1.5, shape).astype(np.float32)


def reduction(rng):
    for operation in range(11):
        for shape in SHAPES:
            for keepdims in (None, 0, 1):
                keep = "" if keepdims is None else f" 4={keepdims}"
                params = f"0={operation}{keep}" if operation else keep.strip()
                yield core.Case("Reduction", params, bottoms=[blob(rng, operation, shape)])
                # Of a single axis `reduce_all` is not read, and needs no axes.
                if len(shape) == 1:
                    yield core.Case("Reduction", f"0={operation} 1=0 2=0.5{keep}", bottoms=[blob(rng, operation, shape)])
                for count in range(1, len(shape) + 1):
                    for index, axes in enumerate(itertools.combinations(range(len(shape)), count)):
                        back = [axis - len(shape) if (position + index) % 2 else axis for position, axis in enumerate(axes)]
                        listed = ",".join(str(axis) for axis in back)
                        coeff = " 2=-1.5" if index % 2 else ""
                        params = f"0={operation} 1=0{coeff} -23303={count},{listed}{keep} 5=1"
                        yield core.Case("Reduction", params, bottoms=[blob(rng, operation, shape)])
    # All axes, though some are listed; and an axis twice.
    yield core.Case("Reduction", "-23303=1,1 5=1", bottoms=[blob(rng, 0, (3, 4, 5))])
    yield core.Case("Reduction", "0=3 1=0 -23303=2,1,-2 5=1", bottoms=[blob(rng, 3, (3, 4, 5))])
    # Infinities: the extremes begin with the largest finite numbers.
    infinite = np.array([[np.inf, -np.inf, 2.0], [-np.inf, -np.inf, -np.inf], [np.inf, np.inf, np.inf]], np.float32)
    for operation in (4, 5):
        yield core.Case("Reduction", f"0={operation} 1=0 -23303=1,1 5=1", bottoms=[infinite])


def cases():
    rng = np.random.default_rng(4)
    for shape in SHAPES:
        yield core.Case("CumulativeSum", "", bottoms=[blob(rng, 0, shape)])
        for axis in range(-len(shape), len(shape)):
            yield core.Case("CumulativeSum", f"0={axis}", bottoms=[blob(rng, 0, shape)])
    yield from reduction(rng)
