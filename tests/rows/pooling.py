"""Rows of pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import windows
from catalogue import TWIN, Row, floats

from singax import layer, ops

Reduce = Callable[..., Any]

SEQUENCE, IMAGES, VOLUMES = (2, 2, 7), (2, 2, 5, 6), (1, 2, 4, 3, 4)
TOO_FEW = [[floats(2, 6)]]


def row(name: str, shape: tuple[int, ...], reference: Any, note: str = "", **attributes: Any) -> Row:
    """A row of an operation."""
    return Row(
        f"ops.{name}", lambda: getattr(ops, name), [floats(*shape)], reference, attributes, rejects=TOO_FEW, note=note
    )


def window(name: str, reduce: Reduce, shape: tuple[int, ...], note: str = "", p: Any = None, **window: Any) -> Row:
    """A row of an operation with a window."""
    attributes = window if p is None else {"p": p, **window}
    return row(name, shape, lambda x: windows.pool(reduce, x, **window), note, **attributes)


def of(name: str, shape: tuple[int, ...], reference: Any, *arguments: Any, note: str = "", **keywords: Any) -> Row:
    """A row of a layer."""
    return Row(
        f"layer.{name}",
        lambda: getattr(layer, name)(*arguments, **keywords),
        [floats(*shape)],
        lambda states, x: reference(x),
        rejects=TOO_FEW,
        note=note,
    )


def pooled(reduce: Reduce, *kernel: int, **window: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The value of a layer."""
    return lambda x: windows.pool(reduce, x, kernel=kernel, **window)


def whole(reduce: Reduce) -> Callable[[np.ndarray], np.ndarray]:
    """A value for each channel."""
    return lambda x: reduce(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def norm(p: int) -> Reduce:
    """The p-norm."""
    return lambda x, axis, keepdims: (np.abs(x) ** p).sum(axis, keepdims=keepdims) ** (1 / p)


MAX, MEAN = np.nanmax, np.nanmean

ROWS = [
    window("max_pool", MAX, SEQUENCE, "one axis", kernel=(3,), stride=(2,), padding=((1, 1),)),
    window("max_pool", MAX, IMAGES, kernel=(2, 2)),
    window("max_pool", MAX, (1, 2, 8, 9), "large tiles", kernel=(4, 4)),
    window("max_pool", MAX, IMAGES, "large windows", kernel=(4, 2), stride=(1, 2), padding=((1, 2), (0, 1))),
    window("max_pool", MAX, IMAGES, "holes", kernel=(2, 2), stride=(1, 1), dilation=(3, 2), ceil_mode=True),
    window("max_pool", MAX, VOLUMES, "three axes", kernel=(2, 2, 3), stride=(1, 1, 2), padding=((0, 1),) * 3),
    window("avg_pool", MEAN, SEQUENCE, "one axis", kernel=(3,), stride=(2,), padding=((1, 0),), ceil_mode=True),
    window("avg_pool", MEAN, IMAGES, kernel=(2, 3)),
    window("avg_pool", MEAN, VOLUMES, "three axes", kernel=(2, 2, 2), stride=(1, 1, 1), padding=((0, 1),) * 3),
    row(
        "avg_pool",
        IMAGES,
        TWIN,
        "padding counted",
        kernel=(3, 2),
        stride=(2, 2),
        padding=((1, 1), (0, 1)),
        count_include_pad=True,
    ),
    window("lp_pool", windows.p_norm(3), SEQUENCE, "one axis", 3, kernel=(2,), stride=(1,), dilation=(3,)),
    window("lp_pool", windows.p_norm(2), IMAGES, kernel=(2, 3), padding=((1, 0), (0, 1))),
    window("lp_pool", windows.p_norm(1), VOLUMES, "three axes", 1, kernel=(2, 2, 2)),
    row("global_average_pool", IMAGES, TWIN),
    row("global_max_pool", IMAGES, TWIN),
    row("global_lp_pool", IMAGES, whole(norm(3)), p=3),
    row("adaptive_avg_pool", IMAGES, lambda x: windows.adaptive(np.mean, x, (3, 4)), output_size=(3, 4)),
    row("adaptive_avg_pool", IMAGES, lambda x: windows.adaptive(np.mean, x, (5, 2)), "tiles", output_size=(None, 2)),
    row("adaptive_max_pool", IMAGES, lambda x: windows.adaptive(np.max, x, (3, 4)), output_size=(3, 4)),
    row("adaptive_max_pool", SEQUENCE, lambda x: x.max(2, keepdims=True), "one", output_size=(1,)),
    row("uneven_avg_pool", IMAGES, lambda x: windows.adaptive(np.mean, x, (3, 4)), output_size=(3, 4)),
    row("uneven_max_pool", SEQUENCE, lambda x: windows.adaptive(np.max, x, (3,)), output_size=(3,)),
    of("MaxPool1d", SEQUENCE, pooled(MAX, 2), 2),
    of("MaxPool1d", (2, 3, 1, 7), pooled(MAX, 1, 3, stride=(1, 2)), 3, 2, note="rows of images, as in SINGA"),
    of("MaxPool2d", IMAGES, pooled(MAX, 2, 2, stride=(1, 1), padding=((0, 1),) * 2), 2, 1, pad_mode="SAME_UPPER"),
    of("MaxPool3d", VOLUMES, pooled(MAX, 2, 2, 2), 2),
    of("AvgPool1d", SEQUENCE, pooled(MEAN, 3, stride=(2,), padding=((1, 1),)), 3, 2, 1),
    of("AvgPool1d", (2, 3, 1, 7), pooled(MEAN, 1, 2), 2, note="rows of images, as in SINGA"),
    of("AvgPool2d", IMAGES, pooled(MEAN, 3, 2, stride=(2, 2), ceil_mode=True), (3, 2), 2, ceil_mode=True),
    of("AvgPool3d", VOLUMES, pooled(MEAN, 2, 3, 2), (2, 3, 2)),
    of("LpPool1d", SEQUENCE, pooled(windows.p_norm(3), 2), 2, 3),
    of("LpPool2d", IMAGES, pooled(windows.p_norm(2), 2, 2), 2),
    of("LpPool3d", VOLUMES, pooled(windows.p_norm(1), 2, 2, 2), 2, 1),
    of("Pooling2d", IMAGES, pooled(MAX, 3, 3, stride=(2, 2), padding=((1, 1),) * 2), 3, 2, 1),
    of("Pooling2d", IMAGES, pooled(MEAN, 2, 2, stride=(2, 1)), 2, (2, 1), is_max=False, note="mean"),
    of("GlobalAvgPool2d", IMAGES, whole(np.mean)),
    of("GlobalAvgPool", VOLUMES, whole(np.mean)),
    of("GlobalAveragePool", SEQUENCE, whole(np.mean)),
    of("GlobalMaxPool2d", IMAGES, whole(np.max)),
    of("GlobalMaxPool", VOLUMES, whole(np.max)),
    of("GlobalLpPool", SEQUENCE, whole(norm(2))),
    of("AdaptiveAvgPool", SEQUENCE, lambda x: windows.adaptive(np.mean, x, (3,)), 3),
    of("AdaptiveAvgPool1d", SEQUENCE, lambda x: windows.adaptive(np.mean, x, (8,)), 8),
    of("AdaptiveAvgPool2d", IMAGES, lambda x: windows.adaptive(np.mean, x, (5, 4)), (None, 4)),
    of("AdaptiveAvgPool3d", VOLUMES, whole(np.mean), 1),
    of("AdaptiveMaxPool", SEQUENCE, lambda x: windows.adaptive(np.max, x, (3,)), 3),
    of("AdaptiveMaxPool1d", SEQUENCE, whole(np.max), 1),
    of("AdaptiveMaxPool2d", IMAGES, lambda x: windows.adaptive(np.max, x, (2, 4)), (2, 4)),
    of("AdaptiveMaxPool3d", VOLUMES, lambda x: windows.adaptive(np.max, x, (2, 3, 2)), (2, None, 2)),
]
