"""A model whose part behind the net has a node of each operator that programs compute, and compares each result with that of ONNX's reference."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(7)
X = RNG.integers(-40, 40, (2, 3, 4)).astype(np.float32) / 8
Y = RNG.integers(1, 40, (3, 1)).astype(np.float32) / 8
N = np.array([[7, -7, 3], [-2, 5, 9]])
M = np.array([2, -3, 4])
B = np.array([[True, False, True], [False, False, True]])
BOXES = np.array([[[0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30], [30, 31, 20, 21], [5, 5, 5, 9]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.3, 0.7, 0.6], [0.1, 0.2, 0.95, 0.5, 0.4]]], np.float32)


def integers(*numbers):
    return np.array(numbers, np.int64)


F = np.float32
# Nodes: the operator, its inputs (None for an omitted one), its attributes, and the number of its outputs, 1 without it.
NODES = [
    ("Add", [X, Y], {}),
    ("Add", [N, M], {}),
    ("Sub", [X, Y], {}),
    ("Mul", [X, Y], {}),
    ("Div", [X, Y], {}),
    ("Div", [N, M], {}),
    ("Mod", [N, M], {}),
    ("Mod", [X, Y], {"fmod": 1}),
    ("Pow", [Y, F(1.5)], {}),
    ("Min", [X, Y, F(0.5)], {}),
    ("Max", [X, Y], {}),
    ("Sum", [X, Y, X], {}),
    ("And", [B, B[0]], {}),
    ("Or", [B, B[0]], {}),
    ("Xor", [B, B[0]], {}),
    ("Not", [B], {}),
    ("IsNaN", [np.array([1, np.nan, np.inf], F)], {}),
    ("IsInf", [np.array([1, np.nan, np.inf, -np.inf], F)], {}),
    ("Equal", [N, M], {}),
    ("Greater", [X, F(0.25)], {}),
    ("GreaterOrEqual", [X, X[0]], {}),
    ("Less", [N, M], {}),
    ("LessOrEqual", [N, M], {}),
    ("Where", [B, N, M], {}),
    ("Abs", [X], {}),
    ("Neg", [N], {}),
    ("Sign", [X], {}),
    ("Floor", [X], {}),
    ("Ceil", [X], {}),
    ("Round", [X * 4], {}),
    ("Sqrt", [Y], {}),
    ("Exp", [X], {}),
    ("Log", [Y], {}),
    ("Sin", [X], {}),
    ("Cos", [X], {}),
    ("Reciprocal", [Y], {}),
    ("Sigmoid", [X], {}),
    ("Tanh", [X], {}),
    ("Relu", [X], {}),
    ("Clip", [X, F(-1), F(2)], {}),
    ("Clip", [X, None, F(2)], {}),
    ("Clip", [X, F(-1)], {}),
    ("Softmax", [X], {"axis": 1}),
    ("Cast", [X], {"to": TensorProto.INT64}),
    ("Cast", [N], {"to": TensorProto.FLOAT}),
    ("Cast", [X], {"to": TensorProto.BOOL}),
    ("Identity", [X], {}),
    ("Shape", [X], {}),
    ("Shape", [X], {"start": -2, "end": 2}),
    ("Size", [X], {}),
    ("Reshape", [X, integers(0, -1, 2)], {}),
    ("Flatten", [X], {"axis": 2}),
    ("Squeeze", [X[:, :1], integers(1)], {}),
    ("Squeeze", [X[:1, :1]], {}),
    ("Unsqueeze", [X, integers(0, -1)], {}),
    ("Transpose", [X], {"perm": [2, 0, 1]}),
    ("Transpose", [X], {}),
    ("Expand", [Y, integers(2, 1, 4)], {}),
    ("Tile", [Y, integers(2, 3)], {}),
    ("Concat", [X, X[:, :1]], {"axis": 1}),
    ("Concat", [N, N], {"axis": -1}),
    ("Split", [X, integers(1, 3)], {"axis": 2}, 2),
    ("Split", [X], {"axis": -1}, 2),
    ("Slice", [X, integers(1), integers(1000), integers(2)], {}),
    ("Slice", [X, integers(-1, 0), integers(-1000, -1), integers(1, 2), integers(-1, 2)], {}),
    ("Slice", [X, integers(1), integers(2)], {}),
    ("Trilu", [X], {}),
    ("Trilu", [X, np.int64(-1)], {"upper": 0}),
    ("Gather", [X, integers(2, -1)], {"axis": 1}),
    ("Gather", [X, np.int64(1)], {"axis": 2}),
    ("Gather", [N, np.array([[0, 2], [1, 1]])], {"axis": 1}),
    ("GatherElements", [X, np.array([[[0, -1, 2, 0]], [[1, 1, 0, 2]]])], {"axis": 1}),
    ("GatherND", [X, np.array([[0, 1], [1, -1]])], {}),
    ("GatherND", [X, np.array([[[1]], [[2]]])], {"batch_dims": 1}),
    ("ScatterND", [X, np.array([[0, 1], [1, -1]]), X[0, :2]], {}),
    ("ScatterElements", [N, np.array([[2, 0]]), np.array([[50, 60]])], {"axis": 1}),
    ("Compress", [X, np.array([False, True, True])], {"axis": 1}),
    ("NonZero", [B], {}),
    ("TopK", [X, integers(2)], {"axis": 1}, 2),
    ("TopK", [N, integers(2)], {"axis": -1, "largest": 0}, 2),
    ("ArgMax", [X], {"axis": 1}),
    ("ArgMax", [np.zeros((2, 3), F)], {"axis": 1, "keepdims": 0, "select_last_index": 1}),
    ("ArgMin", [X], {"axis": -1, "keepdims": 0}),
    ("ReduceMax", [X], {"axes": [0, -1]}),
    ("ReduceMin", [X], {"axes": [1], "keepdims": 0}),
    ("ReduceMax", [N], {}),
    ("ReduceSum", [X, integers(1)], {"keepdims": 0}),
    ("ReduceSum", [X], {}),
    ("ReduceMean", [X], {"axes": [2]}),
    ("ReduceProd", [Y], {"axes": [0]}),
    ("ReduceL2", [X], {"axes": [2], "keepdims": 0}),
    ("CumSum", [X, np.int64(1)], {}),
    ("CumSum", [X, np.int64(-1)], {"exclusive": 1, "reverse": 1}),
    ("Range", [np.int64(5), np.int64(-3), np.int64(-2)], {}),
    ("Range", [F(0.5), F(3), F(0.5)], {}),
    ("ConstantOfShape", [integers(2, 3)], {"value": numpy_helper.from_array(np.array([3]))}),
    ("ConstantOfShape", [integers(2, 3)], {}),
    ("Pad", [X, integers(0, 1, -1, 1, 0, 2), F(9)], {}),
    ("Pad", [N, integers(0, 1, 0, 1)], {}),
    ("GridSample", [X[None], RNG.integers(-12, 12, (1, 3, 2, 2)).astype(F) / 8], {}),
    ("GridSample", [X[None], RNG.integers(-12, 12, (1, 3, 2, 2)).astype(F) / 8], {"align_corners": 1}),
    ("NonMaxSuppression", [BOXES, SCORES, integers(2), F([0.5]), F([0.25])], {}),
    ("NonMaxSuppression", [BOXES, SCORES, integers(9), F([0.5])], {"center_point_box": 1}),
    ("NonMaxSuppression", [BOXES, SCORES], {}),
]
# What TensorRT's plugins select: the number of boxes, the boxes, their scores and classes.
CHOSEN = [
    integers(3)[None],
    np.stack([BOXES[0, 2], BOXES[0, 0], BOXES[0, 3], np.zeros(4, F)])[None],
    np.array([[0.95, 0.9, 0.7, 0]], F),
    np.array([[1, 0, 0, -1]]),
]
PLUGINS = [
    ("EfficientNMS_TRT", {"max_output_boxes": 4, "score_threshold": 0.65, "iou_threshold": 0.5, "background_class": -1}),
    ("BatchedNMS_TRT", {"keepTopK": 4, "topK": 4, "scoreThreshold": 0.65, "iouThreshold": 0.5, "numClasses": 2, "backgroundLabelId": -1, "isNormalized": 1, "clipBoxes": 0}),
]


def expected(op_type, arrays, attributes, outputs):
    """The results of a node, by ONNX's reference, which has no negative amounts of Pad, and no selection without a maximum: of no box."""
    if op_type == "NonMaxSuppression" and len(arrays) == 2:
        return [np.zeros((0, 3), np.int64)]
    if op_type == "Pad" and min(arrays[1]) < 0:
        return [np.pad(arrays[0][:, :, 1:], [(0, 1), (1, 0), (0, 2)], constant_values=arrays[2])]
    names = [f"x{at}" if array is not None else "" for at, array in enumerate(arrays)]
    node = helper.make_node(op_type, names, [f"y{at}" for at in range(outputs)], **attributes)
    given = {name: np.asarray(array) for name, array in zip(names, arrays) if array is not None}
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in given.items()]
    results = [helper.make_tensor_value_info(f"y{at}", TensorProto.UNDEFINED, None) for at in range(outputs)]
    graph = helper.make_graph([node], "g", inputs, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ReferenceEvaluator(model).run(None, given)


class Rest:
    """The nodes behind the net, which returns all arrays."""

    def __init__(self):
        self.nodes, self.constants, self.names = [], {}, []
        # The elements of all inputs, as the net returns them.
        self.elements = []
        self.size = 0

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op_type, inputs, count=1, **attributes):
        outputs = [f"v{len(self.nodes)}_{at}" for at in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, **attributes))
        return outputs if count > 1 else outputs[0]

    def input(self, array):
        """An array that the net returns, by its elements."""
        array = np.asarray(array)
        start, self.size = self.size, self.size + array.size
        self.elements.append(array.astype(F).ravel())
        part = self.node("Slice", ["all", self.constant(integers(start)), self.constant(integers(self.size))])
        shaped = self.node("Reshape", [part, self.constant(integers(*array.shape))])
        return shaped if array.dtype == F else self.node("Cast", [shaped], to=helper.np_dtype_to_tensor_dtype(array.dtype))

    def check(self, name, result, array):
        """Adds a score for whether a result is an array: large if it is not."""
        array = np.asarray(array)
        shape = self.node("Shape", [result])
        has_shape = self.node("Equal", [shape, self.constant(integers(*array.shape))]) if array.ndim else None
        number = self.node("Cast", [result], to=TensorProto.FLOAT)
        error = self.node("Abs", [self.node("Sub", [number, self.constant(array.astype(F))])])
        near = self.node("Cast", [self.node("LessOrEqual", [error, self.constant(F(1e-5))])], to=TensorProto.FLOAT)
        least = self.node("ReduceMin", [near], keepdims=0) if array.size else self.constant(F(1))
        if has_shape:
            least = self.node("Mul", [least, self.node("ReduceMin", [self.node("Cast", [has_shape], to=TensorProto.FLOAT)], keepdims=0)])
        self.names.append((name, self.node("Reshape", [self.node("Sub", [self.constant(F(0.5)), least]), self.constant(integers(1, 1))])))


def model(part):
    """A model of every second node: its classes are the nodes, and `none` is the best of them if all results are right."""
    rest = Rest()
    for at, (op_type, arrays, attributes, *outputs) in list(enumerate(NODES))[part::2]:
        count = outputs[0] if outputs else 1
        # Axes and sizes are constants in models.
        inputs = ["" if array is None else rest.input(array) if at == 0 or np.asarray(array).dtype != np.int64 else rest.constant(array) for at, array in enumerate(arrays)]
        results = rest.node(op_type, inputs, count, **attributes)
        for result, array in zip(results if count > 1 else [results], expected(op_type, arrays, attributes, count)):
            rest.check(f"{op_type} {at}", result, array)
    boxes, scores = rest.input(BOXES), rest.input(SCORES.transpose(0, 2, 1))
    for op_type, attributes in PLUGINS[part::2]:
        for result, array in zip(rest.node(op_type, [boxes, scores], 4, domain="trt", **attributes), CHOSEN):
            rest.check(op_type, result, array)
    names, values = zip(*rest.names)
    parts = [rest.node("Mul", [rest.node("Concat", list(values), axis=1), rest.constant(F(80))]), rest.constant(np.zeros((1, 1), F))]
    rest.nodes.append(helper.make_node("Concat", parts, ["scores"], axis=1))
    head = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["elements", "nothing"], ["all"]),
    ]
    constants = rest.constants | {"zero": F(0), "elements": np.concatenate(rest.elements)}
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, len(names) + 1])
    graph = helper.make_graph(head + rest.nodes, "g", [images], [scores], tensors)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("trt", 1)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    made.metadata_props.add(key="labels", value="\n".join([*names, "none"]))
    return made, names
