"""What decoders.py and networks.py share: exported models, conversions of them, and comparisons with onnxruntime.

A network NAME is the folder FOLDER/NAME: model.onnx, and for each conversion a net with its report and the output of the command.
"""
import argparse, json, os, re, shutil, subprocess, sys, traceback

HALF = ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage")


def parser(text, *commands):
    """The arguments that the benchmarks of exported models have in common."""
    arguments = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("command", choices=commands)
    arguments.add_argument("folder")
    arguments.add_argument("--match", default="")
    arguments.add_argument("--convert")
    arguments.add_argument("--out")
    return arguments


def model_of(folder):
    return os.path.join(folder, "model.onnx")


def save(path, folder, external=False):
    """One file with its weights inside, or in the file model.data beside it."""
    import onnx

    os.makedirs(folder, exist_ok=True)
    onnx.save(onnx.load(path), model_of(folder), save_as_external_data=external, location="model.data")


def export_all(networks, arguments, export):
    """Calls `export(network, folder)` for each network that is wanted and not there."""
    import torch

    for name, network in networks.items():
        folder = os.path.join(arguments.folder, name)
        if not re.search(arguments.match, name) or os.path.exists(model_of(folder)):
            continue
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                export(network, folder)
            open_session(folder)
            print("exported", name, flush=True)
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            print("not exported", name, traceback.format_exc(), flush=True)


def exported(names, arguments):
    """The wanted names with their folders."""
    folders = {name: os.path.join(arguments.folder, name) for name in names if re.search(arguments.match, name)}
    return {name: folder for name, folder in folders.items() if os.path.exists(model_of(folder))}


class Conversion:
    """A run of the command. Its files have the stem `net` and the endings param, bin, json and txt."""

    def __init__(self, command, folder, net="net", options=()):
        self.folder, self.net = folder, net
        paths = {word: self.path(ending) for word, ending in [("param", "param"), ("bin", "bin"), ("report", "json")]}
        for path in paths.values():
            if os.path.exists(path):
                os.remove(path)
        command = [part.format(model=model_of(folder), **paths) for part in command.split()]
        run = subprocess.run(command + list(options), capture_output=True, text=True)
        self.succeeded = run.returncode == 0
        with open(self.path("txt"), "w") as file:
            file.write(run.stdout + run.stderr)
        self.code = run.returncode
        self.report = json.load(open(paths["report"])) if os.path.exists(paths["report"]) else {"diagnostics": []}

    def path(self, ending):
        return os.path.join(self.folder, f"{self.net}.{ending}")

    def reason(self):
        """The first reason of a refusal."""
        for entry in self.report["diagnostics"]:
            if entry["severity"] == "error":
                node = (entry["at"] or {}).get("node") or {}
                return ": ".join(filter(None, [node.get("op_type"), entry["reason"]]))[:160]
        return f"ended with {self.code}"

    def conditions(self):
        """The conditions on free sizes, as the command prints them."""
        lines = [line for line in open(self.path("txt")).read().splitlines() if "valid if" in line]
        return " ".join(lines).strip()[:300]

    def layers(self):
        return [line.split()[0] for line in list(open(self.path("param")))[2:]]

    def compare(self, script, *words):
        """Runs `script compare FOLDER NET WORDS` in a process of its own, since the runtime may crash.

        -> the largest error of all outputs, infinite if there is none or it is no number, and what went wrong"""
        command = [sys.executable, script, "compare", self.folder, self.net, *map(str, words)]
        run = subprocess.run(command, capture_output=True, text=True)
        try:
            errors = json.loads(run.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            last = (run.stderr.splitlines() or [""])[-1]
            return float("inf"), f"died {run.returncode} {last[:120]}"
        if None in errors.values():
            return float("inf"), "no output"
        worst = max(errors.values(), key=lambda error: float("inf") if error != error else error)
        return worst, None


def cell(compared, tolerance):
    """The text of a comparison in a table."""
    error, trouble = compared
    return trouble or f"{error:.0e}" + ("" if error <= tolerance else " WRONG")


def open_session(folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Beyond this, weights are rounded to narrower types for speed.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(model_of(folder), options, providers=["CPUExecutionProvider"])


def mat_of(array, int32):
    """The Mat of an input, without the axes that the net drops. A cache may have no elements."""
    import ncnn, numpy as np

    sizes = list(array.shape) or [1]
    if len(sizes) > 1 and sizes[0] == 1:
        del sizes[0]
    while len(sizes) > 4 and 1 in sizes:
        sizes.remove(1)
    if len(sizes) > 4:
        sizes = [-1, *sizes[-3:]]
    array = np.ascontiguousarray(array.reshape(sizes).astype(np.int32 if int32 else np.float32))
    if not array.size:
        return ncnn.Mat(*reversed(array.shape))
    # A Mat made of an array does not keep it alive: the array has a name until the Mat is copied.
    return ncnn.Mat(array).clone()


def open_net(folder, stem, threads=None):
    """A net in float32, and its description in the report of the conversion."""
    import ncnn

    param, binary, report = (os.path.join(folder, f"{stem}.{ending}") for ending in ("param", "bin", "json"))
    net = ncnn.Net()
    if threads:
        net.opt.num_threads = threads
    for option in HALF:
        setattr(net.opt, f"use_{option}", False)
    assert net.load_param(param) == 0 and net.load_model(binary) == 0
    with open(report) as file:
        return net, json.load(file)["net"]


def compare(folder, net, session, feeds):
    """Prints the largest error of each output of a net beside onnxruntime, relative to its largest magnitude."""
    import numpy as np

    try:
        expected = dict(zip([node.name for node in session.get_outputs()], session.run(None, feeds)))
    except Exception as error:
        sys.exit("onnxruntime: " + str(error).splitlines()[0])
    net, ports = open_net(folder, net)
    extractor = net.create_extractor()
    for port in ports["inputs"]:
        assert extractor.input(port["blob"], mat_of(feeds[port["name"]], port["int32"])) == 0
    errors = {}
    for port in ports["outputs"]:
        code, mat = extractor.extract(port["blob"])
        wanted = expected[port["name"]]
        if wanted.size > 1 and np.ptp(wanted) == 0:
            sys.exit(f"all elements of {port['name']} are equal")
        if code != 0 or mat.empty() or np.array(mat).size != wanted.size:
            errors[port["blob"]] = None
            continue
        got = np.array(mat)
        errors[port["blob"]] = float(np.abs(got.reshape(wanted.shape) - wanted).max(initial=0) / (np.abs(wanted).max(initial=0) or 1))
    print(json.dumps(errors))


def write(path, title, text):
    """Replaces the part of a Markdown file from a title to the next of the second level, or adds it."""
    before, _, after = (open(path).read() if os.path.exists(path) else "").partition(title + "\n")
    _, mark, rest = after.partition("\n## ")
    before = before.rstrip() + "\n\n" if before.strip() else ""
    with open(path, "w") as file:
        file.write(before + f"{title}\n\n{text}" + mark + rest)


def table(heads, rows):
    rows = [heads, ["---"] * len(heads), *[row + [""] * (len(heads) - len(row)) for row in rows]]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)
