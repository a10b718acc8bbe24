"""Runs a model and its result of a conversion, and prints their distance.

Reads a request from the file that is its argument and writes the answer to standard output, both in JSON. It is part of the
command, which starts it, and of the Python package, which calls `compare_models` and `compare_net` with requests whose models may
also be bytes, whose net may be loaded, and whose data and samples may be arrays. It needs numpy and onnxruntime, and ncnn where a net
is run in this process. `session.py`, `samples.py`, `half.py` and `device.py` precede it.
"""

import math
import re
import time

# Bounds of integers to try until the model runs: they may be indices.
INTEGERS = (4, 2, 1)
# The tolerance by type, relative to the largest magnitude of an output.
TOLERANCES = {"float16": 2**-8, "bfloat16": 2**-6}
# A quarter of the largest number of float16: sums inside of a layer exceed its results, and other inputs the measured ones.
LARGE = 65504 / 4
REPEAT = "repeat the options of the conversion, or give its report"
# What gives a machine without a GPU one.
SOFTWARE_GPU = "the package mesa-vulkan-drivers of Debian, Ubuntu and Fedora (vulkan-swrast of Arch) has a GPU in software"
# The changes of the inputs that show what the rounding of a model decides, as parts of the tolerance, and the runs with each.
NUDGES, NUDGED_RUNS = (1 / 64, 1 / 16, 1 / 4), 4
# The least part of an output that must be compared.
LEAST_PART = 1 / 16
# The most rows whose order is left out of losses.
MOST_ROWS = 1000
# The runs of which the median is the time of a net.
TIMED_RUNS = 9
# A net that multiplies by 1.
UNCHANGED = """7767517
2 2
Input x 0 1 x
BinaryOp y 1 1 x y 0=2 1=1 2=1.0
"""


class NetFailure(Failure):
    """The net does not load, or lacks an input."""


def element_type(node):
    """The numpy type of a session's input."""
    word = re.fullmatch(r"tensor\((\w+)\)", node.type)
    words = {"float": "float32", "double": "float64", "bool": "bool", "string": "object"}
    name = words.get(word[1], word[1]) if word else None
    try:
        return np.dtype(name) if name else None
    except TypeError:
        return None


def draw(node, shape, integers, generator):
    dtype = element_type(node)
    if dtype is None:
        raise Failure(f'no values can be made for the input "{node.name}" of type {node.type}')
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if dtype.kind in "iu":
        # Masks are 0 or 1: other numbers have no meaning, and may become infinite.
        return generator.integers(0, 2 if "mask" in node.name.lower() else integers, shape).astype(dtype)
    if dtype.kind == "O":
        return np.full(shape, "a", dtype=object)
    return np.asarray(generator.uniform(-1, 1, shape)).astype(dtype)


def shapes_of(session, size):
    """The shapes of all inputs. Free axes have the same size, except for first ones: they are batches, which are small."""
    shapes = {}
    for node in session.get_inputs():
        shapes[node.name] = [d if isinstance(d, int) and d >= 0 else 2 if i == 0 and len(node.shape) > 1 else size for i, d in enumerate(node.shape)]
    return shapes


def run(session, inputs):
    wanted = {node.name for node in session.get_inputs()}
    values = session.run(None, {name: array for name, array in inputs.items() if name in wanted})
    return dict(zip([node.name for node in session.get_outputs()], values))


def not_run(reason):
    return Failure(f"onnxruntime does not run the original: {reason or 'no common size fits all free axes; give sizes with --input-shape'}")


def run_somehow(session, generator, choices):
    """Inputs with which the model runs, of one of the choices of their shapes, and its outputs."""
    first = None
    # The net lacks inputs that have no elements.
    others = shapes_of(session, 1)
    for shapes in choices:
        for integers in INTEGERS:
            inputs = {node.name: draw(node, shapes.get(node.name, others[node.name]), integers, generator) for node in session.get_inputs()}
            try:
                return inputs, run(session, inputs)
            except Exception as error:
                first = first or error
    raise not_run(first)


def distance(name, got, expected, tolerance, least_cosine=None):
    """The description of an output. It is judged by its cosine if there is a least one, otherwise by the tolerance."""
    told = {"name": name, "same": False, "max_abs": None, "relative": None, "cosine": None, "why": ""}
    if list(got.shape) != list(expected.shape):
        return {**told, "why": f"shape {list(got.shape)} for {list(expected.shape)}"}
    if expected.dtype.kind in "OSU":
        same = bool(np.array_equal(got, expected))
        return {**told, "same": same, "why": "" if same else "other text"}
    whole = expected.dtype.kind in "iub"
    tolerance = TOLERANCES.get(expected.dtype.name, tolerance)
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return {**told, "why": "other infinities or NaN"}
    got, expected = got[finite], expected[finite]
    if not np.isfinite(got).all():
        return {**told, "why": "infinities or NaN"}
    if got.size == 0:
        return {**told, "same": True, "max_abs": 0.0, "relative": 0.0, "cosine": 1.0}
    error, largest = float(np.abs(got - expected).max()), float(np.abs(expected).max())
    # Integers must be equal, as far as float32 represents them.
    bound = largest * 2**-23 if whole else tolerance * (largest + 1e-6)
    # Zeros have no magnitude: functions that end at 0 are exact to the last digit of numbers near 1.
    bound = bound if largest else max(bound, 2**-23)
    norm = float(np.linalg.norm(got) * np.linalg.norm(expected))
    cosine = float(np.dot(got.ravel(), expected.ravel()) / norm) if norm else float(error == 0)
    same = error <= bound if least_cosine is None else cosine >= least_cosine
    note = "" if largest else "all elements are 0: other inputs may show more"
    return {**told, "same": same, "max_abs": error, "relative": error / (largest or 1.0), "cosine": cosine, "note": note}


def nudged(inputs, part, generator):
    """The inputs, of which floats are changed by at most a part of their largest magnitude."""
    def changed(array):
        if array.dtype.kind != "f" or not array.size:
            return array
        # Zeros have no magnitude of their own.
        most = part * (np.abs(array[np.isfinite(array)]).max(initial=0) or 1)
        return (array + most * generator.uniform(-1, 1, array.shape)).astype(array.dtype)

    return {name: changed(array) for name, array in inputs.items()}


def determined_elements(expected, others, tolerance):
    """The elements of an output of a model that sorts which are nearly the same in all other runs."""
    value = expected.astype(np.float64)
    largest = float(np.abs(value[np.isfinite(value)]).max(initial=0))
    bound = 0 if expected.dtype.kind in "iub" else TOLERANCES.get(expected.dtype.name, tolerance) * largest
    # Equal infinities and NaN are near.
    return np.logical_and.reduce([np.isclose(other.astype(np.float64), value, rtol=0, atol=bound, equal_nan=True) for other in others])


def sorted_axis(shape):
    """The axis of an output along which its rows are sorted, such as 300 boxes of 6 numbers: one that is much longer than the others."""
    longest = int(np.argmax(shape)) if shape else 0
    return longest if shape and all(2 * size <= shape[longest] for axis, size in enumerate(shape) if axis != longest) else None


def determined_rows(length, outputs, others, tolerance):
    """The rows that are sorted in the same order in all other runs, by all outputs with this number of rows. A class alone may be the same
    by chance, where the row is another one.
    """
    same = np.ones(length, bool)
    for name, expected in outputs.items():
        axis = sorted_axis(expected.shape)
        if axis is not None and expected.shape[axis] == length and expected.dtype.kind not in "OSU":
            elements = determined_elements(expected, [other[name] for other in others], tolerance)
            same &= np.moveaxis(elements, axis, 0).reshape(length, -1).all(axis=1)
    return same


def where_determined(told, got, outputs, others, tolerance):
    """The distance of an output of a model that sorts, without the elements that depend on the order of nearly equal scores: those that
    differ in `others`, the outputs of runs whose inputs differ by less than the tolerance, or else all of their rows.
    """
    expected = outputs[told["name"]]
    has_other_shape = any(other[name].shape != value.shape for other in others for name, value in outputs.items())
    if told["same"] or got.shape != expected.shape or expected.dtype.kind in "OSU" or has_other_shape:
        return told
    def judged(kept):
        count = int(kept.sum())
        rest = distance(told["name"], got[kept], expected[kept], tolerance)
        note = f"without {kept.size - count} of {kept.size} elements, which depend on the order of nearly equal scores"
        return {**rest, "note": note} if rest["same"] and count >= LEAST_PART * kept.size else told

    elements = determined_elements(expected, [other[told["name"]] for other in others], tolerance)
    if elements.sum() < LEAST_PART * elements.size:
        return {**told, "note": "its elements depend on the order of nearly equal scores, which rounding decides"}
    result, axis = judged(elements), sorted_axis(expected.shape)
    if result["same"] or axis is None:
        return result
    rows = determined_rows(expected.shape[axis], outputs, others, tolerance)
    return judged(elements & np.expand_dims(rows, [other for other in range(expected.ndim) if other != axis]))


def in_order_of(got, expected):
    """The outputs of a net of a model that sorts, with rows in the order of the nearest rows of the model: the loss of scores reorders them."""
    lengths = {name: sorted_axis(value.shape) for name, value in expected.items() if value.shape == got[name].shape and value.dtype.kind not in "OSU"}
    ordered = dict(got)
    for length in {expected[name].shape[axis] for name, axis in lengths.items() if axis is not None}:
        if length > MOST_ROWS:
            continue
        names = [name for name, axis in lengths.items() if axis is not None and expected[name].shape[axis] == length]

        def rows(outputs, name):
            return np.moveaxis(outputs[name].astype(np.float64), lengths[name], 0).reshape(length, -1)

        apart = np.zeros((length, length))
        for name in names:
            # All outputs, and all numbers of a row, have the same weight.
            most = np.abs(rows(expected, name)).max(axis=0, initial=0)
            pairs = [np.nan_to_num(rows(outputs, name) / np.where(most > 0, most, 1)) for outputs in (expected, got)]
            apart += ((pairs[0] ** 2).sum(axis=1)[:, None] + (pairs[1] ** 2).sum(axis=1)[None] - 2 * pairs[0] @ pairs[1].T)
        order, taken = np.zeros(length, np.int64), np.zeros((2, length), bool)
        for pair in np.argsort(apart, axis=None, kind="stable"):
            row, nearest = divmod(int(pair), length)
            if not taken[0, row] and not taken[1, nearest]:
                order[row], taken[0, row], taken[1, nearest] = nearest, True, True
        for name in names:
            ordered[name] = np.take(got[name], order, axis=lengths[name])
    return ordered


def rounded_as_far(told, unrounded, expected):
    """The distance of an output, which is accepted if it is at most twice what the model's own rounding changes."""
    floor = distance(told["name"], unrounded, expected, 0)["cosine"]
    # The net rounds on its own: what both change adds up.
    if floor is None or told["cosine"] is None or 1 - told["cosine"] > 2 * (1 - floor):
        return told
    note = f"within the rounding of the model: it differs from its own floats by a cosine of {floor:.6f}; --data FILE has other inputs"
    return {**told, "same": True, "note": note}


def worst(old, new, by_cosine=False):
    """The worse of two distances of one output."""
    if old is None or (old["same"] and not new["same"]):
        return new
    by_cosine = by_cosine and old.get("cosine") is not None and new.get("cosine") is not None
    is_worse = new["cosine"] < old["cosine"] if by_cosine else (new["max_abs"] or 0) > (old["max_abs"] or 0)
    if old["same"] == new["same"] and is_worse:
        return new
    return old


def compare_models(request):
    """Two ONNX models on the same inputs."""
    load("numpy", "onnxruntime")
    original, other = open_session(request["original"]), open_session(request["other"])
    wanted, found = ([node.name for node in session.get_outputs()] for session in (original, other))
    if wanted != found:
        return {"outputs": [{"name": "", "same": False, "why": f"outputs {found} for {wanted}"}]}
    outputs, tolerance = {}, request["tolerance"]
    # The other model may have fixed sizes.
    choices = [request["shapes"]] if request.get("shapes") else [shapes_of(other, size) for size in request["sizes"]]
    for round in range(request["rounds"]):
        generator = np.random.default_rng(round)
        if request.get("data"):
            inputs, expected = run_given(original, *arrays_in(request["data"]))
        else:
            inputs, expected = run_somehow(original, generator, choices)
        again = run(original, inputs)
        try:
            got = run(other, inputs)
        except Exception as error:
            return {"outputs": [{"name": "", "same": False, "why": f"onnxruntime does not run the result: {error}"}]}
        for name, array in expected.items():
            if not isinstance(array, np.ndarray):
                raise Failure(f'the output "{name}" is no tensor')
            if not distance(name, again[name], array, tolerance)["same"]:
                raise Failure(f'the output "{name}" is another one each time that the original is run')
            outputs[name] = worst(outputs.get(name), distance(name, got[name], array, tolerance))
    return {"outputs": list(outputs.values())}


def check_options(request):
    """Fails if the runtime lacks an option of the request on this machine. It ignores such an option without an error."""
    has_gpu = not request.get("device") and hasattr(ncnn, "get_gpu_count") and ncnn.get_gpu_count()
    if request.get("vulkan") and not request.get("device") and not has_gpu:
        raise Failure("ncnn finds no GPU with Vulkan on this machine", SOFTWARE_GPU)
    for option, name in (("fp16", "float16"), ("bf16", "bfloat16")):
        if not request.get(option):
            continue
        net, number = new_net(request), np.array([1.001], np.float32)
        net.load_param_mem(UNCHANGED)
        net.load_model_mem(b"")
        extractor = net.create_extractor()
        give(extractor, "x", number)
        if np.array_equal(np.array(extractor.extract("y")[1]), number):
            also = "; --magnitudes names the nodes whose results are too large for float16, on any machine" if option == "fp16" else ""
            if request.get("device"):
                raise DeviceFailure(f"ncnn computes in float32 on the device, and not in {name}{also}")
            advice = ""
            if option == "fp16" and not request.get("vulkan"):
                advice = "--fp16 --vulkan computes in float16 on a GPU" + ("" if has_gpu else f"; {SOFTWARE_GPU}")
            raise Failure(f"ncnn computes in float32 on this machine, and not in {name}{also}", advice)


def new_net(request):
    """A net with the options of a request."""
    if request.get("device"):
        return Device(request)
    net = ncnn.Net()
    net.opt.use_vulkan_compute = request.get("vulkan", False)
    if request.get("timed"):
        net.opt.num_threads = 1
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
        # Older runtimes do not have all of them.
        if hasattr(net.opt, f"use_{option}"):
            setattr(net.opt, f"use_{option}", request.get(option[:4], False))
    return net


def open_net(request):
    if request.get("net") is not None:
        return request["net"]
    check_options(request)
    net = new_net(request)
    # The layers report errors on standard error.
    if net.load_param(request["param"]) != 0:
        raise NetFailure(f"ncnn does not load {request['param']}")
    if net.load_model(request["bin"]) != 0:
        raise NetFailure(f"ncnn does not load {request['bin']}")
    return net


def mat_of(array):
    """A Mat that owns its data. A cache may have no elements."""
    if not array.size:
        return ncnn.Mat(*reversed(array.shape))
    # The array has a name until the Mat, which does not keep it alive, is copied.
    array = np.ascontiguousarray(array)
    return ncnn.Mat(array).clone()


def give(extractor, blob, array):
    return extractor.input(blob, array if isinstance(extractor, DeviceExtractor) else mat_of(array))


def feed(net, pairs, inputs, caches=None):
    """An extractor with the inputs, and the caches by the names of the blobs of their inputs."""
    extractor = net.create_extractor()
    extractor.set_light_mode(False)
    for pair in pairs:
        if pair.get("cache"):
            if pair["blob"] in caches and extractor.input(pair["blob"], caches[pair["blob"]]) != 0:
                raise NetFailure(f"the net has no input \"{pair['blob']}\": {REPEAT}")
            continue
        if pair["name"] not in inputs:
            continue
        array = inputs[pair["name"]].astype(np.int32 if pair["int32"] else np.float32)
        sizes = [math.prod(array.shape[axis] for axis in axes) for axes in pair["axes"]]
        if give(extractor, pair["blob"], array.reshape(sizes)) != 0:
            raise NetFailure(f"the net has no input \"{pair['blob']}\": {REPEAT}")
    return extractor


def extract(extractor, pair, expected):
    """The blob in the shape of the value, with the elements in the same order."""
    code, mat = extractor.extract(pair["blob"])
    if code != 0:
        return None
    array = np.array(mat)
    if pair["int32"]:
        array = array.view(np.int32)
    return array.reshape(expected.shape) if array.size == expected.size else array


def alone(extractor, pair, expected, request):
    """The relative error of the layers since the blobs before, which have the values of the model in this extractor; the blob gets its own."""
    code, mat = extractor.extract(pair["blob"])
    if code != 0 or mat.empty():
        return None
    array = np.array(mat)
    if array.size != expected.size:
        return None
    got = (array.view(np.int32) if pair["int32"] else array).reshape(expected.shape)
    error = distance(pair["name"], got, expected, request["tolerance"])["relative"]
    exact = expected.astype(np.int32 if pair["int32"] else np.float32)
    extractor.input(pair["blob"], mat_of(exact.reshape(array.shape)))
    return error


def measure(extractor, blobs, magnitudes):
    """Adds the largest finite magnitude of each blob to those of its name. Infinities are the same in float16."""
    for measured in blobs:
        code, mat = extractor.extract(measured["blob"])
        if code != 0:
            raise NetFailure(f"ncnn does not compute \"{measured['blob']}\": {REPEAT}")
        if mat.empty():
            continue
        array = np.array(mat)
        largest = float(np.abs(array[np.isfinite(array)]).max(initial=0))
        magnitudes[measured["name"]] = max(largest, magnitudes.get(measured["name"], 0))


def arrays_in(data):
    """The arrays of a file or of a dictionary, and what messages call it."""
    if isinstance(data, dict):
        return data, "the data"
    with np.load(data) as file:
        return dict(file), data


def changed_runs(session, inputs, tolerance, seed):
    """The outputs of runs of the model whose inputs are changed by less than the tolerance."""
    # Not the numbers of which the inputs were drawn.
    generator = np.random.default_rng([seed, 1])
    return [run(session, nudged(inputs, part * tolerance, generator)) for part in NUDGES for _ in range(NUDGED_RUNS)]


def compare_recorded(request, data, expected):
    """The distances of the model's outputs from arrays of the data, which the framework of the model computed."""
    names = [pair["name"] for pair in request["outputs"] if pair["name"] in data]
    return [distance(name, expected[name], np.asarray(data[name]), request["tolerance"]) for name in names]


def run_given(session, data, where):
    """The arrays in the types of the session's inputs, and the outputs of the session. `where`: what messages call the arrays."""
    inputs = {}
    for node in session.get_inputs():
        if node.name not in data:
            raise Failure(f'{where} has no array "{node.name}"; it has {", ".join(data)}')
        inputs[node.name] = np.asarray(data[node.name]).astype(element_type(node))
    try:
        return inputs, run(session, inputs)
    except Exception as error:
        for node in session.get_inputs():
            shape = list(inputs[node.name].shape)
            if node.shape and not fits(shape, node):
                raise Failure(f'{where} has an array of shape {shape} for the input "{node.name}" of shape {node.shape}') from None
        raise Failure(f"onnxruntime does not run the original on {where}: {error}") from None


def given_samples(request):
    """The inputs of each sample of a quantization; in a file, its arrays are named by index and input."""
    if isinstance(request["samples"], list):
        return request["samples"]
    samples = {}
    with np.load(request["samples"]) as file:
        for name, array in file.items():
            index, _, name = name.partition("/")
            samples.setdefault(int(index), {})[name] = array
    return [samples[index] for index in sorted(samples)]


def called_in_turn(session, request, generator):
    """The inputs and outputs of the model in calls in turn: caches are outputs of the call before, and of nothing at first."""
    caches = {pair["name"]: pair["cache"] for pair in request["inputs"] if pair.get("cache")}
    names = {pair["blob"]: pair["name"] for pair in request["outputs"]}
    first = None
    for calls in request["calls"]:
        # Masks grow with the caches, and hide nothing.
        grown = [name for name in calls[0] if name not in caches and calls[0][name] != calls[1][name]]
        done = []
        try:
            for shapes in calls:
                inputs = {node.name: draw(node, shapes[node.name], INTEGERS[0], generator) for node in session.get_inputs()}
                inputs.update({name: np.ones_like(inputs[name]) for name in grown if name in inputs})
                if done:
                    inputs.update({name: done[-1][1][names[blob]] for name, blob in caches.items()})
                # Inputs of the net alone.
                added = {name: np.ones(shape, np.float32) for name, shape in shapes.items() if name not in inputs}
                done.append(({**inputs, **added}, run(session, inputs)))
            return done
        except Exception as error:
            first = first or error
    raise not_run(first)


def compare_calls(session, net, request, generator, outputs):
    """Adds the distances of a net whose caches the runtime keeps: these are in a layout of its own, and not compared."""
    caches = {}
    for inputs, expected in called_in_turn(session, request, generator):
        extractor = feed(net, request["inputs"], inputs, caches)
        for pair in request["outputs"]:
            if pair.get("cache"):
                code, mat = extractor.extract(pair["blob"], 1)
                if code != 0:
                    raise NetFailure(f"ncnn does not compute \"{pair['blob']}\"")
                caches[pair["cache"]] = mat
                continue
            name, got = pair["name"], extract(extractor, pair, expected[pair["name"]])
            if got is None:
                new = {"name": name, "same": False, "max_abs": None, "why": "ncnn does not compute it"}
            else:
                new = distance(name, got, expected[name], request["tolerance"], request.get("cosine"))
            outputs[name] = worst(outputs.get(name), new, request.get("cosine") is not None)


def time_of(net, request, inputs):
    """The seconds of a run of the net."""
    if isinstance(net, Device):
        return feed(net, request["inputs"], inputs).time()
    seconds = []
    for _ in range(TIMED_RUNS):
        extractor = feed(net, request["inputs"], inputs)
        start = time.process_time()
        for pair in request["outputs"]:
            extractor.extract(pair["blob"])
        seconds.append(time.process_time() - start)
    return sorted(seconds)[len(seconds) // 2]


def compare_net(request):
    """An ONNX model and a net on the same inputs."""
    load("numpy", "onnxruntime", *([] if request.get("device") else ["ncnn"]))
    session, net = open_session(request["model"]), open_net(request)
    least_cosine = request.get("cosine")
    outputs, layers, magnitudes, recorded = {}, {}, {}, []
    unrounded = open_session(request["unrounded"]) if request.get("unrounded") else None
    samples = given_samples(request) if request.get("samples") else []
    if request.get("sampled"):
        samples = read_samples(session, request)[:MAX_MEASURED]
    precision = Precision(request) if request.get("half_error") is not None else None
    if request.get("calls"):
        for round in range(request["rounds"]):
            compare_calls(session, net, request, np.random.default_rng(round), outputs)
        return {"outputs": list(outputs.values()), "layers": [], "magnitudes": []}
    for round in range(len(samples) if samples else 1 if request["data"] else request["rounds"]):
        if samples:
            inputs = samples[round]
            expected = run(session, inputs)
        elif request["data"]:
            data, where = arrays_in(request["data"])
            inputs, expected = run_given(session, data, where)
            recorded = compare_recorded(request, data, expected)
        else:
            inputs, expected = run_somehow(session, np.random.default_rng(round), request["shapes"])
        others = []
        extractor = feed(net, request["inputs"], inputs)
        # A device computes all blobs at once, and a GPU keeps those that it has computed.
        splits = request["layers"] and not isinstance(net, Device) and not request.get("vulkan")
        single = feed(net, request["inputs"], inputs) if splits else None
        reordered = {}
        if request["sorts"] and samples:
            named = {pair["name"]: pair for pair in request["outputs"] if isinstance(expected.get(pair["name"]), np.ndarray)}
            got = {name: extract(extractor, pair, expected[name]) for name, pair in named.items()}
            computed = {name: array for name, array in got.items() if array is not None}
            reordered = in_order_of(computed, {name: expected[name] for name in computed})
        for pairs, distances in ((request["layers"], layers), (request["outputs"], outputs)):
            for pair in pairs:
                name = pair["name"]
                value = expected.get(name)
                if not isinstance(value, np.ndarray):
                    continue
                got = reordered.get(name) if pairs is request["outputs"] and reordered else extract(extractor, pair, value)
                if got is None:
                    new = {"name": name, "same": False, "max_abs": None, "why": "ncnn does not compute it"}
                elif pairs is request["layers"] and got.size != value.size:
                    continue
                else:
                    new = distance(name, got, value, request["tolerance"], least_cosine)
                    if request["sorts"] and pairs is request["outputs"] and not new["same"] and least_cosine is None:
                        others = others or changed_runs(session, inputs, request["tolerance"], round)
                        whole = {pair["name"]: expected[pair["name"]] for pair in pairs if isinstance(expected.get(pair["name"]), np.ndarray)}
                        new = where_determined(new, got, whole, others, request["tolerance"])
                    if unrounded and pairs is request["outputs"] and not new["same"]:
                        new = rounded_as_far(new, run(unrounded, inputs)[name], value)
                    if pairs is request["layers"] and isinstance(net, Device):
                        new["seconds"] = extractor.seconds
                    if single:
                        errors = [alone(single, pair, value, request), distances.get(name, {}).get("alone")]
                        new["alone"] = max((error for error in errors if error is not None), default=None)
                        distances.get(name, {})["alone"] = new["alone"]
                distances[name] = worst(distances.get(name), new, least_cosine is not None)
        if precision:
            precision.add(lambda inputs=inputs: feed(net, request["inputs"], inputs))
        else:
            measure(extractor, request["measured"], magnitudes)
    large = [{"name": name, "magnitude": largest} for name, largest in magnitudes.items() if largest > LARGE]
    answer = {"outputs": list(outputs.values()), "layers": list(layers.values()), "magnitudes": large, "recorded": recorded}
    if precision:
        answer["choice"] = precision.choice()
    if request.get("timed"):
        answer["seconds"] = time_of(net, request, inputs)
    return answer


def answer(request):
    return compare_models(request) if request["kind"] == "models" else compare_net(request)


def describe(failure):
    return {"net": isinstance(failure, NetFailure)}


if __name__ == "__main__":
    answer_request(answer, describe)
