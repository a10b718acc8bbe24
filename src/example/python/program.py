"""Runs {{model}} in ncnn.

    pip install {{packages}}
    python3 {{file}} {{usage}}

{{ports}}

Written by {{generator}} for this model. It is yours to change.
"""

import sys
{{modules}}from pathlib import Path

import ncnn
import numpy as np
{{imports}}
FOLDER = Path(__file__).resolve().parent
PARAM = FOLDER / {{param}}
BIN = FOLDER / {{bin}}
{{constants}}

def load():
    """The net. Half precision is faster and less exact; it is off here, so that results are those of the model."""
    net = ncnn.Net()
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, option, False)
    if net.load_param(str(PARAM)) != 0 or net.load_model(str(BIN)) != 0:
        sys.exit(f"{PARAM} and {BIN} do not load")
    return net


def run(net, given):
    """The outputs by their names, for inputs by their names: arrays, or Mats."""
    extractor = net.create_extractor()
    for name, value in given.items():
        if isinstance(value, ncnn.Mat):
            mat = value
        else:
            # A Mat made of an array does not keep it alive: the array has a name until the Mat is copied.
            array = np.ascontiguousarray(value)
            # A copy of an empty Mat would lose its sizes.
            mat = ncnn.Mat(array).clone() if array.size else ncnn.Mat(array)
        if extractor.input(name, mat) != 0:
            sys.exit(f"the net has no input {name}")
    results = {}
    for name in OUTPUTS:
        # Type 1 leaves a cache in the layout of the runtime.
        code, mat = extractor.extract(name, 1 if name in KEPT else 0)
        if code != 0:
            sys.exit(f"{name} cannot be computed: an input is missing, or has another shape")
        results[name] = mat if name in KEPT else np.array(mat)
    return results

{{functions}}
{{main}}

if __name__ == "__main__":
    main()
