"""Rows of normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from catalogue import TWIN, Row, floats

from singax import layer, ops

Array = np.ndarray


def standard(x: Array, axes: Any, eps: float = 1e-5) -> Array:
    """(x − mean) / sqrt(var + eps)."""
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def channels(values: Array, x: Array) -> Array:
    """One value for each channel, ready to broadcast."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))


def batch(x: Array, scale: Array, bias: Array) -> Array:
    """With the statistics of the batch."""
    return standard(x, (0, *range(2, x.ndim))) * channels(scale, x) + channels(bias, x)


def inference(s: dict[str, Array], x: Array) -> Array:
    """With running statistics."""
    mean, var, scale, bias = (channels(s[n], x) for n in ("running_mean", "running_var", "scale", "bias"))
    return (x - mean) / np.sqrt(var + 1e-5) * scale + bias


def in_groups(x: Array, groups: int, eps: float = 1e-5) -> Array:
    """Over each sample's groups of channels."""
    parts = np.split(x, groups, axis=1)
    return np.concatenate([standard(part, tuple(range(1, x.ndim)), eps) for part in parts], axis=1)


def rms(x: Array, scale: Array, first: int = -1) -> Array:
    """Over the axes from `first` on."""
    axes = tuple(range(first % x.ndim, x.ndim))
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(axes, keepdims=True) + 1e-5) * scale


def op(name: str, inputs: list[Any], reference: Any, note: str = "", **attributes: Any) -> Row:
    """A row of an operation, which must refuse parameters of another size."""
    wrong = [[*inputs[:-1], floats(*inputs[-1].shape[:-1], inputs[-1].shape[-1] + 1)]]
    make = lambda: getattr(ops, name)  # noqa: E731
    return Row(f"ops.{name}", make, inputs, reference, attributes, rejects=wrong, note=note, rtol=1e-4, atol=1e-4)


def of(name: str, shape: tuple[int, ...], reference: Any, *arguments: Any, note: str = "", **more: Any) -> Row:
    """A row of a layer, which must refuse inputs of another size; `training` is the row's."""
    own: dict[str, Any] = {key: more.pop(key) for key in ("training",) if key in more}
    wrong = [[floats(shape[0], shape[1] + 1, *(n + 1 for n in shape[2:]))], [floats()]]
    make = lambda: getattr(layer, name)(*arguments, **more)  # noqa: E731
    return Row(
        f"layer.{name}", make, [floats(*shape)], reference, rejects=wrong, note=note, rtol=1e-4, atol=1e-4, **own
    )


IMAGES, C = (3, 4, 2, 3), floats(4)
ONES = floats(4, low=0.5, high=2.0)

ROWS = [
    Row(
        "ops.batch_norm",
        lambda: ops.batch_norm,
        [floats(*IMAGES), C, C],
        lambda x, scale, bias: (batch(x, scale, bias), x.mean((0, 2, 3)), x.var((0, 2, 3))),
        rejects=[[floats(3, 5), C, C], [floats(4), C, C], [floats(0, 4), C, C]],
        rtol=1e-4,
        atol=1e-4,
    ),
    op("batch_norm_inference", [floats(*IMAGES), C, C, C, ONES], TWIN, eps=1e-3),
    op("layer_norm", [floats(3, 4, 5), floats(4, 5), floats(4, 5)], TWIN, axis=1, eps=1e-3),
    op("layer_norm", [floats(3, 5), floats(5)], lambda x, scale: standard(x, 1) * scale, "no bias"),
    op("rms_norm", [floats(3, 4, 5), floats(4, 5)], lambda x, scale: rms(x, scale, 1), axis=1),
    op(
        "group_norm",
        [floats(*IMAGES), C, C],
        lambda x, scale, bias: in_groups(x, 2, 1e-3) * channels(scale, x) + channels(bias, x),
        groups=2,
        eps=1e-3,
    ),
    op("instance_norm", [floats(*IMAGES), C, C], TWIN),
    of("BatchNorm", (3, 4, 2), inference),
    of("BatchNorm", (3, 4, 2), lambda s, x: batch(x, s["scale"], s["bias"]), training=True, note="training"),
    of("BatchNorm1d", (3, 4, 5), inference),
    of("BatchNorm2d", IMAGES, inference, momentum=0.1, eps=1e-5),
    of("BatchNorm2d", (5, 4), lambda s, x: batch(x, s["scale"], s["bias"]), 4, training=True, note="features"),
    of("BatchNorm3d", (2, 3, 2, 1, 2), inference),
    of("LayerNorm", (3, 4, 5), lambda s, x: standard(x, 2) * s["scale"] + s["bias"]),
    of("LayerNorm", (3, 4, 5), lambda s, x: standard(x, (1, 2)) * s["scale"], 1, bias=False, note="two axes"),
    of("RMSNorm", (3, 4, 5), lambda s, x: rms(x, s["scale"])),
    of("GroupNorm", IMAGES, lambda s, x: in_groups(x, 2) * channels(s["scale"], x) + channels(s["bias"], x), 2),
    of("InstanceNorm", IMAGES, lambda s, x: standard(x, (2, 3)) * channels(s["scale"], x) + channels(s["bias"], x)),
    Row(
        "layer.InstanceNorm",
        lambda: layer.InstanceNorm(affine=False),
        [floats(*IMAGES)],
        lambda s, x: standard(x, (2, 3)),
        rejects=[[floats(3, 4)]],
        note="no scale",
        rtol=1e-4,
        atol=1e-4,
    ),
]
