"""Writing an ONNX file piece by piece: no more than one parameter is held beside the model.

A protobuf message is its fields one after the other, in any order; a field that is a message or bytes is its number,
its length and its content. So the parameters can follow the rest of the graph when their turn comes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from singax.checkpoint.wire import Wire
from singax.dtypes import nbytes
from singax.errors import ExportError
from singax.sonnx.exporter.export import LARGEST
from singax.sonnx.exporter.skeleton import Skeleton

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # in ModelProto, GraphProto, TensorProto


@dataclass(frozen=True)
class NetworkFile:
    """What `path.onnx` will hold; `parameters` are read when they are written."""

    head: bytes
    graph: bytes
    parameters: tuple[tuple[TensorProto, Wire], ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        inside = self._graph_size()
        return len(self.head) + len(_opened(_GRAPH, inside)) + inside

    def pieces(self) -> Iterator[Any]:
        """The content, from the first byte to the last."""
        yield self.head
        yield _opened(_GRAPH, self._graph_size())
        yield self.graph
        for tensor, wire in self.parameters:
            yield _before_data(tensor, wire)
            yield _little_endian(wire.read())

    def _graph_size(self) -> int:
        sizes = (len(_before_data(tensor, wire)) + nbytes(wire.shape, wire.dtype) for tensor, wire in self.parameters)
        return len(self.graph) + sum(sizes)


def network_file(skeleton: Skeleton, metadata: Mapping[str, str], stored: Mapping[str, Wire]) -> NetworkFile:
    """The file for these values of parameters. Raises `ExportError` if it would be larger than any ONNX file is."""
    head = ModelProto()
    head.CopyFrom(skeleton.head)
    helper.set_model_props(head, dict(metadata))
    parameters = tuple((tensor, stored[tensor.name]) for tensor in skeleton.parameters)
    made = NetworkFile(head.SerializeToString(), skeleton.graph, parameters)
    if made.size > LARGEST:
        raise ExportError(f"the file would have {made.size} bytes, and an ONNX file has {LARGEST} at most")
    return made


def _before_data(tensor: TensorProto, wire: Wire) -> bytes:
    header = tensor.SerializeToString() + _opened(_RAW_DATA, nbytes(wire.shape, wire.dtype))
    return _opened(_INITIALIZER, len(header) + nbytes(wire.shape, wire.dtype)) + header


def _opened(field: int, length: int) -> bytes:
    """What stands before `length` bytes of content of a field."""
    return _varint(field << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _little_endian(array: np.ndarray) -> memoryview:
    plain = np.ascontiguousarray(array)
    if sys.byteorder == "big":
        plain = plain.byteswap()
    return plain.reshape(-1).view(np.uint8).data
