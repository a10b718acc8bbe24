"""The run time in ncnn of this converter's networks and of pnnx's, model by model.

usage: runtime.py CASES --convert 'onnx2ncnn {model} {param} {bin}' --pnnx PNNX [--match RE] [--seconds 4] [--out benches/runtime.md]

CASES holds a folder a model: model.onnx, inputs.npz, outputs.npz. PNNX is the executable of the wheel `pnnx`, which needs no torch
where it is installed by `pip install --no-deps`. Both networks of a model are loaded in one process and run in turns on one thread;
the time is the median of the processor time of a run, since the machine may be busy with other things. The place of a network in
memory matters too: the one that is loaded first can be slower by several parts in a hundred. So each model is measured in two
processes, loaded in the opposite order, and the time is the geometric mean of both. A network counts where its outputs are right.
"""
import argparse, json, math, os, re, statistics, subprocess, sys, tempfile, time

import numpy as np

TOLERANCE = 1e-3
MAX_RUNS = 400
MIN_RUNS = 7
"""ncnn's expression for "no batch axis"."""
NO_BATCH = 233


def feeds_of(array):
    """The Mats for a value: without a first axis of size 1, unchanged, without all unit axes."""
    if array.ndim == 0:
        return [array.reshape(1)]
    forms = []
    if array.ndim > 1 and array.shape[0] == 1:
        forms.append(array.reshape(array.shape[1:]))
    forms.append(array)
    squeezed = np.squeeze(array)
    forms.append(squeezed if squeezed.ndim else squeezed.reshape(1))
    return [form for form in forms if form.ndim <= 4] or [squeezed.reshape(-1, *squeezed.shape[-3:])]


def elements(array, as_int):
    kind = np.int32 if as_int and array.dtype.kind in "iu" else np.float32
    return np.ascontiguousarray(array.astype(kind))


def mat_of(ncnn, array, as_int, **axes):
    """A Mat that owns its data: one made from an array does not keep the array alive."""
    array = elements(array, as_int)
    return ncnn.Mat(array, **axes).clone()


def wiring(param):
    """The number of layers, and the names of the inputs."""
    lines = open(param).read().splitlines()[2:]
    rows = [line.split() for line in lines if line.strip()]
    return len(rows), [row[4] for row in rows if row[0] == "Input"]


class Net:
    """A network, how its inputs are given, and its outputs."""

    def __init__(self, ncnn, param, binary):
        self.ncnn, self.net = ncnn, ncnn.Net()
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "bf16_packed"):
            if hasattr(self.net.opt, "use_" + option):
                setattr(self.net.opt, "use_" + option, False)
        self.net.opt.num_threads = 1
        self.net.opt.use_vulkan_compute = False
        if self.net.load_param(param) != 0 or self.net.load_model(binary) != 0:
            raise RuntimeError("does not load")
        self.layers, self.inputs = wiring(param)

    def run(self):
        extractor = self.net.create_extractor()
        for name, mat in self.feed:
            extractor.input(name, mat)
        outputs = []
        for name in self.outputs:
            code, mat = extractor.extract(name)
            if code != 0:
                raise RuntimeError(f"{name} cannot be extracted")
            outputs.append(mat)
        return outputs

    def settle(self, ways, outputs, expected):
        """Chooses the form of the inputs for which the outputs are right."""
        self.outputs = outputs
        fault = "no feed"
        for way in ways:
            try:
                self.feed = [(name, mat) for name, mat in way() if name in self.inputs]
                got = [np.array(mat) for mat in self.run()]
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
                continue
            fault = difference(got, expected)
            if fault is None:
                return
        raise RuntimeError(fault)


def difference(got, expected):
    for mat, value in zip(got, expected):
        if mat.size != value.size:
            return f"wrong shape {mat.shape} for {value.shape}"
        if value.dtype.kind in "iu":
            mat = mat.view(np.int32) if np.array_equal(mat.view(np.int32).ravel(), value.ravel()) else mat
        error = np.abs(mat.reshape(value.shape).astype(np.float64) - value).max()
        if not error <= TOLERANCE * (np.abs(value).max() + 1e-6):
            return f"wrong by {error:.2g}"
    return None


def ours(ncnn, param, binary, inputs, expected):
    net = Net(ncnn, param, binary)

    def way(index, as_int):
        def feed():
            for name, value in inputs.items():
                forms = feeds_of(value)
                yield name, mat_of(ncnn, forms[min(index, len(forms) - 1)], as_int)
        return feed

    net.settle([way(i, as_int) for as_int in (True, False) for i in range(3)], list(expected), list(expected.values()))
    return net


def theirs(ncnn, param, binary, script, inputs, expected):
    net = Net(ncnn, param, binary)
    text = open(script).read()
    batch = {int(i): int(axis) for i, axis in re.findall(r'ex\.input\("in(\d+)".*batch_index=(-?\d+)', text)}

    def way(index, as_int):
        def feed():
            for i, value in enumerate(inputs.values()):
                if index < 0:
                    yield f"in{i}", mat_of(ncnn, value, as_int, batch_index=batch.get(i, NO_BATCH))
                    continue
                forms = feeds_of(value)
                yield f"in{i}", mat_of(ncnn, forms[min(index, len(forms) - 1)], as_int)
        return feed

    ways = [way(i, as_int) for as_int in (True, False) for i in range(-1, 3)]
    net.settle(ways, [f"out{i}" for i in range(len(expected))], list(expected.values()))
    return net


def seconds(net):
    start = time.thread_time()
    net.run()
    return time.thread_time() - start


def measure(request):
    """One model, in a separate process."""
    import ncnn

    case = request["case"]
    inputs = dict(np.load(os.path.join(case, "inputs.npz")))
    expected = dict(np.load(os.path.join(case, "outputs.npz")))
    result, nets = {}, {}
    makers = {"ours": ours, "pnnx": theirs}
    for who in request["order"]:
        if not request.get(who):
            continue
        try:
            nets[who] = makers[who](ncnn, *request[who], inputs, expected)
            result[who + "_layers"] = nets[who].layers
        except Exception as error:
            result[who + "_fault"] = str(error)
    times = {who: [] for who in nets}
    end = time.monotonic() + request["seconds"]
    while nets and (len(times[next(iter(nets))]) < MIN_RUNS or time.monotonic() < end):
        # The order alternates, since a run leaves its data in the caches.
        for who in sorted(nets, reverse=len(times[next(iter(nets))]) % 2 == 1):
            times[who].append(seconds(nets[who]))
        if len(times[next(iter(nets))]) >= MAX_RUNS:
            break
    for who, runs in times.items():
        result[who] = statistics.median(runs) * 1e3
    return result


def command(words, folder):
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=600)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def convert_pnnx(pnnx, case, folder):
    """Runs pnnx on a copy of the model, since it writes beside the model; with the sizes of the inputs if it fails without.

    -> its files, and whether the sizes were needed"""
    for name in os.listdir(case):
        if not name.endswith((".npz", ".json")):
            os.symlink(os.path.abspath(os.path.join(case, name)), os.path.join(folder, name))
    files = [os.path.join(folder, name) for name in ("model.ncnn.param", "model.ncnn.bin", "model_ncnn.py")]
    short = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "bool": "bool"}
    with np.load(os.path.join(case, "inputs.npz")) as inputs:
        shapes = ["[%s]%s" % (",".join(map(str, value.shape)), short.get(value.dtype.name, "f32")) for value in inputs.values()]
    for told, extra in ((False, []), (True, ["inputshape=" + ",".join(shapes)])):
        command([pnnx, "model.onnx", "fp16=0", *extra], folder)
        if all(os.path.exists(file) for file in files):
            yield files, told


def given_sizes(case):
    """The equivalent options of pnnx."""
    with np.load(os.path.join(case, "inputs.npz")) as inputs:
        return [word for name, value in inputs.items() for word in ("--input-shape", name + ":" + ",".join(map(str, value.shape)))]


def run_case(case, args):
    with tempfile.TemporaryDirectory() as folder:
        request = {"case": case, "seconds": args.seconds / 2}
        param, binary = os.path.join(folder, "ours.param"), os.path.join(folder, "ours.bin")
        words = args.convert.format(model=os.path.join(case, "model.onnx"), param=param, bin=binary).split()
        if command(words, folder):
            request["ours"] = [param, binary]
        os.mkdir(os.path.join(folder, "pnnx"))
        row, name = {}, os.path.basename(case)
        for files, told in convert_pnnx(args.pnnx, case, os.path.join(folder, "pnnx")):
            request["pnnx"] = files
            if told and command(words + given_sizes(case), folder):
                name += ", sizes given"
            row = ask(request)
            if "pnnx" in row:
                break
        else:
            if not row:
                row = ask(request)
        return {"name": name, **row}


def ask(request):
    """The results of two processes, in which the networks are loaded in the opposite order."""
    first, second = ask_once(dict(request, order=["ours", "pnnx"])), ask_once(dict(request, order=["pnnx", "ours"]))
    for who in ("ours", "pnnx"):
        if who in first and who in second:
            first[who] = math.sqrt(first[who] * second[who])
    return first


def ask_once(request):
    words = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(request)]
    done = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"pnnx_fault": f"died ({done.returncode})"} if "pnnx" in request else {}


def table(rows):
    def ratio(row):
        return row["ours"] / row["pnnx"] if "ours" in row and "pnnx" in row else None

    lines = ["| model | layers | of pnnx | ms | of pnnx | ratio |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        cells = [row["name"], row.get("ours_layers", row.get("ours_fault", "-")), row.get("pnnx_layers", row.get("pnnx_fault", "-"))]
        cells += [f"{row[who]:.3f}" if who in row else "-" for who in ("ours", "pnnx")]
        cells.append(f"{ratio(row):.3f}" if ratio(row) else "-")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    ratios = [ratio(row) for row in rows if ratio(row)]
    more = [row["name"] for row in rows if "pnnx_layers" in row and row.get("ours_layers", 0) > row["pnnx_layers"]]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines += ["", f"Geometric mean of {len(ratios)} ratios: {mean:.3f}; the largest: {max(ratios):.3f}."]
        lines.append(f"Models with more layers than pnnx's: {', '.join(more) or 'none'}.")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--child"]:
        real = os.dup(1)
        os.dup2(2, 1)
        answer = measure(json.loads(sys.argv[2]))
        os.write(real, (json.dumps(answer) + "\n").encode())
        os._exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases")
    parser.add_argument("--convert", required=True)
    parser.add_argument("--pnnx", required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--out")
    args = parser.parse_args()
    cases = sorted(root for root, _, files in os.walk(args.cases) if "model.onnx" in files)
    rows = []
    for case in cases:
        if re.search(args.match, os.path.basename(case)):
            rows.append(run_case(os.path.abspath(case), args))
            print(table(rows[-1:]).splitlines()[2], flush=True)
    text = table(rows)
    print(text[text.rfind("\n\n"):] if "\n\n" in text else "")
    if args.out:
        head = "# Time in ncnn beside pnnx\n\nProcessor time of a run on one thread, the median of many in turns, in two processes in which the networks are loaded in the opposite order. Where pnnx cannot do without the sizes of inputs, both are given them. Made by\n\n    python benches/runtime.py "
        shown = f"CASES --convert 'onnx2ncnn {{model}} {{param}} {{bin}}' --pnnx PNNX --out {args.out}"
        with open(args.out, "w") as file:
            file.write(f"{head}{shown}\n\n{text}")


if __name__ == "__main__":
    main()
