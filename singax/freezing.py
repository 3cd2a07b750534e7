"""Freezing parameters of a model by name: no gradient, no update, no slot."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from singax.errors import ArgumentError, NameMismatchError
from singax.layer import tree
from singax.storage import Cell
from singax.tensor import Tensor


class Freezing:
    """The calls of `freeze` and `unfreeze` that a model has seen: for each name the last one that matches decides.

    A parameter is decided on when it is created, and when a call names it; in between, what the user sets its
    `requires_grad` to holds.
    """

    def __init__(self) -> None:
        self.rules: list[tuple[str, bool]] = []
        self._decided: dict[str, Cell] = {}

    def add(self, root: tree.Branch, patterns: Iterable[str], trains: bool) -> list[Tensor]:
        """Take in rules; returns the parameters of `root` whose flag has changed."""
        added = [(_checked(pattern), trains) for pattern in patterns]
        if not tree.unbuilt(root):
            refuse_idle([pattern for pattern, _ in added], _parameters(root))
        self.rules += added
        return self._set(_parameters(root), added)

    def settle(self, root: tree.Branch) -> None:
        """Decide on the parameters that are new."""
        if self.rules:
            fresh = {p: t for p, t in _parameters(root).items() if self._decided.get(p) is not t._cell}
            self._set(fresh, self.rules)

    def check(self, root: tree.Branch) -> None:
        """`NameMismatchError` for a pattern that matches no parameter, once all have been created."""
        if not tree.unbuilt(root):
            refuse_idle([pattern for pattern, _ in self.rules], _parameters(root))

    def _set(self, named: dict[str, Tensor], rules: list[tuple[str, bool]]) -> list[Tensor]:
        changed = []
        for path, tensor in named.items():
            self._decided[path] = tensor._cell
            found = [trains for pattern, trains in rules if matches(pattern, path)]
            if found and tensor.requires_grad != found[-1]:
                tensor.requires_grad = found[-1]
                changed.append(tensor)
        return changed


def _parameters(root: tree.Branch) -> dict[str, Tensor]:
    return {path: tensor for path, tensor in tree.tensors(root) if tensor.stores_grad}


def _checked(pattern: str) -> str:
    if not isinstance(pattern, str):
        raise ArgumentError(f"a name pattern is a string, such as 'encoder.*'. Received: {pattern!r}")
    return pattern


def matches(pattern: str, name: str) -> bool:
    """Whether a name is the pattern or matches it as a shell pattern; `*` stands for dots and slashes as well."""
    return pattern == name or fnmatch.fnmatchcase(name, pattern)


def refuse_idle(patterns: Iterable[str], names: Iterable[str]) -> None:
    """`NameMismatchError` for a pattern that matches none of the names."""
    known = list(names)
    idle = [pattern for pattern in patterns if not any(matches(pattern, name) for name in known)]
    if idle:
        raise NameMismatchError(
            f"no parameter matches {', '.join(map(repr, idle))}. Parameters: {', '.join(sorted(known))}"
        )
