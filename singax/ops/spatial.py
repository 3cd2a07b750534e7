"""Images made larger, or their channels and places exchanged."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import int64s, one_of, one_per_axis
from singax.ops.explain import named_in_errors
from singax.ops.operation import operation
from singax.ops.shape import reshape, transpose

Array = jax.Array

_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@operation(
    "Pad",
    attributes=lambda k: {"mode": k.get("mode", "constant")},
    constants=lambda k: [int64s(k["pads"]), np.asarray(k.get("constant", 0.0), np.float32)],
)
def pad(x: Array, *, mode: str = "constant", pads: tuple[int, ...], constant: float = 0.0) -> Array:
    """x with elements added before and behind: pads holds the begins of all axes, then the ends.

    `mode`: "constant" adds `constant`, "reflect" mirrors at the border element, "edge" repeats it.
    """
    one_of("pad", "mode", mode, ("constant", "reflect", "edge"))
    ndim = jnp.ndim(x)
    if len(pads) != 2 * ndim or min(pads, default=0) < 0:
        raise ShapeError(f"pad expected {2 * ndim} pads of 0 or more, begins then ends. Received: {pads}")
    widths = tuple(zip(pads[:ndim], pads[ndim:], strict=True))
    if mode == "constant":
        return jnp.pad(x, widths, constant_values=constant)
    if any(size == 0 and max(width) > 0 for size, width in zip(jnp.shape(x), widths, strict=True)):
        raise ShapeError(f"pad expected axes with elements for mode {mode!r}. Received shape {jnp.shape(x)}")
    return jnp.pad(x, widths, mode=mode)


@operation(
    "Resize", attributes=lambda k: _NEAREST, constants=lambda k: [None, np.asarray(k["scales"], np.float32)]
)  # ONNX has given up Upsample since opset 10
def upsample(x: Array, *, mode: str = "nearest", scales: tuple[float, ...]) -> Array:
    """Each axis floor(size · scale) long; every element is the one of x at its place divided by scale, rounded down."""
    one_of("upsample", "mode", mode, ("nearest",))
    one_per_axis("upsample", "a scale", scales, jnp.ndim(x))
    if any(scale <= 0 for scale in scales):
        raise ArgumentError(f"upsample expected scales above 0. Received: {scales}")
    for axis, scale in enumerate(scales):
        if scale == int(scale):
            x = jnp.repeat(x, int(scale), axis=axis) if scale != 1 else x
        else:
            places = np.arange(int(x.shape[axis] * scale)) / scale
            x = jnp.take(x, np.minimum(places.astype(np.int32), x.shape[axis] - 1), axis=axis)
    return x


@operation("DepthToSpace", attributes={"blocksize": "blocksize", "mode": "mode"})
def depth_to_space(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Channels become places: (N, C, H, W) → (N, C / s², H s, W s).

    `mode` is how the channels are ordered: "DCR" the place first, "CRD" the channel first.
    """
    n, c, h, w = _sizes("depth_to_space", x, blocksize, mode)
    if c % blocksize**2:
        raise ShapeError(f"depth_to_space expected channels divisible by {blocksize}². Received shape {x.shape}")
    less = c // blocksize**2
    if mode == "DCR":
        parts = jnp.transpose(x.reshape(n, blocksize, blocksize, less, h, w), (0, 3, 4, 1, 5, 2))
    else:
        parts = jnp.transpose(x.reshape(n, less, blocksize, blocksize, h, w), (0, 1, 4, 2, 5, 3))
    return parts.reshape(n, less, h * blocksize, w * blocksize)


@operation("SpaceToDepth", attributes={"blocksize": "blocksize"})
def space_to_depth(x: Array, *, blocksize: int) -> Array:
    """Places become channels, the place first: (N, C, H, W) → (N, C s², H / s, W / s)."""
    return _space_to_depth(x, blocksize, "DCR", jnp.reshape, jnp.transpose)


@named_in_errors
def space_to_depth_crd(x: Array, *, blocksize: int) -> Array:
    """As `space_to_depth`, the channel first; ONNX has no operator for it, so it is made of others."""
    shaped: Any = lambda x, shape: reshape(x, shape=shape, allowzero=True)  # noqa: E731
    permuted: Any = lambda x, perm: transpose(x, perm=perm)  # noqa: E731
    return _space_to_depth(x, blocksize, "CRD", shaped, permuted)


def _space_to_depth(x: Array, blocksize: int, mode: str, reshape: Any, transpose: Any) -> Array:
    n, c, h, w = _sizes("space_to_depth", x, blocksize, mode)
    if h % blocksize or w % blocksize:
        raise ShapeError(f"space_to_depth expected rows and columns divisible by {blocksize}. Received shape {x.shape}")
    h, w = h // blocksize, w // blocksize
    perm = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = transpose(reshape(x, (n, c, h, blocksize, w, blocksize)), perm)
    return reshape(parts, (n, c * blocksize**2, h, w))


def _sizes(name: str, x: Array, blocksize: int, mode: str) -> tuple[int, ...]:
    one_of(name, "mode", mode, ("DCR", "CRD"))
    if blocksize < 1:
        raise ArgumentError(f"{name} expected a blocksize of 1 or more. Received: {blocksize}")
    if jnp.ndim(x) != 4:
        raise ShapeError(f"{name} expected images (N, C, H, W). Received shape {jnp.shape(x)}")
    return x.shape
