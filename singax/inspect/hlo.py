"""Which layer each instruction of a compiled program belongs to, from XLA's text.

Instructions carry the name of the operation that they come from. XLA's CPU compiler drops it for convolutions and the
copies around them: those belong to the layer whose parameter they read, or whose parameter their result updates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (.*)$", re.MULTILINE)
_NAME = re.compile(r'op_name="([^"]*)"')
_OPERAND = re.compile(r"%([\w.\-]+)")
_ARGUMENT = re.compile(r"parameter\((\d+)\)")
_FAR = 6
"""Through how many instructions without a name a parameter is looked for."""


@dataclass(frozen=True)
class Origin:
    """Where an instruction comes from: the `op_name` of an operation, or ("" then) the number of a parameter that it
    reads or updates; `backward`: whether it is part of the backward pass.
    """

    name: str
    parameter: int | None
    backward: bool


class Instructions:
    """The instructions of a program's text."""

    def __init__(self, text: str) -> None:
        entry = text[text.index("\nENTRY ") :] if "\nENTRY " in text else text
        self.names: dict[str, str] = {}
        for name, rest in _LINE.findall(text):
            found = _NAME.search(rest)
            self.names[name] = found[1] if found else ""
        lines = dict(_LINE.findall(entry))
        self.operands = {name: _operands(rest) for name, rest in lines.items()}
        self.arguments = {name: int(found[1]) for name, rest in lines.items() if (found := _ARGUMENT.search(rest))}
        self.users: dict[str, list[str]] = {}
        for name, operands in self.operands.items():
            for operand in operands:
                self.users.setdefault(operand, []).append(name)

    def origin(self, name: str, sizes: Mapping[int, int]) -> Origin | None:
        """Where an instruction comes from, None if that cannot be told. `sizes`: those of the parameters, by number.

        Of several parameters the largest counts: a convolution may also read scales that were fused into its input.
        """
        said = self.names.get(name, "")
        if said:
            return Origin(said, None, "transpose(" in said)
        near = [self.names.get(other, "") for other in (*self.users.get(name, ()), *self.operands.get(name, ()))]
        found = {number: any("transpose(" in each for each in near) for number in self._read(name, _FAR)}
        for user in self._users(name, _FAR):
            found.update(dict.fromkeys(self._numbers(user), True))
        known = [number for number in found if number in sizes]
        if not known:
            return None
        largest = max(known, key=lambda number: sizes[number])
        return Origin("", largest, found[largest])

    def _read(self, name: str, far: int) -> list[int]:
        """The arguments of the program that an instruction reads, also through others without a name."""
        found = self._numbers(name)
        for operand in self.operands.get(name, ()):
            if far and not self.names.get(operand) and operand not in self.arguments:
                found += self._read(operand, far - 1)
        return found

    def _numbers(self, name: str) -> list[int]:
        return [self.arguments[each] for each in self.operands.get(name, ()) if each in self.arguments]

    def _users(self, name: str, far: int) -> list[str]:
        """Who takes the result, also through instructions without a name."""
        found: list[str] = []
        for user in self.users.get(name, ()):
            found.append(user)
            if far and not self.names.get(user):
                found += self._users(user, far - 1)
        return found


def _operands(rest: str) -> tuple[str, ...]:
    """The operands of an instruction: what stands in its first brackets behind the operator."""
    call = re.search(r"[\w\-]+\(([^)]*)\)", rest)
    return tuple(_OPERAND.findall(call[1])) if call else ()
