"""Quantizes a model with onnxruntime's own tool, in the form that suits ncnn's int8 layers.

Reads a request from the file that is its argument and writes the answer to standard output, both in JSON. It is part of the
command, which starts it, and of the Python package, which calls `quantize_model` with requests whose data may also be arrays by name,
or an iterable of such. It needs numpy, onnx and onnxruntime, and Pillow for images. `session.py` and `samples.py` precede it.
"""

import contextlib
import logging
import os
import tempfile

# Operators that ncnn has int8 layers for, if their weight is constant.
PRODUCTS = ("Conv", "Gemm", "MatMul")
# Those whose layers round all but the weights at every step, by their own range, and the indices of these.
RECURRENT = ("GRU", "LSTM")
WEIGHTS = (1, 2)
# What these layers have: attributes, and the number of inputs.
ATTRIBUTES, INPUTS = {"direction", "hidden_size", "linear_before_reset"}, 7
# The operator set since which DequantizeLinear has a scale for each output.
SCALE_OF_EACH_OUTPUT = 13
# Distances are computed on the first samples.
MAX_COMPARED = 8
# The calibration methods, by their names in onnxruntime.
METHODS = {"min-max": "MinMax", "percentile": "Percentile"}


def load_packages():
    load("numpy", "onnx", "onnxruntime")
    global quantization
    try:
        import onnx.version_converter
        from onnxruntime import quantization
    except ImportError as error:
        raise Missing(f"onnxruntime's quantization tool does not start: {error}") from None


class Reader:
    """Hands the samples to the tool."""

    def __init__(self, samples):
        self.samples, self.place = samples, 0

    def get_next(self):
        self.place += 1
        return self.samples[self.place - 1] if self.place <= len(self.samples) else None

    def rewind(self):
        self.place = 0


def has_int8_layer(node, constants):
    if node.op_type in RECURRENT and node.domain in ("", "ai.onnx"):
        is_plain = {given.name for given in node.attribute} <= ATTRIBUTES and len(node.input) <= INPUTS
        is_cell = node.op_type == "LSTM" or attribute(node, "linear_before_reset", 0)
        return is_plain and is_cell and all(node.input[index] in constants for index in WEIGHTS)
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


def result(node):
    """The first output that a node has."""
    return next(filter(None, node.output))


def choose(model, request):
    """The nodes to quantize and the result of each; gives all nodes distinct names."""
    constants = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    keep, found, names, chosen = set(request["keep"]), set(), set(), {}
    candidates = set(request["candidates"])
    for node in model.graph.node:
        kept = keep & {node.name, *node.output}
        found |= kept
        # The tool finds nodes by their names; those of outputs are unique.
        if not node.name or node.name in names:
            node.name = result(node)
        names.add(node.name)
        if result(node) in candidates and has_int8_layer(node, constants) and not kept:
            chosen[node.name] = result(node)
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


def round_recurrent(model, chosen):
    """Rounds the weights of recurrent nodes, with a scale for each row of a gate."""
    constants, nodes = {tensor.name: tensor for tensor in model.graph.initializer}, []
    for node in model.graph.node:
        if node.op_type in RECURRENT and node.name in chosen:
            for index in WEIGHTS:
                name = node.input[index]
                weight = onnx.numpy_helper.to_array(constants[name]).astype(np.float32)
                rows = weight.reshape(-1, weight.shape[-1])
                scale = np.abs(rows).max(1) / 127
                scale[scale == 0] = 1
                made = {end: f"{result(node)}_{index}_{end}" for end in ("levels", "scale", "shape", "rows", "rounded")}
                arrays = {
                    "levels": np.round(rows / scale[:, None]).astype(np.int8), "scale": scale, "shape": np.array(weight.shape, np.int64),
                }
                model.graph.initializer.extend(onnx.numpy_helper.from_array(array, made[end]) for end, array in arrays.items())
                nodes.append(onnx.helper.make_node("DequantizeLinear", [made["levels"], made["scale"]], [made["rows"]], axis=0))
                nodes.append(onnx.helper.make_node("Reshape", [made["rows"], made["shape"]], [made["rounded"]]))
                node.input[index] = made["rounded"]
    if nodes:
        nodes += model.graph.node
        del model.graph.node[:]
        model.graph.node.extend(nodes)


def finish(path, chosen):
    """Rounds what the tool does not, and saves the model again."""
    model = onnx.load(path)
    spare_other_readers(model, chosen)
    round_recurrent(model, chosen)
    save_with_weights(model, path)


def spare_other_readers(model, chosen):
    """Lets nodes other than the quantized ones read values without rounding: the tool rounds a value for all its readers."""
    sources = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")}
    quantized = {node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    floats = {value: sources[source] for value, source in sources.items() if source in quantized}
    for node in model.graph.node:
        if node.name not in chosen and node.op_type != "QuantizeLinear":
            for index, value in enumerate(node.input):
                if value in floats:
                    node.input[index] = floats[value]


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


def in_float(quantized, source, is_kept):
    """The quantized model with nodes of the float model instead of those whose result is kept."""
    model = onnx.ModelProto()
    model.CopyFrom(quantized)
    originals = {result(node): node for node in source.graph.node}
    known, wanted = {tensor.name for tensor in model.graph.initializer}, set()
    for node in model.graph.node:
        original = originals.get(result(node))
        if original is not None and is_kept(result(node)):
            node.input[:] = original.input
            wanted.update(original.input)
    model.graph.initializer.extend(tensor for tensor in source.graph.initializer if tensor.name in wanted - known)
    return model


def effects_of_nodes(path, chosen, samples, request):
    """The loss at the outputs of each quantized node alone."""
    source, quantized = onnx.load(path), onnx.load(request["quantized"])
    session = open_session(path)
    samples = samples[:MAX_OF_EFFECTS]
    expected = [session.run(None, sample) for sample in samples]
    effects = {}
    for output in chosen.values():
        alone = open_session(in_float(quantized, source, lambda name: name != output).SerializeToString())
        effects[output] = max(loss(alone.run(None, sample), wanted) for sample, wanted in zip(samples, expected))
    return effects


def write_variant(request):
    """Writes the quantized model with further nodes in float."""
    load_packages()
    keep = set(request["keep"])
    model = in_float(onnx.load(request["quantized"]), onnx.load(request["model"]), keep.__contains__)
    save_with_weights(model, request["variant"])


def quantize_model(request):
    """Writes the quantized model, and returns the samples and the error of each quantized node; for a maximum loss, the samples that were
    held out, and the loss at the outputs of each node alone as well.
    """
    load_packages()
    session = open_session(request["model"])
    samples = read_samples(session, request)
    model = with_scales_of_outputs(onnx.load(request["model"]))
    chosen = choose(model, request)
    with tempfile.TemporaryDirectory() as folder:
        source = save(model, folder, "float")
        has_limit, kept_back = request.get("max_loss") is not None, samples
        if has_limit:
            # Those for the loss are not for the ranges.
            samples, kept_back = apart(samples)
        with without_warnings():
            quantize(source, chosen, samples, request)
        finish(request["quantized"], chosen)
        layers = errors_of_layers(source, chosen, samples, folder, request)
        if has_limit:
            effects = effects_of_nodes(source, chosen, samples, request)
            layers = [{**layer, "output": chosen[layer["name"]], "effect": effects[chosen[layer["name"]]]} for layer in layers]
        return kept_back, layers


def answer(request):
    if request.get("variant") is not None:
        write_variant(request)
        return {"samples": 0, "layers": []}
    samples, layers = quantize_model(request)
    np.savez(request["samples"], **{f"{index}/{name}": array for index, sample in enumerate(samples) for name, array in sample.items()})
    return {"samples": len(samples), "layers": layers}


if __name__ == "__main__":
    answer_request(answer)
