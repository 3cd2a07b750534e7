"""The element types of ONNX: their numbers in files, their NumPy dtypes, and how their values are stored."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from singax.sonnx.loader.refusal import refuse


@dataclass(frozen=True)
class Element:
    """An element type: `bits` in raw data, `slot` where typed values are, `stored` the dtype of those."""

    name: str
    dtype: np.dtype
    bits: int
    slot: str
    stored: str

    def packed_bytes(self, count: int) -> int:
        """Bytes of raw data of so many elements."""
        return (count * self.bits + 7) // 8


def _of(name: str, dtype: str, bits: int, slot: str, stored: str) -> Element | None:
    """None where the installed ml_dtypes does not know the dtype."""
    scalar = getattr(ml_dtypes, dtype, None) or getattr(np, dtype, None)
    return None if scalar is None else Element(name, np.dtype(scalar), bits, slot, stored)


STRING_ELEMENT = Element("string", np.dtype(object), 0, "string_data", "")

_TABLE = {
    1: _of("float", "float32", 32, "float_data", "<f4"),
    2: _of("uint8", "uint8", 8, "int32_data", "<i4"),
    3: _of("int8", "int8", 8, "int32_data", "<i4"),
    4: _of("uint16", "uint16", 16, "int32_data", "<i4"),
    5: _of("int16", "int16", 16, "int32_data", "<i4"),
    6: _of("int32", "int32", 32, "int32_data", "<i4"),
    7: _of("int64", "int64", 64, "int64_data", "<i8"),
    8: STRING_ELEMENT,
    9: _of("bool", "bool_", 8, "int32_data", "<i4"),
    10: _of("float16", "float16", 16, "int32_data", "<i4"),
    11: _of("double", "float64", 64, "double_data", "<f8"),
    12: _of("uint32", "uint32", 32, "uint64_data", "<u8"),
    13: _of("uint64", "uint64", 64, "uint64_data", "<u8"),
    14: _of("complex64", "complex64", 64, "float_data", "<f4"),
    15: _of("complex128", "complex128", 128, "double_data", "<f8"),
    16: _of("bfloat16", "bfloat16", 16, "int32_data", "<i4"),
    17: _of("float8e4m3fn", "float8_e4m3fn", 8, "int32_data", "<i4"),
    18: _of("float8e4m3fnuz", "float8_e4m3fnuz", 8, "int32_data", "<i4"),
    19: _of("float8e5m2", "float8_e5m2", 8, "int32_data", "<i4"),
    20: _of("float8e5m2fnuz", "float8_e5m2fnuz", 8, "int32_data", "<i4"),
    21: _of("uint4", "uint4", 4, "int32_data", "<i4"),
    22: _of("int4", "int4", 4, "int32_data", "<i4"),
    23: _of("float4e2m1", "float4_e2m1fn", 4, "int32_data", "<i4"),
    24: _of("float8e8m0", "float8_e8m0fnu", 8, "int32_data", "<i4"),
    25: _of("uint2", "uint2", 2, "int32_data", "<i4"),
    26: _of("int2", "int2", 2, "int32_data", "<i4"),
    27: _of("float6e2m3", "float6_e2m3fn", 6, "int32_data", "<i4"),
    28: _of("float6e3m2", "float6_e3m2fn", 6, "int32_data", "<i4"),
}
_NAMES = {
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
    27: "float6",
    28: "float6",
}


def element_of(number: int | None, where: str, field: str = "element type") -> Element:
    """The element type of this number. Raises `ModelFileError` for an unknown or undefined one."""
    element = _TABLE.get(number or 0)
    if element is None:
        found = (
            f"{number}"
            if number not in _TABLE
            else f"{_NAMES.get(number, number)}, which the installed ml_dtypes lacks"
        )
        refuse(where, field, "an element type of ONNX (1 to 28)", "none" if number in (None, 0) else found)
    return element
