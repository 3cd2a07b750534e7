"""SINGA's functional names whose arguments or results differ from those of the operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from catalogue import Row, floats, integers

from singax import autograd, singa_wrap

IMAGES = floats(2, 4, 5, 6)


def row(name: str, inputs: list[Any], call: Callable[..., Any], reference: Any, note: str = "", **more: Any) -> Row:
    """A row of `autograd.<name>`, called as `call` says."""
    return Row(f"autograd.{name}", lambda: call, inputs, reference, note=note, **more)


def trailing_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x).reshape(2, 12)
    return (powers / powers.sum(1, keepdims=True)).reshape(x.shape)


def conv_handle() -> Any:
    return singa_wrap.ConvHandle(np.zeros((2, 4, 5, 6)), (3, 3), (2, 1), (1, 0), 4, 6, True, 2)


def pooling_handle(is_max: bool) -> Any:
    return singa_wrap.PoolingHandle(np.zeros((2, 4, 5, 6)), (2, 2), (2, 2), (0, 0), is_max)


def tiles(x: np.ndarray) -> np.ndarray:
    """Images of 5 rows with the last one repeated, as tiles of 2 by 2."""
    return np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0)), mode="edge").reshape(2, 4, 3, 2, 3, 2)


def convolved(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Stride (2, 1), padding ((1, 2), (2, 0)), 2 groups, by windows."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (2, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2]
    halves = [
        np.einsum("nchwij,ocij->nohw", windows[:, 2 * g : 2 * g + 2], weights[3 * g : 3 * g + 3]) for g in range(2)
    ]
    return np.concatenate(halves, 1) + bias[:, None, None]


ROWS = [
    row("softmax", [floats(2, 3, 4)], lambda x: autograd.softmax(x), trailing_softmax, rejects=[[floats(3)]]),
    row("softmax", [floats(2, 3)], lambda x: autograd.softmax(x, -1), lambda x: np.exp(x) / np.exp(x).sum(1)[:, None],
        "last axis"),
    row("reduce_sum", [floats(2, 3)], lambda x: autograd.reduce_sum(x, None, 0), lambda x: x.sum().reshape(1, 1)),
    row("reduce_sum", [floats(2, 3)], lambda x: autograd.reduce_sum(x, [0], 0), lambda x: x.sum(0), "first axis",
        rejects=[[floats()]]),
    row("reduce_mean", [floats(2, 3)], lambda x: autograd.reduce_mean(x, 1), lambda x: x.mean(1, keepdims=True)),
    row("reduce_mean", [floats(1)], lambda x: autograd.reduce_mean(x, keepdims=0), lambda x: x.reshape(1, 1), "all"),
    row("tile", [floats(2, 3)], lambda x: autograd.tile(x, 2), lambda x: np.tile(x, 2)),
    row("tile", [floats(3)], lambda x: autograd.tile(x, [2, 2]), lambda x: np.tile(x, (2, 2)), "more axes"),
    row("expand", [floats(1, 2)], lambda x: autograd.expand(x, (2, 4)), lambda x: np.tile(x, (2, 2)), "tiled"),
    row("expand", [floats(3, 1)], lambda x: autograd.expand(x, [2, 3, 4]), lambda x: np.broadcast_to(x, (2, 3, 4)),
        rejects=[[floats(2, 1)]]),
    row("split", [floats(2, 6)], lambda x: autograd.split(x, 1, None, 3), lambda x: np.split(x, 3, 1),
        rejects=[[floats(2, 5)], [floats(2)]]),
    row("squeeze", [floats(1, 3, 1)], lambda x: autograd.squeeze(x), lambda x: x.reshape(3)),
    row("squeeze", [floats(1, 1)], lambda x: autograd.squeeze(x), lambda x: x, "only ones"),
    row("squeeze", [floats(1, 3, 1)], lambda x: autograd.squeeze(x, 0), lambda x: x[0], "one axis",
        rejects=[[floats(2, 3)]]),
    row("unsqueeze", [floats(2, 3)], lambda x: autograd.unsqueeze(x), lambda x: x[..., None]),
    row("unsqueeze", [floats(2, 3)], lambda x: autograd.unsqueeze(x, [0, 2]), lambda x: x[None, :, None], "several"),
    row("transpose", [floats(2, 3)], lambda x: autograd.transpose(x, [1, 0]), np.transpose, rejects=[[floats(2)]]),
    row("onehot", [integers(4)], lambda i: autograd.onehot(-1, i, 3, [2, 5]), lambda i: 2 + 3 * np.eye(3)[i],
        grad=False),
    row("gather", [floats(2, 3)], lambda x: autograd.gather(x, 1, [[2, 3], [-1, 0]]), lambda x: x[:, [[2, 0], [2, 0]]],
        rejects=[[floats(2)]]),
    row("scatter_elements", [floats(2, 3), floats(2, 1)], lambda x, u: autograd.scatter_elements(x, [[0], [2]], u, 1),
        lambda x, u: np.array([[u[0, 0], *x[0, 1:]], [*x[1, :2], u[1, 0]]]), rejects=[[floats(2, 3), floats(1, 2)]]),
    row("where", [floats(2, 3), floats(3)], lambda x, y: autograd.where(x, y, [[1], [0]]),
        lambda x, y: np.where([[True], [False]], x, y), rejects=[[floats(2, 3), floats(2)]]),
    row("div", [floats(2, 3), floats(3, low=0.5)], lambda a, b: autograd.div(a, b), np.divide,
        rejects=[[floats(2, 3), floats(2)]]),
    row("div", [integers(2, 3, low=-9, high=9), integers(3, low=1, high=5)], lambda a, b: autograd.div(a, b),
        lambda a, b: np.trunc(a / b), "of integers", grad=False),
    row("clip", [integers(4, low=-5, high=5)], lambda x: autograd.clip(x, -1.0, 2.0), lambda x: np.clip(x, -1, 2),
        grad=False),
    row("globalaveragepool", [floats(2, 4, 3, 5)], lambda x: autograd.globalaveragepool(x, "channels_last"),
        lambda x: x.mean((1, 2), keepdims=True)),
    row("add_all", [floats(2, 3), floats(3), floats(2, 1)], lambda *xs: autograd.add_all(*xs),
        lambda a, b, c: a + b + c),
    row("space_to_depth", [floats(1, 2, 2, 4)], lambda x: autograd.space_to_depth(x, 2, "CRD"),
        lambda x: x.reshape(1, 2, 1, 2, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 1, 2)),
    row("conv2d", [IMAGES, floats(6, 2, 3, 3), floats(6)],
        lambda x, W, b: autograd.conv2d(conv_handle(), x, W, b, (0, 1, 2, 0)), convolved,
        rejects=[[floats(2, 3, 5, 6), floats(6, 2, 3, 3), floats(6)]]),
    row("pooling_2d", [IMAGES], lambda x: autograd.pooling_2d(pooling_handle(True), x, (0, 1, 0, 0)),
        lambda x: tiles(x).max((3, 5))),
    row("pooling_2d", [IMAGES], lambda x: autograd.pooling_2d(pooling_handle(False), x, (0, 1, 0, 0)),
        lambda x: tiles(x).mean((3, 5)), "mean"),
]  # fmt: skip
