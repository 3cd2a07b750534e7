"""The decorator that gives an operation its ONNX twin.

An operation is a pure function: positional parameters are arrays (its ONNX inputs), keyword-only parameters are
attributes. In normal use the decorator is transparent. Inside `capturing()` a call binds one jaxpr equation of the
primitive `singax_operation`, which carries the operation and its attributes, so that exporters and printed graphs see
the operation whole.

>>> import jax, jax.numpy as jnp
>>> with capturing():
...     print(jax.make_jaxpr(lambda x: operations()["relu"](x))(jnp.ones(2)).eqns[0].primitive)
singax_operation
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Primitive

from singax.errors import SingaxError
from singax.ops.explain import FROM_BELOW, NOT_ABOUT_INPUTS, explained

Attributes = dict[str, Any]


@dataclass(frozen=True)
class Twin:
    """The ONNX operator of an operation.

    `op_type` is its name in `domain` ("" is ai.onnx), None when ONNX has no such operator; `attributes` maps our
    keyword arguments to ONNX attributes: by name, or through a function of all keyword arguments. `constants` makes of
    all keyword arguments the inputs that follow the arrays, where ONNX has inputs instead of attributes (None: absent;
    floats are float32, and an exporter gives them the dtype of the first array).
    """

    op_type: str | None
    domain: str = ""
    attributes: Mapping[str, str] | Callable[[Attributes], Attributes] | None = None
    constants: Callable[[Attributes], list[Any]] | None = None

    def convert(self, keywords: Attributes) -> Attributes:
        """The ONNX attributes that say the same as `keywords`."""
        if self.attributes is None:
            return {}
        if callable(self.attributes):
            return self.attributes(keywords)
        return {theirs: keywords[ours] for ours, theirs in self.attributes.items() if keywords.get(ours) is not None}

    def constant_inputs(self, keywords: Attributes) -> list[Any]:
        """The inputs after the arrays that say the same as `keywords`: NumPy arrays, or None where one is absent."""
        made = self.constants(keywords) if self.constants else []
        while made and made[-1] is None:
            made.pop()
        return made


class Operation:
    """A pure function on arrays with its twin. Calls are transparent unless a capture is in progress."""

    def __init__(self, function: Callable[..., Any], twin: Twin) -> None:
        functools.update_wrapper(self, function)
        self.function, self.twin = function, twin
        self.name: str = function.__name__

    def __call__(self, *arrays: Any, **attributes: Any) -> Any:
        if _capture_depth:
            return _bind(self, arrays, attributes)
        try:
            return self.function(*arrays, **attributes)
        except SingaxError as error:
            raise error.inside(self.name) from error.__cause__
        except NOT_ABOUT_INPUTS:
            raise
        except FROM_BELOW as error:
            raise explained(self.name, arrays, attributes, error) from error

    def __repr__(self) -> str:
        return f"<operation {self.name} (ONNX: {self.twin.op_type or 'none'})>"


_REGISTRY: dict[str, Operation] = {}
_capture_depth = 0


def operation(
    op_type: str | None, *, domain: str = "", attributes: Any = None, constants: Any = None
) -> Callable[[Callable[..., Any]], Operation]:
    """Register the decorated function as the operation whose ONNX operator is `op_type` (None: none); see `Twin`."""

    def register(function: Callable[..., Any]) -> Operation:
        made = Operation(function, Twin(op_type, domain, attributes, constants))
        _REGISTRY[made.name] = made
        return made

    return register


def operations() -> Mapping[str, Operation]:
    """All operations by name."""
    return _REGISTRY


@contextmanager
def capturing() -> Iterator[None]:
    """Within the block every operation becomes one `singax_operation` equation of the jaxpr being traced."""
    global _capture_depth
    _capture_depth += 1
    try:
        yield
    finally:
        _capture_depth -= 1


def is_capturing() -> bool:
    """Whether operations become equations: nothing that is compiled and kept may be traced meanwhile."""
    return _capture_depth > 0


@contextmanager
def _not_capturing() -> Iterator[None]:
    global _capture_depth
    depth, _capture_depth = _capture_depth, 0
    try:
        yield
    finally:
        _capture_depth = depth


_primitive = Primitive("singax_operation")
_primitive.multiple_results = True


def _bind(made: Operation, arrays: tuple[Any, ...], attributes: Attributes) -> Any:
    """One equation. It carries what the operation computes as a program, which is traced once, without capturing."""
    leaves, tree = jax.tree.flatten(arrays)
    pairs = tuple(sorted(attributes.items()))
    with _not_capturing():
        program, shapes = jax.make_jaxpr(functools.partial(_flat_call, made, tree, pairs), return_shape=True)(*leaves)
    results = _primitive.bind(*leaves, operation=made, tree=tree, attributes=pairs, program=program)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _flat_call(made: Operation, tree: Any, attributes: tuple[tuple[str, Any], ...], *leaves: Any) -> Any:
    return made.function(*jax.tree.unflatten(tree, leaves), **dict(attributes))


def _evaluate(*leaves: Any, operation: Operation, tree: Any, attributes: Any, program: ClosedJaxpr) -> list[Any]:
    return jax.tree.leaves(_flat_call(operation, tree, attributes, *leaves))


def _shapes(*avals: Any, program: ClosedJaxpr, **others: Any) -> list[Any]:
    return list(program.out_avals)


_primitive.def_impl(_evaluate)
_primitive.def_abstract_eval(_shapes)
