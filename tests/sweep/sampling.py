"""Layers that interpolate or pool regions.

Left out are

- infinite elements next to a sample, which are multiplied by 0
- second bottoms of Interp of one or two axes whose outermost one is packed: `interp_x86.cpp` takes its size divided by the packing
- scales of bilinear Interp that leave the size of one axis, as 1.25 of 3: the kernels do not move along it
- coordinates of GridSample that are reflected twice with align_corner: `gridsample_compute_blob.h` clamps one element at a time, and
  not eight at once
- coordinates of nearest GridSample so close to the middle of two elements that float32 decides on one
- cells of ROIAlign in version 0 that are clipped at their end: their samples are read beyond the image
- cells of ROIPooling that begin at an element, and numbers of cells other than powers of two: the runtime divides approximately, and
  depending on the processor a cell begins one element earlier or ends one later
"""

import itertools

import numpy as np
from convolution import normal, words
from core import Case

FLOAT32 = {"tolerance": 5e-5, "why": "positions are rounded to float32"}
CHANNELS = [1, 2, 3, 4, 5, 8, 12, 16, 24]


def interp(rng, count):
    for index in range(count):
        kind, align, axes = index % 3 + 1, int(rng.integers(2)), int(rng.choice([1, 2, 3, 3]))
        shape = [int(rng.choice(CHANNELS)), *rng.integers(1, 10, 2).tolist()]
        shape = {1: shape[:1], 2: shape[:2], 3: shape}[axes]
        if axes == 2:
            shape[1] = int(rng.integers(1, 14))
        params, bottoms = {0: kind}, [normal(rng, *shape)]
        height, width = rng.integers(1, 16, 2).tolist()
        how = int(rng.integers(4))
        if how == 0:
            # A scale leaves one element at least.
            scales = np.array([0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 1.7, 2.0, 3.0], np.float32)
            params[1], params[2] = (
                round(float(rng.choice(scales[size * scales >= 1])), 6) for size in (shape[-2:] if axes > 1 else (1, 1))
            )
            if rng.random() < 0.2:
                params[int(rng.choice([3, 4]))] = 5
            if kind == 2 and axes == 3 and any(
                scale != 1 and int(size * np.float32(scale)) == size for size, scale in zip(shape[1:], (params[1], params[2]))
            ):
                continue
        elif how == 1:
            params[3], params[4] = height, width
        elif how == 2:
            params[5] = 1
            sizes = [(width,), (height, width), (2, height, width)][int(rng.integers(3))]
            if len(sizes) < 3 and sizes[0] % 4 == 0:
                sizes = (2, height, width)
            bottoms.append(normal(rng, *sizes))
            if kind == 1 and rng.random() < 0.5:
                params[3] = params[4] = 1
        else:
            params[9] = '"' + ["*(0w,2),+(0h,1)", "-(+(0w,4),1),3", f"{width},{height}", "+(1w,1),1h", "+(0w,2)"][index % 5] + '"'
            if index % 5 == 3:
                bottoms.append(normal(rng, 2, height, width))
        if align:
            params[6] = 1
        yield Case("Interp", words(params), [], bottoms)
    for kind, align, channels, (size, out) in itertools.product((1, 2, 3), (0, 1), (3, 4, 8, 16), ((5, 9), (9, 5), (1, 4), (2, 1), (3, 7))):
        yield Case("Interp", words({0: kind, 3: out, 4: out + 1, 6: align}), [], [normal(rng, channels, size, size + 1)])


def grid_sample(rng):
    for kind, padding, align, permuted, axes in itertools.product((1, 2, 3), (1, 2, 3), (0, 1), (0, 1), (2, 3)):
        if kind == 3 and axes == 3:
            continue
        for channels, reach in ((3, 1.3), (4, 2.0), (8, 1.0), (16, 2.7)):
            sizes, outs = rng.integers(1, 8, axes).tolist(), rng.integers(1, 7, axes).tolist()
            if padding == 3 and align:
                sizes, reach = rng.integers(5, 9, axes).tolist(), 1.2 if kind == 3 else reach
            grid = rng.uniform(-reach, reach, (*outs, axes)).astype(np.float32)
            if permuted:
                grid = np.ascontiguousarray(np.moveaxis(grid, -1, 0))
            params = {0: kind, 1: padding, 2: align, 3: permuted}
            yield Case("GridSample", words(params), [], [normal(rng, channels, *sizes), grid])
    # The middles of elements, and edges between them.
    for align, channels in itertools.product((0, 1), (3, 8)):
        steps = np.linspace(-1, 1, 9, dtype=np.float32)
        grid = np.stack(np.meshgrid(steps, steps), -1)
        for padding in (1, 2, 3):
            size = 5 if align else 4
            yield Case("GridSample", f"0=2 1={padding} 2={align}", [], [normal(rng, channels, size, size), grid])
    yield Case("GridSample", "", [], [normal(rng, 3, 5, 6), rng.uniform(-1, 1, (2, 3, 2)).astype(np.float32)])


def regions(rng, count, inside):
    """Bounds left, top, right, bottom in an image of 12 by 14, with some outside."""
    low, high = (0.3, 11.2) if inside else (-4, 17)
    for _ in range(count):
        left, right = sorted(rng.uniform(low, high, 2))
        top, bottom = sorted(rng.uniform(low, high, 2))
        yield np.array([left, top, right, bottom], np.float32)


def roi(rng):
    scales = itertools.cycle((1.0, 0.5, 0.25, 2.0))
    for version, aligned, ratio, channels in itertools.product((0, 1), (0, 1), (0, 1, 2, 3), (1, 3, 8)):
        for region, scale in zip(regions(rng, 3, version == 0), scales):
            # Version 0 widens a region to one element, which may be clipped.
            if version == 0:
                region[2:] = np.minimum(np.maximum(region[2:], region[:2] + 1.1), 11.9)
                region[:2] = np.minimum(region[:2], region[2:] - 1.05)
            params = {0: int(rng.integers(1, 5)), 1: int(rng.integers(1, 5)), 2: scale, 3: ratio, 4: aligned, 5: version}
            yield Case("ROIAlign", words(params), [], [normal(rng, channels, 12, 14), region / np.float32(scale)], **FLOAT32)
    for channels in (1, 3, 8):
        for region, scale in zip(regions(rng, 60, False), scales):
            params = {0: int(rng.choice([1, 2, 4])), 1: int(rng.choice([1, 2, 4])), 2: scale}
            sizes = np.maximum(np.round(region[2:]) - np.round(region[:2]) + 1, 1)
            if any(size * i % cells == 0 for size, cells in zip(sizes, (params[0], params[1])) for i in range(1, cells)):
                continue
            yield Case("ROIPooling", words(params), [], [normal(rng, channels, 12, 14), region / np.float32(scale)])


def cases():
    rng = np.random.default_rng(3)
    yield from interp(rng, 400)
    yield from grid_sample(rng)
    yield from roi(rng)
