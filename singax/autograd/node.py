"""Nodes: what one outermost call leaves behind so that gradients can flow back through it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.tensor import Tensor

Pullback = Callable[[list[Any]], list[Any]]

_counter = itertools.count()


class Node:
    """One recorded call.

    `inputs` are the Tensors it read as arguments, in order (None for plain arrays); `params` the parameters it read.
    `pullback` maps the cotangents of its differentiable outputs to those of `sources`: the params and inputs that
    can have one.
    """

    __slots__ = ("__weakref__", "inputs", "name", "outputs", "params", "pullback", "slots", "sources")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        params: Sequence[Tensor],
        sources: Sequence[Tensor],
        pullback: Pullback,
        outputs: Sequence[jax.ShapeDtypeStruct],
        slots: Sequence[int | None],
    ) -> None:
        self.name = f"{name}#{next(_counter)}"
        self.inputs, self.params, self.sources = list(inputs), list(params), list(sources)
        self.pullback, self.outputs, self.slots = pullback, list(outputs), list(slots)

    @property
    def requires_grad(self) -> bool:
        """Whether any gradient can flow back through it."""
        return bool(self.sources)

    @property
    def src(self) -> list[tuple[Any, int, Tensor | None, bool]]:
        """SINGA's view of the inputs: (creator, id, the Tensor if it stores its gradient, stores_grad)."""
        known = [*filter(lambda t: t is not None, self.inputs), *self.params]
        return [(t.creator, id(t), t if t.stores_grad else None, t.stores_grad) for t in known if t is not None]

    def output_name(self, index: int) -> str:
        """The name of output `index`."""
        return f"{self.name}:{index}"

    def cotangents(self, dys: list[Any]) -> list[Any]:
        """Gradients of `sources` for gradients of the differentiable outputs (None counts as zeros)."""
        return self.pullback(dys)

    def backward(self, *dys: Any) -> Any:
        """Raw gradients of the inputs in order, then of the parameters, for one gradient per output.

        A number fills the output's shape; None counts as zeros. One input gives one array, several a tuple; an input
        that has no gradient (integers) gives None.
        """
        given = list(dys) or [1.0]
        wanted: list[Any] = [None] * len(self.outputs)
        for slot, dy in zip(self.slots, given, strict=False):
            if slot is not None and dy is not None:
                wanted[slot] = _as_cotangent(dy, self.outputs[slot])
        by_id = {id(t): g for t, g in zip(self.sources, self.cotangents(wanted), strict=True)}
        grads = tuple(by_id.get(id(t)) for t in [*self.inputs, *self.params])
        return grads[0] if len(grads) == 1 else grads

    def __repr__(self) -> str:
        return f"<node {self.name}>"


class Dummy:
    """The creator of a leaf: a Tensor that no recorded call made. Unknown attributes are read from the Tensor."""

    requires_grad = False
    src: tuple[Any, ...] = ()

    def __init__(self, tensor: Tensor, name: str | None = None) -> None:
        self.tensor, self.name = tensor, tensor.name if name is None else name
        self.y_id2idx = {id(tensor): 0}

    def output_name(self, index: int) -> str:
        return self.name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(self.tensor, attribute)


def _as_cotangent(dy: Any, output: jax.ShapeDtypeStruct) -> jax.Array:
    value = dy.data if isinstance(dy, Tensor) else dy
    return jnp.broadcast_to(jnp.asarray(value, output.dtype), output.shape)


def _zeros_for_none(dys: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    return [jnp.zeros(o[0], o[1]) if dy is None else dy for dy, o in zip(dys, outputs, strict=True)]


def _pull(vjp: Any, dys: list[Any], outputs: tuple[Any, ...]) -> Any:
    (cotangents,) = vjp(_zeros_for_none(dys, outputs))
    return cotangents


_jitted_pull = jax.jit(_pull, static_argnums=2)


def pullback_of(vjp: Any, outputs: Sequence[jax.ShapeDtypeStruct], jitted: bool) -> Pullback:
    """The pullback of a function `jax.vjp` returned; compiled once per program when `jitted`."""
    pull = _jitted_pull if jitted else _pull
    keys = tuple((o.shape, np.dtype(o.dtype)) for o in outputs)
    return lambda dys: pull(vjp, dys, keys)
