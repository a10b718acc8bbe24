"""Generators of operators that move elements."""

import numpy as np

from networks.elements import UNARY
from networks.graph import Unfit


def reshape(g):
    x = g.value()
    size = g.values[x].size
    sizes = []
    while len(sizes) < 5 and g.chance(0.75):
        divisor = g.choose([d for d in (1, 1, 2, 3, 4, 5, 6, 8) if size % d == 0])
        sizes.append(divisor)
        size //= divisor
    sizes.insert(g.int(0, len(sizes)), size)
    g.op("Reshape", x, g.ints(*sizes), exact=x in g.exact)


def transpose(g):
    x = g.value()
    perm = g.random.permutation(g.values[x].ndim).tolist()
    y = g.op("Transpose", x, perm=perm, exact=x in g.exact)
    if g.chance(0.3):
        y = g.op(g.choose(UNARY[:10] + ["Relu"]), y)
        g.op("Transpose", y, perm=np.argsort(perm).tolist())


def shuffle(g):
    x = g.value(rank=(4,))
    n, c, h, w = g.values[x].shape
    groups = g.choose([d for d in (1, 2, 3, 4) if c % d == 0])
    y = g.op("Reshape", x, g.ints(n, groups, c // groups, h, w))
    g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3, 4]), g.ints(n, c, h, w))


def squeeze(g):
    x = g.value()
    shape = g.values[x].shape
    units = [axis for axis, size in enumerate(shape) if size == 1]
    if units and g.chance(0.5):
        g.op("Squeeze", x, g.ints(g.choose(units)), exact=x in g.exact)
    elif len(shape) < 5:
        g.op("Unsqueeze", x, g.ints(g.int(0, len(shape))), exact=x in g.exact)


def concat(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    shape = list(g.values[x].shape)
    same = [n for n, a in g.values.items() if a.ndim == len(shape) and all(i == axis or a.shape[i] == s for i, s in enumerate(shape))]
    parts = [x, g.choose(same)]
    if g.chance(0.3):
        shape[axis] = g.int(1, 3)
        parts.append(g.normal(*shape))
    g.op("Concat", *parts, axis=axis)


def split(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    size = g.values[x].shape[axis]
    if size < 2:
        raise Unfit
    first = g.int(1, size - 1)
    parts = g.op("Split", x, g.ints(first, size - first), outputs=2, axis=axis, exact=x in g.exact)
    if 2 * first == size and g.chance(0.5):
        g.op("Mul", parts[0], g.op("Sigmoid", parts[1]))


def slices(g):
    x = g.value()
    shape = g.values[x].shape
    axes = sorted(g.random.permutation(len(shape))[: g.int(1, min(2, len(shape)))].tolist())
    starts, ends, steps = [], [], []
    for axis in axes:
        step = g.choose([1, 1, 1, 2, -1, -2])
        low, high = sorted([g.int(0, shape[axis]), g.int(0, shape[axis])])
        starts.append(low if step > 0 else high)
        ends.append(high if step > 0 else low - shape[axis] - 1)
        steps.append(step)
    g.op("Slice", x, g.ints(*starts), g.ints(*ends), g.ints(*axes), g.ints(*steps), exact=x in g.exact)


def gather(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    size = g.values[x].shape[axis]
    indices = g.indices(size, () if g.chance(0.4) else g.int(1, 4))
    g.op("Gather", x, g.constant(indices.astype(np.int64)), axis=axis, exact=x in g.exact)


def pad(g):
    x = g.value()
    rank = g.values[x].ndim
    pads = [g.choose([0, 0, 1, 2, -1]) for _ in range(2 * rank)]
    mode = g.choose(["constant", "constant", "edge", "reflect", "wrap"])
    fill = [g.scalar(g.choose([0, 1.5]))] if mode == "constant" else []
    g.op("Pad", x, g.ints(*pads), *fill, mode=mode)


def tile(g):
    x = g.value()
    g.op("Tile", x, g.ints(*[g.choose([1, 1, 2, 3]) for _ in g.values[x].shape]))


def rearrange(g):
    x = g.value(rank=(4,))
    if g.chance(0.5):
        g.op("DepthToSpace", x, blocksize=2, mode=g.choose(["DCR", "CRD"]))
    else:
        g.op("SpaceToDepth", x, blocksize=2)


def triangle(g):
    g.op("Trilu", g.value(rank=(2, 3, 4)), g.constant(np.int64(g.int(-2, 2))), upper=g.int(0, 1))


def pick(g):
    x = g.value()
    shape = g.values[x].shape
    axis = g.int(0, len(shape) - 1)
    sizes = [g.int(1, 4) if i == axis else g.int(1, size) for i, size in enumerate(shape)]
    indices = g.constant(g.indices(shape[axis], sizes))
    g.op("GatherElements", x, indices, axis=axis, exact=x in g.exact)


def scatter(g):
    x = g.value()
    shape = g.values[x].shape
    axis = g.int(0, len(shape) - 1)
    reduction = g.choose(["none", "add", "mul", "max", "min"])
    if g.chance(0.5):
        places = g.random.permutation(shape[axis])[: g.int(1, shape[axis])]
        sizes = [len(places) if i == axis else size for i, size in enumerate(shape)]
        along = [len(places) if i == axis else 1 for i in range(len(shape))]
        indices = np.broadcast_to(places.reshape(along), sizes).astype(np.int64)
        return g.op("ScatterElements", x, g.constant(indices), g.normal(*sizes), axis=axis, reduction=reduction)
    rows = g.random.permutation(shape[0])[: g.int(1, shape[0])].reshape(-1, 1)
    return g.op("ScatterND", x, g.constant(rows.astype(np.int64)), g.normal(len(rows), *shape[1:]), reduction=reduction)


def expand(g):
    x = g.value()
    sizes = [g.int(1, 4) if size == 1 else size for size in g.values[x].shape]
    extra = [g.int(1, 2)] if len(sizes) < 4 and g.chance(0.3) else []
    g.op("Expand", x, g.ints(*extra, *sizes))


def reversed_part(g):
    x = g.value(rank=(2, 3, 4))
    length, batch = g.values[x].shape[:2]
    lengths = g.constant(g.random.integers(min(1, length), length + 1, batch))
    g.op("ReverseSequence", x, lengths, time_axis=0, batch_axis=1, exact=x in g.exact)


def compress(g):
    x = g.value()
    axis = g.int(0, g.values[x].ndim - 1)
    kept = g.random.random(g.values[x].shape[axis]) < 0.6
    g.op("Compress", x, g.constant(kept), axis=axis, exact=x in g.exact)


OPERATORS = [
    reshape, reshape, transpose, transpose, shuffle, squeeze, concat, concat, split, slices, slices, gather, pad, tile, rearrange, triangle, pick,
    scatter, expand, reversed_part, compress,
]
