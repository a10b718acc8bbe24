"""Runs a converted decoder from token ids to token ids: greedy, from an empty cache.

    onnx2ncnn model.onnx net.param net.bin --report report.json --kv-cache
    decoder.py net.param net.bin report.json 5 17 3 --steps 32

The model has the inputs `input_ids`, and where it needs them `attention_mask` and `position_ids`, an input for each cache, whose name
begins with `past`, the output `logits`, and an output for each cache in the same order, whose name begins with `present`: as exported
by optimum and onnxruntime-genai. With `--kv-cache` the runtime keeps the caches in a layout of its own. Without the option they are
arrays as others, and the run of onnx2ncnn must print `may be 0` with their length.
"""

import argparse
import json

import ncnn
import numpy as np


class Decoder:
    def __init__(self, param, weights, report, **options):
        self.net = ncnn.Net()
        for option, value in options.items():
            setattr(self.net.opt, option, value)
        # Half precision is faster and less exact.
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
            setattr(self.net.opt, f"use_{option}", False)
        if self.net.load_param(param) != 0 or self.net.load_model(weights) != 0:
            raise SystemExit("the net does not load")
        with open(report) as file:
            ports = json.load(file)["net"]
        self.inputs, self.outputs = ports["inputs"], ports["outputs"]
        self.clear()

    def clear(self):
        """Forgets all tokens."""
        # A cache of the runtime is not set at first; others are given without elements.
        self.caches = [None if port["cache"] else ncnn.Mat() for port in self.inputs if is_past(port)]
        self.length = 0

    def step(self, tokens):
        """Appends tokens to the cache; returns the logits of the last one."""
        self.length += len(tokens)
        given = {
            "input_ids": np.array(tokens),
            "attention_mask": np.ones(self.length),
            "position_ids": np.arange(self.length - len(tokens), self.length),
            # Of nets whose caches do not tell it.
            "kv_length": np.ones(self.length),
        }
        extractor, caches = self.net.create_extractor(), iter(self.caches)
        for port in self.inputs:
            if is_past(port):
                mat = next(caches)
            else:
                array = given[port["name"]].astype(np.int32 if port["int32"] else np.float32)
                # A Mat made of an array does not keep it alive: the array has a name until the Mat is copied.
                mat = ncnn.Mat(array).clone()
            if mat is not None:
                extractor.input(port["blob"], mat)
        extracted = {port["name"]: extract(extractor, port) for port in self.outputs}
        self.caches = [mat for name, mat in extracted.items() if name.startswith("present")]
        return np.array(extracted["logits"])[-1]


def is_past(port):
    return port["name"].startswith("past")


def extract(extractor, port):
    # Type 1 leaves a Mat in the layout of the runtime.
    code, mat = extractor.extract(port["blob"], 1 if port["cache"] else 0)
    if code != 0:
        raise SystemExit(f"{port['blob']} cannot be extracted")
    return mat


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("param")
    parser.add_argument("bin")
    parser.add_argument("report")
    parser.add_argument("tokens", type=int, nargs="+")
    parser.add_argument("--steps", type=int, default=32)
    arguments = parser.parse_args()
    decoder, tokens, given = Decoder(arguments.param, arguments.bin, arguments.report), [], arguments.tokens
    for _ in range(arguments.steps):
        given = [int(decoder.step(given).argmax())]
        tokens += given
    print(*tokens)


if __name__ == "__main__":
    main()
