"""Prints `table.rs`, the schemas of the operators of the packages onnx and onnxruntime, and of this program.

    tests/.venv/*/bin/python src/op/schema/make.py > src/op/schema/table.rs

An operator has one line; each fact of it begins with the version that introduces it. Read what a new version says
before its line is committed: every version in the table is taken for handled.
"""

import json

import numpy
import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

# Versions that are not handled: the first was an experiment with other attributes, the second says only that the
# operator is deprecated.
LEFT_OUT = {("", "Upsample", 1), ("", "Upsample", 10)}

# The operators of onnxruntime that are handled. Its optimizer writes LayerNormalization of older operator sets, and
# SimplifiedLayerNormalization, in the domain of ONNX.
CONTRIBUTED = """
    Affine Attention BeamSearch BiasAdd BiasGelu BiasSoftmax BiasSplitGelu BifurcationDetector BranchwiseRMSNorm
    CausalConvWithState CDist ConvTransposeWithDynamicPads Crop DecoderMaskedMultiHeadAttention
    DecoderMaskedSelfAttention DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul
    EmbedLayerNormalization EngramGate EPContext ExpandDims FastGelu FusedConv FusedGemm FusedMatMul GatedAdd
    GatedDeltaNet GatedRMSNorm GatherBlockQuantized GatherND Gelu GemmFastGelu GreedySearch
    GridSample GroupNorm GroupQueryAttention HyperConnectionPostMix HyperConnectionPreMix ImageScaler Inverse
    Irfft LayerNormalization LinearAttention LinearAttentionGate MatMulBnb4 MatMulIntegerToFloat MatMulNBits
    MatMulNBitsMlp MatMulNBitsQkv MoE MRotaryEmbedding MultiHeadAttention NhwcConv NhwcFusedConv NhwcMaxPool
    PackedAttention PackedMultiHeadAttention Pad PagedAttention ParametricSoftplus QAttention
    QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv
    QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QLinearWhere QMoE
    QuantizeLinear QuickGelu Range RemovePadding RestorePadding Rfft RotaryEmbedding Sampling Scale ScaledSiLU
    ScaledTanh SimplifiedLayerNormalization SkipGroupNorm SkipLayerNormalization
    SkipSimplifiedLayerNormalization SparseAttention Tokenizer TransposeMatMul Trilu UnfoldTensor Unique
    WhisperBeamSearch
""".split()

# The number of inputs or outputs of an operator that takes any.
MANY = 2**31 - 1

# The operators of this program: the least and largest number of inputs, the number of outputs, and the attributes.
CONV = {"auto_pad": "NOTSET", "dilations": [], "group": 1, "kernel_shape": [], "pads": [], "strides": []}
NCNN = {
    "Atan2": (2, 2, 1, {}),
    "BlockEmbed": (3, 3, 1, {"bits": int, "term": int}),
    "BlockGemm": (3, 4, 1, {"columns": int, "term": int}),
    "CachedAttention": (6, 6, 3, {"hides_all": 0, "key_axis": int, "scale": float, "value_axis": int}),
    "CustomLayer": (1, MANY, MANY, {}),
    "ExpertWeights": (2, 2, 1, {"experts": int, "multiply_adds": int}),
    "Frames": (2, 2, 1, {"axis": int, "dilation": int, "elements": int, "elements_first": int, "start": int, "stride": int}),
    "GatherAlong": (2, 2, 1, {"axis": int}),
    "JoinBatch": (1, 1, 1, {"size": int}),
    "SplitBatch": (1, 1, 1, {}),
    "Int8Conv": (4, 4, 1, {**CONV, "scale": float, "zero": 0}),
    "Int8GRU": (3, 6, 2, {"direction": "forward", "hidden_size": int, "linear_before_reset": 1}),
    "Int8LSTM": (3, 7, 3, {"direction": "forward", "hidden_size": int}),
    "Int8Linear": (4, 4, 1, {"scale": float, "zero": 0}),
    "Largest": (1, 1, 2, {"k": int}),
    "Levels": (1, 1, 1, {"high": int, "low": int, "to": 0, "zero": 0}),
    "MultiHeadAttention": (11, 12, 1, {"num_heads": int}),
    "Normalize": (1, 1, 1, {"axis": int, "eps_mode": 0, "epsilon": float}),
    "PlainAttention": (3, 4, 1, {"scale": float, "zeroes_nan": 0}),
    "RotaryEmbed": (3, 3, 1, {}),
    "ShuffleChannel": (1, 1, 1, {"group": int}),
    "Stored": (1, 1, 1, {}),
    "WithoutInfinity": (1, 1, 1, {}),
    "WithoutPadding": (2, 2, 1, {}),
}

# The operators of the exporters of OpenMMLab.
DEFORM = {"deform_groups": 1, "dilation": [], "groups": 1, "padding": [], "stride": []}
FOREIGN = {
    "MMCVDeformConv2d": (3, 3, 1, {**DEFORM, "bias": 0, "im2col_step": 0}),
    "MMCVModulatedDeformConv2d": (4, 5, 1, DEFORM),
}
# The operators of torchvision that the exporter of torch does not know and leaves as they are.
TORCHVISION = {"deform_conv2d": (14, 14, 1, {})}

HEAD = """\
//! The schemas of the operators, written by `make.py`: a line for each operator, with its type constraints as
//! a comment.

use super::Kind::{Float, Floats, Graph, Int, Ints, SparseTensor, String, Strings, Tensor, TypeProto};
use super::kinds::{ANY, B, C, E, F, I, N, S};
use super::{GONE, MANY, Schema, schema};

#[rustfmt::skip]
pub(crate) const SCHEMAS: &[Schema] = &["""

KINDS = {
    "FLOAT": "Float", "FLOATS": "Floats", "GRAPH": "Graph", "INT": "Int", "INTS": "Ints",
    "SPARSE_TENSOR": "SparseTensor", "STRING": "String", "STRINGS": "Strings", "TENSOR": "Tensor",
    "TYPE_PROTO": "TypeProto",
}  # fmt: skip

# The names of sets of types in the comments.
SIGNED = {"int8", "int16", "int32", "int64"}
UNSIGNED = {"uint8", "uint16", "uint32", "uint64"}
SETS = [
    ("integers", SIGNED | UNSIGNED),
    ("floats", {"float16", "float", "double"}),
    ("signed", SIGNED),
    ("unsigned", UNSIGNED),
    ("float8", {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"}),
    ("complex", {"complex64", "complex128"}),
    ("int4s", {"int4", "uint4"}),
    ("int2s", {"int2", "uint2"}),
]


def number(value):
    """Returns the shortest literal of a float32 or an integer."""
    if isinstance(value, int):
        return str(value)
    text = str(numpy.float32(value))
    return text if "." in text or "e" in text else text + ".0"


def default(kind, value):
    """Returns the kind of an attribute with its default."""
    if kind in ("Graph", "SparseTensor", "Tensor", "TypeProto"):
        return kind
    if value is None:
        return f"{kind}(None)"
    if kind.endswith("s"):
        items = [json.dumps(item) if kind == "Strings" else number(item) for item in value]
        return f"{kind}(Some(&[{', '.join(items)}]))"
    return f"{kind}(Some({json.dumps(value) if kind == 'String' else number(value)}))"


def attribute(declared):
    """Returns the kind of a declared attribute with its default."""
    value = declared._default_value if hasattr(declared, "_default_value") else b""
    value = onnx.AttributeProto.FromString(value) if isinstance(value, bytes) else value
    kind = KINDS[str(declared.type).split(".")[-1]]
    if not value.type or kind == "Tensor":
        return default(kind, None)
    value = onnx.helper.get_attribute_value(value)
    if kind == "Strings":
        value = [item.decode() for item in value]
    return default(kind, value.decode() if kind == "String" else value)


def declared_attribute(value):
    """Returns the kind of an attribute of this program, which is a default or the type of an attribute without one."""
    if value == []:
        return "Ints(None)"
    if isinstance(value, type):
        return {int: "Int(None)", float: "Float(None)"}[value]
    return default("String" if isinstance(value, str) else "Int", value)


def changes(facts, last=None):
    """Returns the facts, each with its version, that differ from the one before."""
    kept = []
    for since, fact in facts:
        if fact != last:
            kept.append((since, fact))
        last = fact
    return kept


def count(least, most):
    return f"({least}, {'MANY' if most == MANY else most})"


def words(constraint):
    """Returns the types of a constraint in words, with names for sets of them."""
    wrapped = {}
    for name in constraint:
        outer, _, inner = name.replace(")", "").replace("(", " ").rpartition(" ")
        wrapped.setdefault(outer.replace("tensor", "").strip(), set()).add(inner)
    found = []
    for outer, inner in wrapped.items():
        prefix = f"{outer.replace(' ', '.')}." if outer else ""
        for word, members in SETS:
            if members <= inner:
                found.append(prefix + word)
                inner -= members
        found += [prefix + name for name in inner]
    return sorted(found)


def types(versions):
    """Returns the types of inputs and outputs; those that a later version adds or removes have its number."""
    parameters = {}
    for version in versions:
        allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in version.type_constraints}
        for parameter in [*version.inputs, *version.outputs]:
            name = getattr(parameter, "type_str", None) or parameter.typeStr
            facts = parameters.setdefault(parameter.name, {})
            facts[version.since_version] = words(allowed.get(name, [name]))
    alike = {}
    for name, facts in parameters.items():
        first, *later = facts
        texts, known = [*facts[first]], facts[first]
        for since in later:
            texts += [f"{since}+{word}" for word in facts[since] if word not in known]
            texts += [f"{since}-{word}" for word in known if word not in facts[since]]
            known = facts[since]
        alike.setdefault(" ".join(texts), []).append(name)
    return "; ".join(f"{' '.join(names)}: {text}" for text, names in alike.items())


# The kinds of types that `Schema::types` tells apart.
SMALL_FLOATS = {"float4e2m1", "float6e2m3", "float6e3m2", "float8e8m0"} | dict(SETS)["float8"]
LETTERS = [
    ("B", {"bool"}),
    ("C", {"complex64", "complex128"}),
    ("E", SMALL_FLOATS),
    ("F", {"float16", "float", "double", "bfloat16"}),
    ("I", SIGNED | UNSIGNED),
    ("N", {"int4", "uint4", "int2", "uint2"}),
    ("S", {"string"}),
]


def kinds(constraint):
    """Returns the kinds of the types of a constraint as an expression, `ANY` if values other than tensors are allowed."""
    names = {name.removeprefix("tensor(").removesuffix(")") for name in constraint}
    found = [letter for letter, members in LETTERS if members & names]
    return " | ".join(found) if names <= set().union(*(members for _, members in LETTERS)) else "ANY"


def input_types(versions):
    """Returns, for each input, the first input of the same type parameter in the newest version that has it, and the kinds that any
    version allows. Inputs of a list without a parameter may have different types."""
    newest, allowed = {}, {}
    for version in versions:
        constraints = {each.type_param_str: each.allowed_type_strs for each in version.type_constraints}
        for index, parameter in enumerate(version.inputs):
            name = getattr(parameter, "type_str", None) or parameter.typeStr
            homogeneous = getattr(parameter, "is_homogeneous", None)
            homogeneous = parameter.isHomogeneous if homogeneous is None else homogeneous
            newest[index] = name if homogeneous else ""
            allowed.setdefault(index, set()).update(constraints.get(name, [name]))
    order = [newest[index] for index in sorted(newest)]
    return [(order.index(name) if name else "MANY", kinds(allowed[index])) for index, name in enumerate(order)]


def line(domain, name, since, inputs, outputs, attributes, types=(), comment=""):
    listed = lambda items: f"&[{', '.join(items)}]"
    fields = [
        json.dumps(domain),
        json.dumps(name),
        listed(map(str, since)),
        listed(f"({since}, {fact})" for since, fact in inputs),
        listed(f"({since}, {fact})" for since, fact in outputs),
        listed(f'("{name}", {listed(f"({since}, {fact})" for since, fact in facts)})' for name, facts in attributes),
        listed(f"({first}, {allowed})" for first, allowed in types),
    ]
    return f"    schema({', '.join(fields)}),{' // ' + comment if comment else ''}"


def declared(domain, name, versions):
    """Returns the line of an operator with these versions."""
    versions = sorted(versions, key=lambda version: version.since_version)
    names = sorted({attribute for version in versions for attribute in version.attributes})
    facts = lambda fact: [(version.since_version, fact(version)) for version in versions]

    def history(name):
        of = lambda version: attribute(version.attributes[name]) if name in version.attributes else "GONE"
        return changes(facts(of), "GONE")

    return line(
        domain,
        name,
        [version.since_version for version in versions],
        changes(facts(lambda version: count(version.min_input, version.max_input))),
        changes(facts(lambda version: count(version.min_output, version.max_output))),
        [(name, history(name)) for name in names],
        input_types(versions),
        types(versions),
    )


def main():
    operators = {}
    listed = onnx.defs.get_all_schemas_with_history()
    known = {(schema.domain, schema.name, schema.since_version) for schema in listed}
    contributed = [
        s
        for s in get_all_operator_schema()
        if s.domain in ("", "com.microsoft") and s.name in CONTRIBUTED or s.domain == "com.microsoft.nchwc"
    ]
    listed += [s for s in contributed if (s.domain, s.name, s.since_version) not in known]
    for schema in listed:
        if (schema.domain, schema.name, schema.since_version) not in LEFT_OUT:
            operators.setdefault((schema.domain, schema.name), []).append(schema)
    lines = {key: declared(*key, versions) for key, versions in operators.items()}
    for domain, made in [("ncnn", NCNN), ("mmcv", FOREIGN), ("mmdeploy", FOREIGN), ("torchvision", TORCHVISION)]:
        for name, (least, most, outputs, attributes) in made.items():
            attributes = [(name, [(1, declared_attribute(value))]) for name, value in sorted(attributes.items())]
            lines[domain, name] = line(domain, name, [1], [(1, count(least, most))], [(1, count(1 if outputs == MANY else outputs, outputs))], attributes)
    print(HEAD, *(text for _, text in sorted(lines.items())), "];", sep="\n")


main()
