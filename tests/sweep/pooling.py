"""Pools, and the columns of windows.

Left out are axes that are shorter than the window with its padding, for which the number of windows is wrong; SAME_LOWER of an odd
padding of depth (`pooling3d.cpp` pads it as SAME_UPPER); and SAME with a stride beyond the window along one axis only, which crops
that axis (`make_padding`).
"""

import itertools

import numpy as np
from convolution import LOWER, UPPER, extent, normal, random_windows, same_total, window_params, words
from core import Case

# The ids of kernel, stride and both pads along w, h and d.
IDS = [(1, 2, 3, 14), (11, 12, 13, 15), (21, 22, 23, 16)]
LAYERS = {1: "Pooling1D", 2: "Pooling", 3: "Pooling3D"}
CHANNELS = [1, 2, 3, 4, 6, 8, 16, 24]


def pool_params(windows, rng):
    """Params of windows (kernel, stride, before, after), the innermost first; some that equal their default are left out."""
    params, first = {}, windows[0]
    for axis, (ids, values) in enumerate(zip(IDS, windows)):
        defaults = (None, 1, 0, first[2]) if axis == 0 else (*first[:3], values[2])
        for key, value, default in zip(ids, values, defaults):
            if value != default or rng.random() < 0.3:
                params[key] = value
    return params


def pools(axes, count, rng):
    done = 0
    while done < count:
        kind, mode, include = int(rng.integers(2)), int(rng.integers(4)), int(rng.integers(2))
        sizes = rng.integers(3, 12, axes).tolist()
        windows = [(kernel, stride) for kernel, _, stride in random_windows(rng, axes, 4)]
        if mode > 1:
            pads = [(0, 0)] * axes
            totals = [same_total(size, kernel, 1, stride) for size, (kernel, stride) in zip(sizes, windows)]
            if min(totals) < 0 < max(totals) or mode == 3 and axes == 3 and totals[2] > 0 and totals[2] % 2:
                continue
        else:
            pads = [tuple(rng.integers(0, 3, 2).tolist()) if done % 2 else (int(rng.integers(0, 2)),) * 2 for _ in range(axes)]
            if any(size + sum(pad) < kernel for size, pad, (kernel, _) in zip(sizes, pads, windows)):
                continue
        done += 1
        params = pool_params([(*window, *pad) for window, pad in zip(windows, pads)], rng)
        for key, value in ((0, kind), (5, mode), (6, include)):
            if value or rng.random() < 0.2:
                params[key] = value
        yield Case(LAYERS[axes], words(params), [], [normal(rng, int(rng.choice(CHANNELS)), *sizes[::-1])])


def regular(rng):
    """The kernels that have code of their own, and values that are not finite."""
    for kind, kernel, stride, channels, size in itertools.product((0, 1), (2, 3), (1, 2), (3, 4, 8, 16), ((7, 8), (12, 13))):
        for mode in range(4):
            yield Case("Pooling", words({0: kind, 1: kernel, 2: stride, 5: mode}), [], [normal(rng, channels, *size)])
    for channels in (3, 8):
        bottom = normal(rng, channels, 6, 6)
        bottom[:, 2, 3] = np.inf
        bottom[:, 3:] = -np.inf
        yield Case("Pooling", "1=2 2=2", [], [bottom])
        yield Case("Pooling", "1=3 2=2 3=1", [], [bottom])


def whole(axes, rng):
    for kind, channels in itertools.product((0, 1), CHANNELS):
        sizes = rng.integers(1, 8, axes).tolist()
        yield Case(LAYERS[axes], f"0={kind} 4=1", [], [normal(rng, channels, *sizes)])


def adaptive(axes, count, rng):
    out_ids = [8, 18, 28]
    for index in range(count):
        sizes = rng.integers(1, 10, axes).tolist()
        outs = [int(rng.integers(1, 8))] * axes if index % 3 == 0 else rng.integers(1, 8, axes).tolist()
        if index % 4 == 1 and axes > 1:
            outs[int(rng.integers(axes))] = -233
        params = {0: index % 2, 7: 1}
        for axis, (key, out) in enumerate(zip(out_ids, outs)):
            if axis == 0 or out != outs[0] or index % 2:
                params[key] = out
        yield Case(LAYERS[axes], words(params), [], [normal(rng, int(rng.choice(CHANNELS)), *sizes[::-1])])


def columns(rng, count):
    for index in range(count):
        while True:
            windows, sizes = random_windows(rng, 2, 4), rng.integers(3, 10, 2).tolist()
            mode = int(rng.integers(4))
            pads = [tuple(rng.integers(0, 3, 2).tolist()) for _ in range(2)] if mode < 2 else [((UPPER, LOWER)[mode - 2],) * 2] * 2
            totals = [same_total(size, *window) for size, window in zip(sizes, windows)]
            padded = [size + (sum(pad) if mode < 2 else max(total, 0)) for size, pad, total in zip(sizes, pads, totals)]
            fits = all(extent(*window[:2]) <= size for window, size in zip(windows, padded))
            if fits and not (mode > 1 and min(totals) < 0 < max(totals)):
                break
        params = window_params([(*window, *pad) for window, pad in zip(windows, pads)], rng)
        channels = int(rng.choice(CHANNELS))
        value = {18: 0.75} if index % 3 == 0 else {}
        yield Case("Unfold", words({**params, **value}), [], [normal(rng, channels, *sizes[::-1])])
        if mode < 2:
            counts = [(size - extent(*window[:2])) // window[2] + 1 for size, window in zip(padded, windows)]
            params[20] = sizes[0]
            if sizes[1] != sizes[0]:
                params[21] = sizes[1]
            rows = channels * windows[0][0] * windows[1][0]
            yield Case("Fold", words(params), [], [normal(rng, rows, counts[0] * counts[1])])


def cases():
    rng = np.random.default_rng(2)
    for axes, count in ((1, 100), (2, 160), (3, 120)):
        yield from pools(axes, count, rng)
        yield from whole(axes, rng)
        yield from adaptive(axes, 40, rng)
    yield from regular(rng)
    yield from columns(rng, 120)
