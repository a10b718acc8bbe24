"""Models as the extension reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO, List, Tuple, Union

if TYPE_CHECKING:
    import onnx

Model = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO, "onnx.ModelProto"]

# A path, bytes, or bytes and external data by location.
Source = Union[str, bytes, Tuple[bytes, List[Tuple[str, bytes]]]]

# Constants of fewer bytes stay in the model.
_LARGE = 1 << 16


def source(model: Model) -> Source:
    """The model for the extension. The bytes of `bytes` are not copied."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        return os.fsdecode(os.fspath(model))
    if isinstance(model, (bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return _serialize(model)
    if hasattr(model, "read"):
        read = model.read()
        if isinstance(read, bytes):
            return read
        raise TypeError(f"the file yields {type(read).__name__}, not bytes: open it in binary mode")
    if hasattr(model, "model_proto"):
        # An ONNXProgram of torch.onnx.export.
        return _serialize(model.model_proto)
    if hasattr(model, "state_dict"):
        raise TypeError("a model is ONNX, not a module of torch: onnx2ncnn.torch.export(module, args) exports and converts it")
    raise TypeError(f"a model is a path, bytes, a binary file or an onnx.ModelProto, not {type(model).__name__}")


def _serialize(model: Any) -> Source:
    from google.protobuf.message import EncodeError

    try:
        return model.SerializeToString()
    except (EncodeError, ValueError):
        # Protobuf ends at 2 GiB.
        return _detach_weights(model)


def _detach_weights(model: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The model without its large constants, and these as external data."""
    small = type(model)()
    external: list[tuple[str, bytes]] = []
    _copy_fields(model, small, "graph")
    _copy_fields(model.graph, small.graph, "initializer")
    for tensor in model.graph.initializer:
        added = small.graph.initializer.add()
        if len(tensor.raw_data) < _LARGE:
            added.CopyFrom(tensor)
            continue
        location = f"{len(external)}.weight"
        _copy_fields(tensor, added, "raw_data")
        added.data_location = added.EXTERNAL
        added.external_data.add(key="location", value=location)
        external.append((location, tensor.raw_data))
    return small.SerializeToString(), external


def _copy_fields(message: Any, to: Any, without: str) -> None:
    for field, value in message.ListFields():
        if field.name == without:
            continue
        if hasattr(getattr(to, field.name), "MergeFrom"):
            getattr(to, field.name).MergeFrom(value)
        else:
            setattr(to, field.name, value)
