"""Runs a converted decoder from token ids to token ids: greedy, from an empty cache.

    onnx2ncnn model.onnx net.param net.bin --report report.json
    decoder.py net.param net.bin report.json 5 17 3 --steps 32

The model has the inputs `input_ids`, and where it needs them `attention_mask` and `position_ids`, an input for each cache, whose name
begins with `past`, the output `logits`, and an output for each cache in the same order, whose name begins with `present`: as exported
by optimum and onnxruntime-genai. The run of onnx2ncnn must print `may be 0` with the length of the cache.
"""

import argparse
import json

import ncnn
import numpy as np


class Decoder:
    def __init__(self, param, weights, report):
        self.net = ncnn.Net()
        # Half precision is faster and less exact.
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
            setattr(self.net.opt, f"use_{option}", False)
        if self.net.load_param(param) != 0 or self.net.load_model(weights) != 0:
            raise SystemExit("the net does not load")
        ports = json.load(open(report))["net"]
        self.inputs, self.outputs = ports["inputs"], ports["outputs"]
        # The caches of no tokens.
        self.caches = [ncnn.Mat() for port in self.inputs if port["name"].startswith("past")]
        self.length = 0

    def step(self, tokens):
        """Appends tokens to the cache; returns the logits of the last one."""
        self.length += len(tokens)
        given = {
            "input_ids": np.array(tokens),
            "attention_mask": np.ones(self.length),
            "position_ids": np.arange(self.length - len(tokens), self.length),
        }
        extractor, caches = self.net.create_extractor(), iter(self.caches)
        for port in self.inputs:
            if port["name"].startswith("past"):
                mat = next(caches)
            else:
                # A Mat made of an array does not keep the array alive.
                mat = ncnn.Mat(given[port["name"]].astype(np.int32 if port["int32"] else np.float32)).clone()
            extractor.input(port["blob"], mat)
        extracted = {port["name"]: self.extract(extractor, port["blob"]) for port in self.outputs}
        self.caches = [mat for name, mat in extracted.items() if name.startswith("present")]
        return np.array(extracted["logits"])[-1]

    def extract(self, extractor, blob):
        code, mat = extractor.extract(blob)
        if code != 0:
            raise SystemExit(f"{blob} cannot be extracted")
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
