"""Rows of activation, product, shape, dropout, embedding and spatial layers, and of their operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from catalogue import Row, floats, integers

from singax import layer, ops

Array = np.ndarray
IMAGES = (2, 4, 3, 3)


def of(name: str, inputs: list[Any], reference: Any, *arguments: Any, note: str = "", **more: Any) -> Row:
    """A row of a layer without states; `rejects` and the like are the row's."""
    own = {key: more.pop(key) for key in ("rejects", "grad", "training", "random", "vmap") if key in more}
    make = lambda: getattr(layer, name)(*arguments, **more)  # noqa: E731
    value = None if reference is None else lambda states, *inputs: reference(*inputs)
    return Row(f"layer.{name}", make, inputs, value, note=note, **own)


def activation(name: str, reference: Callable[[Array], Any], *arguments: Any, low: float = -2, high: float = 2) -> Row:
    """A row of an activation layer."""
    return of(name, [floats(3, 4, low=low, high=high)], reference, *arguments)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int) -> Array:
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def shuffled(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)


def unshuffled(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def dropped(name: str, *shape: int) -> Row:
    """A row of an operation that draws, with a key of its own."""
    return Row(
        f"ops.{name}",
        lambda: lambda x, **attributes: getattr(ops, name)(x, jax.random.key(0), **attributes),
        [floats(*shape)],
        attributes={"ratio": 0.25},
    )


ACTIVATIONS = [
    activation("ReLU", lambda x: np.maximum(x, 0)),
    activation("ReLU6", lambda x: np.clip(x, 0, 6), low=-8, high=8),
    activation("Sigmoid", sigmoid),
    activation("Tanh", np.tanh),
    activation("GELU", lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2),
    activation("SELU", lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(x))),
    activation("SiLU", lambda x: x * sigmoid(x)),
    activation("Swish", lambda x: x * sigmoid(x)),
    activation("Mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    activation("Softplus", lambda x: np.log1p(np.exp(x))),
    activation("Softsign", lambda x: x / (1 + np.abs(x))),
    activation("Hardswish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), low=-5, high=5),
    activation("SoftMax", lambda x: softmax(x, 1)),
    activation("LogSoftmax", lambda x: np.log(softmax(x, 0)), 0),
    activation("LeakyReLU", lambda x: np.where(x > 0, x, 0.2 * x), 0.2),
    activation("ELU", lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)), 1.5),
    activation("CELU", lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5)), 1.5),
    activation("HardSigmoid", lambda x: np.clip(0.2 * x + 0.5, 0, 1), low=-4, high=4),
    activation("Hardtanh", lambda x: np.clip(x, -0.5, 1.5), -0.5, 1.5),
    activation("ThresholdedReLU", lambda x: np.where(x > 0.5, x, 0), 0.5),
    of("GLU", [floats(3, 4)], lambda x: x[:, :2] * sigmoid(x[:, 2:]), rejects=[[floats(3, 5)], [floats()]]),
    Row(
        "layer.PReLU",
        lambda: layer.PReLU(),
        [floats(3, 4)],
        lambda states, x: np.where(x > 0, x, states["slope"] * x),
        rejects=[[integers(3, 4)]],
    ),
    Row(
        "layer.PReLU",
        lambda: layer.PReLU(per_channel=True, slope_init="uniform"),
        [floats(*IMAGES)],
        lambda states, x: np.where(x > 0, x, states["slope"] * x),
        rejects=[[floats(2, 5, 3, 3)], [floats(4)]],
        note="per channel",
    ),
]

PRODUCTS = [
    Row(
        "layer.Linear",
        lambda: layer.Linear(3),
        [floats(2, 4)],
        lambda states, x: x @ states["W"] + states["b"],
        rejects=[[floats(2, 5)], [floats()]],
    ),
    Row(
        "layer.Linear",
        lambda: layer.Linear(3, bias=False),
        [floats(2, 2, 4)],
        lambda states, x: x @ states["W"],
        note="stacks",
    ),
    Row(
        "layer.Gemm",
        lambda: layer.Gemm(3, alpha=0.5, beta=2.0, bias_init="uniform"),
        [floats(2, 4)],
        lambda states, x: 0.5 * x @ states["W"].T + 2 * states["b"],
        rejects=[[floats(2, 5)], [floats(2, 4, 3)]],
    ),
    Row(
        "layer.Gemm",
        lambda: layer.Gemm(3, transA=True, transB=False, bias_shape=(2, 1), bias_init="uniform"),
        [floats(4, 2)],
        lambda states, x: x.T @ states["W"] + states["b"],
        rejects=[[floats(3, 2)]],
        note="transposed",
    ),
    Row(
        "layer.Bilinear",
        lambda: layer.Bilinear(3),
        [floats(2, 4), floats(2, 5)],
        lambda states, a, b: np.einsum("ni,oij,nj->no", a, states["W"], b) + states["b"],
        rejects=[[floats(2, 4), floats(3, 5)], [floats(2, 5), floats(2, 5)], [floats(), floats()]],
    ),
]

SHAPES = [
    of("Flatten", [floats(*IMAGES)], lambda x: x.reshape(2, -1), rejects=[[floats()]]),
    of("Reshape", [floats(*IMAGES)], lambda x: x.reshape(2, 6, 6), (0, 6, -1), rejects=[[floats(2, 5)]]),
    of("Cat", [[floats(2, 3), floats(2, 1)]], lambda xs: np.concatenate(xs, 1), 1, rejects=[[[floats(2), floats(3)]]]),
    of("Add", [floats(2, 3), floats(3)], np.add, rejects=[[floats(2, 3), floats(2)]]),
    of(
        "Pad",
        [floats(*IMAGES)],
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), mode="reflect"),
        (1, 2, 0, 1),
        mode="reflect",
        rejects=[[floats(2, 4)], [floats(2, 4, 3)]],
    ),
    of("ZeroPad", [floats(2, 3, 4)], lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1))), 1, rejects=[[floats(2, 4)]]),
    of("ZeroPad2d", [floats(*IMAGES)], lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2))), (1, 2)),
    of("UpSample", [floats(*IMAGES)], lambda x: x.repeat(2, 2).repeat(2, 3), 2, rejects=[[floats(2, 4)]]),
    of("UpSample", [floats(2, 3, 4)], lambda x: x[:, :, [0, 0, 1, 2, 2, 3]], (1.5,), note="by a fraction"),
    of("PixelShuffle", [floats(*IMAGES)], shuffled, 2, rejects=[[floats(2, 3, 3, 3)], [floats(4, 3)]]),
    of("PixelUnshuffle", [floats(2, 3, 4, 4)], unshuffled, 2, rejects=[[floats(2, 3, 3, 4)], [floats(4, 4)]]),
]

DROPOUT = [
    dropped("dropout", 3, 4),
    dropped("channel_dropout", 2, 4, 3),
    dropped("alpha_dropout", 3, 4),
    of("Dropout", [floats(3, 4)], lambda x: x, 0.25),
    of("Dropout", [floats(3, 4)], None, 0.25, training=True, random=True, note="training"),
    of("SpatialDropout", [floats(2, 4, 3)], None, training=True, random=True, rejects=[[floats(3)]]),
    of("Dropout1d", [floats(2, 4, 3)], lambda x: x),
    of("Dropout2d", [floats(*IMAGES)], None, training=True, random=True),
    of("Dropout3d", [floats(1, 2, 2, 1, 2)], lambda x: x),
    of("AlphaDropout", [floats(3, 4)], None, training=True, random=True),
]

EMBEDDING = [
    Row(
        "layer.Embedding",
        lambda: layer.Embedding(5, 3),
        [integers(2, 4, high=5)],
        lambda states, ids: states["W"][ids],
    ),
    Row(
        "layer.Embedding",
        lambda: layer.Embedding(5, 3, padding_idx=-4),
        [integers(2, 4, low=-5, high=5)],
        lambda states, ids: np.where(ids[..., None] % 5 == 1, 0, states["W"][ids]),
        note="padding",
    ),
]

ROWS = [*ACTIVATIONS, *PRODUCTS, *SHAPES, *DROPOUT, *EMBEDDING]
