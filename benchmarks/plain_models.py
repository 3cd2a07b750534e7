"""The benchmark's models written by hand: plain dicts, `jax.lax`, optax, one `jax.jit` with donated state.

The names are those of the singax models, and the formulations are the same: what is measured is the cost of the
library, not the choice of an algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from singax_models import MOMENTUM, WEIGHT_DECAY

Arrays = dict[str, Any]
State = tuple[Arrays, Arrays, Any]  # parameters, running statistics, optimizer state

BN_MOMENTUM, BN_EPSILON = 0.9, 1e-5


@dataclass(frozen=True)
class Plain:
    """A model: shapes by name, and `apply(params, statistics, x)` → outputs and new statistics."""

    shapes: dict[str, tuple[int, ...]]
    apply: Callable[[Arrays, Arrays, jax.Array], tuple[jax.Array, Arrays]]


# -- parameters -------------------------------------------------------------------------------------------------


def draw(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> tuple[Arrays, Arrays]:
    """Initial parameters and running statistics, drawn with NumPy."""
    rng = np.random.default_rng(seed)
    values = {name: _drawn(name, shape, rng) for name, shape in shapes.items()}
    statistics = {name: values.pop(name) for name in shapes if "running" in name}
    return values, statistics


def _drawn(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if not name.endswith("W"):
        return np.full(shape, name.endswith(("scale", "running_var")), np.float32)
    fans = sum(shape) if len(shape) == 2 else shape[0] + math.prod(shape[1:])
    return rng.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / fans))


def optimizer(lr: float) -> optax.GradientTransformation:
    """SGD with momentum and weight decay."""
    return optax.chain(optax.add_decayed_weights(WEIGHT_DECAY), optax.sgd(lr, MOMENTUM))


def start(params: Arrays, statistics: Arrays, lr: float) -> State:
    """The state on the device; the optimizer's slots are zeros made on the host, so that nothing small is compiled."""
    shapes = jax.eval_shape(optimizer(lr).init, params)
    slots = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    placed: State = jax.device_put((params, statistics, slots))
    return placed


# -- the step ---------------------------------------------------------------------------------------------------


def make_step(model: Plain, lr: float) -> Callable[..., tuple[State, tuple[jax.Array, jax.Array]]]:
    """`step(state, x, y)` → new state, (outputs, loss); the state is donated."""
    transform = optimizer(lr)

    def objective(params: Arrays, statistics: Arrays, x: jax.Array, y: jax.Array) -> Any:
        out, statistics = model.apply(params, statistics, x)
        picked = jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=-1)
        return -picked.mean(), (out, statistics)

    def step(state: State, x: jax.Array, y: jax.Array) -> Any:
        params, statistics, slots = state
        gradient = jax.value_and_grad(objective, has_aux=True)
        (loss, (out, statistics)), grads = gradient(params, statistics, x, y)
        updates, slots = transform.update(grads, slots, params)
        return (optax.apply_updates(params, updates), statistics, slots), (out, loss)

    return jax.jit(step, donate_argnums=0)


# -- the models -------------------------------------------------------------------------------------------------


def conv(x: jax.Array, w: jax.Array, stride: int = 1, padding: int = 0) -> jax.Array:
    """NCHW convolution."""
    sides = [(padding, padding)] * 2
    return jax.lax.conv_general_dilated(x, w, (stride, stride), sides, dimension_numbers=("NCHW", "OIHW", "NCHW"))


def max_pool(x: jax.Array) -> jax.Array:
    """2×2 without overlap, as comparisons of strided slices, which on CPU beats reduce_window and reshape + max."""
    for axis in (3, 2):
        a, b = (jax.lax.slice_in_dim(x, first, None, 2, axis) for first in (0, 1))
        x = jnp.where((b > a) | (b != b), b, a)
    return x


def dense(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    """x · W + b."""
    return x @ p[f"{name}.W"] + p[f"{name}.b"]


def mlp() -> Plain:
    """64 → 128 → 10."""

    def apply(p: Arrays, statistics: Arrays, x: jax.Array) -> tuple[jax.Array, Arrays]:
        return dense(p, "fc2", jax.nn.relu(dense(p, "fc1", x))), statistics

    return Plain(dict([*_dense_shapes("fc1", 64, 128), *_dense_shapes("fc2", 128, 10)]), apply)


def cnn() -> Plain:
    """The network of `examples/mnist_cnn.py`."""

    def apply(p: Arrays, statistics: Arrays, x: jax.Array) -> tuple[jax.Array, Arrays]:
        for name in ("conv1", "conv2"):
            x = max_pool(jax.nn.relu(conv(x, p[f"{name}.W"]) + p[f"{name}.b"].reshape(1, -1, 1, 1)))
        x = jax.nn.relu(dense(p, "fc1", x.reshape(x.shape[0], -1)))
        return dense(p, "fc2", x), statistics

    shapes = {"conv1.W": (20, 1, 5, 5), "conv1.b": (20,), "conv2.W": (50, 20, 5, 5), "conv2.b": (50,)}
    return Plain({**shapes, **dict([*_dense_shapes("fc1", 800, 500), *_dense_shapes("fc2", 500, 10)])}, apply)


def resnet18() -> Plain:
    """ResNet-18 for 32×32 images: a 3×3 stem, no max pooling."""

    def apply(p: Arrays, statistics: Arrays, x: jax.Array) -> tuple[jax.Array, Arrays]:
        new: Arrays = {}
        x = jax.nn.relu(batch_norm(p, statistics, new, "bn", conv(x, p["stem.W"], 1, 1)))
        for name, _, _, stride in _blocks():
            x = _block(p, statistics, new, name, x, stride)
        return dense(p, "head", x.mean((2, 3))), new

    shapes = [("stem.W", (64, 3, 3, 3)), *_bn_shapes("bn", 64), *_dense_shapes("head", 512, 10)]
    for name, planes_in, planes, _ in _blocks():
        shapes += [(f"{name}.conv1.W", (planes, planes_in, 3, 3)), *_bn_shapes(f"{name}.bn1", planes)]
        shapes += [(f"{name}.conv2.W", (planes, planes, 3, 3)), *_bn_shapes(f"{name}.bn2", planes)]
        if planes != planes_in:
            shapes += [(f"{name}.shortcut.W", (planes, planes_in, 1, 1)), *_bn_shapes(f"{name}.bn3", planes)]
    return Plain(dict(shapes), apply)


def batch_norm(p: Arrays, statistics: Arrays, new: Arrays, name: str, x: jax.Array) -> jax.Array:
    """Normalise over the batch and move the running statistics, which go into `new`."""
    shape = (1, -1, 1, 1)
    mean = x.mean((0, 2, 3))
    centred = x - mean.reshape(shape)
    var = (centred * centred).mean((0, 2, 3))
    count = x.size // x.shape[1]
    for key, value in (("running_mean", mean), ("running_var", var * (count / (count - 1)))):
        new[f"{name}.{key}"] = (1 - BN_MOMENTUM) * statistics[f"{name}.{key}"] + BN_MOMENTUM * value
    factor = p[f"{name}.scale"] * jax.lax.rsqrt(var + BN_EPSILON)
    return centred * factor.reshape(shape) + p[f"{name}.bias"].reshape(shape)


def _block(p: Arrays, statistics: Arrays, new: Arrays, name: str, x: jax.Array, stride: int) -> jax.Array:
    def normed(number: int, y: jax.Array) -> jax.Array:
        return batch_norm(p, statistics, new, f"{name}.bn{number}", y)

    y = jax.nn.relu(normed(1, conv(x, p[f"{name}.conv1.W"], stride, 1)))
    y = normed(2, conv(y, p[f"{name}.conv2.W"], 1, 1))
    if f"{name}.shortcut.W" in p:
        x = normed(3, conv(x, p[f"{name}.shortcut.W"], stride))
    return jax.nn.relu(y + x)


def _blocks() -> Iterator[tuple[str, int, int, int]]:
    """(name, input planes, planes, stride) of the eight blocks."""
    planes_in = 64
    for number in range(8):
        planes = 64 * 2 ** (number // 2)
        yield f"blocks.{number}", planes_in, planes, 1 if planes == planes_in else 2
        planes_in = planes


def _dense_shapes(name: str, size_in: int, size_out: int) -> list[tuple[str, tuple[int, ...]]]:
    return [(f"{name}.W", (size_in, size_out)), (f"{name}.b", (size_out,))]


def _bn_shapes(name: str, planes: int) -> list[tuple[str, tuple[int, ...]]]:
    return [(f"{name}.{key}", (planes,)) for key in ("scale", "bias", "running_mean", "running_var")]
