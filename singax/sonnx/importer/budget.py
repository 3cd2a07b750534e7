"""How much memory the values of a model may take, known before anything is allocated.

While a program is traced its values are shapes; before a node with known inputs is computed its results are foretold
(`before`). XLA, which ends the process where an array is absurdly large, sees no program with a value above the limit,
and no program runs whose results and temporaries are together above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from singax.dtypes import nbytes
from singax.errors import ModelFileError
from singax.jaxprs import opened, programs_in
from singax.mode import traced
from singax.sonnx.importer import before
from singax.sonnx.importer.graph import Node
from singax.sonnx.loader.limits import Limits

MOST_FOLDED = 1 << 20
"""Elements of a result that is computed while tracing; what is larger becomes part of the program."""


def refuse(where: str, most: int, found: str) -> None:
    """Raise `ModelFileError` for what does not fit."""
    raise ModelFileError("", where, "memory", f"at most {most} bytes (Limits.run_bytes)", found)


def bytes_of(value: Any) -> int:
    """The memory that an array takes, a traced one too; strings with their letters."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return sum(8 + len(item) if isinstance(item, str | bytes) else 8 for item in value.reshape(-1))
    return nbytes(value.shape, value.dtype) if hasattr(value, "dtype") else 0


class Budget:
    """The limit of one evaluation, and how much of it known values take: those live until it ends."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0

    def foretell(self, node: Node, inputs: list[Any]) -> int:
        """How many elements the results of a node will have whose inputs are known; raises if they are too large."""
        count = before.elements(node, inputs)
        size = max((nbytes((), v.dtype) for v in jax.tree.leaves(inputs) if hasattr(v, "dtype")), default=4)
        self._admit(node, count * size, f"{count} elements of {size} bytes")
        return count

    def admit(self, node: Node, sizes: Iterable[int], dtype: Any) -> None:
        """Raise if an array of these sizes is too large, or has a negative one."""
        shape = list(sizes)
        if min(shape, default=0) < 0:
            raise ModelFileError("", node.where, "shape", "sizes of 0 or more", str(shape))
        self._admit(node, nbytes(shape, dtype), f"{dtype}{shape}")

    def check(self, node: Node, inputs: Iterable[Any], results: Iterable[Any]) -> None:
        """Raise if a result is too large, or with the other known ones."""
        given = {id(value) for value in inputs}
        for value in results:
            if id(value) not in given:
                for leaf in value if isinstance(value, list) else (value,):
                    self._check_one(node, leaf)

    def _check_one(self, node: Node, value: Any) -> None:
        size = bytes_of(value)
        if size < 0 or min(getattr(value, "shape", ()), default=0) < 0:
            raise ModelFileError("", node.where, "shape", "sizes of 0 or more", str(list(value.shape)))
        if size > self.most:
            refuse(node.where, self.most, f"{size} for {value.dtype}{list(value.shape)}")
        if isinstance(value, np.ndarray) and value.base is None:
            self.held += size
            self._admit(node, 0, "all values that are known while compiling")

    def _admit(self, node: Node, more: int, what: str) -> None:
        if self.held + more > self.most:
            refuse(node.where, self.most, f"{self.held + more} with {what}")


class Growth:
    """What a loop in Python carries and stacks: measured anew when there may be an eighth more."""

    def __init__(self, node: Node, most: int) -> None:
        self.node, self.most, self.next = node, most, 1

    def check(self, trip: int, values: Any) -> None:
        """Raise if the values that are alive are too large."""
        if trip < self.next:
            return
        self.next = trip + 1 + trip // 8
        found = sum({id(leaf): bytes_of(leaf) for leaf in jax.tree.leaves(values)}.values())
        if found > self.most:
            refuse(self.node.where, self.most, f"{found} after {trip + 1} trips")


@dataclass(frozen=True)
class Allowance:
    """What one program may take: values are measured once it is traced, all that it keeps once it is compiled.

    `culprit(*arguments)` traces the program again where a value is too large, and raises for the node that makes it, if
    it can.
    """

    where: str
    most: int
    culprit: Callable[..., Any]

    def check_values(self, program: ClosedJaxpr, *arguments: Any) -> None:
        """Raise `ModelFileError` if a value of a traced program is too large."""
        if (size := largest(program)) > self.most:
            self.culprit(*arguments)
            refuse(self.where, self.most, f"{size} for one value")

    def compiled(self, function: Any, *arguments: Any) -> Any:
        """Compile a jitted function; raises `ModelFileError` if results and temporaries are too large together."""
        made = function.lower(*arguments).compile()
        memory = made.memory_analysis()
        needed = 0 if memory is None else memory.temp_size_in_bytes + memory.output_size_in_bytes
        if needed > self.most:
            refuse(self.where, self.most, f"{needed} for its results and what it keeps meanwhile")
        return made


@contextmanager
def enough_memory(where: str, most: int) -> Iterator[None]:
    """What XLA says where memory does not suffice after all, as a `ModelFileError`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise ModelFileError("", where, "memory", f"as much as is free (the limit is {most})", "less") from error


def largest(program: Any) -> int:
    """The bytes of the largest value that a program, or a body inside it, makes."""
    most, waiting = 0, [program]
    while waiting:
        for equation in opened(waiting.pop()).eqns:
            for variable in equation.outvars:
                aval = variable.aval
                if hasattr(aval, "shape"):
                    most = max(most, nbytes(aval.shape, aval.dtype))
            waiting += [inner for _, inner in programs_in(equation.params)]
    return most


def any_traced(values: Any) -> bool:
    """Whether something among values depends on data."""
    return any(map(traced, jax.tree.leaves(values)))


DEFAULT_BYTES = Limits().run_bytes
