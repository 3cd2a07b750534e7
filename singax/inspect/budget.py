"""The largest batch that fits into a given memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singax.checked import integer
from singax.inspect.measure import Memory
from singax.inspect.quantity import bytes_text, parsed_bytes

if TYPE_CHECKING:
    from singax.inspect.report import DryRun

_MOST = 2**31 - 1
_MOST_TRIES = 40


@dataclass(frozen=True)
class Fit:
    """The answer of `DryRun.fits`: true if `batch` fits into `memory`.

    `peak` is the estimate for `batch`; `largest` is the largest batch that fits (0: none does), with the estimate
    `largest_peak`; `parts` are the bytes of the parts at `batch`.
    """

    memory: int
    batch: int
    peak: int
    largest: int
    largest_peak: int
    parts: Memory

    def __bool__(self) -> bool:
        return self.peak <= self.memory

    def __str__(self) -> str:
        verdict = "fits" if self else "does not fit"
        text = f"batch {self.batch} {verdict}: {bytes_text(self.peak)} of {bytes_text(self.memory)} (estimate)"
        if self.largest:
            return f"{text}; the largest batch that fits is {self.largest}, with {bytes_text(self.largest_peak)}"
        parts = self.parts
        fixed = f"parameters {bytes_text(parts.parameters)}, optimizer {bytes_text(parts.optimizer)}"
        return f"{text}; no batch fits: {fixed}, gradients {bytes_text(parts.gradients)}"


def fit(report: DryRun, memory: Any, batch: int | None) -> Fit:
    """See `DryRun.fits`."""
    limit = parsed_bytes(memory)
    known: dict[int, Memory] = {}

    def at(n: int) -> int:
        if n not in known:
            known[n] = report.again(n).memory
        return int(known[n].peak)  # type: ignore[arg-type]

    given = batch if batch is not None else report.batch
    asked = 1 if given is None else integer("batch", given, 1)
    peak = at(asked)
    largest = _largest(at, limit, asked)
    return Fit(limit, asked, peak, largest, at(largest) if largest else 0, known[asked])


def _largest(at: Any, limit: int, start: int) -> int:
    """The largest n with at(n) ≤ limit; at is nearly affine and grows."""
    low, high = 0, _MOST
    n = start
    for _ in range(_MOST_TRIES):
        low, high = (max(low, n), high) if at(n) <= limit else (low, min(high, n))
        if high - low <= 1:
            break
        n = min(max(_guess(at, limit, n), low + 1), high - 1)
    return low


def _guess(at: Any, limit: int, n: int) -> int:
    """Where the line through n and a neighbour reaches the limit."""
    other = 2 * n
    slope = (at(other) - at(n)) / (other - n)
    return _MOST if slope <= 0 else int(n + (limit - at(n)) / slope)
