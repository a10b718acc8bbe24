"""Writes the models for simplify.rs, one for each call of `put`, into the folder of the argument."""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

FOLDER = Path(sys.argv[1])
HEADER = '<ir_version: 8, opset_import: ["": 17, "com.example": 1]>'


def put(name, text, **constants):
    model = onnx.parser.parse_model(HEADER + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    model.doc_string, model.graph.doc_string, model.domain, model.model_version = "a model", "a graph", "example", 7
    entry = model.metadata_props.add()
    entry.key, entry.value = "classes", "cat,dog"
    onnx.save(model, FOLDER / f"{name}.onnx")


weights = np.random.default_rng(0).random((64, 512), dtype=np.float32)
ints = lambda *list: np.array(list, np.int64)
put("tile", "g (float[N,40000] x) => (float[N,40000] y) { t = Tile (k, n) y = Add (x, t) }", k=weights[0, :4], n=ints(10000))
put("expand", "g (float[N,40000] x) => (float[N,40000] y) { t = Expand (k, s) y = Add (x, t) }", k=weights[0, :1], s=ints(40000))
put("filled", "g (float[N,40000] x) => (float[N,40000] y) { t = ConstantOfShape (s) y = Add (x, t) }", s=ints(40000))
put(
    "both_ways",
    "g (float[N,64] x) => (float[N,64] y) { t = Transpose <perm = [1, 0]> (w) a = MatMul (x, w) y = MatMul (a, t) }",
    w=weights,
)
put("one_way", "g (float[N,512] x) => (float[N,64] y) { t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t) }", w=weights)
put(
    "cut_up",
    "g (float[N,32] x) => (float[N,512] y, float[N,512] z)"
    "{ a, b = Split <axis = 0> (w, s) y = MatMul (x, a) z = MatMul (x, b) }",
    w=weights,
    s=ints(32, 32),
)
put(
    "own_words",
    "g (float[N,4] x) => (float[M] y, float[N,4] z)"
    "{ s = Shape (k) c = ReduceSum (s) d = Cast <to = 1> (c) e = Identity (x) a = com.example.Twice (e, d) y = Identity (a)"
    "  i = Identity (x) z = Relu (i) }",
    k=weights,
)
put("ordered", "g (float[N,4] x) => (float[N,2] y) { v, i = TopK <axis = 1> (x, k) y = Cast <to = 1> (i) }", k=ints(2))
put(
    "open",
    "g (float[N,3,H,W] x) => (float[A,B,C,D] y)"
    "{ s = Shape (x) n = Gather (s, zero) c = Gather (s, one) h = Gather (s, two) w = Gather (s, three)"
    "  n1 = Unsqueeze (n, axes) c1 = Unsqueeze (c, axes) h1 = Unsqueeze (h, axes) w1 = Unsqueeze (w, axes)"
    "  t = Concat <axis = 0> (n1, c1, w1, h1) y = Reshape (x, t) }",
    zero=np.int64(0), one=np.int64(1), two=np.int64(2), three=np.int64(3), axes=ints(0),
)
put(
    "untidy",
    "g (float[N,4] x) => (float[N,4] y) <float[N,5] m>"
    "{ c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () w = Cast <to = 1> (h) m = Add (x, c) y = MatMul (m, w) d = Exp (x) }",
    h=np.ones((4, 4), np.float16),
    unread=np.ones(3, np.float32),
)
put("half", "g (float[N,64] x) => (float[N,512] y) { w = Cast <to = 1> (h) y = MatMul (x, w) }", h=weights.astype(np.float16))
