"""Tensors: measured first, from their shape alone, then decoded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from singax.sonnx.loader.elements import STRING_ELEMENT, Element, element_of
from singax.sonnx.loader.external import Folder, Stretch, read
from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.packed import count_of, numbers
from singax.sonnx.loader.refusal import above_limit, refuse, shown

_TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_EXTERNAL = 1


@dataclass
class Measure:
    """What the tensors of a model take up together, as far as they were measured."""

    limits: Limits
    folder: Folder
    bytes: int = 0
    sparse_bytes: int = 0
    string_bytes: int = 0
    stretches: dict[int, Stretch] = field(default_factory=dict)

    def take(self, name: str, count: int, where: str) -> None:
        """Add to one of the sums, unless that goes beyond its limit."""
        limit = {"bytes": "tensor_bytes"}.get(name, name)
        total = getattr(self, name) + count
        if total > getattr(self.limits, limit):
            above_limit(where, self.limits, limit, total)
        setattr(self, name, total)


def shape_of(dims: Any, item: int, where: str, limits: Limits) -> tuple[int, ...]:
    """The dims as a shape that NumPy can hold."""
    if len(dims) > limits.rank:
        above_limit(where, limits, "rank", len(dims))
    if any(size < 0 for size in dims):
        refuse(where, "dims", "no negative size", shown(list(dims)))
    if math.prod(dims) > limits.tensor_elements:
        above_limit(where, limits, "tensor_elements", math.prod(dims))
    if math.prod(size for size in dims if size) * item >= 1 << 63:
        refuse(where, "dims", "sizes whose product fits 63 bits", shown(list(dims)))
    return tuple(dims)


def measure(tensor: Any, total: Measure, where: str) -> Element:
    """Check a tensor against its shape, before anything is allocated. Returns its element type."""
    element = element_of(tensor.data_type, where, "data_type")
    if tensor.segment is not None:
        refuse(where, "segment", "a tensor in one piece", "a part of one")
    shape = shape_of(tensor.dims, element.dtype.itemsize, where, total.limits)
    count = math.prod(shape)
    total.take("bytes", count * element.dtype.itemsize, where)
    if tensor.data_location not in (None, 0, _EXTERNAL):
        refuse(where, "data_location", "0 (here) or 1 (another file)", shown(tensor.data_location))
    filled = [name for name in _TYPED if getattr(tensor, name)]
    if tensor.raw_data is not None and (len(tensor.raw_data) or not filled):
        filled.append("raw_data")
    if tensor.data_location == _EXTERNAL:
        _measure_external(tensor, element, count, filled, total, where)
    elif len(filled) > 1:
        refuse(where, "values", "in one field", f"in {', '.join(filled)}")
    elif element is STRING_ELEMENT:
        _measure_strings(tensor, count, filled, total, where)
    else:
        _measure_values(tensor, element, count, filled, where)
    return element


def _measure_external(tensor: Any, element: Element, count: int, filled: list[str], total: Measure, where: str) -> None:
    if tensor.raw_data or filled not in ([], ["raw_data"]):
        refuse(where, "values", "only in the external file", f"also in {', '.join(filled)}")
    if element is STRING_ELEMENT:
        refuse(where, "data_location", "strings in the model file", "strings in another file")
    needed = element.packed_bytes(count)
    total.stretches[id(tensor)] = total.folder.stretch(tensor.external_data, needed, where)


def _measure_strings(tensor: Any, count: int, filled: list[str], total: Measure, where: str) -> None:
    if filled and filled != ["string_data"]:
        refuse(where, "values", "strings in string_data", f"in {filled[0]}")
    if len(tensor.string_data) != count:
        refuse(
            where,
            "string_data",
            f"{count} strings, as its shape {list(tensor.dims)} says",
            str(len(tensor.string_data)),
        )
    total.take("string_bytes", sum(map(len, tensor.string_data)), where)


def _measure_values(tensor: Any, element: Element, count: int, filled: list[str], where: str) -> None:
    claim = f"as its shape {shown(list(tensor.dims))} of {element.name} says"
    if filled == ["raw_data"]:
        needed = element.packed_bytes(count)
        if len(tensor.raw_data) != needed:
            refuse(where, "raw_data", f"{needed} bytes, {claim}", f"{len(tensor.raw_data)}")
        return
    if filled and filled != [element.slot]:
        refuse(where, "values", f"{element.name} values in {element.slot} or raw_data", f"in {filled[0]}")
    found = count_of(getattr(tensor, element.slot), element.stored, where, element.slot)
    allowed = _typed_counts(element, count)
    if found not in allowed:
        refuse(where, element.slot, f"{allowed[0]} numbers, {claim}", f"{found}")


def _typed_counts(element: Element, count: int) -> list[int]:
    """How many typed numbers may stand for so many elements.

    Types of less than a byte: one byte in each number (what onnx.helper writes), or four (what the standard says).
    """
    if element.dtype.kind == "c":
        return [2 * count]
    if element.bits in (2, 4):
        packed = element.packed_bytes(count)
        return [packed, (packed + 3) // 4]
    return [count]


def decode(tensor: Any, total: Measure, where: str) -> np.ndarray:
    """The array of a tensor that was measured."""
    element, shape = element_of(tensor.data_type, where), tuple(tensor.dims)
    try:
        return _decoded(tensor, element, shape, total, where)
    except MemoryError:
        refuse(where, "memory", f"{math.prod(shape) * element.dtype.itemsize} bytes", "less")


def _decoded(tensor: Any, element: Element, shape: tuple[int, ...], total: Measure, where: str) -> np.ndarray:
    if element is STRING_ELEMENT:
        return _strings(tensor, shape, where)
    count = math.prod(shape)
    if id(tensor) in total.stretches:
        return _from_raw(read(total.stretches[id(tensor)], where), element, count).reshape(shape)
    if not count:
        return np.empty(shape, element.dtype)
    if tensor.raw_data is not None:
        return _from_raw(np.frombuffer(tensor.raw_data, np.uint8), element, count).reshape(shape)
    values = numbers(getattr(tensor, element.slot), element.stored, where, element.slot)
    return _from_typed(values, element, count, where).reshape(shape)


def _strings(tensor: Any, shape: tuple[int, ...], where: str) -> np.ndarray:
    made = np.empty(len(tensor.string_data), object)
    for position, view in enumerate(tensor.string_data):
        try:
            made[position] = bytes(view).decode()
        except UnicodeDecodeError:
            refuse(where, f"string_data[{position}]", "UTF-8", shown(bytes(view[:40])))
    return made.reshape(shape)


def _from_raw(data: np.ndarray, element: Element, count: int) -> np.ndarray:
    """Raw bytes, little-endian and packed by the standard, as elements in memory of their own."""
    if element.bits < 8:
        return _unpacked(data, element.bits, count).view(element.dtype)
    if element.name == "bool":
        return data != 0
    made = data.view(element.dtype) if data.flags.owndata else data.copy().view(element.dtype)
    return made if np.little_endian or element.bits == 8 else made.byteswap()


def _unpacked(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Elements of 2, 4 or 6 bits, the first in the lowest bits, as one byte each; signs are ml_dtypes' business."""
    if bits == 6:
        padded = np.zeros((count + 3) // 4 * 3, np.uint8)
        padded[: len(data)] = data
        a, b, c = padded[0::3], padded[1::3], padded[2::3]
        parts = [a & 63, a >> 6 | (b & 15) << 2, b >> 4 | (c & 3) << 4, c >> 2]
    else:
        parts = [data >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(-1)[:count]


def _from_typed(values: np.ndarray, element: Element, count: int, where: str) -> np.ndarray:
    if element.dtype.kind == "c":
        return values.view(element.dtype).copy()
    if element.bits in (2, 4):
        return _from_raw(_as_bytes(values, element, count), element, count)
    if element.name == "bool":
        return values != 0
    if element.dtype.kind in "iu" and element.dtype.itemsize < values.dtype.itemsize:
        return _narrowed(values, element, where)
    if values.dtype.kind == "i" and element.dtype.kind != "i":
        patterns = _narrowed(values, element, where, bits=True)
        return patterns.view(element.dtype)
    return values.astype(element.dtype)


def _as_bytes(values: np.ndarray, element: Element, count: int) -> np.ndarray:
    packed = element.packed_bytes(count)
    if len(values) == packed:
        return values.astype(np.uint8)
    return np.frombuffer(values.astype("<i4").tobytes(), np.uint8)[:packed]


def _narrowed(values: np.ndarray, element: Element, where: str, bits: bool = False) -> np.ndarray:
    """Wide numbers in the dtype they stand for, or as bit patterns: signed or not, whichever the writer chose."""
    unsigned = np.dtype(f"u{element.dtype.itemsize}")
    kept = np.iinfo(unsigned if bits else element.dtype)
    width = element.bits if bits else 8 * element.dtype.itemsize
    high = (1 << width) - 1 if bits else kept.max
    low = -(1 << (width - 1)) if bits else kept.min
    if int(values.max()) > high or int(values.min()) < low:
        found = values[(values > high) | (values < low)][0]
        refuse(where, element.slot, f"numbers from {low} to {high} for {element.name}", str(found))
    return values.astype(unsigned if bits else element.dtype)
