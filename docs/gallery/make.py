"""Writes docs/gallery.md, the pages of docs/gallery/ and benches/gallery.md: published models, converted, run in ncnn, and compared with onnxruntime.

usage: make.py CONVERTER FOLDER [--arm PYTHON] [NAME...]

FOLDER keeps the packages of models.tsv, which pip and npm download, pnnx, and the nets. PYTHON is one for ARM64 with numpy and ncnn, such as that
which tests/phone.sh makes in target/arm64/python for an emulator; without it, a net of the same bytes keeps its error in half precision: times are
best taken on a machine without other work, and an emulator takes hours. With names, only these models run, and the others keep their results.
Needs numpy, onnx, onnxruntime, ncnn and pillow.
"""

import csv
import email
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "gallery.md"
FIGURES_PAGE = HERE.parent.parent / "benches/gallery.md"
RESULTS = "results.json"
# The longest time of the runs of a net that are measured, and their number at most.
SECONDS, RUNS = 4, 15
HEAD = """# Gallery

Trained models out of packages of PyPI and npm, converted and run in ncnn.

## Pictures

Each picture or sound was drawn, and read by the program that `--example` writes for the model.

"""
MODELS = """## Models

Each page has the packages, the inputs and outputs, and the command for each model. Options in a command are those that the first refusal
printed, or an option for quantized models. [Errors and times](../benches/gallery.md) are a page of their own.

| page | models |
| --- | --- |"""
FIGURES = """# Published models

Written by `docs/gallery/make.py`: the models of the [gallery](../docs/gallery.md).

- The error is the largest difference from onnxruntime on drawn inputs, as a part of the largest magnitude of an output.
- With `--int8` the error contains some steps of int8: ncnn [rounds other values than onnxruntime](../docs/quantization.md).
- Where a model selects boxes, only boxes with a score of at least a twentieth of the best one are compared.
- The error in half precision was measured on an emulated ARM64 processor. A net with a large one needs
  [an option for phones](../docs/half-precision.md).
- Times are processor times of one thread on {machine}: the median of several runs, in milliseconds.
- The net of pnnx is made of the same ONNX model. Its time is given where it loads and is right.
- The size is that of the `.bin` file.
"""


def rows():
    with open(HERE / "models.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def archives(row):
    """The packages of a model, and the path in each: a large one is in four."""
    for number in "1234" if "{1..4}" in row["package"] else "1":
        package = row["package"].replace("{1..4}", number)
        archive = row["archive"].replace("model_1", f"model_{number}")
        yield package, archive, row["path"]


def fetch(row, folder):
    """The model, downloaded if it is not there."""
    target = folder / "models" / row["name"] / "model.onnx"
    downloads = folder / "dl" / row["package"].replace("/", "_").replace("@", "_")
    parts = list(archives(row))
    for package, archive, _ in parts:
        if (downloads / archive).exists():
            continue
        downloads.mkdir(parents=True, exist_ok=True)
        name = f"{package}=={row['version']}"
        pip = [sys.executable, "-m", "pip", "download", "-q", "--ignore-requires-python", "--no-deps", "--only-binary", ":all:"]
        command = [*pip, name, "-d", str(downloads)] if row["registry"] == "pypi" else ["npm", "pack", "--silent", name.replace("==", "@")]
        subprocess.run(command, cwd=downloads, check=True, stdout=subprocess.DEVNULL)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(read(downloads / archive, path) for _, archive, path in parts))
        data = parts[0][2] + ".data"
        if data in names(downloads / parts[0][1]):
            (target.parent / Path(data).name).write_bytes(read(downloads / parts[0][1], data))
    return target, licence(downloads / parts[0][1])


def names(archive):
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as file:
        return file.getnames()


def read(archive, path):
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).read(path)
    with tarfile.open(archive) as file:
        return file.extractfile(path).read()


def licence(archive):
    """The licence that a package states."""
    if archive.suffix != ".whl":
        return json.loads(read(archive, "package/package.json")).get("license", "not stated")
    path = next(name for name in names(archive) if name.endswith(".dist-info/METADATA"))
    stated = email.message_from_bytes(read(archive, path))
    text = stated.get("License-Expression") or stated.get("License") or ""
    classes = [line.split(" :: ")[-1] for line in stated.get_all("Classifier", []) if line.startswith("License")]
    # Some packages state the whole text.
    short = text.strip() if len(text.strip()) < 40 and "\n" not in text.strip() else ""
    return short or ", ".join(classes) or (text.strip().splitlines() or ["not stated"])[0][:40]


def draw(kind, shape, dtype, generator):
    """An array of a kind; the kinds are those of models.tsv."""
    count = int(np.prod(shape))
    number = float(re.sub("^[a-z]+", "", kind) or 0) if not kind.startswith(("ints", "str", "audio", "img", "text")) else 0
    seconds = np.arange(count) / 16000
    sound = 0.3 * np.sin(2 * np.pi * 220 * seconds) + 0.2 * np.sin(2 * np.pi * 1234 * seconds * (1 + seconds))
    if kind.startswith(("img", "text")):
        waves = [np.linspace(0, size / 9, size).reshape([-1 if a == axis else 1 for a in range(len(shape))]) for axis, size in enumerate(shape)]
        smooth = 0.5 + 0.4 * np.sin(sum(waves)) * np.cos(waves[-1] - waves[-2])
        pixels = np.clip(smooth + generator.normal(0, 0.03, shape), 0, 1)
        if kind.startswith("text"):
            pixels = (pixels > 0.55).astype(float)
        scaled = {"imgn": pixels * 2 - 1, "text": pixels * 2 - 1, "textn": (pixels - 0.45) / 0.23, "img255": np.round(pixels * 255), "imgv": pixels * 255 - 114}
        return scaled.get(kind, pixels).astype(dtype)
    made = {
        "audio": lambda: sound, "audio16": lambda: sound * 32767, "zeros": lambda: np.zeros(count), "ones": lambda: np.ones(count),
        "unif": lambda: generator.uniform(0, 1, count), "bern": lambda: generator.integers(0, 2, count), "norm": lambda: generator.normal(0, 1, count),
        "norm5": lambda: generator.normal(0, 5, count), "mask": lambda: np.arange(count) % shape[-1] < max(1, shape[-1] * 3 // 4),
        "onehot": lambda: np.eye(shape[-1])[generator.integers(0, shape[-1], count // shape[-1])],
    }
    if kind in made:
        array = made[kind]()
    elif kind.startswith("tok"):
        array = generator.integers(0, int(number), count)
    elif kind.startswith("ints"):
        array = np.array([float(word) for word in kind[4:].split("/")])
    elif kind.startswith("gauss"):
        array = generator.normal(0, number, count)
    else:
        array = np.full(count, number)
    return np.asarray(array).reshape(shape).astype(dtype)


def is_part(options):
    return "--inputs" in options or "--outputs" in options


def convert(converter, model, net, options):
    """Converts a model, by the first printed command if it is refused; the options, and the report."""
    files = [str(net.with_suffix(".param")), str(net.with_suffix(".bin"))]
    run = subprocess.run([converter, str(model), *files, *options], capture_output=True, text=True)
    if run.returncode == 1:
        printed = re.search(r"^help: this converts .*\n  onnx2ncnn (.*)$", run.stderr, re.M)
        if not printed:
            return None, run.stderr.strip().splitlines()[0]
        options = shlex.split(printed[1])[3:]
        run = subprocess.run([converter, str(model), *files, *options], capture_output=True, text=True)
    assert run.returncode == 0, (model, run.stderr)
    more = ["--report", str(net.with_suffix(".json"))]
    if is_part(options):
        more += ["--emit-onnx", str(net.with_suffix(".onnx"))]
    subprocess.run([converter, str(model), *files, *options, *more, "-q"], check=True)
    return options, json.loads(net.with_suffix(".json").read_text())["net"]


def measured(run):
    """The milliseconds of processor time of a run of one thread."""
    run()
    times, start = [], time.monotonic()
    while len(times) < RUNS and (time.monotonic() - start < SECONDS or len(times) < 3):
        before = time.process_time()
        run()
        times.append(time.process_time() - before)
    return 1000 * sorted(times)[len(times) // 2]


def feeds(row, options, report, dtypes, generator):
    """An array for each input of the model: in the shape of models.tsv, unless the net has another."""
    ports = {port["name"]: port for port in report["inputs"]}
    given = dict(option.rsplit("=", 1) for before, option in zip(options, options[1:]) if before == "--set")
    arrays = {}
    for part in row["inputs"].split(" ; "):
        name, spec = part.strip().rsplit("=", 1)
        kind, sizes = spec.rsplit(":", 1)
        shape = [int(size) for size in sizes.split(",") if size.strip()]
        for axis, size in enumerate(ports[name]["shape"] if name in ports else []):
            shape[axis] = size if isinstance(size, int) else shape[axis]
        if name in given:
            kind = f"const{given[name]}"
        if name in dtypes:
            arrays[name] = draw(kind, shape, dtypes[name], generator)
    # The inputs of a part.
    for name in ports.keys() - arrays.keys():
        shape = [size if isinstance(size, int) else 8 for size in ports[name]["shape"]]
        arrays[name] = generator.integers(0, 8, shape).astype(dtypes[name])
    return arrays


def form(shape, count):
    """The sizes of a blob of so many axes: a first axis of size 1 is dropped, then others, then the leading axes are one."""
    sizes = list(shape) or [1]
    while len(sizes) > count and 1 in sizes:
        sizes.remove(1)
    return [int(np.prod(sizes[: len(sizes) - count + 1])), *sizes[len(sizes) - count + 1 :]]


def check(row, model, net, options, report, arm):
    """Runs a model and its net: the error and the times."""
    import ncnn
    import onnxruntime

    sys.path.insert(0, str(HERE.parent.parent / "src/cli/python"))
    onnxruntime.set_default_logger_severity(4)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    source = net.with_suffix(".onnx") if is_part(options) else model
    session = onnxruntime.InferenceSession(str(source), settings, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(uint8)": "u1", "tensor(bool)": "?"}
    dtypes = {node.name: types[node.type] for node in session.get_inputs()}
    arrays = feeds(row, options, report, dtypes, np.random.default_rng(zlib.crc32(row["name"].encode())))
    outputs = [node.name for node in session.get_outputs()]
    expected = dict(zip(outputs, session.run(None, arrays)))
    loaded = ncnn.Net()
    loaded.opt.num_threads = 1
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(loaded.opt, option, False)
    assert loaded.load_param(str(net.with_suffix(".param"))) == 0 and loaded.load_model(str(net.with_suffix(".bin"))) == 0
    mats = {}
    for port in report["inputs"]:
        array = arrays[port["name"]].astype(np.int32 if port["int32"] else np.float32)
        array = np.ascontiguousarray(array.reshape(form(array.shape, len(port["axes"]))))
        mats[port["blob"]] = ncnn.Mat(array).clone()

    def run():
        extractor = loaded.create_extractor()
        for blob, mat in mats.items():
            assert extractor.input(blob, mat) == 0, blob
        results = {}
        for port in report["outputs"]:
            code, mat = extractor.extract(port["blob"])
            assert code == 0, port["blob"]
            results[port["name"]] = mat
        return results

    results = {name: np.array(mat) for name, mat in run().items()}
    error = distance(report, results, expected)
    fed = shapes([arrays[port["name"]] for port in report["inputs"]])
    given = shapes([expected[port["name"]] for port in report["outputs"]])
    np.savez(net.with_suffix(".fed.npz"), **{blob: np.array(mat) for blob, mat in mats.items()})
    result = {"fed": fed, "given": given, "error": error, "half": half(arm, net, report, expected)}
    times = {"ncnn": measured(run), "onnxruntime": measured(lambda: session.run(None, arrays)), "pnnx": of_pnnx(source, net, arrays, expected)}
    return result | times


def distance(report, results, expected):
    """The largest difference, as a part of the largest magnitude of its output."""
    error = 0.0
    for port in report["outputs"]:
        array, right = results[port["name"]], np.asarray(expected[port["name"]]).astype(float)
        array = array.view(np.int32) if port["int32"] else array
        assert array.size == right.size, (port["name"], array.shape, right.shape)
        array = array.reshape(right.shape)
        if right.ndim == 3 and right.shape[2] == 6:
            # Selected boxes: the order of those with next to no score means nothing.
            kept = right[0, :, 4] > right[0, :, 4].max() / 20
            array, right = array[0, kept], right[0, kept]
        with np.errstate(invalid="ignore"):
            difference = np.where((array == right) | (np.isnan(array) & np.isnan(right)), 0, np.abs(array - right))
        largest = np.abs(right[np.isfinite(right)]).max(initial=0)
        error = max(error, float(np.nan_to_num(difference, nan=np.inf).max(initial=0) / max(largest, 1e-9)))
    return error


def half(arm, net, report, expected):
    """The error in half precision on ARM64."""
    if not arm:
        return None
    outputs = json.dumps([(port["name"], port["blob"]) for port in report["outputs"]])
    subprocess.run([arm, __file__, "--half", str(net), outputs], check=True, timeout=900)
    with np.load(net.with_suffix(".half.npz")) as results:
        return distance(report, dict(results), expected)


def run_half(net, outputs):
    """Runs a net as a phone does."""
    import ncnn

    loaded = ncnn.Net()
    loaded.opt.num_threads = 1
    assert loaded.load_param(str(net.with_suffix(".param"))) == 0 and loaded.load_model(str(net.with_suffix(".bin"))) == 0
    extractor = loaded.create_extractor()
    with np.load(net.with_suffix(".fed.npz")) as fed:
        for blob, array in fed.items():
            array = np.ascontiguousarray(array)
            assert extractor.input(blob, ncnn.Mat(array).clone()) == 0, blob
    results = {name: extractor.extract(blob) for name, blob in outputs}
    np.savez(net.with_suffix(".half.npz"), **{name: np.array(mat) for name, (_, mat) in results.items()})


def of_pnnx(model, net, arrays, expected):
    """The milliseconds of the net that pnnx makes, where it is right."""
    sys.path.insert(0, str(HERE.parent.parent / "benches"))
    import runtime

    program = net.parent.parent / "pnnx/pnnx/pnnx"
    with tempfile.TemporaryDirectory() as folder:
        case, room = Path(folder, "case"), Path(folder, "room")
        case.mkdir(), room.mkdir()
        for file in [model, *model.parent.glob("*.data")]:
            (case / ("model.onnx" if file == model else file.name)).symlink_to(file)
        np.savez(case / "inputs.npz", **arrays)
        np.savez(case / "outputs.npz", **expected)
        for files, _ in runtime.convert_pnnx(str(program), str(case), str(room)):
            result = runtime.ask_once({"case": str(case), "seconds": SECONDS / 2, "pnnx": files, "order": ["pnnx"]})
            if "pnnx" in result:
                return result["pnnx"]
    return None


def shapes(arrays):
    """The sizes of the first arrays."""
    shown = ["×".join(map(str, np.shape(array))) or "a number" for array in arrays[:4]]
    return ", ".join(shown + ["..."] * (len(arrays) > 4))


def one(converter, folder, name, arm):
    """The results of a model, as JSON on standard output: a net that ends its process ends no other."""
    row = next(row for row in rows() if row["name"] == name)
    model, stated = fetch(row, folder)
    net = folder / "nets" / name
    net.parent.mkdir(parents=True, exist_ok=True)
    options, report = convert(converter, model, net, shlex.split(row["options"]))
    result = {"licence": stated, "model": model.stat().st_size}
    if options is None:
        print(json.dumps(result | {"refused": report}))
        return
    result |= {"options": options, "layers": len(report["layers"])}
    files = [net.with_suffix(".param"), net.with_suffix(".bin")]
    result["net"] = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    result |= {"bin": net.with_suffix(".bin").stat().st_size, **check(row, model, net, options, report, arm)}
    print(json.dumps(result))


def size(count):
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} KB"


def part(error):
    return "-" if error is None else f"{error:.1e}"


def number(milliseconds):
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.2f}" if milliseconds < 1 else f"{milliseconds:.1f}" if milliseconds < 100 else f"{milliseconds:.0f}"


def captions():
    with open(HERE / "captions.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def slug(group):
    return group.lower().replace(" ", "-")


def cells(*values):
    return f"| {' | '.join(values)} |"


def head(*titles):
    return [cells(*titles), cells(*["---"] * len(titles))]


def command(name, result):
    options = " ".join(shlex.quote(option) for option in result["options"])
    return f"`onnx2ncnn {name}.onnx{' ' + options if options else ''}`"


def group_page(group, shown):
    """The models of a group for users: where they are, what they read, and how they are converted."""
    text = [f"# {group}\n", "Trained models out of packages. Pictures are in the [gallery](../gallery.md), errors and times in the"]
    text += ["[measurements](../../benches/gallery.md).\n"]
    text += head("model", "task", "package", "licence", "command")
    for row, result in shown:
        package = f"{row['registry']} `{row['package']}` {row['version']}"
        told = command(row["name"], result) if "ncnn" in result else result.get("refused", result.get("failed"))
        text.append(cells(row["name"], row["task"], package, result["licence"], told))
    text += ["\n## Inputs and outputs\n", *head("model", "is given", "gives")]
    for row, result in shown:
        if "ncnn" in result:
            text.append(cells(row["name"], f"{row['fed']} ({result['fed']})", f"{row['gives']} ({result['given']})"))
    (HERE / f"{slug(group)}.md").write_text("\n".join(text) + "\n")


def figures(shown):
    lines = head("model", "size", "layers", "error", "half", "ncnn", "onnxruntime", "pnnx")
    for row, result in shown:
        if "ncnn" in result:
            times = [number(result[name]) for name in ("ncnn", "onnxruntime", "pnnx")]
            errors = [part(result["error"]), part(result["half"])]
            lines.append(cells(row["name"], size(result["bin"]), str(result["layers"]), *errors, *times))
    return lines


def pages(results, machine):
    groups = {}
    for row in rows():
        if row["name"] in results:
            groups.setdefault(row["group"], []).append((row, results[row["name"]]))
    text, measured = [HEAD.rstrip() + "\n"], [FIGURES.format(machine=machine)]
    for picture in captions():
        text.append(f"![{picture['caption']}](gallery/{picture['picture']}.png)\n\n{picture['caption']}\n")
    text.append(MODELS)
    for group, shown in groups.items():
        group_page(group, shown)
        text.append(cells(f"[{group}](gallery/{slug(group)}.md)", ", ".join(row["name"] for row, _ in shown)))
        measured += [f"## {group}\n", *figures(shown), ""]
    PAGE.write_text("\n".join(text) + "\n")
    FIGURES_PAGE.write_text("\n".join(measured))


def machine():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def main():
    converter, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    wanted = sys.argv[3:]
    arm = wanted[1] if wanted[:1] == ["--arm"] else ""
    wanted = wanted[2:] if arm else wanted
    if not (folder / "pnnx").exists():
        # Without torch, which its program does not need.
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "pnnx"), "pnnx"], check=True)
    stored = folder / RESULTS
    results = json.loads(stored.read_text()) if stored.exists() else {}
    for row in rows():
        if wanted and row["name"] not in wanted:
            continue
        run = subprocess.run([sys.executable, __file__, "--one", converter, str(folder), row["name"], arm], capture_output=True, text=True)
        lines = run.stdout.strip().splitlines()
        if run.returncode == 0 and lines:
            result, before = json.loads(lines[-1]), results.get(row["name"], {})
            if not arm and result.get("net") == before.get("net"):
                result["half"] = before.get("half")
            results[row["name"]] = result
        else:
            print(row["name"], "failed:", (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1], flush=True)
        stored.write_text(json.dumps(results, indent=1))
    pages(results, machine())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5])
    elif sys.argv[1:2] == ["--half"]:
        run_half(Path(sys.argv[2]), json.loads(sys.argv[3]))
    else:
        main()
