"""The table of rules: which operator a rule adds, and in which opsets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from random_graphs.builder import Builder

Maker = Callable[[Builder], Any]


@dataclass(frozen=True)
class Rule:
    """A way to add an operator to a graph; `deep` rules build subgraphs and are not drawn inside one."""

    name: str
    since: int
    until: int
    deep: bool
    make: Maker

    @property
    def family(self) -> str:
        """The file that the rule comes from."""
        return str(getattr(self.make, "func", self.make).__module__).rpartition(".")[2]


RULES: list[Rule] = []


def rule(name: str, since: int = 1, until: int = 99, deep: bool = False) -> Callable[[Maker], Maker]:
    """Register the decorated function for the opsets from `since` to `until`."""

    def register(make: Maker) -> Maker:
        RULES.append(Rule(name, since, until, deep, make))
        return make

    return register


def fitting(opset: int, depth: int) -> list[Rule]:
    """The rules for an opset at a depth of subgraphs."""
    return [r for r in RULES if r.since <= opset <= r.until and not (r.deep and depth)]
