"""Conversions in several threads. `benches/python.py` measures them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import onnx2ncnn
from conftest import FIXTURES
from onnx import TensorProto, helper


def chain(count):
    """A model of many nodes."""
    nodes = [helper.make_node(["Relu", "Sigmoid"][i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 8]) for name in ("v0", f"v{count}"))
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def test_other_threads_run_during_a_conversion():
    data, begun, counts = chain(20000), threading.Event(), []

    def convert():
        begun.set()
        onnx2ncnn.convert(data)
        counts.append("done")

    thread = threading.Thread(target=convert)
    thread.start()
    begun.wait()
    turns = 0
    while not counts:
        turns += 1
    thread.join()
    # A thread that waits for the lock takes it once in five milliseconds.
    assert turns > 10_000


def test_threads_make_the_same_files():
    models = [path.read_bytes() for path in sorted(FIXTURES.glob("network/*/model.onnx"))]

    def convert(data):
        try:
            net = onnx2ncnn.convert(data)
            return net.param, net.bin, net.report
        except onnx2ncnn.Refused as refused:
            return str(refused)

    alone = [convert(data) for data in models]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(convert, models * 4))
    assert together == alone * 4
