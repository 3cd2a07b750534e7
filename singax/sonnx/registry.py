"""Which function computes which ONNX operator.

A handler receives a `Call` and the inputs, NumPy arrays where they are known while tracing and JAX arrays otherwise,
None where an optional one is absent, lists for sequences; it returns one value, or a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from singax.errors import ArgumentError
from singax.sonnx.importer.graph import Node

if TYPE_CHECKING:
    from singax.sonnx.importer.evaluate import Evaluator, Scope

Handler = Callable[..., Any]

NEWEST = 1 << 31
"""An opset that no operator is newer than."""


class NeedsHost(Exception):
    """The node cannot be part of a compiled program: `reason` says why; `names` are values it needs to know.

    `where` names the node, the innermost one for a node inside a branch or loop.
    """

    def __init__(self, reason: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.names, self.where = reason, names, ""


@dataclass
class Call:
    """One evaluation of a node: its attributes, the opset it follows, and what is around it."""

    node: Node
    opset: int
    evaluator: Evaluator
    scope: Scope
    inputs: list[Any]

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the node that are given."""
        return self.node.attributes

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default that the operator's definition gives it."""
        return self.node.attributes.get(name, default)

    @property
    def outputs(self) -> int:
        """How many outputs are named."""
        return len(self.node.outputs)

    def wants(self, position: int) -> bool:
        """Whether somebody names the output at this position."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])

    def static(self, position: int, default: Any = None) -> Any:
        """The value of an input that must be known while tracing, as a NumPy array; `default` if it is absent.

        Raises `NeedsHost` for a value that depends on data.
        """
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            return default
        if isinstance(value, np.ndarray):
            return value
        known = self.known(position)
        if known is None:
            name = self.node.inputs[position]
            raise NeedsHost(f"the value of {name!r} must be known while compiling", (name,))
        return known

    def known(self, position: int) -> np.ndarray | None:
        """The value of an input that does not depend on data, None for another one."""
        value = self.inputs[position]
        if isinstance(value, np.ndarray):
            return value
        return self.evaluator.known_value(self.node.inputs[position], value, self.scope)

    def ints(self, position: int, name: str, default: Any = None) -> list[int] | Any:
        """Integers from an input, or from the attribute `name` where older opsets have it."""
        value = self.static(position)
        if value is not None:
            return [int(n) for n in np.asarray(value).reshape(-1)]
        found = self.attribute(name)
        return default if found is None else [int(n) for n in found]

    def key(self) -> jax.Array:
        """A random key: from the node's seed, else from the run's."""
        return self.evaluator.random_key(self)


_handlers: dict[tuple[str, str], dict[int, Handler]] = {}


def onnx_operator(*names: str, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Register the decorated function as the meaning of these operators from opset `since` on."""

    def register(function: Handler) -> Handler:
        for name in names:
            versions = _handlers.setdefault((domain, name), {})
            if since in versions:
                raise ArgumentError(f"{name} of opset {since} has two handlers")
            versions[since] = function
        return function

    return register


def handler_of(domain: str, op_type: str, opset: int) -> Handler | None:
    """The newest handler that is not newer than `opset`."""
    versions = _handlers.get((domain, op_type), {})
    fitting = [since for since in versions if since <= opset]
    return versions[max(fitting)] if fitting else None


def handled() -> Mapping[tuple[str, str], list[int]]:
    """All operators with handlers: (domain, name) → the opsets at which their meaning changes."""
    return {key: sorted(versions) for key, versions in _handlers.items()}
