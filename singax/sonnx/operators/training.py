"""ai.onnx.preview.training: gradients of a part of the graph, and the steps of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError
from singax.sonnx.importer.evaluate import Scope
from singax.sonnx.importer.graph import Graph, Node, reads, subgraphs
from singax.sonnx.registry import Call, onnx_operator

Array = Any

DOMAIN = "ai.onnx.preview.training"


@onnx_operator("Gradient", domain=DOMAIN)
def gradient(call: Call, *values: Array) -> tuple[Array, ...]:
    """The derivatives of the sum of y by each of `xs`, where `xs` and `zs` have the node's inputs as values."""
    xs, zs, y = call.attribute("xs"), call.attribute("zs") or [], call.attribute("y")
    if len(values) != len(xs) + len(zs):
        raise ArgumentError(f"expected a value for each of {', '.join([*xs, *zs])}. Received: {len(values)} values")
    nodes = _between(_around(call.evaluator.model.graph, call.node), {*xs, *zs}, y)
    fixed = dict(zip(zs, values[len(xs) :], strict=True))

    def function(*inputs: Array) -> Array:
        scope = Scope({**fixed, **dict(zip(xs, inputs, strict=True))}, call.scope)
        for node in nodes:
            call.evaluator.node(node, scope, call.evaluator.model.opsets)
        return jnp.asarray(scope[y])

    result, pull = jax.vjp(function, *map(jnp.asarray, values[: len(xs)]))
    return tuple(pull(jnp.ones_like(result)))


def _around(graph: Graph, node: Node) -> Graph:
    """The graph among whose nodes `node` is."""
    waiting = [graph]
    while waiting:
        found = waiting.pop()
        if any(node is each for each in found.nodes):
            return found
        waiting += [inner for each in found.nodes for inner in subgraphs(each)]
    raise ArgumentError(f"expected a graph around {node.where}. Received: a function")


def _between(graph: Graph, given: set[str], y: str) -> list[Node]:
    """The nodes that y needs and that depend on the given names."""
    depend, chosen = set(given), []
    for node in graph.nodes:
        if depend.intersection(reads(node)) and not given.intersection(node.outputs):
            chosen.append(node)
            depend.update(node.outputs)
    if y not in depend:
        raise ArgumentError(f"expected y to depend on {', '.join(sorted(given))}. Received: {y!r}, which does not")
    needed, kept = {y}, []
    for node in reversed(chosen):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(reads(node))
    return kept[::-1]


@onnx_operator("Adagrad", domain=DOMAIN)
def adagrad(call: Call, rate: Array, step: Array, *arrays: Array) -> tuple[Array, ...]:
    """h ← h + g², x ← x − rate / (1 + step · decay) · g / (√h + ε)."""
    decay, eps = call.attribute("decay_factor", 0.0), call.attribute("epsilon", 1e-6)

    def update(x: Array, g: Array, h: Array) -> tuple[Array, ...]:
        h = h + g * g
        return x - rate / (1 + step * decay) * g / (jnp.sqrt(h) + eps), h

    return _each(call, update, arrays, 3)


@onnx_operator("Adam", domain=DOMAIN)
def adam(call: Call, rate: Array, step: Array, *arrays: Array) -> tuple[Array, ...]:
    """v ← α v + (1 − α) g, h ← β h + (1 − β) g², x ← x − rate' · v / (√h + ε), the rate corrected for early steps."""
    alpha, beta = call.attribute("alpha", 0.9), call.attribute("beta", 0.999)
    eps, after = call.attribute("epsilon", 1e-6), 1 - call.attribute("norm_coefficient_post", 0.0)
    early = jnp.sqrt(1 - beta ** jnp.asarray(step)) / (1 - alpha ** jnp.maximum(step, 1))
    corrected = jnp.where(jnp.asarray(step) > 0, rate * early, rate)

    def update(x: Array, g: Array, v: Array, h: Array) -> tuple[Array, ...]:
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        return after * (x - corrected * v / (jnp.sqrt(h) + eps)), v, h

    return _each(call, update, arrays, 4)


@onnx_operator("Momentum", domain=DOMAIN)
def momentum(call: Call, rate: Array, step: Array, *arrays: Array) -> tuple[Array, ...]:
    """v ← α v + β g (β is 1 at step 0), x ← x − rate · v, or x − rate · (g + α v) in the mode "nesterov"."""
    alpha, nesterov = call.attribute("alpha"), call.attribute("mode") == "nesterov"
    beta = jnp.where(jnp.asarray(step) > 0, call.attribute("beta"), 1.0)

    def update(x: Array, g: Array, v: Array) -> tuple[Array, ...]:
        v = alpha * v + beta * g
        return x - rate * (g + alpha * v if nesterov else v), v

    return _each(call, update, arrays, 3)


def _each(
    call: Call, update: Callable[..., tuple[Array, ...]], arrays: Sequence[Array], kinds: int
) -> tuple[Array, ...]:
    """Update tensors that come kind by kind: all x, all gradients, then their states; the gradients are dropped."""
    count, rest = divmod(len(arrays), kinds)
    if rest:
        raise ArgumentError(f"expected {kinds} arrays for each tensor. Received: {len(arrays)} arrays")
    decay, results = call.attribute("norm_coefficient", 0.0), []
    for at in range(count):
        x, g, *states = map(jnp.asarray, arrays[at::count])
        updated = update(x, decay * x + g, *states)
        results.append([new.astype(old.dtype) for new, old in zip(updated, (x, *states), strict=True)])
    return tuple(value for kind in zip(*results, strict=True) for value in kind)
