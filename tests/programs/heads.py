"""Detectors whose boxes come from convolutions: their layers show what the numbers of a box are.

Each network finds a cat and a dog in cells of its feature maps, with boxes of 10 x 10 pixels around the centres of the cells.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 64
STRIDES = [8, 16, 32]
# The classes of two cells of the first map, by row and column, with their probabilities.
FOUND = {(2, 2): [0.9, 0.02], (3, 5): [0.02, 0.7]}
# Centre, of a picture that is twice as wide and as high.
PRINTED = "cat  0.900  30.0 30.0 50.0 50.0\ndog  0.700  78.0 46.0 98.0 66.0\nresult.png\n"


def logit(probability):
    return np.log(probability / (1 - probability))


class Graph:
    def __init__(self):
        self.nodes, self.tensors = [], []

    def constant(self, array):
        name = f"constant_{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, operator, *inputs, **attributes):
        inputs = [name if isinstance(name, str) else self.constant(name) for name in inputs]
        name = f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def model(self, outputs, metadata):
        nodes = [helper.make_node("Identity", [name], [given]) for given, (name, _) in outputs.items()]
        values = [helper.make_tensor_value_info(given, TensorProto.FLOAT, shape) for given, (_, shape) in outputs.items()]
        pictures = [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
        graph = helper.make_graph(self.nodes + nodes, "g", pictures, values, self.tensors)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        for key, text in metadata.items():
            made.metadata_props.add(key=key, value=text)
        return made


def head(form, objects=False, boxes=1, reverse=False, decoded=True, logits=False, pair=False, columns=False, names=True):
    """A network with `boxes` boxes in a cell; `form`: `corners` or `centres`."""
    graph = Graph()
    maps = []
    for stride in STRIDES:
        cells = SIDE // stride
        # Distances or offsets and sizes, as multiples of the stride; scores of objects and classes.
        box = [5 / stride] * 4 if form == "corners" else [0, 0, np.log(10 / stride), np.log(10 / stride)]
        bias = np.array((box + [8] * objects + [-9, -9]) * boxes, np.float32)
        weights = np.zeros((len(bias), 3, stride, stride), np.float32)
        found = np.zeros((1, len(bias), cells, cells), np.float32)
        for (y, x), probabilities in FOUND.items():
            if stride == STRIDES[0]:
                # The last box of the cell has the object.
                found[0, -2:, y, x] = logit(np.array(probabilities)) + 9
        raw = graph.add("Add", graph.add("Conv", "images", weights, bias, kernel_shape=[stride, stride], strides=[stride, stride]), found)
        # [1, boxes, numbers, cells] to rows.
        numbers = len(bias) // boxes
        apart = graph.add("Reshape", raw, np.array([1, boxes, numbers, cells * cells]))
        rows = graph.add("Reshape", graph.add("Transpose", apart, perm=[0, 1, 3, 2]), np.array([1, -1, numbers]))
        grid = np.tile(np.stack(np.meshgrid(np.arange(cells), np.arange(cells)), axis=-1).reshape(1, -1, 2) + 0.5, (1, boxes, 1)).astype(np.float32)
        first, second, scores = (graph.add("Slice", rows, *(np.array([number]) for number in part)) for part in [(0, 2, 2), (2, 4, 2), (4, 99, 2)])
        if form == "corners":
            first, second = graph.add("Sub", grid, first), graph.add("Add", grid, second)
        else:
            first, second = graph.add("Add", grid, first), graph.add("Exp", second)
        both = graph.add("Mul", graph.add("Concat", first, second, axis=2), np.float32(stride))
        if not decoded:
            both = graph.add("Slice", rows, np.array([0]), np.array([4]), np.array([2]))
        maps.append((both, scores if logits else graph.add("Sigmoid", scores)))
    maps = maps[::-1] if reverse else maps
    count = boxes * sum((SIDE // stride) ** 2 for stride in STRIDES)
    all_boxes, all_scores = (graph.add("Concat", *part, axis=1) for part in zip(*maps))
    metadata = {"names": "{0: 'cat', 1: 'dog'}"} if names else {}
    if pair:
        return graph.model({"a": (all_scores, [1, count, 2]), "b": (all_boxes, [1, count, 4])}, metadata)
    result, shape = graph.add("Concat", all_boxes, all_scores, axis=2), [1, count, 6 + objects]
    if columns:
        result, shape = graph.add("Transpose", result, perm=[0, 2, 1]), [1, 6 + objects, count]
    return graph.model({"output": (result, shape)}, metadata)


def offsets():
    """Offsets from anchors are not boxes."""
    return head("corners", decoded=False)


CASES = {
    "corners_in_rows": lambda: head("corners"),
    "corners_in_columns": lambda: head("corners", columns=True),
    "corners_and_logits": lambda: head("corners", logits=True),
    "corners_beside_scores": lambda: head("corners", pair=True, logits=True),
    "centres_with_objects": lambda: head("centres", objects=True),
    "centres_of_small_maps_first": lambda: head("centres", reverse=True),
    "three_boxes_in_a_cell": lambda: head("centres", boxes=3, columns=True),
}
