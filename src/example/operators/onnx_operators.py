"""Operators of ONNX on arrays of numpy, for the nodes of a model that follow its net.

Written next to a program of --example. Axes may count from the end.
"""

import numpy as np


def floats(shape, elements):
    return np.array(elements, np.float32).reshape(shape)


def integers(shape, elements):
    return np.array(elements, np.int64).reshape(shape)


def truths(shape, elements):
    return np.array(elements, bool).reshape(shape)


def as_float(x):
    return x.astype(np.float32)


def as_integer(x):
    return x.astype(np.int64)


def as_truth(x):
    return x != 0


def is_true(x):
    return bool(x.ravel()[0])


def of_type(result, *operands):
    """Floats stay float32: numpy computes some of them in float64."""
    return result.astype(np.float32) if np.issubdtype(np.result_type(*operands), np.floating) else result


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
    return a * b


def divide(a, b):
    """The quotient; of integers it is rounded toward 0."""
    with np.errstate(all="ignore"):
        quotient = np.true_divide(a, b)
        return quotient if np.issubdtype(np.result_type(a, b), np.floating) else np.trunc(quotient).astype(np.int64)


def modulo(a, b, like_dividend):
    """The remainder, with the sign of the dividend or of the divisor."""
    return np.fmod(a, b) if like_dividend else np.mod(a, b)


def power(a, b):
    return of_type(np.power(a, b), a)


def minimum(a, b):
    return np.minimum(a, b)


def maximum(a, b):
    return np.maximum(a, b)


def logical_and(a, b):
    return a & b


def logical_or(a, b):
    return a | b


def logical_xor(a, b):
    return a ^ b


def logical_not(x):
    return ~x


def is_nan(x):
    return np.isnan(x)


def is_infinite(x):
    return np.isinf(x)


def equal(a, b):
    return a == b


def greater(a, b):
    return a > b


def greater_or_equal(a, b):
    return a >= b


def less(a, b):
    return a < b


def less_or_equal(a, b):
    return a <= b


def where(condition, a, b):
    return np.where(condition, a, b)


def absolute(x):
    return np.abs(x)


def negative(x):
    return -x


def sign(x):
    return np.sign(x)


def floor(x):
    return np.floor(x)


def ceil(x):
    return np.ceil(x)


def round_to_even(x):
    return np.rint(x)


def sqrt(x):
    return np.sqrt(x)


def exp(x):
    return np.exp(x)


def log(x):
    with np.errstate(all="ignore"):
        return np.log(x)


def sin(x):
    return np.sin(x)


def cos(x):
    return np.cos(x)


def reciprocal(x):
    return np.float32(1) / x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def tanh(x):
    return np.tanh(x)


def relu(x):
    return np.maximum(x, 0).astype(x.dtype)


def clip(x, low, high):
    """The elements between two bounds, each of which may be None."""
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def shape(x):
    return np.array(x.shape, np.int64)


def size(x):
    return np.array(x.size, np.int64)


def reshape(x, sizes, zero_is_a_size):
    """Without zero_is_a_size, 0 is the size that x has there."""
    sizes = [x.shape[axis] if n == 0 and not zero_is_a_size else int(n) for axis, n in enumerate(sizes)]
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.size // max(1, -int(np.prod(sizes)))
    return x.reshape(sizes)


def flatten(x, axis):
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


def squeeze(x, axes):
    """Without these axes of size 1; all of them if the list is empty."""
    return np.squeeze(x, tuple(axes) if len(axes) else None)


def unsqueeze(x, axes):
    return np.expand_dims(x, tuple(axes))


def transpose(x, order):
    """The axes in another order, the reverse one if the list is empty."""
    return np.transpose(x, order or None)


def expand(x, sizes):
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(n) for n in sizes)))


def tile(x, repeats):
    return np.tile(x, tuple(int(n) for n in repeats))


def concat(parts, axis):
    return np.concatenate(parts, axis)


def split(x, sizes, axis):
    return np.split(x, np.cumsum([int(n) for n in sizes])[:-1], axis)


def slice_of(x, starts, ends, axes, steps):
    spans = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        start, end, step, size = int(start), int(end), int(step), x.shape[axis]
        start, end = (n + size if n < 0 else n for n in (start, end))
        if step > 0:
            spans[axis] = slice(min(max(start, 0), size), min(max(end, 0), size), step)
        else:
            end = min(max(end, -1), size)
            spans[axis] = slice(min(max(start, -1), size - 1), None if end < 0 else end, step)
            if start < 0:
                spans[axis] = slice(0, 0)
    return x[tuple(spans)]


def trilu(x, diagonal, is_upper):
    """The elements from a diagonal on, or up to it; 0 elsewhere."""
    diagonal = 0 if diagonal is None else int(np.ravel(diagonal)[0])
    return np.triu(x, diagonal) if is_upper else np.tril(x, diagonal)


def gather(x, indices, axis):
    return np.take(x, indices, axis)


def positions(indices, axis):
    """The indices of elements along all axes: the elements of `indices` along one axis, and their own positions along the others."""
    found = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    found[axis] = indices
    return tuple(found)


def gather_elements(x, indices, axis):
    return x[positions(indices, axis)]


def gather_nd(x, indices, batch_axes):
    if batch_axes == 0:
        return x[tuple(np.moveaxis(indices, -1, 0))]
    return np.stack([gather_nd(a, b, batch_axes - 1) for a, b in zip(x, indices)])


def scatter_nd(x, indices, updates):
    result = x.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def scatter_elements(x, indices, updates, axis):
    result = x.copy()
    result[positions(indices, axis)] = updates
    return result


def compress(x, condition, axis):
    return np.compress(condition, x, axis)


def nonzero(x):
    return np.array(np.nonzero(x), np.int64)


def top_k(x, count, axis, largest):
    """The largest or smallest elements along an axis in order, and their indices."""
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    indices = np.take(order, np.arange(int(np.ravel(count)[0])), axis)
    return np.take_along_axis(x, indices, axis), indices


def arg_max(x, axis, keep, is_last):
    if is_last:
        best = x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis)
    else:
        best = np.argmax(x, axis)
    return np.expand_dims(best, axis) if keep else best


def arg_min(x, axis, keep, is_last):
    return arg_max(-x, axis, keep, is_last)


def reduced(function, x, axes, keep):
    result = function(x, axis=tuple(axes) if len(axes) else None, keepdims=keep)
    return np.asarray(result).astype(x.dtype)


def reduce_max(x, axes, keep):
    return reduced(np.max, x, axes, keep)


def reduce_min(x, axes, keep):
    return reduced(np.min, x, axes, keep)


def reduce_sum(x, axes, keep):
    return reduced(np.sum, x, axes, keep)


def reduce_mean(x, axes, keep):
    return reduced(np.mean, x, axes, keep)


def reduce_prod(x, axes, keep):
    return reduced(np.prod, x, axes, keep)


def reduce_l2(x, axes, keep):
    return np.sqrt(reduced(np.sum, x * x, axes, keep))


def cum_sum(x, axis, is_exclusive, is_reverse):
    axis = int(np.ravel(axis)[0])
    x = np.flip(x, axis) if is_reverse else x
    sums = np.cumsum(x, axis, dtype=x.dtype)
    sums = sums - x if is_exclusive else sums
    return np.flip(sums, axis) if is_reverse else sums


def numbers(start, limit, step):
    return np.arange(start.item(), limit.item(), step.item(), dtype=start.dtype)


def filled(sizes, element):
    return np.full(tuple(int(n) for n in sizes), element.ravel()[0])


def pad(x, amounts, element, axes):
    """A border of one element; negative amounts remove elements."""
    amounts, widths = [int(n) for n in amounts], [(0, 0)] * x.ndim
    for at, axis in enumerate(axes):
        before, after = amounts[at], amounts[at + len(axes)]
        x = np.take(x, np.arange(max(0, -before), x.shape[axis] - max(0, -after)), axis)
        widths[axis] = (max(0, before), max(0, after))
    return np.pad(x, widths, constant_values=element.item())


def grid_sample(x, grid, corners_are_ends):
    """The elements of images at points from -1 to 1, between the four next ones; 0 outside."""
    sizes = np.array(x.shape[:1:-1])
    points = (grid + 1) / 2 * (sizes - 1) if corners_are_ends else ((grid + 1) * sizes - 1) / 2
    images, result = np.arange(len(x))[:, None, None], 0
    for offset in ([0, 0], [1, 0], [0, 1], [1, 1]):
        near = np.floor(points).astype(int) + offset
        weights = (1 - np.abs(points - near)).prod(axis=-1) * ((near >= 0) & (near < sizes)).all(axis=-1)
        columns, rows = np.moveaxis(np.clip(near, 0, sizes - 1), -1, 0)
        result = result + np.moveaxis(x[images, :, rows, columns] * weights[..., None], -1, 1)
    return result.astype(np.float32)


def corners_of(boxes, are_centres):
    """Boxes as their lower and upper corners; else two corners in any order, or a centre and a size."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if are_centres:
        first, second = first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def selected(low, high, scores, most, overlap, threshold):
    """The indices of the best boxes, without those that lie over a better one."""
    order = (-scores).argsort(kind="stable")
    if threshold is not None:
        order = order[scores[order] > threshold]
    areas = (high - low).prod(axis=1)
    kept = []
    while len(order) and len(kept) < most:
        first, order = order[0], order[1:]
        kept.append(first)
        shared = np.maximum(np.minimum(high[first], high[order]) - np.maximum(low[first], low[order]), 0).prod(axis=1)
        both = areas[first] + areas[order] - shared
        is_hidden = (areas[first] > 0) & (areas[order] > 0) & (shared > overlap * both)
        order = order[~is_hidden]
    return kept


def non_max_suppression(boxes, scores, most, overlap, threshold, are_centres):
    """Rows of the indices of an image, a class and a box."""
    most = int(np.ravel(most)[0]) if most is not None else 0
    overlap = np.float32(np.ravel(overlap)[0]) if overlap is not None else np.float32(0)
    threshold = np.float32(np.ravel(threshold)[0]) if threshold is not None else None
    rows = []
    for image in range(scores.shape[0]):
        low, high = corners_of(boxes[image], are_centres)
        for label in range(scores.shape[1]):
            kept = selected(low, high, scores[image, label], most, overlap, threshold)
            rows.extend([image, label, box] for box in kept)
    return np.array(rows, np.int64).reshape(-1, 3)


def best_boxes(boxes, scores, threshold, overlap, most, first, background, are_centres):
    """The number of selected boxes of each image, the boxes, their scores and classes, as TensorRT's plugins select them.

    Boxes [image, box, 4] or [image, box, classes or 1, 4], scores [image, box, class]; `first`: how many of a class are
    compared, 0 for all; `background`: a class that is left out, or -1. What is not selected is 0, and its class is -1.
    """
    boxes = boxes if boxes.ndim == 4 else boxes[:, :, None]
    count = np.zeros((len(boxes), 1), np.int64)
    chosen, best = np.zeros((len(boxes), most, 4), np.float32), np.zeros((len(boxes), most), np.float32)
    labels = np.full((len(boxes), most), -1, np.int64)
    for image in range(len(boxes)):
        rows = []
        for label in range(scores.shape[2]):
            own = boxes[image, :, min(label, boxes.shape[2] - 1)]
            order = (-scores[image, :, label]).argsort(kind="stable")[: first or None]
            if label != background:
                low, high = corners_of(own[order], are_centres)
                kept = selected(low, high, scores[image, order, label], most, overlap, threshold)
                rows.extend((scores[image, order[at], label], label, own[order[at]]) for at in kept)
        rows.sort(key=lambda row: -row[0])
        count[image] = min(len(rows), most)
        for at, (score, label, box) in enumerate(rows[:most]):
            best[image, at], labels[image, at], chosen[image, at] = score, label, box
    return count, chosen, best, labels
