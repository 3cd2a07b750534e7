"""Operations that move, pick, place, reduce and multiply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from catalogue import TWIN, Row, floats, integers

from singax import ops

IMAGES = floats(2, 8, 4, 6)


def row(name: str, inputs: list[Any], reference: Callable[..., Any] | str | None, note: str = "", **more: Any) -> Row:
    """A row whose attributes are the keyword arguments that a row does not have."""
    own = {key: more.pop(key) for key in ("rejects", "grad", "vmap", "bfloat16") if key in more}
    return Row(f"ops.{name}", lambda: getattr(ops, name), inputs, reference, more, note=note, **own)


def scattered(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    made = x.copy()
    np.put_along_axis(made, indices, updates, axis=1)
    return made


MOVED = [
    row("reshape", [IMAGES], lambda x: x.reshape(2, -1, 12), shape=(0, -1, 12), rejects=[[floats(5, 7)]]),
    row("transpose", [floats(2, 3, 4)], lambda x: x.transpose(2, 0, 1), perm=(2, 0, 1), rejects=[[floats(2, 3)]]),
    row("flatten", [floats(2, 3, 4)], lambda x: x.reshape(6, 4), axis=-1, rejects=[[floats()]]),
    row("squeeze", [floats(1, 3, 1, 4)], lambda x: x[0, :, 0], axes=(0, -2), rejects=[[floats(1, 3, 2, 4)]]),
    row("squeeze", [floats(1, 3, 1, 4)], np.squeeze, "all"),
    row("unsqueeze", [floats(3, 4)], lambda x: x[:, None, :, None], axes=(-1, 1)),
    row("cat", [[floats(2, 3), floats(2, 1)]], lambda xs: np.concatenate(xs, 1), axis=-1, rejects=[
        [[floats(2, 3), floats(3, 3)]], [[floats(2, 3), floats(2)]], [[]],
    ]),
    row("split", [floats(3, 4)], lambda x: [x[:, :1], x[:, 1:]], axis=-1, parts=(1, 3), rejects=[[floats(3, 5)]]),
    row("tile", [floats(3, 4)], lambda x: np.tile(x, (2, 3)), repeats=(2, 3), rejects=[[floats(3)]]),
    row("expand", [floats(3, 1)], lambda x: np.broadcast_to(x, (2, 3, 5)), shape=(2, 1, 5), rejects=[[floats(3, 2)]]),
    row("shape", [floats(3, 4)], lambda x: np.array(x.shape), grad=False),
    row(
        "pad", [floats(3, 4)], lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=1.5), pads=(1, 0, 2, 3),
        constant=1.5, rejects=[[floats(3)]],
    ),
    row("pad", [floats(3, 4)], lambda x: np.pad(x, ((1, 2), (2, 3)), mode="reflect"), "mirrored", pads=(1, 2, 2, 3),
        mode="reflect"),
    row("pad", [floats(3, 4)], lambda x: np.pad(x, ((1, 2), (0, 3)), mode="edge"), "repeated", pads=(1, 0, 2, 3),
        mode="edge", rejects=[[floats(0, 4)]]),
    row("upsample", [IMAGES], lambda x: x.repeat(2, 2).repeat(3, 3), scales=(1.0, 1.0, 2.0, 3.0),
        rejects=[[floats(3)]]),
    row("upsample", [floats(3, 4)], lambda x: x[:, [0, 0, 1, 2, 2, 3]], "by fractions", scales=(1.0, 1.5)),
    row("depth_to_space", [IMAGES], TWIN, blocksize=2, rejects=[[floats(2, 6, 4, 6)], [floats(8, 4, 6)]]),
    row("depth_to_space", [IMAGES], TWIN, "channel first", blocksize=2, mode="CRD"),
    row("space_to_depth", [IMAGES], TWIN, blocksize=2, rejects=[[floats(2, 8, 3, 6)], [floats(8, 4, 6)]]),
    row(
        "space_to_depth_crd",
        [IMAGES],
        lambda x: x.reshape(2, 8, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 32, 2, 3),
        blocksize=2,
        rejects=[[floats(2, 8, 3, 6)]],
    ),
]  # fmt: skip

PICKED = [
    row("slice", [IMAGES], lambda x: x[:, 7:1:-3, :, 1:9:2], starts=(1, 7), ends=(9, 1), axes=(-1, 1), steps=(2, -3),
        rejects=[[floats(3)]]),
    row("slice", [floats(3, 4)], lambda x: x[1:-1], "first axes", starts=(1,), ends=(-1,)),
    row("getitem", [floats(3, 4)], lambda x: x[..., None, 3:0:-2], key=(Ellipsis, None, ("slice", 3, 0, -2))),
    row("take", [floats(3, 4), integers(2, 2)], lambda x, indices: x[indices]),
    row("gather", [floats(3, 4), integers(2, 2, low=-4, high=4)], lambda x, i: x[:, i], axis=-1,
        rejects=[[floats(), integers(2)], [floats(3, 0), integers(2)]]),
    row("lookup", [floats(3, 5), integers(2, 3)], lambda table, ids: table[ids], rejects=[[floats(3), integers(2)]]),
    row("embedding", [integers(2, 3), floats(3, 5)], lambda ids, table: table[ids],
        rejects=[[integers(2), floats(3)], [integers(2), floats(3, 4, 5)]]),
    row("scatter_elements", [floats(3, 4), integers(3, 1, low=-4, high=4), floats(3, 1)], scattered, axis=1,
        rejects=[[floats(3, 4), integers(3, 1), floats(1, 3)], [floats(3, 4), integers(4, 1), floats(4, 1)]]),
    row("onehot", [integers(2, 2, low=-1, high=5)], TWIN, axis=1, depth=3, values=(-1.0, 2.0), grad=False),
    row("onehot", [integers(4)], lambda ids: np.eye(3)[ids], "last axis", depth=3, grad=False),
    row("trilu", [floats(2, 3, 4)], lambda x: np.triu(x, 1), k=1, rejects=[[floats(3)]]),
    row("trilu", [floats(3, 3)], np.tril, "lower", upper=False),
    row("argmax", [floats(3, 4)], lambda x: x.argmax(0), axis=0, grad=False),
    row("argmax", [integers(3, 9)], lambda x: 8 - x[:, ::-1].argmax(1)[:, None], "last of equal ones", keepdims=True,
        last=True, grad=False),
    row("argmin", [floats(3, 4)], lambda x: x.argmin(-1), grad=False),
    row("topk", [floats(3, 5)], lambda x: (-np.sort(-x)[:, :2], np.argsort(-x)[:, :2]), k=2, rejects=[[floats(3, 1)]]),
    row("topk", [floats(5, 3)], lambda x: (np.sort(x, 0)[:2], np.argsort(x, 0)[:2]), "smallest", k=2, axis=0,
        largest=False),
    row("topk", [integers(3, 5, low=-99, high=99, dtype="int8")], lambda x: (np.sort(x)[:, :3], np.argsort(x)[:, :3]),
        "of integers", k=3, largest=False, grad=False),
]  # fmt: skip

REDUCED = [
    row("reduce_sum", [IMAGES], lambda x: x.sum((1, 3), keepdims=True), axes=(1, -1), rejects=[[floats(3)]]),
    row("reduce_sum", [floats(3, 4)], np.sum, "all", keepdims=False),
    row("reduce_sum", [floats(3, 4)], lambda x: x, "none", axes=()),
    row("reduce_mean", [floats(3, 4)], lambda x: x.mean(0), axes=(0,), keepdims=False),
    row("reduce_mean", [floats(3, 4)], lambda x: x.mean(keepdims=True), "all"),
    row("reduce_max", [floats(3, 4)], lambda x: x.max(1, keepdims=True), axes=(1,), rejects=[[floats(3, 0)]]),
    row("reduce_min", [floats(3, 4)], lambda x: x.min(0), axes=(0,), keepdims=False),
    row("reduce_prod", [floats(3, 4)], lambda x: x.prod(1), axes=(-1,), keepdims=False),
    row("cumsum", [floats(3, 4)], lambda x: x.cumsum(1), rejects=[[floats()]]),
    row("cumsum", [floats(3, 4)], TWIN, "from the end", axis=0, exclusive=True, reverse=True),
]

MULTIPLIED = [
    row("matmul", [floats(2, 1, 3, 4), floats(5, 4, 2)], np.matmul,
        rejects=[[floats(3, 4), floats(3, 4)], [floats(), floats(3)], [floats(2, 3, 4), floats(3, 4, 2)]]),
    row("matmul", [floats(4), floats(4, 2)], np.matmul, "vector"),
    row("gemm", [floats(3, 4), floats(5, 4)], lambda a, b: 0.5 * a @ b.T, transB=1, alpha=0.5,
        rejects=[[floats(3, 4), floats(4, 5)], [floats(4), floats(5, 4)]]),
    row("gemm", [floats(4, 3), floats(4, 2), floats(2)], lambda a, b, c: a.T @ b + 2 * c, "with C", transA=1, beta=2.0,
        rejects=[[floats(4, 3), floats(4, 2), floats(4, 3, 2)]]),
    row("add_bias", [floats(3, 4), floats(4)], lambda x, b: x + b,
        rejects=[[floats(3, 4), floats(3)], [floats(4)] * 2]),
    row("add_bias", [floats(3, 4), floats(3)], lambda x, b: x + b[:, None], "to columns", axis=1),
    row("einsum", [floats(2, 3, 4), floats(2, 4, 5)], np.matmul, equation="bij,bjk->bik",
        rejects=[[floats(2, 3), floats(2, 4, 5)], [floats(2, 3, 4), floats(2, 3, 5)]]),
]  # fmt: skip

ROWS = [*MOVED, *PICKED, *REDUCED, *MULTIPLIED]
