"""Rounds constant matrices to integers in blocks by samples, for the script that this text precedes.

Reads a request from the file that is its argument and writes the answer to standard output, both in JSON. It is part of the
command, which starts it, and of the Python package, which calls `round_model` with requests whose data may also be arrays by name, or an
iterable of such. It needs numpy, onnx and onnxruntime, and Pillow for images. `session.py`, `samples.py` and `parts.py` precede it.

A matrix is rounded column by column, and each error is made up by the columns after it, as far as the samples' second moments tell
(GPTQ). What is rounded comes as near to the float results as the rounded layers before it let it: its inputs are theirs.
"""

# Of the samples, every fourth is held back: half of these choose, and the errors are those of the others.
HELD_BACK = 4
# The rows of values for each column of a matrix below which the samples may be too few.
FEW_ROWS = 4
# The parts of the mean second moment that are added to all of them, of which one is chosen for each matrix.
DAMPINGS = (0.1, 0.4, 1.6)
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
        for name in names_read(node):
            counts[name] = counts.get(name, 0) + 1
    return counts


def find_products(graph, sizes):
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
        if tensor.dims[0] * tensor.dims[1] >= sizes["elements"] and columns >= sizes["columns"]:
            groups.setdefault(node.input[0], []).append(Product(node, onnx.numpy_helper.to_array(tensor), transposed))
    return groups


def find_tables(graph, sizes):
    """The tables that the converter rounds, of which an input selects rows, with the columns of a block."""
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2}
    counts, inputs = readers_of(graph), {value.name for value in graph.input}
    is_table = lambda node: node.op_type == "Gather" and node.input[1] in inputs and attribute(node, "axis", 0) in (0, -2)
    tables = []
    for node in filter(is_table, graph.node):
        tensor = constants.get(node.input[0])
        if tensor is None or counts[tensor.name] != 1:
            continue
        rows, columns = tensor.dims
        size = next((sizes[name] for name in ("block", "narrow_block") if columns % sizes[name] == 0), None)
        if size is not None and rows > sizes["few_rows"] and rows * columns >= sizes["elements"]:
            tables.append((node, size))
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


def round_by_moments(weight, upper, bits, size):
    """The integers and scales of a matrix, and what they stand for: the error of a column is made up by those after it. `upper` is the
    factor of the inverse of the moments whose rows say how.
    """
    rest, columns = weight.copy(), weight.shape[1]
    levels, scales, rounded = np.zeros(rest.shape), [], np.zeros(rest.shape)
    # What the error of a column costs after that.
    costs = np.diag(upper) ** -2
    for start in range(0, columns, size):
        end = min(columns, start + size)
        block = rest[:, start:end]
        scale = best_scales(block, costs[start:end], bits).astype(np.float32)
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


class Moments:
    """The second moments of a value of the rounded model, and those between the float one's and it."""

    def __init__(self):
        self.own, self.mixed, self.count, self.rows = 0.0, 0.0, 0, []

    def add(self, wanted, got):
        self.rows.append([array.reshape(-1, array.shape[-1]) for array in (wanted, got)])
        # To add to the sums takes longer than to multiply a few rows.
        if sum(len(rows) for rows, _ in self.rows) >= self.rows[0][0].shape[1]:
            self.sum_up()

    def sum_up(self):
        if not self.rows:
            return
        wanted, got = (np.concatenate(arrays).astype(np.float64) for arrays in zip(*self.rows))
        self.own, self.mixed, self.count = self.own + got.T @ got, self.mixed + wanted.T @ got, self.count + len(got)
        self.rows = []

    def damped(self, part):
        damping = np.eye(len(self.own)) * (part * np.trace(self.own) / len(self.own) or 1.0)
        return (self.own + damping) / self.count, (self.mixed + damping) / self.count

    def error(self, weight, rounded):
        """The square of the error of the results, without a term that is the same for each rounding."""
        return float((rounded * (rounded @ self.own - 2 * weight @ self.mixed)).sum())


def round_group(products, sums, check, bits, size):
    """The integers and scales of the matrices that multiply a value, and what they stand for: those of the least error by the moments
    of `check`.
    """
    best = [(np.inf, None)] * len(products)
    for part in DAMPINGS:
        moments, mixed = sums.damped(part)
        inverse = np.linalg.inv(moments)
        upper = np.linalg.cholesky(inverse).T
        # What maps the rounded value to the results of the float one.
        wanted = mixed @ inverse
        for index, product in enumerate(products):
            found = round_by_moments(product.weight @ wanted, upper, bits, size)
            error = check.error(product.weight, found[2])
            if best[index][1] is None or error < best[index][0]:
                best[index] = error, found
    return [found for _, found in best]


def errors_of(parts, samples, exact, kinds):
    """For the matrices of each kind, the norm of the difference of each output of floats from the exact one, relative to the norm of this."""
    session, sums = parts.session(samples[0]), [{} for _ in kinds]
    for sample in samples:
        wanted = run_with(session, {**sample, **exact})
        for kind, matrices in zip(sums, kinds):
            for name, got in run_with(session, {**sample, **matrices}).items():
                if got.dtype.kind == "f":
                    difference, norm = kind.get(name, (0.0, 0.0))
                    array, got = wanted[name].astype(np.float64), got.astype(np.float64)
                    kind[name] = difference + float(((got - array) ** 2).sum()), norm + float((array**2).sum())
    return [{name: (difference / norm) ** 0.5 if norm else 0.0 for name, (difference, norm) in kind.items()} for kind in sums]


def packed(levels, bits):
    """Integers of 4 or 8 bits from 0 on, the first of a byte in its low bits."""
    levels = (levels + (1 << (bits - 1))).astype(np.uint8)
    return levels if bits == 8 else levels[..., ::2] | levels[..., 1::2] << 4


def replace_product(model, product, levels, scales, bits, size):
    """Makes MatMulNBits of a product."""
    node, (rows, columns) = product.node, levels.shape
    # The operator has no integers of 6 bits: those of 8 bits have their values.
    stored = 4 if bits == 4 else 8
    padded = np.pad(levels, ((0, 0), (0, -columns % size))).reshape(rows, -1, size)
    names = [f"{node.output[0]}_{end}" for end in ("levels", "scales", "product")]
    arrays = [packed(padded, stored), scales.reshape(-1).astype(np.float32)]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names))
    term = node.input[2] if len(node.input) > 2 else ""
    output = names[2] if term else node.output[0]
    made = [onnx.helper.make_node(
        "MatMulNBits", [node.input[0], *names[:2]], [output], node.name, domain="com.microsoft",
        K=columns, N=rows, bits=stored, block_size=size,
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
    """Writes the model with matrices in blocks, or as it is if plain rounding, which the converter does, comes nearer to its outputs.
    Returns what was measured.
    """
    load("numpy", "onnx", "onnxruntime")
    bits, block = request["bits"], request["sizes"]["block"]
    samples = read_samples(open_session(request["model"]), request)
    held_back = samples[HELD_BACK - 1::HELD_BACK] or samples[-1:]
    # A single sample is for both.
    used = [sample for sample in samples if not any(sample is other for other in held_back)] or samples
    choosing, measuring = held_back[::2], held_back[1::2] or held_back
    model = onnx.load(request["model"])
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    groups, tables = (find(model.graph, request["sizes"]) for find in (find_products, find_tables))
    if not groups and not tables:
        raise Failure("no product and no table of the model has a constant matrix to round")
    exact, plain, rounded, made = {}, {}, {}, {}
    # A byte of a table holds one integer or two.
    table_bits = 4 if bits == 4 else 8
    for node, size in tables:
        name = node.input[0]
        exact[name] = table = onnx.numpy_helper.to_array(constants[name])
        plain[name] = round_table(table, table_bits, size, lambda blocks: plain_scales(blocks, table_bits))[2]
        levels, scales, rounded[name] = round_table(table, table_bits, size, lambda blocks: best_scales(blocks, 1.0, table_bits))
        made[node.output[0]] = replace_table(model, node, levels, scales, table_bits, size)
    products = [product for group in groups.values() for product in group]
    for product in products:
        name = product.node.input[1]
        exact[name] = product.given(product.weight)
        plain[name] = product.given(round_rows(product.weight, bits, block, lambda blocks: plain_scales(blocks, bits))[2])
    places = {node.output[0]: place for place, node in enumerate(model.graph.node)}
    ends = {places[group[0].node.output[0]]: value for value, group in groups.items()}
    # The matrices so far.
    current = {**exact, **rounded}
    parts = Parts(model, exact, ends)
    parts.start([*used, *choosing], (exact, current), request["rounded"])
    fewest = np.inf, ""
    for end, value in ends.items():
        sums, check = Moments(), Moments()
        for index, (wanted, got) in enumerate(parts.values_at(end)):
            (sums if index < len(used) else check).add(wanted, got)
        sums.sum_up()
        check.sum_up()
        fewest = min(fewest, (sums.count / len(sums.own), f"{sums.count} rows of values for a matrix of {len(sums.own)} columns"))
        for product, (levels, scales, matrix) in zip(groups[value], round_group(groups[value], sums, check, bits, block)):
            current[product.node.input[1]] = product.given(matrix)
            made[product.node.output[0]] = replace_product(model, product, levels, scales, bits, block)
    errors = [errors_of(parts, half, exact, (current, plain)) for half in (choosing, measuring)]
    is_better = all(sum(ours.values()) <= sum(others.values()) for ours, others in errors)
    if is_better:
        replace_nodes(model, made, exact)
    else:
        model = onnx.load(request["model"])
    save_with_weights(model, request["rounded"])
    outputs = [{"name": name, "error": error, "plain": errors[1][1][name]} for name, error in errors[1][0].items()]
    warnings = [f"the samples may be too few to round weights by: they have {fewest[1]}"] if fewest[0] < FEW_ROWS else []
    if measuring is held_back:
        warnings.append(f"the errors of rounding are those of a sample that also chose it: give {2 * HELD_BACK} samples or more")
    return {"samples": len(measuring), "by_samples": is_better, "outputs": outputs, "warnings": warnings}


def replace_nodes(model, made, replaced):
    """Replaces nodes by those that are made of them, and omits the constants that only they read."""
    nodes = [new for node in model.graph.node for new in made.get(node.output[0], [node])]
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in replaced]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(kept)
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))


if __name__ == "__main__":
    answer_request(round_model)
