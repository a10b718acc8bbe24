"""Layers that move, copy, drop or convert elements."""

import itertools

import numpy as np

import core

# Sizes that pack by 4, 8 and 16 and that do not, of each number of axes.
SHAPES = [
    (1,), (7,), (12,), (16,), (40,),
    (1, 6), (3, 5), (4, 7), (8, 3), (16, 5), (5, 1),
    (1, 3, 4), (3, 5, 3), (4, 3, 3), (8, 3, 5), (16, 2, 3), (32, 1, 13),
    (1, 2, 3, 3), (3, 2, 3, 5), (4, 3, 2, 3), (8, 2, 1, 3), (16, 2, 2, 13),
]
# Some of them.
FEW = [(7,), (3, 5), (8, 3), (3, 5, 3), (4, 3, 3), (16, 2, 3), (3, 2, 3, 5), (8, 2, 1, 3)]
REST = -233
# The ids of params for an axis, by its name in the number of axes.
NAMES = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}


def text(params):
    """Params by their ids, as text."""

    def one(number, value):
        if isinstance(value, (list, tuple)):
            return f"{-23300 - number}={','.join(map(str, [len(value), *value]))}"
        return f'{number}="{value}"' if isinstance(value, str) else f"{number}={value}"

    return " ".join(one(number, value) for number, value in params.items())


def blob(rng, shape):
    """Different numbers, and infinities."""
    elements = rng.permutation(int(np.prod(shape))).astype(np.float32) - 3
    if elements.size > 5:
        elements[2], elements[4] = np.inf, -np.inf
    return elements.reshape(shape)


def case(layer, params, bottoms, **more):
    return core.Case(layer, text(params), bottoms=bottoms if isinstance(bottoms, list) else [bottoms], **more)


def with_size(shape, axis, size):
    return tuple(size if index == axis else other for index, other in enumerate(shape))


def copies():
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        for layer in ("DeepCopy", "Flatten", "Noop"):
            yield case(layer, {}, blob(rng, shape))
        for tops in (1, 2, 3):
            yield case("Split", {}, blob(rng, shape), tops=tops)
        ids = {"w": 0, "h": 1, "c": 2, "d": 11}
        sizes = {ids[name]: size for name, size in zip(NAMES[len(shape)], shape)}
        data = blob(rng, shape)
        yield case("MemoryData", sizes, [], weights=[core.raw(data)])
        yield case("MemoryData", sizes | {21: 1}, [], weights=[core.raw(data)])
        yield case("MemoryData", sizes | {21: 0}, [], weights=[data])
        yield case("MemoryData", sizes | {21: 0}, [], weights=[data.astype(np.float16)])


def casts():
    # bfloat16 is left out: numpy has no such elements.
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        numbers = rng.normal(0, 100, shape).astype(np.float32)
        for kinds in ({}, {0: 1, 1: 1}, {0: 4, 1: 4}):
            yield case("Cast", kinds, numbers)
        yield case("Cast", {0: 1, 1: 2}, numbers)
        yield case("Cast", {0: 2, 1: 1}, numbers.astype(np.float16))
        yield case("Cast", {0: 3, 1: 1}, rng.integers(-128, 128, shape).astype(np.int8))
    edges = np.array([0, 1e5, -1e5, 65504, -65504, np.inf, -np.inf, 2048.5], np.float32)
    yield case("Cast", {0: 1, 1: 2}, edges)


def concats():
    rng = np.random.default_rng(3)
    for shape in FEW:
        for axis in range(len(shape)):
            for sizes in ((3,), (4, 4), (8, 4), (3, 5), (16, 16), (16, 8, 4), (4, 3, 1), (1, 2, 5, 8)):
                params = {} if axis == 0 else {0: axis}
                bottoms = [blob(rng, with_size(shape, axis, size)) for size in sizes]
                yield case("Concat", params if len(sizes) % 2 else {0: axis - len(shape)}, bottoms)


def copies_to():
    rng = np.random.default_rng(4)
    offsets = {"w": 0, "h": 1, "c": 2, "d": 13}
    for shape in SHAPES:
        ids = [offsets[name] for name in NAMES[len(shape)]]
        full = blob(rng, shape)
        yield case("CopyTo", {}, [full, blob(rng, shape)])
        yield case("CopyTo", {ids[0]: 1}, [full, blob(rng, shape)])
        for _ in range(2):
            part = tuple(int(rng.integers(1, size + 1)) for size in shape)
            starts = [int(rng.integers(0, size - count + 1)) for size, count in zip(shape, part)]
            bottoms = [full, blob(rng, part)]
            yield case("CopyTo", dict(zip(ids, starts)), bottoms)
            yield case("CopyTo", {9: starts}, bottoms)
            # A start of -233 is 0, as is one that is not stated.
            yield case("CopyTo", {9: [start or REST for start in starts]}, bottoms)
            axes = [int(axis) for axis in rng.permutation(len(shape))]
            back = [starts[axis] - shape[axis] for axis in axes]
            yield case("CopyTo", {9: back, 11: axes}, bottoms)
            yield case("CopyTo", {9: back, 11: [axis - len(shape) for axis in axes]}, bottoms)
            first = with_size((1,) * len(shape), axes[0], part[axes[0]])
            yield case("CopyTo", {9: back[:1], 11: axes[:1]}, [full, blob(rng, first)])


def crops_by_params():
    rng = np.random.default_rng(5)
    # Offsets at the start, sizes, and offsets at the end.
    ids = {"w": (0, 3, 6), "h": (1, 4, 7), "c": (2, 5, 8), "d": (13, 14, 15)}
    for shape in SHAPES:
        mat = blob(rng, shape)
        names = NAMES[len(shape)]
        for kind in range(4):
            params = {}
            for name, size in zip(names, shape):
                before, count, after = ids[name]
                start = int(rng.integers(0, size))
                end = int(rng.integers(start + 1, size + 1))
                if kind == 0:
                    params |= {before: start, count: end - start}
                elif kind == 1:
                    params |= {before: start, count: REST, after: size - end}
                elif kind == 2:
                    # The size is the largest one, and the rest of the axis is smaller.
                    params |= {before: start, count: size + 3}
                else:
                    params |= {before: start // 4 * 4, count: size - start // 4 * 4}
            yield case("Crop", params, mat)
            # The sizes of a second bottom, which may have fewer axes.
            starts = [params[ids[name][0]] for name in names]
            part = [size - start for size, start in zip(shape, starts)]
            offsets = {ids[name][0]: start for name, start in zip(names, starts)}
            yield case("Crop", offsets, [mat, blob(rng, part)])
            if len(shape) == 3:
                yield case("Crop", offsets | {2: 0}, [mat, blob(rng, part[1:])])
                yield case("Crop", offsets | {2: 0}, [mat, blob(rng, (2, 3, *part[1:]))])
            if len(shape) == 4:
                yield case("Crop", offsets | {2: 0}, [mat, blob(rng, part[2:])])
            if len(shape) == 2:
                yield case("Crop", offsets, [mat, blob(rng, part[1:])])
                yield case("Crop", offsets, [mat, blob(rng, (2, *part))])
            # Offsets and sizes as elements of a second bottom.
            order = "whdc" if len(shape) == 4 else "whc"
            listed = [[dict(zip(names, values)).get(name, 1) for name in order] for values in (starts, part)]
            yield case("Crop", {0: REST}, [mat, np.array(sum(listed, []), np.int32)])
        yield case("Crop", {3: REST, 4: REST, 5: REST, 14: REST}, mat)


def crops_by_slices():
    rng = np.random.default_rng(6)
    for shape in SHAPES:
        mat = blob(rng, shape)
        for kind in range(6):
            starts, ends = [], []
            for size in shape:
                start = int(rng.integers(0, size))
                end = int(rng.integers(start + 1, size + 1))
                if kind % 3 == 2:
                    start = start // 4 * 4
                    end = size
                starts.append(int(rng.choice([start, start - size, start if start else REST])))
                ends.append(int(rng.choice([end, end - size, end if end < size else REST, end if end < size else size + 9])))
            axes = [int(axis) for axis in rng.permutation(len(shape))][: int(rng.integers(1, len(shape) + 1))]
            chosen = [[values[axis] for axis in axes] for values in (starts, ends)]
            back = [axis - len(shape) for axis in axes]
            yield case("Crop", {9: starts, 10: ends}, mat)
            yield case("Crop", {9: chosen[0], 10: chosen[1], 11: axes}, mat)
            yield case("Crop", {9: chosen[0], 10: chosen[1], 11: back}, mat)
            # Expressions need their axes: without them the runtime reads an empty list
            # [expression.cpp, eval_list_expression].
            listed = [",".join(map(str, values)) for values in (*chosen, back)]
            yield case("Crop", dict(zip((19, 20, 21), listed)), mat)
    yield from crops_by_expressions()


def crops_by_expressions():
    rng = np.random.default_rng(7)
    for shape in ((9, 10), (16, 7), (8, 6, 7), (3, 8, 9), (4, 6, 5, 8)):
        mat = blob(rng, shape)
        for starts, ends, axes in (
            ("//(0w,3)", "-(0w,1)", "-1"),
            ("-(0w,0w)", "+(//(0w,2),1)", "-1"),
            ("neg(3),1", "-233,-(0h,2)", "-1,-2"),
            ("floor(/(0h,4))", "max(2,min(0h,7))", "-2"),
            ("1", "ceil(*(0w,0.6))", "-(2,3)"),
        ):
            yield case("Crop", {19: starts, 20: ends, 21: axes}, mat)
        for starts, ends in (("-(1w,1)", "1w"), ("0", "1w"), ("//(1h,2)", "-(0w,2w)")):
            yield case("Crop", {19: starts, 20: ends, 21: "-1"}, [mat, blob(rng, (3, 4)), blob(rng, (2,))])


def dequantizations():
    rng = np.random.default_rng(8)
    for shape in SHAPES:
        whole = rng.integers(-70000, 70000, shape).astype(np.int32)
        channels = 1 if len(shape) == 1 else shape[0]
        for scales, biases in itertools.product({1, channels}, {0, 1, channels}):
            weights = [core.raw(rng.uniform(0.001, 2, scales))]
            if biases:
                weights.append(core.raw(rng.normal(0, 100, biases)))
            params = ({} if scales == 1 else {0: scales}) | ({1: biases} if biases else {})
            yield case("Dequantize", params, whole, weights=weights)


def diagonals():
    rng = np.random.default_rng(9)
    for diagonal in (None, 0, 1, 2, -1, -3, 4):
        params = {} if diagonal is None else {0: diagonal}
        for shape in ((1,), (4,), (7,), (16,), (5, 5), (5, 8), (8, 5), (4, 12), (16, 6)):
            yield case("Diag", params, blob(rng, shape))


def flips():
    rng = np.random.default_rng(10)
    for shape in SHAPES:
        yield case("Flip", {}, blob(rng, shape))
        axes = range(len(shape))
        for count in range(1, len(shape) + 1):
            for chosen in itertools.combinations(axes, count):
                yield case("Flip", {0: chosen}, blob(rng, shape))
                yield case("Flip", {0: [axis - len(shape) for axis in reversed(chosen)]}, blob(rng, shape))


def paddings():
    rng = np.random.default_rng(11)
    # The ids before and after an axis; those of d are those of c if there is no d.
    ids = {"w": (2, 3), "h": (0, 1), "c": (7, 8), "d": (7, 8)}
    for shape in SHAPES:
        mat = blob(rng, shape)
        names = NAMES[len(shape)]
        padded = [axis for axis, name in enumerate(names) if len(shape) < 4 or name != "c"]
        yield case("Padding", {}, mat)
        for kind in (0, 1, 2):
            params = [] if kind == 0 else [(4, kind)]
            for round_ in range(4):
                pads = list(params)
                more = 0
                for axis in padded:
                    # A reflection has an element less than the axis.
                    most = shape[axis] - 1 if kind == 2 else 9
                    values = [int(value) for value in rng.integers(0, most + 1, 2)]
                    if axis == 0 and round_ % 2:
                        values = [min(most, 4 * (round_ // 2)), min(most, 8)]
                    pads += list(zip(ids[names[axis]], values))
                    more = sum(values) if axis == 0 else more
                value = [(5, round(float(rng.normal(0, 9)), 3))] if round_ else []
                yield case("Padding", dict(pads + value), mat)
                if len(shape) > 2 and kind == 0:
                    channels = shape[0] + more
                    data = core.raw(rng.normal(0, 9, channels))
                    yield case("Padding", dict(pads + value + [(6, channels)]), mat, weights=[data])
        for axis in padded:
            # Along each axis alone.
            name = names[axis]
            yield case("Padding", {ids[name][0]: 1, ids[name][1]: 2, 5: 0.5}, mat)
            yield case("Padding", {ids[name][1]: 4, 5: -1e30}, mat)


def permutations():
    rng = np.random.default_rng(12)
    for shape in [*SHAPES, (4, 8), (2, 4, 12), (5, 2, 3, 4)]:
        orders = (1, 2, 6, 24)[len(shape) - 1]
        for order in range(orders):
            yield case("Permute", {0: order} if order else {}, blob(rng, shape))
    yield case("Permute", {0: 1}, blob(rng, (8,)))


def blocks():
    rng = np.random.default_rng(13)
    for mode in (None, 0, 1):
        modes = {} if mode is None else {1: mode}
        for factor in (None, 1, 2, 3, 4, 5):
            factors = {} if factor is None else {0: factor}
            times = factor or 1
            for channels, height, width in ((1, 2, 3), (3, 1, 4), (4, 3, 9), (8, 2, 2)):
                shape = (channels * times * times, height, width)
                yield case("PixelShuffle", factors | modes, blob(rng, shape))
                # Channels are left over.
                yield case("PixelShuffle", factors | modes, blob(rng, (shape[0] + times // 2, height, width)))
                shape = (channels, height * times, width * times)
                yield case("Reorg", factors | modes, blob(rng, shape))
                # Pixels are left over.
                shape = (channels, height * times + times // 2, width * times + times - 1)
                yield case("Reorg", factors | modes, blob(rng, shape))


def shuffles():
    rng = np.random.default_rng(14)
    for channels in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 80):
        for group in (None, 1, 2, 3, 4, 5, 6, 8, 12, 16):
            if channels % (group or 1) == 0:
                groups = {} if group is None else {0: group}
                for reverse in ({}, {1: 1}):
                    yield case("ShuffleChannel", groups | reverse, blob(rng, (channels, 2, 3)))
                    yield case("ShuffleChannel", groups | reverse, blob(rng, (channels, 2, 1, 5)))


def slices():
    rng = np.random.default_rng(15)
    for shape in FEW:
        for axis in range(len(shape)):
            axes = {} if axis == 0 else {1: axis}
            back = {1: axis - len(shape)}
            for size, sizes, indices in (
                (7, [3, 4], [3]),
                (16, [4, 12], [-12]),
                (16, [8, REST], [8]),
                (24, [REST, REST, REST], [8, 16]),
                (11, [REST, REST], [-1]),
                (12, [1, 4, REST, REST], [1, 5, -3]),
                (32, [16, 16], [16]),
                (20, [4, 8, 8], [4, -8]),
                # The last elements are in no top.
                (9, [2, 4], [1, 2, 3]),
                (5, [5], []),
            ):
                # Along h and w of several channels the kernel takes the last elements of a row for the first
                # ones of the next [slice_x86.cpp, forward].
                if sum(sizes) < size and REST not in sizes and axis > 0 and len(shape) > 2:
                    continue
                mat = blob(rng, with_size(shape, axis, size))
                yield case("Slice", {0: sizes} | axes, mat, tops=len(sizes))
                yield case("Slice", {0: sizes} | back, mat, tops=len(sizes))
                if indices:
                    yield case("Slice", {2: indices} | axes, mat, tops=len(indices) + 1)


def tiles():
    rng = np.random.default_rng(16)
    for shape in SHAPES:
        mat = blob(rng, shape)
        yield case("Tile", {}, mat)
        for axis in range(len(shape)):
            for times in (1, 2, 4):
                yield case("Tile", {0: axis, 1: times}, mat)
        yield case("Tile", {1: 3}, mat)
        for count in range(1, 5):
            yield case("Tile", {2: [1] * count}, mat)
            for _ in range(2):
                yield case("Tile", {2: [int(times) for times in rng.integers(1, 4, count)]}, mat)


def cases():
    for family in (
        copies, casts, concats, copies_to, crops_by_params, crops_by_slices, dequantizations, diagonals, flips,
        paddings, permutations, blocks, shuffles, slices, tiles,
    ):
        yield from family()
