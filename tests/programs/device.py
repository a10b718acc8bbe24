"""Runs nets of the fixtures with `verify --device` in the program of `onnx2ncnn runner`, and compares what is printed.

usage: device.py CONVERTER PYTHON FOLDER COMMAND [SET]

PYTHON has onnxruntime, FOLDER is for the nets, COMMAND starts the program. SET is a set of cases, "all" or "half": the latter for a device
that computes in float16, and has few layers.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
SAME = "the same in onnxruntime and ncnn on the device"
TILES = "spatial/conv_in_large_tiles"


def shorter(net):
    net.with_suffix(".bin").write_bytes(net.with_suffix(".bin").read_bytes()[:100])


def unknown(net):
    param = net.with_suffix(".param")
    param.write_text(param.read_text().replace("Softmax", "Unknown"))


# Cases: the fixture, the options of its conversion, those of its comparison, a change of the net, the command if it is another one, the
# exit code, and what is printed.
ALL = {
    "layers": ("network/convolutional", "", "--layers -v --threads 1", None, "{}", 0, [SAME, "6 blobs inside are the same", " ms\n", "time on the device: "]),
    "rounds": ("network/transformer_block", "", "--rounds 3", None, "{}", 0, [SAME]),
    "caches": ("decoder/given_mask_of_causal_attention", "--kv-cache", "--kv-cache", None, "{}", 0, ["the same in onnxruntime and ncnn"]),
    "greeting": ("network/convolutional", "", "", None, "echo hello; {}", 0, [SAME]),
    "unknown layer": ("network/convolutional", "", "", unknown, "{}", 4, ["on the device: layer Unknown not exists or registered"]),
    "short file": ("network/convolutional", "", "", shorter, "{}", 4, ["the file has fewer bytes than its net reads"]),
    "no float16": ("network/convolutional", "", "--fp16", None, "{}", 2, ["ncnn computes in float32 on the device"]),
    "no GPU": ("network/convolutional", "", "--vulkan", None, "{}", 2, ["no GPU with Vulkan on the device"]),
}
HALF = {
    "float32": (TILES, "", "", None, "{}", 0, [SAME, "time on the device: "]),
    "bfloat16": (TILES, "", "--bf16", None, "{}", 0, [SAME]),
    # The transform of large tiles loses more than the tolerance.
    "tiles": (TILES, "", "--fp16 --data inputs.npz", None, "{}", 4, ["DIFFERS"]),
    "careful": (TILES, "--careful", "--fp16 --data inputs.npz", None, "{}", 0, [SAME]),
    "unknown layer": ("network/convolutional", "", "", None, "{}", 4, ["layer ConvolutionDepthWise not exists or registered"]),
}


def main():
    converter, python, folder, start, *chosen = sys.argv[1:]
    folder, failures, cases = Path(folder), [], HALF if chosen == ["half"] else ALL
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (fixture, converted, compared, change, command, code, texts) in cases.items():
        net = folder / "net.param"
        model = FIXTURES / fixture / "model.onnx"
        shutil.copy(FIXTURES / fixture / "inputs.npz", folder)
        subprocess.run([Path(converter).resolve(), model, net, "-q", *converted.split()], check=True)
        if change:
            change(net)
        line = [Path(converter).resolve(), "verify", model, "net.param", *compared.split(), "--python", python, "--device", command.format(start)]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode != code or not all(text in said for text in texts):
            failures.append(f"{name}: {done.returncode}\n{said}")
    print(f"{len(cases) - len(failures)} of {len(cases)} comparisons on a device print what they should")
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
