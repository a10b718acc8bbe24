"""Converts the cases of a folder, runs the nets with `Net.run`, and counts the verdicts.

usage: python cases.py FOLDER [PROCESSES]

A case is a folder with model.onnx, inputs.npz and outputs.npz. The verdicts are those of the command's harness, without its files:

pass      every output is as expected: finite floats within a thousandth of its largest magnitude, integers rounded to float32 at most
refused   the model is not converted, for a reason
wrong     a shape or a number is wrong
broken    the model is converted, but the net cannot be loaded or run
crashed   the process ended
"""

import collections
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

TOLERANCE = 1e-3
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "conformance"))


def judge_case(folder, exact=False):
    """The verdict and its reason. With `exact`, integers must be represented by float32, and outputs be equal."""
    import onnx
    import onnx2ncnn
    from judge import TOLERANCES, Difference, compare, load_arrays

    try:
        net = onnx2ncnn.convert(folder / "model.onnx")
    except (onnx2ncnn.Refused, OSError, ValueError) as error:
        return "refused", str(error)
    try:
        results = net.run(load_arrays(folder / "inputs.npz"), round_integers=not exact)
        outputs = onnx.load(folder / "model.onnx", load_external_data=False).graph.output
        types = {value.name: value.type.tensor_type.elem_type for value in outputs}
        for name, expected in load_arrays(folder / "outputs.npz").items():
            compare(name, results[name], expected, max(TOLERANCES.get(types[name], 0), TOLERANCE), exact)
    except Difference as difference:
        return "wrong", str(difference)
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"
    return "pass", ""


class Workers:
    """Judges cases in processes, one for each thread, which are replaced if they die."""

    def __init__(self):
        self.local = threading.local()

    def judge(self, folder):
        pool = getattr(self.local, "pool", None) or ProcessPoolExecutor(1)
        self.local.pool = pool
        try:
            return pool.submit(judge_case, folder).result()
        except BrokenProcessPool:
            self.local.pool = None
            return "crashed", "the process ended"


def main(folder, processes="2"):
    cases = sorted(path.parent for path in Path(folder).rglob("model.onnx"))
    with ThreadPoolExecutor(int(processes)) as threads:
        verdicts = list(threads.map(Workers().judge, cases))
    for case, (verdict, reason) in zip(cases, verdicts):
        if verdict not in ("pass", "refused"):
            print(f"{verdict}  {case.relative_to(folder)}: {reason}")
    counts = collections.Counter(verdict for verdict, _ in verdicts)
    print(f"{len(cases)} cases:", ", ".join(f"{verdict} {counts[verdict]}" for verdict in ("pass", "refused", "wrong", "broken", "crashed")))
    return counts


if __name__ == "__main__":
    main(*sys.argv[1:])
