"""Backward: walk the nodes that hang on a loss, in reverse, and yield the gradient of every parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from singax import mode
from singax.autograd.node import Node, is_recorded
from singax.errors import ArgumentError, ShapeError
from singax.mode import evaluating
from singax.tensor import Tensor


def backward(y: Tensor, dy: Any = None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `(parameter, gradient)` for every Tensor with `stores_grad` that `y` depends on, each exactly once.

    **Args**
      y: a Tensor of one element, any shape.
      dy: the gradient of `y`: a number, an array or a Tensor; default 1.

    **Returns** a generator; a pair is yielded as soon as its gradient is complete, last layers first.

    **Raises** `ShapeError` unless `y` has one element, `ArgumentError` when nothing was recorded.

    *Differences from SINGA*: gradients are never accumulated in place, `dy` is honoured by every operation, and
    `requires_grad=False` really freezes a parameter.

    >>> import singax as sx
    >>> w = sx.Tensor(data=[3.0], stores_grad=True, name="w")
    >>> sx.autograd.training = True
    >>> [(p.name, float(g)) for p, g in backward(w * w)]
    [('w', 6.0)]
    >>> sx.autograd.training = False
    """
    if evaluating():
        return iter(())
    _check_loss(y)
    return _walk(y, dy)


def gradients(y: Tensor, dy: Any = None) -> dict[int, Tensor]:
    """The gradients of `backward` as a dict from `id(parameter)`."""
    return {id(parameter): gradient for parameter, gradient in backward(y, dy)}


def _check_loss(y: Tensor) -> None:
    if not isinstance(y, Tensor):
        raise ArgumentError(f"backward starts from a Tensor, the loss. Received: {type(y).__name__}")
    if y.size() != 1:
        raise ShapeError(f"backward starts from a loss of one element. Received: {y.name} of shape {y.shape}")
    if not is_recorded(y) and not y.stores_grad:
        hint = "" if mode.training else ": autograd.training is False, so call model.train() or compile(is_train=True)"
        raise ArgumentError(f"no operation was recorded for {y.name}{hint}")


def _walk(y: Tensor, dy: Any) -> Iterator[tuple[Tensor, Tensor]]:
    start = jnp.ones(y.shape, y.dtype) if dy is None else jnp.broadcast_to(jnp.asarray(_raw(dy), y.dtype), y.shape)
    if not is_recorded(y):
        yield y, _gradient(y, start)
        return
    waiting, uses = _dependencies(y._creator)
    sums = _Sums()
    sums.add_output(y, start)
    if y.stores_grad:
        yield y, _gradient(y, start)
    ready = [y._creator]
    while ready:
        node = ready.pop()
        for source, cotangent in reversed(list(zip(node.sources, node.cotangents(sums.take(node)), strict=True))):
            parent = source._creator
            if is_recorded(source):
                sums.add_output(source, cotangent)
                waiting[parent] -= 1
                if not waiting[parent]:
                    ready.append(parent)
            if source.stores_grad:
                total = sums.add_leaf(source, cotangent)
                uses[id(source._cell)] -= 1
                if not uses[id(source._cell)]:
                    yield source, _gradient(source, total)


def _dependencies(root: Node) -> tuple[Counter[Node], Counter[int]]:
    """How many uses of each node, and of each parameter's cell, lie between it and the root."""
    waiting: Counter[Node] = Counter()
    uses: Counter[int] = Counter()
    seen, todo = {root}, [root]
    while todo:
        for source in todo.pop().sources:
            parent = source._creator
            if source.stores_grad:
                uses[id(source._cell)] += 1
            if is_recorded(source):
                waiting[parent] += 1
                if parent not in seen:
                    seen.add(parent)
                    todo.append(parent)
    return waiting, uses


class _Sums:
    """Cotangents added up: per node and output slot, and per parameter."""

    def __init__(self) -> None:
        self._outputs: dict[Node, list[Any]] = {}
        self._leaves: dict[int, Any] = {}

    def add_output(self, tensor: Tensor, cotangent: Any) -> None:
        node, slot = tensor._creator, tensor._slot
        held = self._outputs.setdefault(node, [None] * len(node.outputs))
        held[slot] = cotangent if held[slot] is None else held[slot] + cotangent

    def take(self, node: Node) -> list[Any]:
        return self._outputs.pop(node)

    def add_leaf(self, tensor: Tensor, cotangent: Any) -> Any:
        key = id(tensor._cell)
        self._leaves[key] = cotangent if key not in self._leaves else self._leaves[key] + cotangent
        return self._leaves[key]


def _gradient(parameter: Tensor, value: Any) -> Tensor:
    return Tensor._of(value, name=f"{parameter.name}_g")


def _raw(dy: Any) -> Any:
    return dy.data if isinstance(dy, Tensor) else dy
