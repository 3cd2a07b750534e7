"""The variables of a Flax module: what they are, and initial values, which it draws together and singax one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from singax.mode import traced
from singax.recipes import Sizes, Source

Values = dict[str, Any]


@dataclass(frozen=True)
class Variable:
    """What singax has to know of one variable of a module."""

    shape: tuple[int, ...]
    dtype: Any
    trains: bool
    recipe: Any


@dataclass(frozen=True, eq=False)
class Plan:
    """The variables of a module by name, and what its adapter has to know of them."""

    variables: dict[str, Variable]
    details: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Plan:
        return self


class Adapter(Protocol):
    """A kind of Flax modules."""

    function: Callable[..., Any]  # what is called

    @property
    def streams(self) -> Sequence[Any]:
        """Its random streams: each needs a key."""

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
        """The variables for these inputs, of which only the shapes count."""

    def apply(
        self, plan: Plan, values: Values, keys: Sequence[jax.Array], training: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Values]:
        """The outputs, and new values of variables."""


class JointDraw:
    """The values of all variables of a module as a function of one key.

    Values that were drawn along are kept until they are asked for.
    """

    def __init__(self, draw: Callable[[jax.Array], Values]) -> None:
        self._draw = jax.jit(draw)
        self._kept: dict[bytes, Values] = {}

    def take(self, key: jax.Array, name: str) -> Any:
        """The value of the variable `name` under `key`."""
        if traced(key):
            return self._draw(key)[name]
        ident = np.asarray(jax.random.key_data(key)).tobytes()
        if name not in self._kept.get(ident, {}):
            self._kept[ident] = dict(self._draw(key))
        value = self._kept[ident].pop(name)
        if not self._kept[ident]:
            del self._kept[ident]
        return value


@dataclass(frozen=True)
class Drawn:
    """The recipe of one variable: what its module draws under the key of the module's own path."""

    joint: JointDraw
    name: str

    def home(self, path: str) -> str:
        """The path of the module, for that of the variable."""
        return path.removesuffix(self.name)

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        if source.path.endswith(self.name):
            source = source.at(self.home(source.path))
        return jnp.asarray(self.joint.take(source.key(), self.name), dtype)


@dataclass(frozen=True, eq=False)
class Given:
    """The recipe of a variable that has its values already."""

    value: Any

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return jnp.asarray(self.value, dtype)
