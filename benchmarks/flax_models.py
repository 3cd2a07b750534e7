"""A small GPT and ResNet-50 in Flax Linen and NNX, with one training step to be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx

Struct = jax.ShapeDtypeStruct


class LinenBlock(nn.Module):
    """A transformer block that normalises first."""

    heads: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=jnp.bfloat16)(nn.LayerNorm()(x), mask=mask)
        y = nn.gelu(nn.Dense(4 * x.shape[-1], dtype=jnp.bfloat16)(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1], dtype=jnp.bfloat16)(y)


class LinenGPT(nn.Module):
    """Token ids → logits."""

    sizes: tuple[int, ...]

    @nn.compact
    def __call__(self, ids: Any) -> Any:
        layers, width, heads, vocabulary, length = self.sizes
        x = nn.Embed(vocabulary, width)(ids) + nn.Embed(length, width)(jnp.arange(length))
        for _ in range(layers):
            x = LinenBlock(heads)(x)
        return nn.Dense(vocabulary, use_bias=False, dtype=jnp.bfloat16)(nn.LayerNorm()(x))


class LinenBottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut."""

    planes: int
    stride: int
    project: bool

    @nn.compact
    def __call__(self, x: Any) -> Any:
        norm = lambda: nn.BatchNorm(use_running_average=False)  # noqa: E731
        y = nn.relu(norm()(nn.Conv(self.planes, (1, 1), use_bias=False)(x)))
        y = nn.relu(norm()(nn.Conv(self.planes, (3, 3), self.stride, use_bias=False)(y)))
        y = norm()(nn.Conv(4 * self.planes, (1, 1), use_bias=False)(y))
        short = norm()(nn.Conv(4 * self.planes, (1, 1), self.stride, use_bias=False)(x)) if self.project else x
        return nn.relu(y + short)


class LinenResNet(nn.Module):
    """Images (N, H, W, C) → logits."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(64, (7, 7), 2, use_bias=False)(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for planes, stride, project in bottlenecks():
            x = LinenBottleneck(planes, stride, project)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


def bottlenecks() -> list[tuple[int, int, bool]]:
    """Planes, stride, and whether the shortcut is a convolution, of the sixteen blocks."""
    counts = enumerate((3, 4, 6, 3))
    return [(64 << stage, 2 if stage and not k else 1, not k) for stage, count in counts for k in range(count)]


class NnxBlock(nnx.Module):
    """The same block."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norm1, self.norm2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, dtype=jnp.bfloat16, decode=False, rngs=rngs)
        self.inner = nnx.Linear(width, 4 * width, dtype=jnp.bfloat16, rngs=rngs)
        self.outer = nnx.Linear(4 * width, width, dtype=jnp.bfloat16, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x), mask=nnx.make_causal_mask(x[..., 0]))
        return x + self.outer(nnx.gelu(self.inner(self.norm2(x))))


class NnxGPT(nnx.Module):
    """Token ids → logits."""

    def __init__(self, sizes: tuple[int, ...], rngs: nnx.Rngs) -> None:
        layers, width, heads, vocabulary, length = sizes
        self.tokens, self.positions = nnx.Embed(vocabulary, width, rngs=rngs), nnx.Embed(length, width, rngs=rngs)
        self.blocks = nnx.List([NnxBlock(width, heads, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.head = nnx.Linear(width, vocabulary, use_bias=False, dtype=jnp.bfloat16, rngs=rngs)
        self.length = length

    def __call__(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.positions(jnp.arange(self.length))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class NnxBottleneck(nnx.Module):
    """The same block."""

    def __init__(self, inputs: int, planes: int, stride: int, project: bool, rngs: nnx.Rngs) -> None:
        def conv(into: int, out: int, kernel: int, stride: int = 1) -> nnx.Conv:
            return nnx.Conv(into, out, (kernel, kernel), stride, use_bias=False, rngs=rngs)

        self.convs = nnx.List([conv(inputs, planes, 1), conv(planes, planes, 3, stride), conv(planes, 4 * planes, 1)])
        self.norms = nnx.List([nnx.BatchNorm(n, rngs=rngs) for n in (planes, planes, 4 * planes)])
        self.shortcut = conv(inputs, 4 * planes, 1, stride) if project else None
        self.norm = nnx.BatchNorm(4 * planes, rngs=rngs) if project else None

    def __call__(self, x: Any) -> Any:
        y = x
        for place, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y))
            y = nnx.relu(y) if place < 2 else y
        return nnx.relu(y + (x if self.shortcut is None or self.norm is None else self.norm(self.shortcut(x))))


class NnxResNet(nnx.Module):
    """Images (N, H, W, C) → logits."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 64, (7, 7), 2, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(64, rngs=rngs)
        widths = [64, *[4 * planes for planes, _, _ in bottlenecks()]]
        made = [NnxBottleneck(width, *block, rngs) for width, block in zip(widths, bottlenecks(), strict=False)]
        self.blocks = nnx.List(made)
        self.head = nnx.Linear(2048, 1000, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.norm(self.conv(x))), (3, 3), (2, 2), "SAME")
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


def _loss(logits: Any, labels: Any) -> Any:
    flat = logits.reshape(-1, logits.shape[-1]).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(flat, labels).mean()


def step_of(case: str, kind: str, sizes: tuple[int, ...] | None) -> Callable[[], Any]:
    """A function that traces building the model and one step of training."""
    if sizes is None:
        x, y, tx = Struct((1, 224, 224, 3), jnp.float32), Struct((1,), jnp.int32), optax.sgd(0.1, momentum=0.9)
    else:
        x, y, tx = Struct((1, sizes[-1]), jnp.int32), Struct((sizes[-1],), jnp.int32), optax.adamw(1e-4)

    def step() -> Callable[..., Any]:
        if kind == "linen":
            return linen_step(LinenResNet() if sizes is None else LinenGPT(sizes), tx)
        return nnx_step(NnxResNet if sizes is None else lambda rngs: NnxGPT(sizes, rngs), tx)

    return lambda: jax.eval_shape(step(), x, y)  # a new function each time: JAX keeps the traces of known ones


def linen_step(model: nn.Module, tx: optax.GradientTransformation) -> Callable[..., Any]:
    """Initial values and one step, as one function to be traced."""

    def run(x: Any, y: Any) -> Any:
        variables = model.init(jax.random.key(0), x)
        params, others = variables["params"], {k: v for k, v in variables.items() if k != "params"}

        def loss(params: Any) -> Any:
            logits, new = model.apply({"params": params, **others}, x, mutable=list(others))
            return _loss(logits, y), new

        (value, new), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = tx.update(grads, tx.init(params), params)
        return optax.apply_updates(params, updates), state, new, value

    return run


def nnx_step(make: Callable[[nnx.Rngs], nnx.Module], tx: optax.GradientTransformation) -> Callable[..., Any]:
    """The same in NNX."""

    def run(x: Any, y: Any) -> Any:
        model = make(nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
        value, grads = nnx.value_and_grad(lambda model: _loss(model(x), y))(model)
        optimizer.update(model, grads)
        return nnx.state(model), nnx.state(optimizer), value

    return run
