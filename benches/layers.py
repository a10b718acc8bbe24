"""Layers that compute the same: their time on this machine, and their instructions on ARM64.

usage: layers.py [--arm target/arm64] [--match RE] [--out benches/layers.md]

Each pair is a net as a converter writes it and a net that a pass makes of it (`src/ncnn/pass/window.rs`, `src/ncnn/pass/pad.rs`,
`src/ops/spatial/conv/mod.rs`). The time is the least of many runs in turns on one thread in float32. Instructions are counted in an
emulator, in float32 and in float16: `--arm` is the folder that `tests/phone.sh` makes, and qemu-aarch64 (Debian's qemu-user) and cc
are needed.
"""
import argparse, json, os, re, subprocess, sys, tempfile, time

import ncnn
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


class Text:
    """The lines of a `.param` file, and the numbers of elements of the weights, negative for those without a tag."""

    def __init__(self, *shape):
        self.lines, self.weights, self.shape = [], [], shape
        self.add("Input", "", "x", " ".join(f"{key}={size}" for key, size in enumerate(reversed(shape))))

    def add(self, kind, bottoms, tops, params, *weights):
        bottoms, tops = bottoms.split(), tops.split()
        self.lines.append(" ".join([kind, f"l{len(self.lines)}", str(len(bottoms)), str(len(tops)), *bottoms, *tops, params]))
        self.weights += weights
        return self

    def net(self):
        blobs = sum(int(line.split()[3]) for line in self.lines)
        return "\n".join(["7767517", f"{len(self.lines)} {blobs}", *self.lines, ""]), self.weights, self.shape


def few_outputs(channels, outputs, height, width, size, dilation=1):
    """A convolution, and a transposed one."""
    weight = channels * outputs * height * width
    for kind in ("Convolution", "Deconvolution"):
        reaches = [(kernel - 1) * dilation for kernel in (height, width)]
        pads = [reach // 2 if kind == "Convolution" else reach - reach // 2 for reach in reaches]
        params = f"0={outputs} 1={width} 11={height} 2={dilation} 4={pads[1]} 14={pads[0]} 5=1 6={weight}"
        yield Text(channels, 1 if height == 1 else size, size).add(kind, "x", "y", params, weight, -outputs).net()


def depthwise(channels, times, kernel, stride, size):
    """A depthwise convolution of several outputs for each channel, and one for each of them."""
    params, weight = f"1={kernel} 3={stride} 4={kernel // 2} 5=1 7={channels}", channels * kernel * kernel
    whole = f"0={times * channels} 6={times * weight} {params}"
    yield Text(channels, size, size).add("ConvolutionDepthWise", "x", "y", whole, times * weight, -times * channels).net()
    text = Text(channels, size, size).add("Split", "x", " ".join(f"x{i}" for i in range(times)), "")
    for i in range(times):
        text.add("ConvolutionDepthWise", f"x{i}", f"y{i}", f"0={channels} 6={weight} {params}", weight, -channels)
    text.add("Concat", " ".join(f"y{i}" for i in range(times)), "z", "0=0")
    yield text.add("ShuffleChannel", "z", "y", f"0={times}").net()


def one_axis(channels, outputs, kernel, length):
    """A convolution over one axis, and over two."""
    weight, pad = channels * outputs * kernel, kernel // 2
    params = f"0={outputs} 1={kernel} 4={pad} 5=1 6={weight}"
    yield Text(channels, length).add("Convolution1D", "x", "y", params, weight, -outputs).net()
    text = Text(channels, length).add("Reshape", "x", "image", f"0={length} 1=1 2={channels}")
    text.add("Convolution", "image", "convolved", f"{params} 11=1 14=0", weight, -outputs)
    yield text.add("Reshape", "convolved", "y", f"0={length} 1={outputs}").net()


def padded(channels, inner, more, outputs, size, last=1, middle=True):
    """Two convolutions, with a depthwise one between them, and the same with more channels between them."""
    for width in (inner, more):
        text = Text(channels, size, size)
        text.add("Convolution", "x", "a", f"0={width} 1=1 5=1 6={channels * width} 9=1", channels * width, -width)
        if middle:
            text.add("ConvolutionDepthWise", "a", "b", f"0={width} 1=3 4=1 5=1 6={9 * width} 7={width} 9=1", 9 * width, -width)
        weight = width * outputs * last * last
        yield text.add("Convolution", "b" if middle else "a", "y", f"0={outputs} 1={last} 4={last // 2} 5=1 6={weight}", weight, -outputs).net()


def strided(channels, outputs, kernel, stride, size, mask):
    """A convolution with a stride, and one without over the pixels of each block as channels; `mask`: the features that it does without."""
    pad, weight = (kernel - stride) // 2 // stride, channels * outputs * kernel * kernel
    params = f"0={outputs} 5=1 6={weight}"
    yield Text(channels, size, size).add("Convolution", "x", "y", f"{params} 1={kernel} 3={stride} 4={pad * stride}", weight, -outputs).net()
    text = Text(channels, size, size).add("Reorg", "x", "blocks", f"0={stride}")
    yield text.add("Convolution", "blocks", "y", f"{params} 1={kernel // stride} 4={pad} 31={mask}", weight, -outputs).net()


KINDS = {
    "few_outputs": (
        few_outputs,
        "A convolution, and a transposed one: channels, outputs, height and width of the window, size, dilation",
        [
            (64, 3, 9, 9, 96), (32, 3, 9, 9, 96), (64, 3, 5, 5, 96), (32, 1, 5, 5, 96), (24, 3, 5, 5, 48), (16, 3, 5, 5, 48), (64, 4, 5, 5, 48),
            (64, 4, 7, 7, 40), (64, 7, 5, 5, 48), (64, 8, 5, 5, 48), (64, 32, 5, 5, 48), (64, 1, 3, 3, 56), (64, 2, 3, 3, 56), (64, 3, 3, 3, 64),
            (64, 3, 3, 3, 48, 2), (32, 1, 1, 7, 4096), (64, 3, 2, 2, 48),
        ],
    ),
    "depthwise": (
        depthwise,
        "A depthwise convolution of several outputs for each channel, and one for each: channels, outputs, window, stride, size",
        [(48, 2, 7, 2, 28), (48, 2, 3, 2, 28), (64, 2, 3, 1, 28), (24, 2, 5, 2, 28), (30, 2, 3, 1, 28), (32, 3, 3, 1, 28), (32, 4, 3, 1, 28), (32, 8, 3, 1, 28)],
    ),
    "one_axis": (
        one_axis,
        "A convolution over one axis, and over two: channels, outputs, window, length",
        [(32, 32, 3, 1024), (32, 32, 11, 1024), (24, 24, 3, 1024), (16, 32, 5, 512), (32, 64, 1, 512), (16, 16, 3, 1024), (32, 32, 3, 32)],
    ),
    # No pass does this: the windows of 3 by 3 win by a transform that loses digits in float16 (64 disables it), and the others not everywhere.
    "strided": (
        strided,
        "A convolution with a stride, and one over the pixels of each block as channels: channels, outputs, window, stride, size, mask",
        [(3, 16, 6, 2, 320, 0), (3, 16, 6, 2, 320, 64), (3, 32, 6, 2, 320, 0), (3, 32, 6, 2, 320, 64), (3, 96, 4, 4, 224, 0), (3, 192, 16, 16, 224, 0), (3, 384, 14, 14, 224, 0)],
    ),
    "padded": (
        padded,
        "Two convolutions, with a depthwise one between them or without, and with more channels between: channels, between, more, outputs, size",
        [
            (24, 58, 64, 24, 28), (24, 58, 60, 24, 28), (24, 22, 24, 24, 28), (32, 203, 208, 40, 14), (16, 18, 24, 16, 28), (24, 116, 120, 24, 28),
            (24, 36, 40, 24, 28), (24, 58, 64, 24, 28, 3, False), (16, 18, 24, 16, 28, 3, False), (24, 58, 64, 24, 28, 1, False),
        ],
    ),
}


def load(param, weights, half):
    """A net of random weights."""
    random, folder = np.random.default_rng(0), tempfile.mkdtemp()
    with open(folder + "/net.bin", "wb") as file:
        for count in weights:
            file.write((b"\0\0\0\0" if count > 0 else b"") + (random.standard_normal(abs(count)) * 0.05).astype(np.float32).tobytes())
    with open(folder + "/net.param", "w") as file:
        file.write(param)
    net = ncnn.Net()
    net.opt.num_threads = 1
    net.opt.use_bf16_storage = False
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, half)
    assert net.load_param(folder + "/net.param") == 0 and net.load_model(folder + "/net.bin") == 0, param
    return net


def run(net, array):
    extractor = net.create_extractor()
    extractor.input("x", ncnn.Mat(array))
    code, _ = extractor.extract("y")
    assert code == 0


def least_times(nets, seconds=0.5):
    loaded = [(load(param, weights, False), np.ones(shape, np.float32)) for param, weights, shape in nets]
    least, end = [float("inf")] * len(nets), time.time() + seconds * len(nets)
    while time.time() < end:
        for at, (net, array) in enumerate(loaded):
            start = time.perf_counter()
            run(net, array)
            least[at] = min(least[at], time.perf_counter() - start)
    return [1e3 * seconds for seconds in least]


def counted(nets):
    """Runs in the emulator: the second run of each net lies between two calls of getppid."""
    for param, weights, shape in nets:
        for half in (False, True):
            net, array = load(param, weights, half), np.ones(shape, np.float32)
            run(net, array)
            os.getppid()
            run(net, array)
            os.getppid()


def instructions(arm, nets):
    """Millions of instructions of a run on ARM64, in float32 and float16."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = folder + "/instructions.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin, HERE + "/instructions.c"], check=True)
        with open(folder + "/nets.json", "w") as file:
            json.dump(nets, file)
        environment = dict(os.environ, PYTHONPATH=arm + "/root/site", PYTHONHOME="/usr", OMP_NUM_THREADS="1", INSTRUCTIONS=folder + "/counts")
        command = ["qemu-aarch64", "-cpu", "max,pauth-impdef=on", "-plugin", plugin, "-L", arm + "/root", arm + "/root/usr/bin/python3.11"]
        subprocess.run([*command, os.path.abspath(__file__), "--count", folder + "/nets.json"], check=True, env=environment)
        with open(folder + "/counts") as file:
            counts = [int(line) for line in file]
    runs = [(after - before) / 1e6 for before, after in zip(counts[::2], counts[1::2])]
    return list(zip(runs[::2], runs[1::2]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arm")
    parser.add_argument("--match", default="")
    parser.add_argument("--out")
    parser.add_argument("--count")
    options = parser.parse_args()
    if options.count:
        with open(options.count) as file:
            return counted(json.load(file))
    lines = ["# Time of layers", ""]
    lines += ["Nets that compute the same, before and after a pass: the time on one thread of x86 in float32, and the", "instructions on ARM64, in millions. Made by `layers.py`, which names the passes.", ""]
    for name, (make, title, cases) in KINDS.items():
        if not re.search(options.match, name):
            continue
        pairs = [tuple(make(*case)) for case in cases]
        counts = instructions(os.path.abspath(options.arm), [net for pair in pairs for net in pair]) if options.arm else None
        lines += [f"## {title.split(':')[0]}", "", f"In the first column: {title.split(':')[1].strip()}.", ""]
        lines += ["| net | ms | after | ratio | float32 | after | ratio | float16 | after | ratio |", "| --- |" + " ---: |" * 9]
        for at, (case, pair) in enumerate(zip(cases, pairs)):
            columns = [least_times(pair)]
            if counts:
                columns += list(zip(counts[2 * at], counts[2 * at + 1]))
            cells = [f"{before:.3f} | {after:.3f} | {after / before:.2f}" for before, after in columns]
            lines.append(f"| {', '.join(map(str, case))} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
        lines.append("")
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(lines))


if __name__ == "__main__":
    main()
