"""Protobuf's wire format, read with suspicion.

Messages become Python objects with one slot for each field; strings are decoded, tensors' bytes stay where they are.
Unlike protobuf's own parser this one knows limits before it allocates, and says where a file is broken. A field that
may occur once and occurs twice is refused, since parsers differ in what they make of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from singax.errors import ModelFileError
from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.refusal import above_limit, refuse, shown
from singax.sonnx.loader.runs import run_of
from singax.sonnx.loader.varints import decoded, ends_of

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

STRING, BLOB, SPAN, INT, FLOAT, MESSAGE, INTS, FLOATS, CHUNKS = range(9)
"""Kinds of fields: text; bytes; bytes that stay in the file; numbers; messages; lists of numbers; packed numbers."""

_SIXTY_FOUR = (1 << 64) - 1
_WIRE = {INT: VARINT, FLOAT: FIXED32}
_FLOAT = struct.Struct("<f")
_FEW, _BLOCK = 32, 1 << 18


@dataclass(frozen=True)
class Field:
    """A field of a message: the slot it goes to."""

    slot: str
    kind: int
    repeated: bool = False
    message: str = ""


@dataclass
class Budget:
    """What is left of the limits while a file is read."""

    limits: Limits
    fields: int
    elements: int
    nodes: int

    @classmethod
    def of(cls, limits: Limits) -> Budget:
        """A fresh budget."""
        return cls(limits, limits.fields, limits.list_elements, limits.nodes)


class Format:
    """The fields of one kind of message by their tags, and the class of its objects, which knows the defaults."""

    def __init__(self, name: str, fields: Mapping[int, Field]) -> None:
        self.name, self.fields = name, fields
        self.tags = {number << 3 | _WIRE.get(field.kind, BYTES): field for number, field in fields.items()}
        self.type: Any = type(name, (), {field.slot: () if field.repeated else None for field in fields.values()})


class Broken(Exception):
    """The bytes are no message; the path to the place is collected while it propagates."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []


class Parser:
    """Parses the messages of one file."""

    def __init__(self, data: bytes, formats: Mapping[str, Format], limits: Limits) -> None:
        self.data, self.formats, self.budget = data, formats, Budget.of(limits)
        self.view = memoryview(data)

    def message(self, name: str) -> Any:
        """The whole data as a message of this name."""
        try:
            return self._message(self.formats[name], 0, len(self.data), self.budget.limits.message_depth)
        except Broken as broken:
            where = ".".join(reversed(broken.path)) or "the file"
            raise ModelFileError("", where, "protobuf", f"a valid {name}", str(broken)) from None

    def _message(self, form: Format, pos: int, end: int, depth: int) -> Any:
        if depth == 0:
            refuse("the file", "nesting of messages", f"at most {self.budget.limits.message_depth} levels", "more")
        if form.name == "Node":
            self._count_node()
        made, data, tags, field = form.type(), self.data, form.tags, None
        first, left = pos, self.budget.fields
        try:
            while pos < end:
                left -= 1
                if left < 0:
                    above_limit("the file", self.budget.limits, "fields", self.budget.limits.fields + 1)
                field, tag = None, data[pos]
                pos += 1
                if tag > 0x7F:
                    tag, pos = self._varint(pos - 1, end)
                field = tags.get(tag) or form.fields.get(tag >> 3)
                self.budget.fields = left
                pos = self._skipped(tag, pos, end) if field is None else self._field(made, field, tag, pos, end, depth)
                left = self.budget.fields
        except Broken as broken:
            broken.path.append(f"byte {pos - first}" if field is None else _step(made, field))
            raise
        return made

    def _count_node(self) -> None:
        self.budget.nodes -= 1
        if self.budget.nodes < 0:
            above_limit("the file", self.budget.limits, "nodes", self.budget.limits.nodes + 1)

    def _field(self, made: Any, field: Field, tag: int, pos: int, end: int, depth: int) -> int:
        kind = field.kind
        if kind >= INTS:
            return self._numbers(made, field, tag, pos, end)
        if tag & 7 != _WIRE.get(kind, BYTES):
            raise Broken(f"wire type {tag & 7}")
        if kind == INT:
            number, pos = self._varint(pos, end)
            return self._store(made, field, _signed(number), pos)
        if kind == FLOAT:
            return self._store(made, field, self._float(pos, end), pos + 4)
        start, stop = self._extent(pos, end)
        if kind == STRING:
            value: Any = self._text(start, stop)
        elif kind == MESSAGE:
            value = self._message(self.formats[field.message], start, stop, depth - 1)
        else:
            value = self.view[start:stop] if kind == SPAN else self.data[start:stop]
        return self._store(made, field, value, stop)

    def _store(self, made: Any, field: Field, value: Any, pos: int) -> int:
        before = getattr(made, field.slot)
        if not field.repeated:
            if before is not None:
                raise Broken("a field that may occur once occurs twice")
            setattr(made, field.slot, value)
        elif before:
            before.append(value)
        else:
            setattr(made, field.slot, [value])
        return pos

    def _text(self, start: int, stop: int) -> str:
        if stop - start > self.budget.limits.name_bytes:
            above_limit(
                f"the text {shown(self.data[start : start + 40])}…", self.budget.limits, "name_bytes", stop - start
            )
        try:
            return self.data[start:stop].decode()
        except UnicodeDecodeError:
            raise Broken(f"no UTF-8: {shown(self.data[start : min(stop, start + 40)])}") from None

    def _extent(self, pos: int, end: int) -> tuple[int, int]:
        if pos < end and self.data[pos] < 0x80:
            size, pos = self.data[pos], pos + 1
        else:
            size, pos = self._varint(pos, end)
        if size > end - pos:
            raise Broken(f"{size} bytes are announced, {end - pos} are left")
        return pos, pos + size

    def _varint(self, pos: int, end: int) -> tuple[int, int]:
        if pos < end and self.data[pos] < 0x80:
            return self.data[pos], pos + 1
        value, last = 0, min(end, pos + 10)
        for position in range(pos, last):
            byte = self.data[position]
            value |= (byte & 0x7F) << (7 * (position - pos))
            if byte < 0x80:
                if value > _SIXTY_FOUR:
                    break
                return value, position + 1
        raise Broken("a number that does not end within its message or within 64 bits")

    def _float(self, pos: int, end: int) -> float:
        if end - pos < 4:
            raise Broken("a float that ends too early")
        return float(_FLOAT.unpack_from(self.data, pos)[0])

    def _skipped(self, tag: int, pos: int, end: int) -> int:
        wire, number = tag & 7, tag >> 3
        if number == 0 or wire not in (VARINT, FIXED64, BYTES, FIXED32):
            raise Broken(f"field {number} with wire type {wire}")
        if wire == VARINT:
            return self._varint(pos, end)[1]
        stop = self._extent(pos, end)[1] if wire == BYTES else pos + (8 if wire == FIXED64 else 4)
        if stop > end:
            raise Broken("a number that ends too early")
        return stop

    # -- lists of numbers -------------------------------------------------------------------------------------------

    def _numbers(self, made: Any, field: Field, tag: int, pos: int, end: int) -> int:
        """Numbers in one packed field, or in as many fields as there are numbers."""
        if field.kind == CHUNKS:
            return self._chunk(made, field, tag & 7, pos, end)
        kept: list[Any] = getattr(made, field.slot) or []
        setattr(made, field.slot, kept)
        before = len(kept)
        if tag & 7 == BYTES:
            start, stop = self._extent(pos, end)
            self._packed(kept, field.kind, start, stop)
            pos = stop
        elif tag & 7 == (VARINT if field.kind == INTS else FIXED32):
            pos = self._run(kept, field.kind, tag, pos, end)
        else:
            raise Broken(f"wire type {tag & 7}")
        self.budget.elements -= len(kept) - before
        return pos

    def _affordable(self, count: int) -> None:
        if count > self.budget.elements:
            above_limit("the file", self.budget.limits, "list_elements", self.budget.limits.list_elements + 1)

    def _packed(self, kept: list[Any], kind: int, pos: int, end: int) -> None:
        if kind == FLOATS:
            if (end - pos) % 4:
                raise Broken("packed floats that end too early")
            self._affordable((end - pos) // 4)
            kept += np.frombuffer(self.view[pos:end], "<f4").tolist()
            return
        data = np.frombuffer(self.view[pos:end], np.uint8)
        ends = ends_of(data)
        self._affordable(len(ends))
        if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
            raise Broken("a number that does not end within its message")
        for first in range(0, len(ends), _BLOCK):
            some, start = ends[first : first + _BLOCK], int(ends[first - 1]) + 1 if first else 0
            try:
                kept += decoded(data[start : some[-1] + 1], some - start).astype(np.int64).tolist()
            except ValueError as error:
                raise Broken(str(error)) from None

    def _run(self, kept: list[Any], kind: int, tag: int, pos: int, end: int) -> int:
        """Numbers one after the other, each with the same tag in front; long lists by NumPy."""
        data, before, most = self.data, len(kept), len(kept) + self.budget.elements
        while True:
            if kind == FLOATS:
                kept.append(self._float(pos, end))
                pos += 4
            else:
                value, pos = self._varint(pos, end)
                kept.append(_signed(value))
            if len(kept) - before == _FEW:
                values, used = run_of(self.view[pos : min(end, pos + 11 * (most - len(kept) + 1))], tag, kind == FLOATS)
                kept += values
                pos += used
            if len(kept) > most:
                self._affordable(self.budget.elements + 1)
            if pos >= end or data[pos] != tag:
                return pos
            pos += 1

    def _chunk(self, made: Any, field: Field, wire: int, pos: int, end: int) -> int:
        """A stretch of packed numbers, or one number alone, as the bytes it has in the file."""
        if wire == BYTES:
            start, stop = self._extent(pos, end)
        elif wire in (VARINT, FIXED32, FIXED64):
            start, stop = pos, self._skipped((1 << 3) | wire, pos, end)
        else:
            raise Broken(f"wire type {wire}")
        return self._store(made, field, (wire, self.view[start:stop]), stop)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _step(made: Any, field: Field) -> str:
    """How a path names the field that is broken."""
    return f"{field.slot}[{len(getattr(made, field.slot))}]" if field.repeated else field.slot
