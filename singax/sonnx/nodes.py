"""SINGA's names around nodes and types: `OnnxNode`, `OnnxAttributes`, `get_op`, the table of types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from singax import dtypes
from singax.device import Device, create_cpu_device
from singax.errors import ArgumentError
from singax.sonnx.importer.graph import Node

save = onnx.save
cpu_dev = create_cpu_device()
gpu_dev = Device("gpu")  # looked for when it is first used

_FLOATS = ("float16", "float32", "float64", "bool")
_INTEGERS = ("int8", "int16", "int32", "int64")
_NONE = ("uint8", "uint16", "uint32", "uint64", "complex64", "complex128", "object")
NP_TYPE_TO_SINGA_SUPPORT_TYPE: dict[np.dtype, np.dtype | None] = {
    **{np.dtype(name): dtypes.float32 for name in _FLOATS},
    **{np.dtype(name): dtypes.int32 for name in _INTEGERS},
    **{np.dtype(name): None for name in _NONE},
}
"""What SINGA makes of each dtype. singax itself keeps the dtypes of the file."""


def onnx_type_to_singa_type(onnx_type: int) -> np.dtype | None:
    """SINGA's dtype for a number of `onnx.TensorProto.DataType`, None where SINGA has none.

    >>> onnx_type_to_singa_type(onnx.TensorProto.INT64)
    dtype('int32')
    """
    return NP_TYPE_TO_SINGA_SUPPORT_TYPE.get(np.dtype(helper.tensor_dtype_to_np_dtype(onnx_type)))


class OnnxAttributes(dict[str, Any]):
    """The attributes of a node by name."""

    @staticmethod
    def from_onnx(args: Iterable[Any]) -> OnnxAttributes:
        """From the `AttributeProto`s of a node."""
        return OnnxAttributes({arg.name: _text(helper.get_attribute_value(arg)) for arg in args})


class OnnxNode:
    """A node as SINGA shows it.

    **Args** node: an `onnx.NodeProto`, or a node of a loaded graph.

    >>> made = OnnxNode(helper.make_node("Gemm", ["x", "w"], ["y"], alpha=0.5))
    >>> made.op_type, made.inputs, made.getattr("alpha"), made.getattr("beta", 1.0)
    ('Gemm', ['x', 'w'], 0.5, 1.0)
    """

    def __init__(self, node: Any) -> None:
        own = isinstance(node, Node)
        self.proto = node
        self.name, self.op_type = str(node.name), str(node.op_type)
        self.inputs: list[str] = list(node.inputs if own else node.input)
        self.outputs: list[str] = list(node.outputs if own else node.output)
        self.attrs = OnnxAttributes(node.attributes) if own else OnnxAttributes.from_onnx(node.attribute)
        self.attr_inputs: dict[str, Any] = {}
        self.weight_inputs: dict[str, Any] = {}

    def getattr(self, key: str, default: Any = None) -> Any:
        """An attribute, or `default` where it is absent."""
        return self.attrs.get(key, default)

    def set_attr_inputs(self, key: str, name: str) -> None:
        """Note that the input `key` plays the part of an attribute."""
        self.attr_inputs[key] = name

    def del_attr_inputs(self, key: str) -> None:
        """Take the note back."""
        del self.attr_inputs[key]

    def set_weight_inputs(self, key: str, name: str) -> None:
        """Note that the input `key` is a weight."""
        self.weight_inputs[key] = name

    def del_weight_inputs(self, key: str) -> None:
        """Take the note back."""
        del self.weight_inputs[key]

    def __repr__(self) -> str:
        return f"OnnxNode({self.op_type} {self.name!r}: {', '.join(self.inputs)} → {', '.join(self.outputs)})"


def get_op(onnx_node: Any, opset_version: int | None = None) -> Callable[..., list[Any]]:
    """A node as a function from arrays to the list of its outputs.

    **Args** onnx_node: an `OnnxNode` of a NodeProto, or the NodeProto; opset_version: which meaning it has (default:
    the newest).

    >>> get_op(helper.make_node("Neg", ["x"], ["y"]))(np.ones(2, np.float32))
    [array([-1., -1.], dtype=float32)]
    """
    proto = onnx_node.proto if isinstance(onnx_node, OnnxNode) else onnx_node
    if not isinstance(proto, onnx.NodeProto):
        raise ArgumentError(f"get_op takes an onnx.NodeProto. Received: {type(proto).__name__}")

    def operator(*inputs: Any) -> list[Any]:
        from singax.sonnx.backend import run_node

        return list(run_node(proto, inputs, opset_version=opset_version))

    return operator


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
