"""Rounds constant matrices to integers in blocks by samples, for the script that this text precedes.

Reads a request from the file that is its argument and writes the answer to standard output, both in JSON. It is part of the
command, which starts it, and of the Python package, which calls `round_model` with requests whose data may also be arrays by name, or an
iterable of such. It needs numpy, onnx and onnxruntime, and Pillow for images. `session.py`, `samples.py` and `parts.py` precede it.

A matrix is rounded column by column, and each error is made up by the columns after it, as far as the samples' second moments tell
(GPTQ). What is rounded comes as near to the float results as the rounded layers before it let it: its inputs are theirs.
"""

# Half of the samples that are held out choose, and the others measure the errors.
CHOOSING, MEASURING = slice(0, None, 2), slice(1, None, 2)
# The rows of values for each column of a matrix below which the samples may be too few.
FEW_ROWS = 4
# The parts of the mean second moment that are added to all of them, of which one is chosen for each matrix.
DAMPINGS = (0.1, 0.4, 1.6)
# The scales that are tried, relative to that of the largest magnitude.
FACTORS = [sign * factor / 20 for sign in (1, -1) for factor in range(20, 11, -1)]
# The rows of a table that are rounded at a time.
HELD = 4096
# The bits of a float.
FLOAT = 32


class Product:
    """A product with a constant matrix; `weight` has a row for each result."""

    def __init__(self, node, weight, transposed):
        self.node, self.name, self.transposed = node, node.input[1], transposed
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
        self.squares, self.mixed, self.count, self.rows = 0.0, 0.0, 0, []

    def add(self, wanted, got):
        self.rows.append([array.reshape(-1, array.shape[-1]) for array in (wanted, got)])
        # To add to the sums takes longer than to multiply a few rows.
        if sum(len(rows) for rows, _ in self.rows) >= self.rows[0][0].shape[1]:
            self.sum_up()

    def sum_up(self):
        if not self.rows:
            return
        wanted, got = (np.concatenate(arrays).astype(np.float64) for arrays in zip(*self.rows))
        self.squares, self.mixed, self.count = self.squares + got.T @ got, self.mixed + wanted.T @ got, self.count + len(got)
        self.rows = []

    def damped(self, part):
        damping = np.eye(len(self.squares)) * (part * np.trace(self.squares) / len(self.squares) or 1.0)
        return (self.squares + damping) / self.count, (self.mixed + damping) / self.count

    def error(self, weight, rounded):
        """The square of the error of the results, without a term that is the same for each rounding."""
        return float((rounded * (rounded @ self.squares - 2 * weight @ self.mixed)).sum())


def round_group(products, sums, check, bits, size):
    """The roundings of the matrices that multiply a value, to integers of `bits` by name: their integers and scales, and what these
    stand for, of the least error by the moments of `check`.
    """
    least, best = dict.fromkeys(bits, np.inf), {}
    for part in DAMPINGS:
        moments, mixed = sums.damped(part)
        inverse = np.linalg.inv(moments)
        upper = np.linalg.cholesky(inverse).T
        # What maps the rounded value to the results of the float one.
        wanted = mixed @ inverse
        for product in products:
            levels, scales, matrix = round_by_moments(product.weight @ wanted, upper, bits[product.name], size)
            error = check.error(product.weight, matrix)
            if product.name not in best or error < least[product.name]:
                least[product.name], best[product.name] = error, (levels, scales, product.given(matrix))
    return best


class Rounds:
    """Rounds the products of a model one after the other, each with the values that those before it leave."""

    def __init__(self, parts, matrices, used, choosing, path):
        self.parts, self.matrices, self.used, self.choosing, self.path = parts, matrices, used, choosing, path
        # The fewest rows of values for each column of a matrix, and what they are.
        self.fewest = np.inf, ""

    def by_samples(self, bits):
        """The roundings of matrices to integers of `bits` by name. A matrix without bits stays."""
        roundings, exact = self.matrices.tables_of_least_error(bits), self.matrices.exact
        current = {**exact, **meanings(roundings)}
        self.parts.start([*self.used, *self.choosing], (exact, current), self.path)
        for end, value in self.parts.ends.items():
            sums, check = Moments(), Moments()
            for index, (wanted, got) in enumerate(self.parts.values_at(end)):
                (sums if index < len(self.used) else check).add(wanted, got)
            sums.sum_up()
            check.sum_up()
            columns = len(sums.squares)
            self.fewest = min(self.fewest, (sums.count / columns, f"{sums.count} rows of values for a matrix of {columns} columns"))
            products = [product for product in self.matrices.groups[value] if product.name in bits]
            found = round_group(products, sums, check, bits, self.matrices.size) if products else {}
            roundings.update(found)
            current.update(meanings(found))
        return roundings


def meanings(roundings):
    """What the integers and scales of roundings stand for."""
    return {name: matrix for name, (_, _, matrix) in roundings.items()}


class Outputs:
    """The outputs of floats on samples, with matrices that differ from the exact ones."""

    def __init__(self, parts, samples, exact):
        self.samples, self.matrices, self.session = samples, exact, parts.session(samples[0])
        self.exact = [self.run(sample, {}) for sample in samples]

    def run(self, sample, matrices):
        outputs = run_with(self.session, {**sample, **self.matrices, **matrices})
        return {name: array for name, array in outputs.items() if array.dtype.kind == "f"}

    def errors(self, matrices, part):
        """The norm of the difference of each from the exact one, relative to the norm of this, on a part of the samples."""
        sums = dict.fromkeys(self.exact[0], (0.0, 0.0))
        for sample, wanted in zip(self.samples[part], self.exact[part]):
            for name, got in self.run(sample, matrices).items():
                array, got = wanted[name].astype(np.float64), got.astype(np.float64)
                difference, norm = sums[name]
                sums[name] = difference + float(((got - array) ** 2).sum()), norm + float((array**2).sum())
        return {name: (difference / norm) ** 0.5 if norm else 0.0 for name, (difference, norm) in sums.items()}

    def loss(self, matrices, count=None):
        """One minus the least cosine, on the first samples."""
        pairs = zip(self.samples[:count], self.exact)
        return max(loss(self.run(sample, matrices).values(), wanted.values()) for sample, wanted in pairs)


def packed(levels, bits):
    """Integers of 4 or 8 bits from 0 on, the first of a byte in its low bits."""
    levels = (levels + (1 << (bits - 1))).astype(np.uint8)
    return levels if bits == 8 else levels[..., ::2] | levels[..., 1::2] << 4


def product_in_blocks(model, node, levels, scales, bits, size):
    """The nodes that compute a product with integers: MatMulNBits, and the sum with its term."""
    rows, columns = levels.shape
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


def table_in_blocks(model, node, levels, scales, bits, size):
    """The node that selects rows from a table of integers: GatherBlockQuantized."""
    names = [f"{node.output[0]}_{end}" for end in ("levels", "scales")]
    arrays = [packed(levels, bits), scales]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names))
    return [onnx.helper.make_node(
        "GatherBlockQuantized", [names[0], node.input[1], names[1]], node.output, node.name, domain="com.microsoft",
        gather_axis=0, quantize_axis=1, block_size=size, bits=bits,
    )]


class Matrices:
    """The constant matrices of a model that are rounded, by their names: those of products, and tables.

    `groups` has the products by the value that they multiply, `tables` a node and the columns of a block.
    """

    def __init__(self, model, sizes):
        self.model, self.size = model, sizes["block"]
        self.groups, tables = (find(model.graph, sizes) for find in (find_products, find_tables))
        if not self.groups and not tables:
            raise Failure("no product and no table of the model has a constant matrix to round")
        self.products = {product.name: product for group in self.groups.values() for product in group}
        self.tables = {node.input[0]: (node, size) for node, size in tables}
        constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self.exact = {name: onnx.numpy_helper.to_array(constants[name]) for name in [*self.tables, *self.products]}

    def ends(self):
        """The values that products multiply, by the places of the nodes before which they have to be known."""
        places = {node.output[0]: place for place, node in enumerate(self.model.graph.node)}
        return {places[group[0].node.output[0]]: value for value, group in self.groups.items()}

    def round_alone(self, name, bits, choose):
        """The integers and scales of a matrix, and what they stand for, with the scales that `choose` gives."""
        if name in self.products:
            product = self.products[name]
            levels, scales, matrix = round_rows(product.weight, bits, self.size, choose)
            return levels, scales, product.given(matrix)
        table, size = self.exact[name], self.tables[name][1]
        parts = [round_rows(table[start:start + HELD], bits, size, choose) for start in range(0, len(table), HELD)]
        return tuple(np.concatenate(arrays) for arrays in zip(*parts))

    def to_nearest(self, bits):
        """The roundings as the converter has them, to integers of `bits` by name."""
        return {name: self.round_alone(name, count, lambda blocks: plain_scales(blocks, count)) for name, count in bits.items()}

    def tables_of_least_error(self, bits):
        tables = {name: count for name, count in bits.items() if name in self.tables}
        return {name: self.round_alone(name, count, lambda blocks: best_scales(blocks, 1.0, count)) for name, count in tables.items()}

    def replace(self, roundings, bits):
        """Lets nodes with integers do the work of those with the matrices."""
        made = {}
        for name, (levels, scales, _) in roundings.items():
            if name in self.tables:
                node, size = self.tables[name]
                made[node.output[0]] = table_in_blocks(self.model, node, levels, scales, bits[name], size)
            else:
                node = self.products[name].node
                made[node.output[0]] = product_in_blocks(self.model, node, levels, scales, bits[name], self.size)
        replace_nodes(self.model, made, roundings)


def steps_to_bits(outputs, matrices, bits):
    """Each step of a matrix to the next of its numbers of bits, that which is worth most for its bytes first, and no step before the one
    to its start. The effects are those of rounding each matrix alone to the nearest integers.
    """
    found = []
    for name, counts in bits.items():
        losses = [outputs.loss(meanings(matrices.to_nearest({name: count})), MAX_OF_EFFECTS) for count in counts] + [0.0]
        worth = np.inf
        for place, (count, further) in enumerate(zip(counts, [*counts[1:], FLOAT])):
            worth = min(worth, (losses[place] - losses[place + 1]) / (matrices.exact[name].size * (further - count)))
            found.append((-worth, place, name))
    return [name for _, _, name in sorted(found)]


def bits_after(steps, bits):
    """The bits of each matrix after steps. Those without are floats."""
    places = {name: steps.count(name) for name in bits}
    return {name: bits[name][place] for name, place in places.items() if place < len(bits[name])}


def fewest_bits(steps, bits, outputs, most, round_to):
    """The roundings, their bits and their loss, after the first steps that suffice for one of at most `most`, by halves."""
    low, high, best = 1, len(steps), None
    while low < high:
        middle = (low + high) // 2
        counts = bits_after(steps[:middle], bits)
        found = round_to(counts)
        reached = outputs.loss(meanings(found))
        if reached <= most:
            high, best = middle, (found, counts, reached)
        else:
            low = middle + 1
    if best is None:
        raise Failure(f"no matrix can be rounded with a loss of at most {most}", "allow a larger loss, or give more samples")
    return best


def round_model(request):
    """Writes the model with matrices in blocks, or as it is if plain rounding, which the converter does, comes nearer to its outputs.
    With a maximum loss, the matrices are in blocks in either case, and each has as many bits as this needs. Returns what was measured.
    """
    load("numpy", "onnx", "onnxruntime")
    most = request.get("max_loss")
    # Those of products, and those of tables, of which a byte holds one integer or two.
    product_bits = [request["bits"]] if most is None else [count for count in (4, 6) if count >= request["bits"]]
    table_bits = list(dict.fromkeys(4 if count == 4 else 8 for count in product_bits))
    samples = read_samples(open_session(request["model"]), request)
    used, held_back = apart(samples)
    # A single sample is for both.
    measuring = MEASURING if len(held_back) > 1 else CHOOSING
    matrices = Matrices(onnx.load(request["model"]), request["sizes"])
    exact, bits = matrices.exact, {name: table_bits if name in matrices.tables else product_bits for name in matrices.exact}
    parts = Parts(matrices.model, exact, matrices.ends())
    rounds = Rounds(parts, matrices, used, held_back[CHOOSING], request["rounded"])
    chosen = bits_after([], bits)
    ways = matrices.to_nearest, rounds.by_samples
    found = [way(chosen) for way in ways]
    outputs = Outputs(parts, held_back, exact)
    errors = [[outputs.errors(meanings(roundings), part) for roundings in found] for part in (CHOOSING, measuring)]
    is_better = all(sum(ours.values()) <= sum(others.values()) for others, ours in errors)
    roundings, reached, counts = found[is_better], None, {}
    if most is not None:
        reached = outputs.loss(meanings(roundings))
        if reached > most:
            steps = steps_to_bits(outputs, matrices, bits)
            roundings, chosen, reached = fewest_bits(steps, bits, outputs, most, ways[is_better])
            errors[1][is_better] = outputs.errors(meanings(roundings), measuring)
        for name in exact:
            count = chosen.get(name, FLOAT)
            counts[count] = counts.get(count, 0) + 1
    if is_better or most is not None:
        matrices.replace(roundings, chosen)
    save_with_weights(matrices.model, request["rounded"])
    others, ours = errors[1]
    (ratio, rows), warnings = rounds.fewest, []
    if ratio < FEW_ROWS:
        warnings.append(f"the samples may be too few to round weights by: they have {rows}")
    if len(held_back) == 1:
        warnings.append(f"the errors of rounding are those of a sample that also chose it: give {2 * HELD_BACK} samples or more")
    return {
        "samples": len(held_back[measuring]), "by_samples": is_better, "warnings": warnings, "loss": reached, "bits": sorted(counts.items()),
        "outputs": [{"name": name, "error": ours[name], "plain": others[name]} for name in ours],
    }


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
