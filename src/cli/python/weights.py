"""Rounds constant matrices to integers in blocks by samples, for the script that this text precedes.

Reads a request from the file that is its argument and writes the answer to standard output, both in JSON. It is part of the
command, which starts it, and of the Python package, which calls `round_model` with requests whose data may also be arrays by name, or an
iterable of such. It needs numpy, onnx and onnxruntime, and Pillow for images. `session.py` and `samples.py` precede it.

A matrix is rounded column by column, and each error is made up by the columns after it, as far as the samples' second moments tell
(GPTQ). What is rounded comes as near to the float results as the rounded layers before it let it: its inputs are theirs.
"""

# Of the samples, every fourth is not for the rounding, but for the error.
HELD_BACK = 4
# The sizes from which the converter rounds matrices, its blocks, and those of tables.
FEWEST, NARROWEST, BLOCK, FEW_ROWS, NARROW_BLOCK = 1 << 12, 32, 64, 32, 32
# The part of the mean second moment that is added to all of them.
DAMPING = 0.01
# The scales that are tried, relative to that of the largest magnitude.
FACTORS = [sign * factor / 20 for sign in (1, -1) for factor in range(20, 11, -1)]
# The rows of a table that are rounded at a time.
HELD = 4096


class Product:
    """A product with a constant matrix; `weight` has a row for each result."""

    def __init__(self, node, weight, transposed):
        self.node, self.transposed = node, transposed
        self.weight = np.ascontiguousarray(weight if transposed else weight.T)

    def given(self, weight):
        """A matrix in the form of the model."""
        return np.ascontiguousarray(weight if self.transposed else weight.T)


def readers_of(graph):
    counts = {}
    for node in graph.node:
        for name in node.input:
            counts[name] = counts.get(name, 0) + 1
    return counts


def find_products(graph):
    """The products whose matrices the converter rounds, in the order of the graph, by the value that they multiply."""
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2}
    counts, groups = readers_of(graph), {}
    for node in graph.node:
        if node.op_type not in ("Gemm", "MatMul") or node.domain not in ("", "ai.onnx"):
            continue
        tensor = constants.get(node.input[1])
        scaled = attribute(node, "alpha", 1.0) != 1.0 or attribute(node, "beta", 1.0) != 1.0 or attribute(node, "transA", 0)
        if tensor is None or counts[tensor.name] != 1 or scaled:
            continue
        transposed = bool(attribute(node, "transB", 0))
        columns = tensor.dims[1 if transposed else 0]
        if tensor.dims[0] * tensor.dims[1] >= FEWEST and columns >= NARROWEST:
            groups.setdefault(node.input[0], []).append(Product(node, onnx.numpy_helper.to_array(tensor), transposed))
    return groups


def find_tables(graph):
    """The tables that the converter rounds, of which an input selects rows."""
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2}
    counts, inputs = readers_of(graph), {value.name for value in graph.input}
    is_table = lambda node: node.op_type == "Gather" and node.input[1] in inputs and attribute(node, "axis", 0) in (0, -2)
    tables = []
    for node in filter(is_table, graph.node):
        tensor = constants.get(node.input[0])
        if tensor is None or counts[tensor.name] != 1:
            continue
        rows, columns = tensor.dims
        if rows > FEW_ROWS and rows * columns >= FEWEST and columns % NARROW_BLOCK == 0:
            tables.append(node)
    return tables


def steps(values, scales, bits):
    """The integers of values; halves are rounded away from zero."""
    low = -(1 << (bits - 1))
    parts = values / scales
    return np.clip(np.trunc(parts + np.copysign(0.5, parts)), low, -low - 1)


def plain_scales(blocks, bits):
    """The scales of blocks of the last axis with which the largest magnitude becomes the lowest integer, as the converter has them."""
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
    scales = largest / -(1 << (bits - 1))
    return np.where(scales == 0, np.float32(1e-30), scales)


def best_scales(blocks, weights, bits):
    """The scales of least weighted square error."""
    first = plain_scales(blocks, bits)
    best, least = first, np.full(first.shape, np.inf)
    for factor in FACTORS:
        scales = first * factor
        errors = (weights * (steps(blocks, scales, bits) * scales - blocks) ** 2).sum(-1, keepdims=True)
        best, least = np.where(errors < least, scales, best), np.minimum(errors, least)
    return best


def round_rows(rows, bits, size, choose):
    """The integers and scales of rows, in blocks of `size`, and what they stand for."""
    columns = rows.shape[1]
    padded = np.pad(rows, ((0, 0), (0, -columns % size))).reshape(len(rows), -1, size)
    scales = choose(padded).astype(np.float32)
    levels = steps(padded, scales, bits)
    return levels.reshape(len(rows), -1)[:, :columns], scales[:, :, 0], (levels * scales).reshape(len(rows), -1)[:, :columns].astype(np.float32)


def round_by_moments(weight, moments, bits):
    """The integers and scales of a matrix, and what they stand for: the error of a column is made up by those after it."""
    rest, columns = weight.astype(np.float64), weight.shape[1]
    # The factor of the inverse whose rows say how the columns after one make up for it.
    upper = np.linalg.cholesky(np.linalg.inv(moments)).T
    levels, scales, rounded = np.zeros(rest.shape), [], np.zeros(rest.shape)
    for start in range(0, columns, BLOCK):
        end = min(columns, start + BLOCK)
        block = rest[:, start:end]
        scale = best_scales(block, np.diag(moments)[start:end], bits).astype(np.float32)
        scales.append(scale)
        errors = np.zeros(block.shape)
        for column in range(start, end):
            at = column - start
            levels[:, column] = steps(block[:, at], scale[:, 0], bits)
            rounded[:, column] = levels[:, column] * scale[:, 0]
            errors[:, at] = (block[:, at] - rounded[:, column]) / upper[column, column]
            block[:, at:] -= np.outer(errors[:, at], upper[column, column:end])
        rest[:, end:] -= errors @ upper[start:end, end:]
    return levels, np.concatenate(scales, 1), rounded.astype(np.float32)


class Runner:
    """Runs a model whose matrices are inputs, for values of the graph."""

    def __init__(self, model, names):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        graph = self.model.graph
        kept = [tensor for tensor in graph.initializer if tensor.name not in names]
        for tensor in graph.initializer:
            if tensor.name in names:
                graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        del graph.initializer[:]
        graph.initializer.extend(kept)
        self.outputs = [value.name for value in graph.output]

    def session(self, name=None):
        """The session that computes a value, or the outputs."""
        model = self.model
        if name is not None:
            model = onnx.ModelProto()
            model.CopyFrom(self.model)
            del model.graph.output[:]
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        return open_session(model.SerializeToString())


def run_with(session, sample, matrices):
    names = {node.name for node in session.get_inputs()}
    return session.run(None, {name: array for name, array in {**sample, **matrices}.items() if name in names})


def moments_of(session, samples, exact, rounded):
    """The second moments of a value of the rounded model, and those between the float one's and it, with damping."""
    own, mixed, count = 0.0, 0.0, 0
    for sample in samples:
        wanted, got = (run_with(session, sample, matrices)[0].astype(np.float64) for matrices in (exact, rounded))
        wanted, got = (array.reshape(-1, array.shape[-1]) for array in (wanted, got))
        own, mixed, count = own + got.T @ got, mixed + wanted.T @ got, count + len(got)
    damping = np.eye(len(own)) * (DAMPING * np.trace(own) / len(own) or 1.0)
    return (own + damping) / count, (mixed + damping) / count


def errors_of(runner, samples, exact, matrices):
    """The norm of the difference of each output of floats from the exact one, relative to the norm of this."""
    session, sums = runner.session(), {}
    for sample in samples:
        for name, wanted, got in zip(runner.outputs, run_with(session, sample, exact), run_with(session, sample, matrices)):
            if wanted.dtype.kind == "f":
                wanted, got = wanted.astype(np.float64), got.astype(np.float64)
                difference, norm = sums.get(name, (0.0, 0.0))
                sums[name] = difference + float(((got - wanted) ** 2).sum()), norm + float((wanted**2).sum())
    return {name: (difference / norm) ** 0.5 if norm else 0.0 for name, (difference, norm) in sums.items()}


def packed(levels, bits):
    """Integers of 4 or 8 bits from 0 on, the first of a byte in its low bits."""
    levels = (levels + (1 << (bits - 1))).astype(np.uint8)
    return levels if bits == 8 else levels[..., ::2] | levels[..., 1::2] << 4


def replace_product(model, product, levels, scales, bits):
    """Makes MatMulNBits of a product."""
    node, (rows, columns) = product.node, levels.shape
    # The operator has no integers of 6 bits: those of 8 bits have their values.
    stored = 4 if bits == 4 else 8
    padded = np.pad(levels, ((0, 0), (0, -columns % BLOCK))).reshape(rows, -1, BLOCK)
    names = [f"{node.output[0]}_{end}" for end in ("levels", "scales", "product")]
    arrays = [packed(padded, stored), scales.reshape(-1).astype(np.float32)]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names))
    term = node.input[2] if len(node.input) > 2 else ""
    output = names[2] if term else node.output[0]
    made = [onnx.helper.make_node(
        "MatMulNBits", [node.input[0], *names[:2]], [output], node.name, domain="com.microsoft",
        K=columns, N=rows, bits=stored, block_size=BLOCK,
    )]
    if term:
        made.append(onnx.helper.make_node("Add", [output, term], node.output[:1], f"{node.name}_bias"))
    return made


def replace_table(model, node, levels, scales, bits, size):
    """Makes GatherBlockQuantized of the selection of rows from a table."""
    names = [f"{node.output[0]}_{end}" for end in ("levels", "scales")]
    arrays = [packed(levels, bits), scales]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names))
    return [onnx.helper.make_node(
        "GatherBlockQuantized", [names[0], node.input[1], names[1]], node.output, node.name, domain="com.microsoft",
        gather_axis=0, quantize_axis=1, block_size=size, bits=bits,
    )]


def round_table(table, bits, size, choose):
    parts = [round_rows(table[start:start + HELD], bits, size, choose) for start in range(0, len(table), HELD)]
    return [np.concatenate(arrays) for arrays in zip(*parts)]


def round_model(request):
    """Writes the model with matrices in blocks, and returns the number of samples that were held back, and for each output the error and
    that of plain rounding on these.
    """
    load("numpy", "onnx", "onnxruntime")
    bits = request["bits"]
    samples = read_samples(open_session(request["model"]), request)
    held_back = samples[HELD_BACK - 1::HELD_BACK] or samples[-1:]
    # A single sample is for both.
    used = [sample for sample in samples if not any(sample is other for other in held_back)] or samples
    model = onnx.load(request["model"])
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    groups, tables = find_products(model.graph), find_tables(model.graph)
    if not groups and not tables:
        raise Failure("no product and no table of the model has a constant matrix to round")
    exact, plain, rounded, made = {}, {}, {}, {}
    # A byte of a table holds one integer or two.
    table_bits = 4 if bits == 4 else 8
    for node in tables:
        name = node.input[0]
        exact[name] = table = onnx.numpy_helper.to_array(constants[name])
        size = BLOCK if table.shape[1] % BLOCK == 0 else NARROW_BLOCK
        plain[name] = round_table(table, table_bits, size, lambda blocks: plain_scales(blocks, table_bits))[2]
        levels, scales, rounded[name] = round_table(table, table_bits, size, lambda blocks: best_scales(blocks, 1.0, table_bits))
        made[node.output[0]] = replace_table(model, node, levels, scales, table_bits, size)
    products = [product for group in groups.values() for product in group]
    for product in products:
        name = product.node.input[1]
        exact[name] = product.given(product.weight)
        plain[name] = product.given(round_rows(product.weight, bits, BLOCK, lambda blocks: plain_scales(blocks, bits))[2])
    runner = Runner(model, set(exact))
    for value, group in groups.items():
        # Later matrices are not read before the value.
        moments, mixed = moments_of(runner.session(value), used, exact, {**exact, **rounded})
        # What maps the rounded value to the results of the float one.
        change = np.linalg.solve(moments.T, mixed.T).T
        for product in group:
            levels, scales, matrix = round_by_moments(product.weight @ change, moments, bits)
            rounded[product.node.input[1]] = product.given(matrix)
            made[product.node.output[0]] = replace_product(model, product, levels, scales, bits)
    nodes = [new for node in model.graph.node for new in made.get(node.output[0], [node])]
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in exact]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(kept)
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    save_with_weights(model, request["rounded"])
    errors, others = (errors_of(runner, held_back, exact, matrices) for matrices in (rounded, plain))
    return len(held_back), [{"name": name, "error": error, "plain": others[name]} for name, error in errors.items()]


def answer(request):
    samples, outputs = round_model(request)
    return {"samples": samples, "outputs": outputs}


if __name__ == "__main__":
    answer_request(answer)
