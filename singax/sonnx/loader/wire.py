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

from singax.errors import ModelFileError
from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.refusal import above_limit, refuse, shown

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

STRING, BLOB, SPAN, INT, FLOAT, MESSAGE, INTS, FLOATS, CHUNKS = range(9)
"""Kinds of fields: text; bytes; bytes that stay in the file; numbers; messages; lists of numbers; packed numbers."""

_SIXTY_FOUR = (1 << 64) - 1
_FLOAT = struct.Struct("<f")


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
    """The fields of one kind of message, and the class of its objects."""

    def __init__(self, name: str, fields: Mapping[int, Field]) -> None:
        self.name, self.fields = name, fields
        self.slots = {field.slot: () if field.repeated else None for field in fields.values()}
        self.type: Any = type(name, (), {"__slots__": tuple(self.slots)})

    def new(self) -> Any:
        """An object with no field set."""
        made = self.type()
        for slot, default in self.slots.items():
            setattr(made, slot, default)
        return made


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
        budget, fields = self.budget, form.fields
        if depth == 0:
            refuse("the file", "nesting of messages", f"at most {budget.limits.message_depth} levels", "more")
        if form.name == "Node":
            self._count_node()
        made = form.new()
        while pos < end:
            budget.fields -= 1
            if budget.fields < 0:
                above_limit("the file", budget.limits, "fields", budget.limits.fields + 1)
            tag, pos = self._varint(pos, end)
            field = fields.get(tag >> 3)
            if field is None:
                pos = self._skipped(tag, pos, end)
                continue
            try:
                pos = self._field(made, field, tag, pos, end, depth)
            except Broken as broken:
                broken.path.append(_step(made, field))
                raise
        return made

    def _count_node(self) -> None:
        self.budget.nodes -= 1
        if self.budget.nodes < 0:
            above_limit("the file", self.budget.limits, "nodes", self.budget.limits.nodes + 1)

    def _field(self, made: Any, field: Field, tag: int, pos: int, end: int, depth: int) -> int:
        wire, kind = tag & 7, field.kind
        if kind in (INTS, FLOATS, CHUNKS):
            return self._numbers(made, field, tag, pos, end)
        if wire != (VARINT if kind == INT else FIXED32 if kind == FLOAT else BYTES):
            raise Broken(f"wire type {wire}")
        if kind == INT:
            number, pos = self._varint(pos, end)
            return self._store(made, field, _signed(number), pos)
        if kind == FLOAT:
            return self._store(made, field, self._float(pos, end), pos + 4)
        start, stop = self._extent(pos, end)
        if kind == MESSAGE:
            value = self._message(self.formats[field.message], start, stop, depth - 1)
        elif kind == STRING:
            value = self._text(start, stop)
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
        kept: list[Any] = (
            list(getattr(made, field.slot)) if not getattr(made, field.slot) else getattr(made, field.slot)
        )
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
            kept += [value for (value,) in _FLOAT.iter_unpack(self.view[pos:end])]
            return
        self._affordable(end - pos)
        while pos < end:
            value, pos = self._varint(pos, end)
            kept.append(_signed(value))

    def _run(self, kept: list[Any], kind: int, tag: int, pos: int, end: int) -> int:
        """Numbers one after the other, each with the same tag in front."""
        data, most = self.data, len(kept) + self.budget.elements
        while True:
            if kind == FLOATS:
                kept.append(self._float(pos, end))
                pos += 4
            else:
                value, pos = self._varint(pos, end)
                kept.append(_signed(value))
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
