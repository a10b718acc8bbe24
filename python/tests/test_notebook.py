"""What notebooks show of a net."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import onnx2ncnn
import pytest
from conftest import model, names
from onnx import helper

DIGITS = model("network/digits")


class Seen(HTMLParser):
    """The text of a page, its tags, and those that are open."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags, self.open, self.faults = "", [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open.append(tag)
        self.faults += [name for name, _ in attributes if name.startswith("on")]

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        self.text += data


def seen(net):
    page = Seen(net._repr_html_())
    assert not page.open and not page.faults and "script" not in page.tags and "style" not in page.tags
    assert page.tags.count("iframe") == 1
    return page


def test_a_net_is_described():
    net = onnx2ncnn.convert(DIGITS)
    page = seen(net)
    for text in ["8 layers, 106 KB", f"loads in ncnn {net.since} and later", "picture", "float [1, 1, 8, 8]", "w=8 h=8 c=1", "digit", "w=10"]:
        assert text in page.text, text
    assert "Not compared with the model yet" in page.text
    # One box for each layer that computes, and the words of a short net.
    assert page.tags.count("rect") == len(net.layers) and "InnerProduct" in page.text
    # The page is an attribute, which ends at the first quote.
    assert 'sandbox="allow-scripts allow-downloads"' in net._repr_html_() and "allow-same-origin" not in net._repr_html_()


def test_a_net_whose_model_was_changed_says_so(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(Path(DIGITS).read_bytes())
    net = onnx2ncnn.convert(path)
    path.write_bytes(Path(DIGITS).read_bytes() + b"  ")
    assert "the file was changed after it was opened" in Seen(net._repr_html_()).text


def test_a_comparison_is_told():
    net = onnx2ncnn.convert(DIGITS)
    result = onnx2ncnn.verify(DIGITS, net, layers=True)
    assert net.verification is result
    assert "Checked: the same as the model; the largest relative error is " in seen(net).text
    comparison = net.report["comparison"]
    assert [row["name"] for row in comparison["layers"]] == [row.name for row in result.layers]
    assert all(row["blob"] for row in comparison["layers"]) and '"comparison":{' in net.html()
    # Another net of the same model.
    other = onnx2ncnn.convert(DIGITS)
    assert other.verification is None and "comparison" not in other.report
    wrong = onnx2ncnn.Verification([onnx2ncnn.Distance("digit", False, 1.0, 0.5, 0.1)], [], {})
    other.verification = wrong
    assert "Differs from the model: digit" in seen(other).text


def test_a_proof_is_told():
    net = onnx2ncnn.convert(DIGITS)
    proof = onnx2ncnn.verify(DIGITS, net)
    assert f"V{str(proof)[1:]}" in seen(net).text
    net.proof = onnx2ncnn.Proof([onnx2ncnn.WindowProof("v", "v", (), (), "differs", "engine", 1.0, "wrong")], [], 1, [], "1 of 1 window differ")
    assert "Differs from the model: 1 of 1 window differ" in seen(net).text


def test_messages_and_free_sizes_are_told():
    page = seen(onnx2ncnn.convert(model("condition/blocks")))
    assert "valid if: H is a multiple of 2" in page.text
    assert "assumed: elements of " in seen(onnx2ncnn.convert(model("assumption/angles"))).text


def test_hostile_and_long_names_are_text():
    name = "<img src=x onerror=alert(1)>" + "long" * 100
    nodes = [helper.make_node("Exp", [name], ["y"])]
    ports = [[helper.make_tensor_value_info(port, onnx.TensorProto.FLOAT, [1, 3])] for port in (name, "y")]
    made = helper.make_model(helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    page = seen(onnx2ncnn.convert(made))
    assert name in page.text and "img" not in page.tags


@pytest.mark.parametrize("name", names()[::25])
def test_fixtures_are_described(name):
    try:
        net = onnx2ncnn.convert(model(name))
    except (onnx2ncnn.Refused, ValueError, OSError):
        return
    seen(net)


def test_times_are_in_the_page():
    net = onnx2ncnn.convert(DIGITS)
    rows = [onnx2ncnn.Distance("c1", True, 1e-6, 1e-6, 1.0, seconds=0.002)]
    net.verification = onnx2ncnn.Verification([onnx2ncnn.Distance("digit", True, 0.0, 0.0, 1.0)], rows, {}, np.float64(0.004))
    assert '"seconds":0.002' in net.html() and net.report["comparison"]["seconds"] == 0.004
