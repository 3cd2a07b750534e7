"""Nodes: what one outermost call leaves behind so that gradients can flow back through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.autograd.operator import Operator
from singax.tensor import Tensor

Pullback = Callable[[list[Any]], list[Any]]


class Node(Operator):
    """One recorded call.

    `inputs` are the Tensors it read as arguments, in order (None for plain arrays); `params` the parameters it read.
    `pullback` maps the cotangents of its differentiable outputs to those of `sources`: the params and inputs that
    can have one. `slots` says of each output which of the differentiable ones it is (None: it is not).
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor | None] = (),
        params: Sequence[Tensor] = (),
        sources: Sequence[Tensor] = (),
        pullback: Pullback | None = None,
        outputs: Sequence[jax.ShapeDtypeStruct] = (),
        slots: Sequence[int | None] = (),
    ) -> None:
        super().__init__(f"{name}#{Operator.op_count}")
        self.inputs, self.params, self.sources = list(inputs), list(params), list(sources)
        self.pullback, self.outputs, self.slots = pullback, list(outputs), list(slots)
        self.output_ids: dict[int, int] = {}
        self.call: Any = None  # what was run, from which an exporter can run it again

    @property
    def requires_grad(self) -> bool:
        return bool(self.sources)

    @property
    def src(self) -> list[tuple[Any, int, Tensor | None, bool]]:
        return [(t.creator, id(t), t if t.stores_grad else None, t.stores_grad) for t in self._read()]

    @property
    def y_id2idx(self) -> dict[int, int]:
        return self.output_ids

    def _read(self) -> list[Tensor]:
        return [t for t in [*self.inputs, *self.params] if t is not None]

    def cotangents(self, dys: list[Any]) -> list[Any]:
        """Gradients of `sources` for gradients of the differentiable outputs (None counts as zeros)."""
        return [] if self.pullback is None else self.pullback(dys)

    def backward(self, *dys: Any) -> Any:
        """Raw gradients of the Tensors it was given, in order, then of the parameters, for one gradient per output.

        A number fills the output's shape; None counts as zeros. One input gives one array, several a tuple; an input
        that has no gradient (integers) gives None.
        """
        given = list(dys) or [1.0]
        wanted: list[Any] = [None] * len(self.outputs)
        for slot, dy in zip(self.slots, given, strict=False):
            if slot is not None and dy is not None:
                wanted[slot] = _as_cotangent(dy, self.outputs[slot])
        found: dict[int, list[Any]] = {}
        for source, cotangent in zip(self.sources, self.cotangents(wanted), strict=True):
            found.setdefault(id(source), []).append(cotangent)  # more than one where a Tensor was given twice
        grads = tuple(found[id(t)].pop(0) if found.get(id(t)) else None for t in self._read())
        return grads[0] if len(grads) == 1 else grads

    def take_over(self, node: Node | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Become the creator of `outputs` in the place of `node`, with these Tensors as its inputs."""
        if node is not None:
            self.params, self.sources, self.pullback = node.params, node.sources, node.pullback
            self.outputs, self.slots, self.call = node.outputs, node.slots, node.call
        self.inputs = list(inputs)
        for index, made in enumerate(outputs):
            made._creator, made.name = self, self.output_name(index)
            self.output_ids[id(made)] = index

    def __repr__(self) -> str:
        return f"<node {self.name}>"


def looks_like(node: Node, operator: Operator) -> Node:
    """`node` as an instance of the operator's class, with its attributes, whose `backward` is still the node's own."""
    if type(operator).__basicsize__ == Node.__basicsize__:  # a class with __slots__ has no room for a node
        node.__class__ = _mixed(type(operator))
        node.__dict__ = {**operator.__dict__, **node.__dict__}
    return node


def _mixed(kind: type[Operator]) -> type[Node]:
    """A class of nodes that are instances of `kind` too; it is kept on `kind`, so that it goes when that goes."""
    if "_singax_node_class" not in kind.__dict__:
        body = {"__doc__": kind.__doc__, "__module__": kind.__module__}
        kind._singax_node_class = type(kind.__name__, (Node, kind), body)  # type: ignore[attr-defined]
    return kind._singax_node_class  # type: ignore[attr-defined]


def is_recorded(tensor: Tensor) -> bool:
    """Whether a call that gradients can flow back through made this Tensor."""
    return isinstance(tensor._creator, Node) and tensor._creator.requires_grad


class Dummy(Operator):
    """The creator of a leaf: a Tensor that no recorded call made. Unknown attributes are read from the Tensor."""

    def __init__(self, tensor: Tensor, name: str | None = None) -> None:
        self.tensor, self.name = tensor, tensor.name if name is None else name

    @property
    def y_id2idx(self) -> dict[int, int]:
        return {id(self.tensor): 0}

    def output_name(self, index: int) -> str:
        return self.name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or attribute == "tensor":
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
