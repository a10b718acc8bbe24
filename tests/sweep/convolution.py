"""Convolutions and their transposes.

Left out are axes that are shorter than the window, SAME_LOWER of an odd padding of depth (`convolution3d.cpp` pads it as SAME_UPPER),
and SAME with a stride beyond the window along one axis only, which crops that axis (`make_padding`).

Left out of int8 are negative padding (`padding_x86.cpp` shifts packed bits), and groups with a multiple of 8 outputs that are not
rounded again: their convolutions pack 8 or 16 outputs where `ConvolutionDepthWise_x86::forward_int8_x86` expects 4, so that its top
is never written.
"""

import itertools

import numpy as np
from core import Case, raw

# The ids of kernel, dilation, stride and both pads along w, h and d.
IDS = [(1, 2, 3, 4, 15), (11, 12, 13, 14, 16), (21, 22, 23, 24, 17)]
UPPER, LOWER = -233, -234
CHANNELS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 24]
ACTIVATIONS = [(0, []), (1, []), (2, [0.1]), (3, [-0.5, 1.5]), (4, []), (5, []), (6, [0.2, 0.4])]
WINOGRAD = "sums of transforms of Winograd are less exact"
RECIPROCAL = "reciprocals of scales are approximations (`_mm_rcp_ps` in `convolutiondepthwise_x86.cpp`)"


def words(params):
    """Params as text; arrays have the id -23300 - id."""
    text = []
    for key, value in params.items():
        if isinstance(value, list):
            text.append(f"{-23300 - key}={len(value)}," + ",".join(repr(float(x)) for x in value))
        else:
            text.append(f"{key}={value}")
    return " ".join(text)


def extent(kernel, dilation):
    return (kernel - 1) * dilation + 1


def same_total(size, kernel, dilation, stride):
    return extent(kernel, dilation) + (size - 1) // stride * stride - size


def window_params(windows, rng):
    """Params of windows (kernel, dilation, stride, before, after), the innermost first; some that equal their default are left out."""
    params = {}
    for axis, (ids, values) in enumerate(zip(IDS, windows)):
        first = windows[0]
        defaults = (None, 1, 1, 0, first[3]) if axis == 0 else (*first[:4], values[3])
        for key, value, default in zip(ids, values, defaults):
            if value != default or rng.random() < 0.3:
                params[key] = value
    return params


def activated(params, index):
    kind, numbers = ACTIVATIONS[index % len(ACTIVATIONS)]
    if kind:
        params[9] = kind
    if numbers:
        params[10] = numbers


def random_windows(rng, axes, largest):
    if rng.random() < 0.4:
        kernels, dilations, strides = ([int(rng.integers(1, n))] * axes for n in (largest + 1, 3, 3))
    else:
        kernels, dilations, strides = (rng.integers(1, n, axes).tolist() for n in (largest + 1, 3, 4))
    return list(zip(kernels, dilations, strides))


def random_convolution(rng, axes, largest, low=4, high=11):
    """Sizes and windows, the innermost first."""
    while True:
        windows = random_windows(rng, axes, largest)
        sizes = rng.integers(low, high, axes).tolist()
        mode = rng.integers(5)
        if mode == 0:
            pads = [(0, 0)] * axes
        elif mode == 1:
            pads = [(int(rng.integers(1, 3)),) * 2] * axes
        elif mode == 2:
            pads = [tuple(rng.integers(0, 3, 2).tolist()) for _ in range(axes)]
        else:
            pads = [((UPPER, LOWER)[mode - 3],) * 2] * axes
        totals = [same_total(size, *window) for size, window in zip(sizes, windows)]
        if mode > 2 and min(totals) < 0 < max(totals):
            continue
        if mode == 4 and axes == 3 and totals[2] > 0 and totals[2] % 2:
            continue
        padded = [size + max(total, 0) if mode > 2 else size + sum(pad) for size, pad, total in zip(sizes, pads, totals)]
        if all(extent(*window[:2]) <= size for window, size in zip(windows, padded)):
            return sizes, [(*window, *pad) for window, pad in zip(windows, pads)]


def grouping(rng, depthwise):
    """Channels, outputs and groups."""
    if not depthwise:
        return int(rng.choice(CHANNELS)), int(rng.choice(CHANNELS)), 1
    kind = rng.integers(3)
    channels = int(rng.choice(CHANNELS))
    if kind == 0:
        return channels, channels, channels
    if kind == 1:
        return channels, channels * int(rng.integers(2, 4)), channels
    group = int(rng.choice([1, 2, 3, 4]))
    return group * int(rng.choice([1, 2, 3, 4, 8])), group * int(rng.choice([1, 2, 3, 4, 8])), group


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def tolerance(layer, windows):
    transformed = layer == "Convolution" and all(window[:3] == (3, 1, 1) for window in windows)
    return {"tolerance": 1e-4, "why": WINOGRAD} if transformed else {}


def convolution(layer, axes, count, rng, depthwise=False, dynamic=False, largest=4):
    for index in range(count):
        channels, outputs, group = grouping(rng, depthwise)
        sizes, windows = random_convolution(rng, axes, largest)
        params = {0: outputs, **window_params(windows, rng)}
        if depthwise:
            params[7] = group
        activated(params, index)
        if index % 3 == 1:
            params[18] = float(rng.choice([0.5, -1.25]))
        kernels = [window[0] for window in windows]
        weight = normal(rng, outputs, channels // group, *kernels[::-1])
        bottoms = [normal(rng, channels, *sizes[::-1])]
        weights = []
        if dynamic:
            # The weight states the sizes.
            params[19] = 1
            del params[0]
            for ids in IDS[:axes]:
                params.pop(ids[0], None)
            bottoms.append(weight)
        else:
            params[6] = weight.size
            weights = [weight.astype(np.float16 if index % 10 == 9 else np.float32).reshape(-1)]
        if rng.random() < 0.5 and not dynamic:
            params[5] = 1
            weights.append(raw(normal(rng, outputs)))
        yield Case(layer, words(params), weights, bottoms, **tolerance(layer, windows))


def square(layer, rng, depthwise=False):
    """The kernels that have code of their own."""
    for kernel, stride, channels, outputs in itertools.product((1, 3, 5, 7), (1, 2), (3, 4, 8, 16, 32), (3, 8, 16, 40)):
        if depthwise and outputs != 16:
            continue
        outputs, group = (channels, channels) if depthwise else (outputs, 1)
        params = {0: outputs, 1: kernel, 3: stride, 4: kernel // 2, 5: 1}
        if depthwise:
            params[7] = group
        elif kernel == 3 and outputs == 8:
            # Without transforms of Winograd.
            params[31] = 64
        weight = normal(rng, outputs * channels // group * kernel * kernel)
        params[6] = weight.size
        weights, bottoms = [weight, raw(normal(rng, outputs))], [normal(rng, channels, 13, 15)]
        yield Case(layer, words(params), weights, bottoms, **tolerance(layer, [(kernel, 1, stride)]))


def deconvolution(layer, axes, count, rng, depthwise=False, dynamic=False, largest=4):
    output_pad_ids = [18, 19, 20]
    for index in range(count):
        channels, outputs, group = grouping(rng, depthwise)
        while True:
            windows = random_windows(rng, axes, largest)
            sizes = rng.integers(1, 7, axes).tolist()
            pads = [tuple(rng.integers(0, 3, 2).tolist()) if index % 2 else (index // 2 % 2,) * 2 for _ in range(axes)]
            output_pads = [int(rng.integers(0, 3)) if index % 3 == 0 else 0 for _ in range(axes)]
            whole = [(size - 1) * w[2] + extent(*w[:2]) + out for size, w, out in zip(sizes, windows, output_pads)]
            if all(size > sum(pad) for size, pad in zip(whole, pads)):
                break
        windows = [(*window, *pad) for window, pad in zip(windows, pads)]
        params = {0: outputs, **window_params(windows, rng)}
        for axis, (key, value) in enumerate(zip(output_pad_ids, output_pads)):
            if value != (output_pads[0] if axis else 0):
                params[key] = value
        if depthwise:
            params[7] = group
        activated(params, index)
        kernels = [window[0] for window in windows]
        bottoms, weights = [normal(rng, channels, *sizes[::-1])], []
        if dynamic:
            params[28] = 1
            del params[0]
            for ids in IDS[:axes]:
                params.pop(ids[0], None)
            bottoms.append(normal(rng, channels, outputs // group, *kernels[::-1]))
        else:
            weight = normal(rng, outputs * channels // group * int(np.prod(kernels)))
            params[6] = weight.size
            weights = [weight]
        if rng.random() < 0.5 and not dynamic:
            params[5] = 1
            weights.append(raw(normal(rng, outputs)))
        yield Case(layer, words(params), weights, bottoms)


def int8(layer, count, rng, depthwise=False):
    for index in range(count):
        channels, outputs, group = grouping(rng, depthwise)
        of_channels = depthwise and channels == group == outputs
        if depthwise and index % 2 == 0 and not of_channels and outputs // group % 8 == 0:
            continue
        sizes, windows = random_convolution(rng, 2, 4)
        params = {0: outputs, **window_params(windows, rng), 8: (1, 101)[index % 2]}
        if depthwise:
            params[7] = group
        activated(params, index)
        if index % 3 == 1:
            params[18] = float(rng.integers(1, 20))
        kernels = [window[0] for window in windows]
        count = outputs * channels // group * int(np.prod(kernels))
        params[6] = count
        scales = rng.uniform(20, 60, group if depthwise else outputs).astype(np.float32)
        if index % 5 == 4:
            scales[0] = 0
        # Weights of float32 are rounded when they are loaded.
        of_floats = index % 4 == 3
        weights = [normal(rng, count) if of_floats else rng.integers(-127, 128, count).astype(np.int8)]
        if rng.random() < 0.5:
            params[5] = 1
            weights.append(raw(normal(rng, outputs)))
        weights += [raw(scales), raw([float(rng.uniform(20, 80))])]
        if index % 2:
            weights.append(raw([float(rng.uniform(1, 30))]))
        options = {}
        if of_channels and channels % 8 == 0:
            # Products close to half a step may be rounded to either side.
            options = {"tolerance": 0.06 if index % 2 else 5e-4, "why": RECIPROCAL}
        yield Case(layer, words(params), weights, [normal(rng, channels, *sizes[::-1])], **options)


def deformable(rng, count):
    for index in range(count):
        channels, outputs, _ = grouping(rng, False)
        while True:
            sizes, windows = random_convolution(rng, 2, 3, high=9)
            if windows[0][3] >= 0:
                break
        params = {0: outputs, **window_params(windows, rng)}
        activated(params, index)
        kernels = [window[0] for window in windows]
        weight = normal(rng, outputs * channels * int(np.prod(kernels)))
        params[6] = weight.size
        weights = [weight]
        if rng.random() < 0.5:
            params[5] = 1
            weights.append(raw(normal(rng, outputs)))
        counts = [(size + before + after - extent(kernel, dilation)) // stride + 1
                  for size, (kernel, dilation, stride, before, after) in zip(sizes, windows)][::-1]
        taps = int(np.prod(kernels))
        bottoms = [normal(rng, channels, *sizes[::-1]), 2 * normal(rng, 2 * taps, *counts)]
        if index % 2:
            bottoms.append(rng.random((taps, *counts)).astype(np.float32))
        yield Case("DeformableConv2D", words(params), weights, bottoms)


def cases():
    rng = np.random.default_rng(1)
    yield from convolution("Convolution", 2, 140, rng)
    yield from convolution("Convolution", 2, 40, rng, dynamic=True)
    yield from square("Convolution", rng)
    yield from int8("Convolution", 80, rng)
    yield from convolution("ConvolutionDepthWise", 2, 120, rng, depthwise=True)
    yield from convolution("ConvolutionDepthWise", 2, 40, rng, depthwise=True, dynamic=True)
    yield from square("ConvolutionDepthWise", rng, depthwise=True)
    yield from int8("ConvolutionDepthWise", 80, rng, depthwise=True)
    yield from convolution("Convolution1D", 1, 80, rng, largest=6)
    yield from convolution("Convolution1D", 1, 30, rng, dynamic=True, largest=6)
    yield from convolution("ConvolutionDepthWise1D", 1, 60, rng, depthwise=True, largest=6)
    yield from convolution("ConvolutionDepthWise1D", 1, 20, rng, depthwise=True, dynamic=True, largest=6)
    yield from convolution("Convolution3D", 3, 60, rng, largest=3)
    yield from convolution("ConvolutionDepthWise3D", 3, 60, rng, depthwise=True, largest=3)
    yield from deconvolution("Deconvolution", 2, 100, rng)
    yield from deconvolution("Deconvolution", 2, 30, rng, dynamic=True)
    yield from deconvolution("DeconvolutionDepthWise", 2, 100, rng, depthwise=True)
    yield from deconvolution("DeconvolutionDepthWise", 2, 30, rng, depthwise=True, dynamic=True)
    yield from deconvolution("Deconvolution1D", 1, 60, rng, largest=6)
    yield from deconvolution("Deconvolution1D", 1, 20, rng, dynamic=True, largest=6)
    yield from deconvolution("DeconvolutionDepthWise1D", 1, 60, rng, depthwise=True, largest=6)
    yield from deconvolution("DeconvolutionDepthWise1D", 1, 20, rng, depthwise=True, dynamic=True, largest=6)
    yield from deconvolution("Deconvolution3D", 3, 50, rng, largest=3)
    yield from deconvolution("DeconvolutionDepthWise3D", 3, 50, rng, depthwise=True, largest=3)
    yield from deformable(rng, 60)
