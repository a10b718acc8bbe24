"""Quantizes a model with onnxruntime's own tool, in the form that suits ncnn's int8 layers.

Reads a request from the file that is its argument and writes the answer to standard output, both in JSON. It is part of the
command, which starts it, and of the Python package, which calls `quantize_model` with requests whose data may also be arrays by name,
or an iterable of such. It needs numpy, onnx and onnxruntime, and Pillow for images. `session.py` precedes it.
"""

import contextlib
import json
import logging
import os
import sys
import tempfile

# Operators that ncnn has int8 layers for, if their weight is constant.
PRODUCTS = ("Conv", "Gemm", "MatMul")
# The operator set since which DequantizeLinear has a scale for each output.
SCALE_OF_EACH_OUTPUT = 13
# Distances are computed on the first samples.
MAX_COMPARED = 8
# The calibration methods, by their names in onnxruntime.
METHODS = {"min-max": "MinMax", "percentile": "Percentile", "entropy": "Entropy"}
ARRAYS = (".npz", ".npy")
IMAGES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")


def load_packages():
    load("numpy", "onnx", "onnxruntime")
    global quantization
    try:
        import onnx.version_converter
        from onnxruntime import quantization
    except ImportError as error:
        raise Failure(f"onnxruntime's quantization tool does not start: {error}") from None


def arrays_of(path):
    """The arrays of a file by their names; one without a name, of a .npy file, has the name None."""
    try:
        loaded = np.load(path, allow_pickle=False)
        return dict(loaded) if hasattr(loaded, "files") else {None: loaded}
    except Exception as error:
        raise Failure(f"{path} cannot be read: {error}") from None


def channel_axis(node):
    """The axis of the channels of an image, counted from the last."""
    for axis in (-3, -1):
        if len(node.shape) in (3, 4) and node.shape[axis] in (1, 3):
            return axis
    raise Failure(f'the input "{node.name}" of shape {node.shape} is not that of an image of 1 or 3 channels')


def read_image(path, node, request):
    """An image in the size of an input, as an array in its layout."""
    try:
        from PIL import Image
    except ImportError:
        raise Missing(f"{sys.executable} has no PIL, which reads images: install the package pillow") from None
    axis = channel_axis(node)
    height, width = node.shape[-2:] if axis == -3 else node.shape[-3:-1]
    try:
        with Image.open(path) as file:
            image = file.convert("RGB" if node.shape[axis] == 3 else "L")
    except Exception as error:
        raise Failure(f"{path} cannot be read: {error}") from None
    size = [known if isinstance(known, int) else own for known, own in zip((width, height), image.size)]
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.float32)
    pixels = pixels.reshape(size[1], size[0], -1)
    if request["bgr"]:
        pixels = pixels[:, :, ::-1]
    is_whole = "int" in node.type
    mean, norm = request["mean"] or [0.0], request["norm"] or [1.0 if is_whole else 1 / 255]
    for option, values in (("mean", mean), ("norm", norm)):
        if len(values) not in (1, pixels.shape[2]):
            raise Failure(f"{option} has {len(values)} numbers for {pixels.shape[2]} channels")
    pixels = (pixels - np.float32(mean)) * np.float32(norm)
    pixels = pixels.transpose(2, 0, 1) if axis == -3 else pixels
    return pixels[None] if len(node.shape) == 4 else pixels


def tables(request, nodes):
    """The arrays of each file or item of the data by the names of inputs, after the name of the file or item."""
    data, changes_images = request["data"], request["mean"] or request["norm"] or request["bgr"]
    if changes_images and not isinstance(data, str):
        raise Failure("mean, norm and bgr are for images, and the data are arrays")
    if isinstance(data, dict):
        yield "the data", data
        return
    if not isinstance(data, str):
        for index, arrays in enumerate(data):
            yield f"item {index} of the data", arrays
        return
    files = [data]
    if os.path.isdir(data):
        files = sorted(os.path.join(data, name) for name in os.listdir(data) if name.lower().endswith((*ARRAYS, *IMAGES)))
        if not files:
            raise Failure(f"{data} has no .npz or .npy files and no images")
    if changes_images and not any(file.lower().endswith(IMAGES) for file in files):
        raise Failure(f"mean, norm and bgr are for images, and {data} has none")
    for file in files:
        if not file.lower().endswith(IMAGES):
            yield file, arrays_of(file)
            continue
        if len(nodes) != 1:
            raise Failure(f"{file} is an image, and the model has {len(nodes)} inputs")
        yield file, {None: read_image(file, nodes[0], request)}


def fits(shape, node):
    sizes = node.shape
    return len(shape) == len(sizes) and all(not isinstance(size, int) or size == given for size, given in zip(sizes, shape))


def pieces(array, node):
    """The values of an input in an array: the array itself, its elements, or its parts along the batch axis, which may be missing."""
    dtype = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}.get(node.type)
    dtype = dtype or node.type[len("tensor("):-1]
    try:
        array = np.asarray(array).astype({"bool": "bool_"}.get(dtype, dtype))
    except (TypeError, ValueError) as error:
        raise Failure(f'the values of the input "{node.name}" are not of type {dtype}: {error}') from None
    if fits(array.shape, node):
        # A free first axis is a batch, which the net does not have.
        is_batch = array.ndim > 1 and not isinstance(node.shape[0], int)
        return [array[index:index + 1] for index in range(len(array))] if is_batch else [array]
    if array.ndim and fits(array.shape[1:], node):
        return list(array)
    if array.ndim and fits((1, *array.shape[1:]), node):
        return [array[index:index + 1] for index in range(len(array))]
    if fits((1, *array.shape), node):
        return [array[None]]
    raise Failure(f'an array of shape {list(array.shape)} for the input "{node.name}" of shape {node.shape}')


def read_samples(session, request):
    nodes = session.get_inputs()
    samples = []
    for where, arrays in tables(request, nodes):
        if None in arrays:
            if len(nodes) != 1:
                raise Failure(f"{where} has no names, and the model has {len(nodes)} inputs")
            arrays = {nodes[0].name: arrays[None]}
        for node in nodes:
            if node.name not in arrays:
                raise Failure(f'{where} has no array "{node.name}"; it has {", ".join(arrays)}')
        columns = [pieces(arrays[node.name], node) for node in nodes]
        count = max(map(len, columns))
        if any(len(column) not in (1, count) for column in columns):
            raise Failure(f"{where} has {' and '.join(str(len(column)) for column in columns)} values of the inputs")
        for index in range(count):
            samples.append({node.name: column[index if len(column) > 1 else 0] for node, column in zip(nodes, columns)})
    if not samples:
        raise Failure("the data has no samples")
    return samples


class Reader:
    """Hands the samples to the tool."""

    def __init__(self, samples):
        self.samples, self.place = samples, 0

    def get_next(self):
        self.place += 1
        return self.samples[self.place - 1] if self.place <= len(self.samples) else None

    def rewind(self):
        self.place = 0


def attribute(node, name, default):
    for given in node.attribute:
        if given.name == name:
            return onnx.helper.get_attribute_value(given)
    return default


def has_int8_layer(node, constants):
    weight = constants.get(node.input[1]) if node.op_type in PRODUCTS and len(node.input) > 1 else None
    if weight is None or node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Conv":
        group = attribute(node, "group", 1)
        return len(weight) == 4 and (group == 1 or (group == weight[0] and weight[1] == 1))
    if node.op_type == "Gemm":
        plain = attribute(node, "alpha", 1.0) == 1.0 and attribute(node, "beta", 1.0) == 1.0 and not attribute(node, "transA", 0)
        return plain and len(weight) == 2
    return len(weight) == 2


def choose(model, request):
    """The nodes to quantize and the output of each; gives all nodes names of their own."""
    constants = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    keep, found, names, chosen = set(request["keep"]), set(), set(), {}
    candidates = set(request["candidates"])
    for node in model.graph.node:
        kept = keep & {node.name, *node.output}
        found |= kept
        # The tool finds nodes by their names; those of outputs are unique.
        if not node.name or node.name in names:
            node.name = node.output[0]
        names.add(node.name)
        if node.output[0] in candidates and has_int8_layer(node, constants) and not kept:
            chosen[node.name] = node.output[0]
    if keep - found:
        raise Failure("no node and no value of the simplified model has the name " + ", ".join(f'"{name}"' for name in sorted(keep - found)))
    if not chosen:
        raise Failure("no node of the model can be an int8 layer")
    return chosen


def with_scales_of_outputs(model):
    """The model in an operator set of which quantized weights have a scale for each output."""
    if any(opset.domain in ("", "ai.onnx") and opset.version < SCALE_OF_EACH_OUTPUT for opset in model.opset_import):
        try:
            return onnx.version_converter.convert_version(model, SCALE_OF_EACH_OUTPUT)
        except Exception as error:
            raise Failure(f"onnx does not convert the model to operator set {SCALE_OF_EACH_OUTPUT}: {error}") from None
    return model


def save(model, folder, name):
    """Saves a copy: saving makes weights refer to the file."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    path = os.path.join(folder, name + ".onnx")
    onnx.save_model(copy, path, save_as_external_data=True, location=name + ".weights")
    return path


@contextlib.contextmanager
def without_warnings():
    """The tool logs advice by the root logger, which it sets up."""
    level, handlers = logging.root.manager.disable, logging.root.handlers[:]
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
        logging.root.handlers[:] = handlers


def quantize(source, chosen, samples, request):
    # The steps of values are about zero, and those of weights too, in all of 8 bits: ncnn has no zero points. Results
    # are rounded only where int8 layers read them.
    quantization.quantize_static(
        source, request["quantized"], Reader(samples),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QInt8, weight_type=quantization.QuantType.QInt8,
        per_channel=True, reduce_range=False,
        calibrate_method=getattr(quantization.CalibrationMethod, METHODS[request["method"]]),
        op_types_to_quantize=list(PRODUCTS), nodes_to_quantize=list(chosen),
        use_external_data_format=True,
        extra_options={
            "ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False,
            "OpTypesToExcludeOutputQuantization": list(PRODUCTS),
        },
    )


def spare_other_readers(path, chosen):
    """Lets nodes other than the quantized ones read values without rounding: the tool rounds a value for all its readers."""
    model = onnx.load(path)
    sources = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")}
    quantized = {node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    floats = {value: sources[source] for value, source in sources.items() if source in quantized}
    for node in model.graph.node:
        if node.name not in chosen and node.op_type != "QuantizeLinear":
            for index, value in enumerate(node.input):
                if value in floats:
                    node.input[index] = floats[value]
    onnx.save_model(model, path, save_as_external_data=True, location=os.path.basename(path) + ".weights")


def with_outputs(model, names):
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    return model


def distance(got, expected):
    """The norm of the difference over that of the expected values."""
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    return float(np.linalg.norm(got - expected)) / (float(np.linalg.norm(expected)) or 1.0)


def errors_of_layers(source, chosen, samples, folder, request):
    """The largest distance of each quantized node's result from the float model's, with all roundings before it."""
    sessions = []
    for number, path in enumerate((source, request["quantized"])):
        exposed = with_outputs(onnx.load(path), chosen.values())
        sessions.append(open_session(save(exposed, folder, f"exposed{number}")))
    errors = dict.fromkeys(chosen, 0.0)
    for sample in samples[:MAX_COMPARED]:
        expected, got = (session.run(list(chosen.values()), sample) for session in sessions)
        for name, one, other in zip(chosen, got, expected):
            errors[name] = max(errors[name], distance(one, other))
    return [{"name": name, "error": error} for name, error in errors.items()]


def quantize_model(request):
    """Writes the quantized model, and returns the samples and the error of each quantized node."""
    load_packages()
    session = open_session(request["model"])
    samples = read_samples(session, request)
    model = with_scales_of_outputs(onnx.load(request["model"]))
    chosen = choose(model, request)
    with tempfile.TemporaryDirectory() as folder:
        source = save(model, folder, "float")
        with without_warnings():
            quantize(source, chosen, samples, request)
        spare_other_readers(request["quantized"], chosen)
        return samples, errors_of_layers(source, chosen, samples, folder, request)


def main():
    with open(sys.argv[1], encoding="utf8") as file:
        request = json.load(file)
    try:
        samples, layers = quantize_model(request)
        np.savez(request["samples"], **{f"{index}/{name}": array for index, sample in enumerate(samples) for name, array in sample.items()})
        answer = {"samples": len(samples), "layers": layers}
    except Failure as failure:
        answer = {"failure": str(failure)}
    # Output of libraries precedes the answer, which is the last line.
    print()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
