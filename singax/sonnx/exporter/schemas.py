"""What onnx's definitions say about an operator at an opset: whether it exists, and which dtypes it takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

_PREFIX = "tensor("


@cache
def schema_of(op_type: str, opset: int, domain: str = "") -> Any:
    """The definition in force at an opset; None if there is none."""
    try:
        return onnx.defs.get_schema(op_type, max_inclusive_version=opset, domain=domain)
    except onnx.defs.SchemaError:
        return None


def input_types(schema: Any, count: int) -> list[str]:
    """The type variable or type of each of `count` inputs."""
    return _types(schema.inputs, count)


def output_types(schema: Any, count: int) -> list[str]:
    """The type variable or type of each of `count` outputs."""
    return _types(schema.outputs, count)


def _types(formal: Sequence[Any], count: int) -> list[str]:
    names = [one.type_str for one in formal]
    return names[:count] + names[-1:] * (count - len(names))


def allowed(schema: Any, variable: str) -> frozenset[str] | None:
    """The types that a type variable may be; None for what is a type itself."""
    for constraint in schema.type_constraints:
        if constraint.type_param_str == variable:
            return frozenset(constraint.allowed_type_strs)
    return None


def type_name(dtype: Any) -> str:
    """A dtype as onnx's definitions write it: "tensor(float)".

    >>> import numpy as np
    >>> type_name(np.float32), dtype_named("tensor(int64)")
    ('tensor(float)', dtype('int64'))
    """
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return f"{_PREFIX}{onnx.TensorProto.DataType.Name(number).lower()})"


def dtype_named(name: str) -> np.dtype:
    """The dtype of a type such as "tensor(float)"."""
    number = onnx.TensorProto.DataType.Value(name.removeprefix(_PREFIX).removesuffix(")").upper())
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))
