"""Makes models, converts each with the program that runs it, runs the program, and compares what it prints and draws.

usage: run.py CONVERTER FOLDER [NCNN]

FOLDER is for the files. With NCNN, a folder where ncnn is installed, the programs are those in C++, which are compiled. The results of a model do not depend
on its input, but for a picture whose mean is added with a factor of 0, or as its case says: the output of a program is known without a runtime.
"""

import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))
import heads
import operators

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent.parent / "fixtures" / "network"
SIDE = 64
# Columns of boxes of a picture of this side, at strides of 8, 16 and 32.
CELLS = 84


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(inputs, outputs, nodes, constants, metadata):
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, text in metadata.items():
        made.metadata_props.add(key=key, value=text)
    return made


def of_picture(results, metadata={}, height=SIDE, width=SIDE):
    """A network of a picture with these results."""
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
    ]
    constants = {"zero": np.float32(0)}
    for name, array in results.items():
        nodes.append(helper.make_node("Add", [f"{name}_result", "nothing"], [name]))
        constants[f"{name}_result"] = array
    outputs = [value(name, array.shape) for name, array in results.items()]
    return model([value("images", [1, 3, height, width])], outputs, nodes, constants, metadata)


# Two boxes of a class that overlap, one of another class, and one with a low score: centre, size, scores.
CENTRES = np.array([[20, 20, 10, 10], [21, 20, 10, 10], [21, 21, 10, 10], [40, 40, 8, 8]], np.float32)
SCORES = np.array([[0.9, 0], [0.8, 0], [0, 0.7], [0.1, 0]], np.float32)
NAMES = {"names": "{0: 'cat', 1: \"dog\"}"}
# The picture is twice as wide and as high as the network's: corners in the network's are half of those in the picture.
BOXES = "cat  0.900  30.0 30.0 50.0 50.0\ndog  0.700  32.0 32.0 52.0 52.0\nresult.png\n"
# Half of their x.
PARTS = "cat  0.900  15.0 30.0 25.0 50.0\ndog  0.700  16.0 32.0 26.0 52.0\nresult.png\n"
# The colours of classes.
COLOURS = [(255, 64, 64), (64, 208, 64)]


def columns():
    rows = np.zeros((CELLS, 6), np.float32)
    rows[5:9] = np.concatenate([CENTRES, SCORES], axis=1)
    return of_picture({"boxes": rows.T[None].copy()}, NAMES)


def masks():
    """Boxes with the coefficients of masks, as of a segmentation."""
    rows = np.zeros((CELLS, 10), np.float32)
    rows[5:9, :6] = np.concatenate([CENTRES, SCORES], axis=1)
    rows[5:9, 6:] = 5
    return of_picture({"boxes": rows.T[None].copy(), "masks": np.ones((1, 4, 16, 16), np.float32)}, NAMES)


def rows():
    rows = np.zeros((3 * CELLS, 7), np.float32)
    objects = np.full((4, 1), 0.5, np.float32)
    rows[100:104] = np.concatenate([CENTRES, objects, 2 * SCORES], axis=1)
    return of_picture({"boxes": rows[None].copy()}, NAMES)


def selected():
    rows = np.zeros((300, 6), np.float32)
    rows[0], rows[1], rows[2] = [15, 15, 25, 25, 0.9, 0], [16, 16, 26, 26, 0.7, 1], [16, 16, 26, 26, 0.6, -1]
    return of_picture({"output0": rows[None].copy()}, NAMES | {"end2end": "True"})


def free_sizes():
    """The same for pictures of any size: a picture that is twice as wide as high gets no border."""
    made = selected()
    for key, text in {"author": "Ultralytics", "stride": "32", "imgsz": str([SIDE, SIDE])}.items():
        made.metadata_props.add(key=key, value=text)
    made.graph.input[0].CopyFrom(value("images", [1, 3, "height", "width"]))
    return made


def pair():
    half = CENTRES[:, 2:] / 2
    corners = np.concatenate([CENTRES[:, :2] - half, CENTRES[:, :2] + half], axis=1) / SIDE
    return of_picture({"scores": SCORES[None].copy(), "boxes": corners[None].copy()}, NAMES)


def pair_of_tensorflow():
    """The same with y before x, and an output of classes."""
    boxes = corners()[:3, [1, 0, 3, 2]] * [1, 0.5, 1, 0.5] / SIDE
    results = {"detection_boxes": boxes, "detection_scores": np.array([0.9, 0.1, 0.7]), "detection_classes": np.array([0, 0, 1])}
    return of_picture({name: array[None].astype(np.float32) for name, array in results.items()}, NAMES)


def points():
    """Boxes with two key points each, of which the second is not visible."""
    rows = np.zeros((CELLS, 12), np.float32)
    rows[5:9, :6] = np.concatenate([CENTRES, SCORES], axis=1)
    rows[5:9, 6:] = [55, 30, 1, 60, 30, 0]
    return of_picture({"boxes": rows.T[None].copy()}, NAMES | {"task": "pose", "kpt_shape": "[2, 3]"})


# Angles of the boxes: the second lies over the first as much as before.
ANGLES = np.array([[0.5], [0.5], [0.5], [0]], np.float32)


def oriented():
    rows = np.zeros((CELLS, 7), np.float32)
    rows[5:9] = np.concatenate([CENTRES, SCORES, ANGLES], axis=1)
    return of_picture({"boxes": rows.T[None].copy()}, NAMES | {"task": "obb"})


def corners_of(x, y, w, h, angle):
    turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [w / 2, h / 2]) @ turned + [x, y]


def queries():
    """The boxes of a network of queries: centres and sizes as parts of the picture, and scores before a Sigmoid."""
    logits = np.log(np.maximum(SCORES, 1e-6) / (1 - np.maximum(SCORES, 1e-6)))
    return of_picture({"logits": logits[None].astype(np.float32), "pred_boxes": CENTRES[None] / SIDE}, NAMES)


def corners():
    half = CENTRES[:, 2:] / 2
    return np.concatenate([CENTRES[:, :2] - half, CENTRES[:, :2] + half], axis=1)


def selecting(by_class):
    """A detector that selects its boxes: the boxes, their scores and classes are cut off."""
    made = of_picture({"corners": corners(), "scores": SCORES}, NAMES)
    nodes, inits = made.graph.node, made.graph.initializer
    constants = {"most": np.array([9]), "overlap": np.float32([0.6]), "bound": np.float32([0.3]), "far": np.float32(200)}
    constants |= {f"_{number}": np.array([number]) for number in range(2)} | {"both": np.array([0, 1]), "scalar": np.array(2)}
    inits.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    if by_class:
        nodes.extend([
            helper.make_node("Unsqueeze", ["corners", "_0"], ["nms_boxes"]),
            helper.make_node("Transpose", ["scores"], ["of_classes"], perm=[1, 0]),
            helper.make_node("Unsqueeze", ["of_classes", "_0"], ["nms_scores"]),
        ])
    else:
        nodes.extend([
            helper.make_node("ReduceMax", ["scores"], ["best"], axes=[1], keepdims=0),
            helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
            helper.make_node("Cast", ["label"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["number", "far"], ["offsets"]),
            helper.make_node("Unsqueeze", ["offsets", "_1"], ["column"]),
            helper.make_node("Add", ["corners", "column"], ["shifted"]),
            helper.make_node("Unsqueeze", ["shifted", "_0"], ["nms_boxes"]),
            helper.make_node("Unsqueeze", ["best", "both"], ["nms_scores"]),
        ])
    nodes.extend([
        helper.make_node("NonMaxSuppression", ["nms_boxes", "nms_scores", "most", "overlap", "bound"], ["selected"]),
        helper.make_node("Gather", ["selected", "scalar"], ["indices"], axis=1),
        helper.make_node("Gather", ["corners", "indices"], ["chosen"], axis=0),
    ])
    if by_class:
        nodes.extend([
            helper.make_node("GatherND", ["nms_scores", "selected"], ["certainty"]),
            helper.make_node("Gather", ["selected", "_1"], ["classes"], axis=1),
            helper.make_node("Squeeze", ["classes", "_1"], ["kind"]),
        ])
    else:
        nodes.extend([
            helper.make_node("Gather", ["best", "indices"], ["certainty"], axis=0),
            helper.make_node("Gather", ["label", "indices"], ["kind"], axis=0),
        ])
    del made.graph.output[:]
    outputs = [value("chosen", ["n", 4]), value("certainty", ["n"]), value("kind", ["n"], TensorProto.INT64)]
    made.graph.output.extend(outputs)
    return made


def selecting_rows():
    """The same, as rows of a box and its score, and an output of classes."""
    made = selecting(False)
    made.graph.node.extend([
        helper.make_node("Unsqueeze", ["certainty", "_1"], ["end"]),
        helper.make_node("Concat", ["chosen", "end"], ["rows"], axis=1),
    ])
    del made.graph.output[:2]
    made.graph.output.insert(0, value("rows", ["n", 5]))
    return made


def selecting_with_branches():
    """The same, with a branch for no boxes, as torchvision has it. The picture has no batch."""
    made = selecting(False)
    nodes, at = made.graph.node, [node.op_type for node in selecting(False).graph.node].index("NonMaxSuppression")
    some = [helper.make_node("NonMaxSuppression", ["nms_boxes", "nms_scores", "most", "overlap", "bound"], ["found"]), helper.make_node("Identity", ["found"], ["some"])]
    none = [helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(np.zeros((0, 3), np.int64)))]
    graphs = [helper.make_graph(body, name, [], [value(name, ["n", 3], TensorProto.INT64)]) for body, name in ((none, "none"), (some, "some"))]
    later = list(nodes[at + 1 :])
    del nodes[at:]
    nodes.extend([
        helper.make_node("NonZero", ["best"], ["rows"]),
        helper.make_node("Size", ["rows"], ["size"]),
        helper.make_node("Equal", ["size", "nought"], ["is_empty"]),
        helper.make_node("If", ["is_empty"], ["selected"], then_branch=graphs[0], else_branch=graphs[1]),
        *later,
    ])
    made.graph.initializer.append(numpy_helper.from_array(np.array(0), "nought"))
    made.graph.input[0].CopyFrom(value("images", [3, SIDE, SIDE]))
    return made


def selecting_masks():
    """Boxes with the coefficients of masks. The model selects the boxes whose score is above a bound."""
    rows = np.concatenate([corners(), [[0.9, 0], [0.2, 0], [0.7, 1], [0.1, 0]], np.full((4, 4), 5)], axis=1).astype(np.float32)
    made = of_picture({"all": rows, "masks": np.ones((1, 4, 16, 16), np.float32)}, NAMES)
    constants = {"fifth": np.array(4), "bound": np.float32(0.5), "zeroth": np.array([0])}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    made.graph.node.extend([
        helper.make_node("Gather", ["all", "fifth"], ["certainty"], axis=1),
        helper.make_node("Greater", ["certainty", "bound"], ["is_above"]),
        helper.make_node("NonZero", ["is_above"], ["found"]),
        helper.make_node("Squeeze", ["found", "zeroth"], ["indices"]),
        helper.make_node("Gather", ["all", "indices"], ["chosen"], axis=0),
        helper.make_node("Unsqueeze", ["chosen", "zeroth"], ["boxes"]),
    ])
    made.graph.output[0].CopyFrom(value("boxes", [1, "n", 10]))
    return made


def key_points():
    """Points at which a map of scores is above a bound: x and y in the picture of the network."""
    scores = np.zeros((1, SIDE, SIDE), np.float32)
    scores[0, 10, 20], scores[0, 40, 50] = 0.5, 0.75
    made = of_picture({"heat": scores})
    constants = {"bound": np.float32(0.25), "order": np.array([2, 1]), "line": np.array([0])}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    made.graph.node.extend([
        helper.make_node("Greater", ["heat", "bound"], ["is_above"]),
        helper.make_node("NonZero", ["is_above"], ["indices"]),
        helper.make_node("Transpose", ["indices"], ["rows"]),
        helper.make_node("Gather", ["rows", "order"], ["points"], axis=1),
        helper.make_node("GatherND", ["heat", "rows"], ["certainty"]),
    ])
    del made.graph.output[:]
    made.graph.output.extend([value("points", ["n", 2], TensorProto.INT64), value("certainty", ["n"])])
    return made


def selecting_nothing():
    """A detector whose bound no score reaches."""
    made = selecting(False)
    for tensor in made.graph.initializer:
        if tensor.name == "bound":
            tensor.CopyFrom(numpy_helper.from_array(np.float32([0.99]), "bound"))
    return made


def heat():
    """A number for each pixel, which grows from the left to the right."""
    return of_picture({"depth": np.tile(np.arange(SIDE, dtype=np.float32), (1, 1, SIDE, 1))})


def segments():
    """The first class in the left quarter, the second in the rest."""
    planes = np.zeros((1, 2, SIDE, SIDE), np.float32)
    planes[0, 0, :, : SIDE // 4] = 1
    planes[0, 1, :, SIDE // 4 :] = 1
    return of_picture({"scores": planes}, NAMES)


def labels():
    """The same as classes."""
    made = segments()
    made.graph.node.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
    made.graph.output[0].CopyFrom(value("label", [1, SIDE, SIDE], TensorProto.INT64))
    return made


def orange():
    """An orange picture."""
    return of_picture({"made": np.tile(np.float32([1, 0.5, 0])[None, :, None, None], (1, 1, SIDE, SIDE))})


SAMPLES = np.float32([0, 0.5, -0.5, 1])


def sound():
    nodes = [helper.make_node("Mul", ["x", "factors"], ["audio"])]
    return model([value("x", [1, 4])], [value("audio", [1, 4])], nodes, {"factors": SAMPLES}, {"sample_rate": "8000"})


def text(shape, blank_is_known=False, more=0):
    letters = ["a", "b", '"', "\\", " ", "é", "n", "o", "p", "q", "r", *(chr(0x4E00 + at) for at in range(more))]
    best = [0, 1, 1, 0, 1, 3, 4, 5, 6, 6, 0, 0]
    rows = np.zeros((len(best), len(letters) + 1), np.float32)
    rows[np.arange(len(best)), best] = 1
    known = ["blank", *letters] if blank_is_known else letters
    return of_picture({"text": rows.reshape(shape)}, {"character": "\n".join(known)}, 32, 128)


def scores():
    return of_picture({"scores": np.array([[1, 3, 2]], np.float32)}, {"id2label": '{"0": "one", "1": "two", "2": "three"}'})


def limited():
    """A net of at most 64 cells of a picture: the softmax of a two, and of the part of these cells that there are."""
    nodes = [
        helper.make_node("AveragePool", ["images"], ["cells"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Reshape", ["cells", "row"], ["list"]),
        helper.make_node("Shape", ["list"], ["length"], start=2),
        helper.make_node("Slice", ["places", "from", "length", "last"], ["own"]),
        helper.make_node("Add", ["list", "own"], ["placed"]),
        helper.make_node("Mul", ["placed", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "part"], ["parts"]),
        helper.make_node("ReduceSum", ["parts", "last"], ["sums"], keepdims=0),
        helper.make_node("Slice", ["sums", "from", "one", "channel"], ["sum"]),
        helper.make_node("Concat", ["unit", "sum"], ["scores"], axis=1),
        helper.make_node("Softmax", ["scores"], ["p"], axis=1),
    ]
    constants = {
        "row": np.array([1, 3, -1]),
        "places": np.zeros((1, 3, 64), np.float32),
        "zero": np.float32(0),
        "part": np.float32(1 / 64),
        "unit": np.full((1, 1), 2, np.float32),
    }
    constants |= {name: np.array([number]) for name, number in (("from", 0), ("one", 1), ("channel", 1), ("last", 2))}
    return model([value("images", [1, 3, "H", "W"])], [value("p", [1, 2])], nodes, constants, {"labels": "unit,part"})


def probabilities():
    made = scores()
    made.graph.output[0].name = "p"
    made.graph.node.append(helper.make_node("Softmax", ["scores"], ["p"], axis=1))
    return made


def pixels():
    """A picture of bytes with channels as the last axis: the mean of each."""
    nodes = [
        helper.make_node("Cast", ["picture"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["float"], ["means"], axes=[1, 2], keepdims=0),
        helper.make_node("Softmax", ["means"], ["p"], axis=1),
    ]
    inputs = [value("picture", [1, SIDE, SIDE, 3], TensorProto.UINT8)]
    return model(inputs, [value("p", [1, 3])], nodes, {}, {"classes": "red, green, blue"})


def vocabulary():
    """The logits of the next number."""
    return np.roll(np.eye(1000, dtype=np.float32), 1, axis=1)


def decoder():
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["logits"], axis=0)]
    inputs = [value("input_ids", [1, "S"], TensorProto.INT64)]
    return model(inputs, [value("logits", [1, "S", 1000])], nodes, {"table": vocabulary()}, {})


def limited_decoder():
    """The logits of the next number, of a net that has places for twelve."""
    made = decoder()
    nodes, inits = made.graph.node, made.graph.initializer
    nodes[0].output[0] = "rows"
    nodes.extend([
        helper.make_node("Shape", ["input_ids"], ["length"], start=1),
        helper.make_node("Slice", ["places", "from", "length", "axis"], ["own"]),
        helper.make_node("Add", ["rows", "own"], ["logits"]),
    ])
    constants = {"places": np.zeros((1, 12, 1), np.float32), "from": np.array([0]), "axis": np.array([1])}
    inits.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return made


def decoder_with_a_state():
    """The logits of the sum of all numbers so far, which the state holds as a row of a product."""
    table = vocabulary()
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["now"], axis=0),
        helper.make_node("Mul", ["past_sum", "tenth"], ["before"]),
        helper.make_node("Add", ["now", "before"], ["logits"]),
        helper.make_node("Identity", ["logits"], ["present_sum"]),
    ]
    inputs = [value("input_ids", [1, 1], TensorProto.INT64), value("past_sum", [1, 1, 1000])]
    outputs = [value("logits", [1, 1, 1000]), value("present_sum", [1, 1, 1000])]
    return model(inputs, outputs, nodes, {"table": table, "tenth": np.float32(0.1)}, {})


def decoder_of_one_token():
    """The logits of the next number, if the token is the next one of the call before."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["now"], axis=0),
        helper.make_node("Gather", ["rows", "input_ids"], ["here"], axis=0),
        helper.make_node("Mul", ["past_row", "here"], ["both"]),
        helper.make_node("ReduceSum", ["both", "axis"], ["follows"], keepdims=1),
        helper.make_node("Mul", ["now", "follows"], ["logits"]),
        helper.make_node("Identity", ["now"], ["present_row"]),
    ]
    inputs = [value("input_ids", [1], TensorProto.INT64), value("past_row", [1, 50])]
    outputs = [value("logits", [1, 50]), value("present_row", [1, 50])]
    rows = np.eye(50, dtype=np.float32)
    constants = {"table": np.roll(rows, 1, axis=1), "rows": rows, "axis": np.array([1])}
    return model(inputs, outputs, nodes, constants, {})


def decoder_with_a_cache():
    """The logits of the next number, if the cache has as many rows as there were tokens before."""
    nodes = [
        helper.make_node("Gather", ["ones", "input_ids"], ["rows"], axis=0),
        helper.make_node("Concat", ["past_key_values.0.key", "rows"], ["present.0.key"], axis=1),
        helper.make_node("ReduceSum", ["present.0.key", "axes"], ["seen"], keepdims=1),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["mask", "axis"], ["told"], keepdims=1),
        helper.make_node("Unsqueeze", ["told", "axis"], ["column"]),
        helper.make_node("Sub", ["seen", "column"], ["wrong"]),
        helper.make_node("Abs", ["wrong"], ["error"]),
        helper.make_node("Sub", ["one", "error"], ["factor"]),
        helper.make_node("Gather", ["table", "input_ids"], ["next"], axis=0),
        helper.make_node("Mul", ["next", "factor"], ["logits"]),
    ]
    inputs = [
        value("input_ids", [1, "S"], TensorProto.INT64),
        value("attention_mask", [1, "P + S"], TensorProto.INT64),
        value("past_key_values.0.key", [1, "P", 1]),
    ]
    outputs = [value("logits", [1, "S", 1000]), value("present.0.key", [1, "P + S", 1])]
    constants = {
        "ones": np.ones((1000, 1), np.float32),
        "table": vocabulary(),
        "axes": np.array([1, 2]),
        "axis": np.array([1]),
        "one": np.float32(1),
    }
    return model(inputs, outputs, nodes, constants, {})


def reader():
    """Scores of a text of a fixed length: of its tokens and its mask."""
    nodes = [
        helper.make_node("Cast", ["attention_mask"], ["seen"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
        helper.make_node("Unsqueeze", ["seen", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "first"], ["sums"], keepdims=0),
    ]
    inputs = [value(name, [1, 8], TensorProto.INT64) for name in ("input_ids", "attention_mask")]
    table = np.array([[9, 0], [0, 1], [2, 0]], np.float32)
    constants = {"table": table, "last": np.array([2]), "first": np.array([1])}
    return model(inputs, [value("sums", [1, 2])], nodes, constants, {"labels": "good\nbad"})


def pairs():
    """Scores of tokens with a mask of pairs of them."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
        helper.make_node("MatMul", ["pair_mask", "rows"], ["seen"]),
        helper.make_node("ReduceMean", ["seen"], ["sums"], axes=[1], keepdims=0),
    ]
    inputs = [value("input_ids", [1, "S"], TensorProto.INT64), value("pair_mask", [1, "S", "S"])]
    table = np.array([[9, 0], [0, 1], [2, 0]], np.float32)
    return model(inputs, [value("sums", [1, 2])], nodes, {"table": table}, {"labels": "good\nbad"})


def memory():
    """A decoder's step: tokens, and what an encoder made, of another length."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
        helper.make_node("ReduceSum", ["rows", "first"], ["read"], keepdims=0),
        helper.make_node("ReduceSum", ["memory", "first"], ["known"], keepdims=0),
        helper.make_node("Add", ["read", "known"], ["sums"]),
        helper.make_node("Softmax", ["sums"], ["p"], axis=1),
    ]
    inputs = [value("input_ids", [1, "S"], TensorProto.INT64), value("memory", [1, "M", 2])]
    constants = {"table": np.array([[0, 0], [0, 1]], np.float32), "first": np.array([1])}
    return model(inputs, [value("p", [1, 2])], nodes, constants, {"labels": "first,second"})


def sums():
    """A state that adds up what it is given: the softmax of the sums."""
    nodes = [
        helper.make_node("Add", ["x", "h0"], ["hn"]),
        helper.make_node("Softmax", ["hn"], ["p"], axis=1),
    ]
    inputs, outputs = [value("x", [1, 2]), value("h0", [1, 2])], [value("p", [1, 2]), value("hn", [1, 2])]
    return model(inputs, outputs, nodes, {}, {"labels": "first,second"})


def lengths():
    """A sequence of free length, times a number: its sum and its length as one row."""
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("ReduceSum", ["scaled", "axis"], ["sum"], keepdims=1),
        helper.make_node("Div", ["scaled", "scaled"], ["ones"]),
        helper.make_node("ReduceSum", ["ones", "axis"], ["count"], keepdims=1),
        helper.make_node("Concat", ["sum", "count"], ["row"], axis=1),
        helper.make_node("Softmax", ["row"], ["p"], axis=1),
    ]
    inputs = [value("x", [1, "samples"]), value("factor", [])]
    return model(inputs, [value("p", [1, 2])], nodes, {"axis": np.array([1])}, {"labels": "sum,count"})


def hostile():
    """Names that would end a string, a comment, or a line."""
    made = scores()
    name = 'p"""\\'
    made.graph.output[0].name = name
    made.graph.node.append(helper.make_node("Softmax", ["scores"], [name], axis=1))
    batch = made.graph.input[0].type.tensor_type.shape.dim[0]
    batch.dim_param = '*/"""\nraise SystemExit("\\'
    made.metadata_props.add(key="names", value=str(["one\n", 'tw"o', "three\\"]))
    return made


def softmax(*numbers):
    powers = np.exp(np.array(numbers, np.float64))
    return powers / powers.sum()


def ranked(**named):
    return "".join(f"{name}  {p:.3f}\n" for name, p in sorted(named.items(), key=lambda item: -item[1]))


ONE, THREE, TWO = softmax(1, 2, 3)
GOOD, BAD = softmax(2, 1)
RED, GREEN, BLUE = softmax(250, 248, 246)
OTHER, SAME = softmax(1, 3)
SUM, COUNT = softmax(3.75, 4)
SCORED = ranked(one=ONE, two=TWO, three=THREE)
STEPS = " ".join(str(n) for n in range(8, 40)) + " \n"
# The net leaves no box over another, so none is left out.
QUERIES = "cat  0.900  30.0 30.0 50.0 50.0\ncat  0.800  32.0 30.0 52.0 50.0\n" + BOXES.split("\n", 1)[1]
FIRST, SECOND = zip(softmax(1, 0), softmax(1, 2))
TURNED = "".join(
    f"{name}  {score:.3f}  {' '.join(f'{2 * x:.1f}' for x in corners_of(*CENTRES[at], 0.5).ravel())}\n" for name, score, at in (("cat", 0.9, 0), ("dog", 0.7, 2))
)
# Models of operators, and what programs print if all are right.
OPERATORS = [operators.model(part) for part in range(2)]
RIGHT = ["none  1.000\n" + "".join(f"{name}  0.000\n" for name in names[:4]) for _, names in OPERATORS]
# Cases: the model, the words for the program, what it prints, and options.
CASES = {
    "columns": (columns, ["wide.png"], BOXES),
    "masks": (masks, ["wide.png"], BOXES),
    "corner": (columns, ["tall.png"], BOXES),
    "stretched": (masks, ["tall.png"], PARTS),
    "rows": (rows, ["wide.png"], BOXES),
    "selected": (selected, ["wide.png"], BOXES),
    "free_sizes": (free_sizes, ["long.png"], BOXES),
    "pair_of_tensorflow": (pair_of_tensorflow, ["wide.png"], PARTS),
    "pair": (pair, ["wide.png"], BOXES),
    "points": (points, ["wide.png"], BOXES),
    "oriented": (oriented, ["wide.png"], TURNED + "result.png\n"),
    "queries": (queries, ["wide.png"], QUERIES),
    "selecting": (lambda: selecting(False), ["wide.png"], BOXES, "--outputs", "corners,best,label"),
    "selecting_by_class": (lambda: selecting(True), ["wide.png"], BOXES, "--outputs", "corners,scores"),
    "selecting_rows": (selecting_rows, ["wide.png"], BOXES, "--outputs", "corners,scores"),
    "selecting_with_branches": (selecting_with_branches, ["wide.png"], BOXES, "--outputs", "corners,best,label"),
    "selecting_masks": (selecting_masks, ["wide.png"], BOXES, "--outputs", "all,masks"),
    "selecting_above_a_bound": (lambda: selecting(False), ["wide.png"], "nothing was found\nresult.png\n", "--outputs", "corners,best,label"),
    "selecting_nothing": (selecting_nothing, ["wide.png"], "nothing was found\nresult.png\n", "--outputs", "corners,scores"),
    "key_points": (key_points, ["wide.png"], "100.0 80.0  0.750\n40.0 20.0  0.500\nresult.png\n", "--outputs", "heat"),
    "operators": (lambda: OPERATORS[0][0], ["wide.png"], RIGHT[0], "--outputs", "all"),
    "further_operators": (lambda: OPERATORS[1][0], ["wide.png"], RIGHT[1], "--outputs", "all"),
    **{name: (make, ["wide.png"], heads.PRINTED) for name, make in heads.CASES.items()},
    "heat": (heat, ["wide.png"], "result.png\n"),
    "segments": (segments, ["wide.png"], "cat  0.250\ndog  0.750\nresult.png\n"),
    "labels": (labels, ["wide.png"], "cat  0.250\ndog  0.750\nresult.png\n"),
    "orange": (orange, ["wide.png"], "result.png\n"),
    "sound": (sound, ["x=1,1,1,1"], "result.wav\n"),
    "text": (lambda: text((1, 12, 12)), ["wide.png"], 'aa"\\ é\n'),
    "text_of_columns": (lambda: text((12, 1, 12)), ["wide.png"], 'aa"\\ é\n'),
    "text_with_blank": (lambda: text((1, 12, 12), True), ["wide.png"], 'aa"\\ é\n'),
    # As many characters as readers of Chinese have.
    "text_of_an_alphabet_of_20000": (lambda: text((1, 12, 20_012), more=20_000), ["wide.png"], 'aa"\\ é\n'),
    "scores": (scores, ["wide.png"], SCORED),
    "limited": (limited, ["wide.png"], ranked(unit=GOOD, part=BAD)),
    "probabilities": (probabilities, ["wide.png"], SCORED),
    "hostile": (hostile, ["wide.png"], SCORED.replace("one", "one ").replace("two", 'tw"o').replace("three", "three\\")),
    "pixels": (pixels, ["red.png"], ranked(red=RED, green=GREEN, blue=BLUE)),
    "decoder": (decoder, ["5", "7"], STEPS),
    "limited_decoder": (limited_decoder, ["5", "7"], " ".join(str(n) for n in range(8, 19)) + " \n"),
    "decoder_with_a_state": (decoder_with_a_state, ["7"], STEPS),
    "decoder_of_one_token": (decoder_of_one_token, ["5", "6", "7"], STEPS),
    "decoder_with_a_cache": (decoder_with_a_cache, ["6", "7"], STEPS),
    "reader": (reader, ["2", "1"], ranked(good=GOOD, bad=BAD)),
    "pairs": (pairs, ["2", "1"], ranked(good=GOOD, bad=BAD)),
    "memory": (memory, ["input_ids=1,0", "memory=step"], ranked(first=OTHER, second=SAME)),
    "lengths": (lengths, ["x=row", "factor=2.5"], ranked(sum=SUM, count=COUNT)),
    "lengths_of_numbers": (lengths, ["x=0.5,0.5,0.25,0.25", "factor=2.5"], ranked(sum=SUM, count=COUNT)),
    "sums": (sums, ["x=steps"], ranked(first=FIRST[0], second=SECOND[0]) + ranked(first=FIRST[1], second=SECOND[1])),
}
# Photos of a camera that was turned: as wide as long.png once they are upright. Apps turn them before a class in Kotlin gets the pixels.
ORIENTATIONS = [3, 6, 8]
TURNED_PHOTOS = {f"turned_{orientation}": (free_sizes, [f"turned_{orientation}.jpg"], BOXES) for orientation in ORIENTATIONS}


def half_of(colour):
    return [(a + b) // 2 for a, b in zip(colour, (10, 20, 30))]


# Pixels of the drawings of cases, by their places, x first.
DRAWN = {
    "columns": {(30, 45): COLOURS[0], (51, 45): COLOURS[1], (80, 80): (10, 20, 30)},
    # Both masks lie there.
    "masks": {(40, 48): (98, 125, 55), (80, 80): (10, 20, 30)},
    "selecting_masks": {(40, 48): (98, 125, 55), (80, 80): (10, 20, 30)},
    "points": {(110, 60): COLOURS[1], (120, 60): (10, 20, 30)},
    "selecting": {(30, 45): COLOURS[0], (51, 45): COLOURS[1]},
    "key_points": {(100, 80): COLOURS[1], (40, 20): COLOURS[1], (80, 80): (10, 20, 30)},
    "heat": {(0, 0): [5, 10, 78], (127, 60): [68, 10, 15]},
    "segments": {(10, 60): half_of(COLOURS[0]), (100, 60): half_of(COLOURS[1])},
    "labels": {(10, 60): half_of(COLOURS[0]), (100, 60): half_of(COLOURS[1])},
    "orange": {(10, 10): (255, 128, 0)},
}


def differences(name, folder):
    """What is wrong in the picture or the sound that a program wrote."""
    if name == "sound":
        with wave.open(str(folder / "result.wav")) as file:
            samples = np.frombuffer(file.readframes(9), np.int16) / 32767
            return [] if file.getframerate() == 8000 and np.allclose(samples, SAMPLES, atol=1e-3) else [f"sound {samples}"]
    if name not in DRAWN:
        return []
    pixels = np.asarray(Image.open(folder / "result.png").convert("RGB")).astype(int)
    far = [(place, pixels[place[1], place[0]]) for place, colour in DRAWN[name].items() if np.abs(pixels[place[1], place[0]] - colour).max() > 8]
    return [f"{place} is {pixel}" for place, pixel in far]


# The constants that cases change at the head of a program, as a user would: the text before and after by the language.
FITS = {
    name: {
        ".py": ('FIT, BORDER = "middle"', f'FIT, BORDER = "{name}"'),
        ".cpp": ("FIT = Fit::middle", f"FIT = Fit::{name}"),
        ".kt": ("FIT = Fit.MIDDLE", f"FIT = Fit.{name.upper()}"),
    }
    for name in ("corner", "stretched")
}
BOUND = ("MODEL_THRESHOLD = 0.3", "MODEL_THRESHOLD = 0.95")
CHANGES = FITS | {"selecting_above_a_bound": dict.fromkeys((".py", ".cpp", ".kt"), BOUND)}


def change(name, program):
    """Changes the constant of a program that the case is about, if it is about one."""
    if name in CHANGES:
        before, after = CHANGES[name][program.suffix]
        text = program.read_text()
        assert text.count(before) == 1
        program.write_text(text.replace(before, after))


def compiled(program, ncnn):
    binary = program.with_suffix("")
    library = next(ncnn.glob("lib*/libncnn.a"))
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-O1", program, f"-I{ncnn}/include", library]
    subprocess.run([*command, "-fopenmp", "-o", binary], check=True)
    return [binary]


def main():
    converter, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    ncnn = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    folder.mkdir(parents=True, exist_ok=True)
    # A picture of the same proportions in twice the size, those of half of its height and width, and a red one.
    Image.new("RGB", (2 * SIDE, 2 * SIDE), (10, 20, 30)).save(folder / "wide.png")
    Image.new("RGB", (2 * SIDE, SIDE), (10, 20, 30)).save(folder / "long.png")
    Image.new("RGB", (SIDE, 2 * SIDE), (10, 20, 30)).save(folder / "tall.png")
    for orientation in ORIENTATIONS:
        exif = Image.Exif()
        exif[0x112] = orientation
        sides = (2 * SIDE, SIDE) if orientation < 5 else (SIDE, 2 * SIDE)
        Image.new("RGB", sides, (10, 20, 30)).save(folder / f"turned_{orientation}.jpg", exif=exif)
    Image.new("RGB", (20, 20), (250, 248, 246)).save(folder / "red.png")
    steps = np.array([[1, 0], [0, 2]], np.float32)
    np.save(folder / "steps.npy", steps[:, None])
    steps.tofile(folder / "steps.raw")
    np.save(folder / "step.npy", steps[None])
    steps.tofile(folder / "step.raw")
    row = np.array([[0.5, 0.5, 0.25, 0.25]], np.float32)
    np.save(folder / "row.npy", row)
    row.tofile(folder / "row.raw")
    ending = "raw" if ncnn else "npy"
    failures = []
    cases = CASES | TURNED_PHOTOS
    for name, (make, words, expected, *options) in cases.items():
        onnx.save(make(), folder / f"{name}.onnx")
        program = folder / f"{name}.{'cpp' if ncnn else 'py'}"
        command = [converter, folder / f"{name}.onnx", "--quiet", "--example", program, *options]
        subprocess.run(command, check=True)
        change(name, program)
        words = [f"{word}.{ending}" if word in ("x=steps", "x=row", "memory=step") else word for word in words]
        start = compiled(program, ncnn) if ncnn else [sys.executable, program]
        done = subprocess.run([*start, *words], cwd=folder, capture_output=True, text=True)
        if (done.returncode, done.stdout) != (0, expected):
            failures.append(f"{name}: {done.returncode}\n{done.stdout}{done.stderr}expected:\n{expected}")
        elif wrong := differences(name, folder):
            failures.append(f"{name}: {', '.join(wrong)}")
    print(f"{len(cases) - len(failures)} of {len(cases)} programs print what they should")
    onnx.save(heads.offsets(), folder / "offsets.onnx")
    program = folder / "offsets.py"
    subprocess.run([converter, folder / "offsets.onnx", "--quiet", "--example", program], check=True)
    if "BOXES" in program.read_text():
        failures.append("offsets: they are not boxes")
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
