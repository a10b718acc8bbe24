"""Runs a model in parts, for the script that this text precedes: each value is computed once, and kept for the parts that read it."""

import pickle

# The bytes of values in memory; further ones are kept in files.
MEMORY = 1 << 30


def names_read(node):
    """The names of the values that a node reads, those that its graphs read among them."""
    names = [name for name in node.input if name]
    for given in node.attribute:
        for graph in (given.g, *given.graphs):
            names += [name for inner in graph.node for name in names_read(inner)]
            names += [value.name for value in graph.output]
    return names


def declared(name, value):
    """An input for an array of any shape, or for a sequence of such."""
    is_sequence = isinstance(value, list)
    make = onnx.helper.make_tensor_sequence_value_info if is_sequence else onnx.helper.make_tensor_value_info
    return make(name, onnx.helper.np_dtype_to_tensor_dtype((value[0] if is_sequence else value).dtype), None)


def run_with(session, values):
    """The results of a session by their names."""
    names = {node.name for node in session.get_inputs()}
    results = session.run(None, {name: value for name, value in values.items() if name in names})
    return dict(zip([node.name for node in session.get_outputs()], results))


class Kept:
    """Values of a sample by their names."""

    memory = 0

    def __init__(self, values, path):
        parts = [part for value in values.values() for part in (value if isinstance(value, list) else [value])]
        self.values, self.path, self.size = values, path, sum(part.nbytes for part in parts)
        if Kept.memory + self.size > MEMORY:
            with open(path, "wb") as file:
                pickle.dump(values, file, pickle.HIGHEST_PROTOCOL)
            self.values, self.size = None, 0
        Kept.memory += self.size

    def take(self):
        Kept.memory -= self.size
        if self.values is not None:
            return self.values
        with open(self.path, "rb") as file:
            values = pickle.load(file)
        os.remove(self.path)
        return values


class Parts:
    """A model whose matrices are given when it runs, in parts: each ends before a node, where a value has to be known.

    `ends` has the values by the places of these nodes.
    """

    def __init__(self, model, matrices, ends):
        self.model, self.matrices, self.ends = model, matrices, ends
        self.nodes, self.outputs = list(model.graph.node), [value.name for value in model.graph.output]
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name not in matrices}
        self.reads = [set(names_read(node)) for node in self.nodes]
        # What is read after each end, as far as later ends depend on it.
        self.wanted, wanted = {}, set()
        for place in range(max(ends, default=-1), -1, -1):
            if place in ends:
                wanted.add(ends[place])
                self.wanted[place] = set(wanted)
            if place and not wanted.isdisjoint(self.nodes[place - 1].output):
                wanted = wanted.difference(self.nodes[place - 1].output) | self.reads[place - 1].difference(self.constants, self.matrices)

    def session(self, given, first=0, end=None):
        """The session of a part after the values that are given, or of all outputs; none if these are all that the part has to compute."""
        nodes, read = self.nodes[first:end], set().union(*self.reads[first:end])
        outputs = self.outputs if end is None else sorted(self.wanted[end].intersection(name for node in nodes for name in node.output))
        if not outputs:
            return None
        read.update(outputs)
        inputs = [declared(name, value) for name, value in {**given, **self.matrices}.items() if name in read]
        constants = [tensor for name, tensor in self.constants.items() if name in read]
        graph = onnx.helper.make_graph(nodes, "part", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], constants)
        opsets, functions = self.model.opset_import, self.model.functions
        model = onnx.helper.make_model(graph, ir_version=self.model.ir_version, opset_imports=opsets, functions=functions)
        return open_session(model.SerializeToString())

    def start(self, samples, kinds, path):
        """Starts on samples with the matrices of each kind. Files are written at `path`."""
        self.kinds, self.place, Kept.memory = kinds, 0, 0
        self.kept = [[Kept(sample, f"{path}.{index}.{kind}") for kind in range(len(kinds))] for index, sample in enumerate(samples)]

    def values_at(self, end):
        """Runs to the next end. Yields for each sample the value there with the matrices of each kind, which need not have those of later parts."""
        session = None
        for number, states in enumerate(self.kept):
            results = []
            for kind, state in enumerate(states):
                values = state.take()
                if number == kind == 0:
                    session = self.session(values, self.place, end)
                if session is not None:
                    values = {**values, **run_with(session, {**values, **self.kinds[kind]})}
                results.append(values[self.ends[end]])
                states[kind] = Kept({name: value for name, value in values.items() if name in self.wanted[end]}, state.path)
            yield results
        self.place = end
