"""Sizes that are not known when a model is exported.

A forward is traced several times, each time with other numbers for the unknown sizes. A size is then the tuple of what
it was in each trace, a `Dim` (a plain int where all agree), and arithmetic goes trace by trace. When a file needs a
size as a number, `expression` finds how it follows from the unknown ones, which are called symbols.

>>> n = Dim((8, 12, 20))
>>> 4 * n + 1, n - n, n * 3 // 2
(Dim(33, 49, 81), 0, Dim(12, 18, 30))
>>> expression(4 * n + 1, {"batch": n})
Expression(terms=((('batch',), 4), ((), 1)), divisor=1)
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from singax.errors import ExportError

Names = tuple[str, ...]


class Dim:
    """A size that differs between the traces; `samples` has it for each of them."""

    __slots__ = ("samples",)

    def __init__(self, samples: Sequence[int]) -> None:
        self.samples = tuple(samples)

    def __repr__(self) -> str:
        return f"Dim{self.samples}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.samples == other.samples

    def __hash__(self) -> int:
        return hash(self.samples)

    def __add__(self, other: Size) -> Size:
        return _each(operator.add, self, other)

    def __sub__(self, other: Size) -> Size:
        return _each(operator.sub, self, other)

    def __rsub__(self, other: int) -> Size:
        return _each(operator.sub, other, self)

    def __mul__(self, other: Size) -> Size:
        return _each(operator.mul, self, other)

    def __floordiv__(self, other: Size) -> Size:
        return _each(operator.floordiv, self, other)

    def __rfloordiv__(self, other: int) -> Size:
        return _each(operator.floordiv, other, self)

    def __mod__(self, other: Size) -> Size:
        return _each(operator.mod, self, other)

    def __neg__(self) -> Size:
        return _each(operator.sub, 0, self)

    __radd__, __rmul__ = __add__, __mul__


Size = int | Dim


def merged_size(samples: Sequence[int]) -> Size:
    """What the samples stand for: an int where all are equal."""
    return int(samples[0]) if len(set(samples)) == 1 else Dim([int(sample) for sample in samples])


def samples_of(size: Size, count: int) -> tuple[int, ...]:
    """The size in each of `count` traces."""
    return size.samples if isinstance(size, Dim) else (int(size),) * count


def is_static(sizes: Sequence[Size]) -> bool:
    """Whether all sizes are numbers."""
    return not any(isinstance(size, Dim) for size in sizes)


def numbers(sizes: Sequence[Size], what: str) -> tuple[int, ...]:
    """The sizes as ints; `ExportError` naming `what` if one is unknown."""
    if not is_static(sizes):
        raise ExportError(f"{what} depends on a size that is unknown: give that size, or pass dynamic_batch=False")
    return tuple(cast("Sequence[int]", sizes))


def _each(function: Callable[[int, int], int], a: Size, b: Size) -> Size:
    count = len(a.samples if isinstance(a, Dim) else cast("Dim", b).samples)
    return merged_size([function(x, y) for x, y in zip(samples_of(a, count), samples_of(b, count), strict=True)])


@dataclass(frozen=True)
class Expression:
    """⌊Σ coefficient · product of symbols / divisor⌋; `terms` has (names, coefficient)."""

    terms: tuple[tuple[Names, int], ...]
    divisor: int = 1

    @property
    def symbol(self) -> str | None:
        """The name, if the expression is one symbol and nothing else."""
        ((names, factor), *rest) = self.terms
        return names[0] if not rest and len(names) == factor == self.divisor == 1 else None

    def __str__(self) -> str:
        terms = [" * ".join([str(c)] * (c != 1 or not names) + list(names)) for names, c in self.terms]
        text = " + ".join(terms)
        return f"({text}) // {self.divisor}" if self.divisor != 1 else text


def expression(size: Dim, symbols: Mapping[str, Dim]) -> Expression | None:
    """How a size follows from the symbols; None if no polynomial of low degree fits all traces."""
    for degree in (1, 2, 3):
        found = _fitted(size.samples, _monomials(symbols, degree))
        if found is not None:
            return found
    return None


def rounded_down(size: Dim, symbols: Mapping[str, Dim]) -> Expression | None:
    """How a size follows from one symbol by a division that rounds down: ⌊(a · symbol + b) / divisor⌋."""
    for (name, symbol), divisor in itertools.product(symbols.items(), range(2, 65)):
        pairs = list(zip(symbol.samples, size.samples, strict=True))
        (n, v), (m, w) = min(pairs), max(pairs)
        factor = round((w - v) * divisor / (m - n)) if m != n else 0
        low = max(divisor * v - factor * n for n, v in pairs)
        high = min(divisor * (v + 1) - 1 - factor * n for n, v in pairs)
        if factor and low <= high:
            return Expression((((name,), factor), ((), low)) if low else (((name,), factor),), divisor)
    return None


def _monomials(symbols: Mapping[str, Dim], degree: int) -> list[tuple[Names, np.ndarray]]:
    found: list[tuple[Names, np.ndarray]] = []
    for count in range(degree, -1, -1):
        for names in itertools.combinations_with_replacement(sorted(symbols), count):
            samples = [np.asarray(symbols[name].samples, np.float64) for name in names]
            found.append((names, np.prod(samples, axis=0) if samples else np.ones(1)))
    return found


def _fitted(samples: Sequence[int], monomials: list[tuple[Names, np.ndarray]]) -> Expression | None:
    """The sparsest combination with whole coefficients that is exact in every trace."""
    target = np.asarray(samples, np.float64)
    columns = [np.broadcast_to(column, target.shape) for _, column in monomials]
    for count in range(1, min(len(columns), len(samples)) + 1):
        for chosen in itertools.combinations(range(len(columns)), count):
            matrix = np.stack([columns[i] for i in chosen], axis=1)
            whole = np.asarray(np.round(np.linalg.lstsq(matrix, target, rcond=None)[0]))
            if whole.all() and np.array_equal(matrix @ whole, target):
                return Expression(tuple((monomials[i][0], int(c)) for i, c in zip(chosen, whole, strict=True)))
    return None


def probes(count: int, scale: int, offset: int = 0) -> list[tuple[int, ...]]:
    """Numbers to try for `count` unknown sizes, one tuple for each trace; all are multiples of `scale` plus `offset`.

    As many traces as a product of two sizes needs to be told from everything else, and one to check.
    """
    rng = np.random.default_rng(count)
    traces = 3 if count == 1 else 2 + count + count * (count - 1) // 2
    columns = [rng.permutation(np.arange(2, 2 + 2 * traces))[:traces] for _ in range(count)]
    return [tuple(int(column[t]) * scale + offset for column in columns) for t in range(traces)]


def shown(value: Any) -> str:
    """A size for messages: "?" where it is unknown."""
    return "?" if isinstance(value, Dim) else str(value)
