"""Images read at places that data says, and put together from patches."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ShapeError
from singax.ops.checks import normal_axes, one_of
from singax.ops.spatial import space_to_depth_crd
from singax.ops.window import wide_dtype
from singax.sonnx.operators.geometry import affordable, pads_of, spatial
from singax.sonnx.operators.sampling import Inside, cubic_weights, sampled, sampled_linearly, values_at, zeros_outside
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("GridSample")
def grid_sample(call: Call, x: Array, grid: Array) -> Array:
    """x (N, C, …) at the points of a grid (N, …, axes), −1 and 1 being its borders; the last axis of x comes first."""
    mode = str(call.attribute("mode", "linear")).removeprefix("bi")
    padding, aligned = str(call.attribute("padding_mode", "zeros")), bool(call.attribute("align_corners", 0))
    one_of("GridSample", "mode", mode, ("linear", "nearest", "cubic"))
    one_of("GridSample", "padding_mode", padding, ("zeros", "border", "reflection"))
    x, grid = jnp.asarray(x), jnp.asarray(grid)
    if x.ndim < 3 or grid.ndim != x.ndim or grid.shape[-1] != x.ndim - 2 or grid.shape[0] != x.shape[0]:
        raise ShapeError(f"expected x (N, C, …) and a grid (N, …, axes). Received: {x.shape} and {grid.shape}")
    if 0 in x.shape or grid.size == 0:
        return jnp.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    wide = grid.astype(wide_dtype(grid.dtype))
    points = [_among(wide[..., -1 - axis], n, aligned) for axis, n in enumerate(x.shape[2:])]
    points = [jnp.round(p) for p in points] if mode == "nearest" else points
    # cubic interpolation at the border sees border values on one side, as PyTorch and onnxruntime have it
    moved = "zeros" if mode == "cubic" and padding == "border" else padding
    points = [_brought_in(p, n, moved, aligned) for p, n in zip(points, x.shape[2:], strict=True)]
    source = x if mode == "nearest" else x.astype(_floats(x.dtype))
    return _read(source, points, mode, _inside(padding, aligned)).astype(x.dtype)


def _floats(dtype: Any) -> Any:
    return wide_dtype(dtype) if jnp.issubdtype(dtype, jnp.floating) else np.float32


def _read(x: Array, points: list[Array], mode: str, inside: Inside) -> Array:
    if mode == "nearest":
        return values_at(x, [p.astype(jnp.int32) for p in points], inside)
    if mode == "linear":
        return sampled_linearly(x, points, inside)
    return sampled(x, points, lambda t: list(zip(range(-1, 3), cubic_weights(t, -0.75), strict=True)), inside)


def _among(points: Array, size: int, aligned: bool) -> Array:
    """Points from −1 to 1 as places among `size` values, whose centres or whose outer borders are −1 and 1."""
    return (points + 1) / 2 * (size - 1) if aligned else ((points + 1) * size - 1) / 2


def _brought_in(points: Array, size: int, padding: str, aligned: bool) -> Array:
    """Places beyond the borders moved to the border, or mirrored there."""
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    outside = (points < low) | (points > high)
    if padding == "border":
        return jnp.where(outside, jnp.clip(points, 0, size - 1), points)
    if padding == "reflection" and high > low:
        beyond = jnp.mod(points - low, 2 * (high - low))
        return jnp.where(outside, low + jnp.minimum(beyond, 2 * (high - low) - beyond), points)
    # what is far away, or no number, must not overflow an integer
    return jnp.clip(jnp.where(jnp.isnan(points), -4.0, points), -4.0, size + 4.0)


def _inside(padding: str, aligned: bool) -> Inside:
    def bordered(places: Array, size: int) -> tuple[Array, None]:
        return jnp.clip(places, 0, size - 1), None

    def mirrored(places: Array, size: int) -> tuple[Array, None]:
        period = max(2 * size - 2, 1) if aligned else 2 * size
        place = jnp.mod(places, period)
        return jnp.minimum(place, (period if aligned else period - 1) - place), None

    return {"zeros": zeros_outside, "border": bordered, "reflection": mirrored}[padding]


@onnx_operator("AffineGrid")
def affine_grid(call: Call, theta: Array, _: Array) -> Array:
    """A grid for `GridSample`: the points of an image, moved by the matrices theta (N, axes, axes + 1)."""
    sizes, aligned = call.ints(1, "")[2:], call.attribute("align_corners", 0)
    if jnp.shape(theta)[1:] != (len(sizes), len(sizes) + 1):
        raise ShapeError(f"expected theta {('N', len(sizes), len(sizes) + 1)}. Received shape {jnp.shape(theta)}")
    affordable("a grid", (jnp.shape(theta)[0], *sizes, len(sizes)))
    along = [np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    points = np.stack([*reversed(np.meshgrid(*along, indexing="ij")), np.ones(sizes)], axis=-1)
    return jnp.einsum("...k,nak->n...a", jnp.asarray(points, theta.dtype), theta)


@onnx_operator("CenterCropPad")
def center_crop_pad(call: Call, x: Array, _: Array) -> Array:
    """x cut or filled up with zeros on both sides; of an odd difference the larger half is at the end."""
    x = jnp.asarray(x)
    axes = normal_axes("CenterCropPad", call.attribute("axes") or range(x.ndim), x.ndim)
    sizes = call.ints(1, "")
    if len(sizes) != len(axes):
        raise ShapeError(f"expected a size for each of {len(axes)} axes. Received: {sizes}")
    wanted = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        wanted[axis] = size
    affordable("a result", wanted)
    return lax.pad(x, jnp.zeros((), x.dtype), [_around(n, size) for n, size in zip(x.shape, wanted, strict=True)])


def _around(old: int, new: int) -> tuple[int, int, int]:
    less = abs(new - old) // 2
    more = abs(new - old) - less
    return (less, more, 0) if new >= old else (-less, -more, 0)


@onnx_operator("Col2Im")
def col2im(call: Call, x: Array, _: Array, __: Array) -> Array:
    """Patches (N, C · k …, places) put back where they come from in an image, those that overlap added."""
    x, image, block = jnp.asarray(x), call.ints(1, ""), call.ints(2, "")
    count, places = len(image), math.prod(block)
    if x.ndim != 3 or len(block) != count or min(block) < 1 or x.shape[1] % places:
        raise ShapeError(f"expected patches (N, C · {places}, places). Received shape {x.shape} for blocks {block}")
    rows = zip(
        image,
        block,
        spatial(call, "strides", count),
        pads_of(call, count),
        spatial(call, "dilations", count),
        strict=True,
    )
    along = [_patch_places(*row) for row in rows]
    if math.prod(a.shape[1] for a in along) != x.shape[2]:
        raise ShapeError(f"expected {[a.shape[1] for a in along]} places. Received shape {x.shape}")
    affordable("a result", (x.shape[0], x.shape[1] // places, *image))
    index = _flat_index(along, image)
    patches = x.reshape(x.shape[0], -1, places, x.shape[2])
    flat = jnp.zeros((x.shape[0], patches.shape[1], math.prod(image)), x.dtype)
    return flat.at[:, :, index].add(patches, mode="drop").reshape(*flat.shape[:2], *image)


def _patch_places(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int) -> np.ndarray:
    """Where along an axis each entry of each patch lies: (kernel, patches)."""
    patches = (size + sum(pads) - dilation * (kernel - 1) - 1) // max(stride, 1) + 1
    affordable("all patches", (kernel, max(patches, 0)))
    return np.arange(kernel)[:, None] * dilation + np.arange(max(patches, 0)) * stride - pads[0]


def _flat_index(along: list[np.ndarray], image: list[int]) -> np.ndarray:
    """(kernels, patches) → index into the flat image; beyond its end where it lies outside."""
    index, outside = np.zeros((1, 1), np.int64), np.zeros((1, 1), bool)
    for places, size in zip(along, image, strict=True):
        beyond = (places < 0) | (places >= size)
        index = (index * size)[:, None, :, None] + places[None, :, None, :]
        outside = outside[:, None, :, None] | beyond[None, :, None, :]
        shape = (index.shape[0] * index.shape[1], index.shape[2] * index.shape[3])
        index, outside = index.reshape(shape), outside.reshape(shape)
    return np.where(outside, math.prod(image), index)


@onnx_operator("SpaceToDepth", since=28)
def space_to_depth(call: Call, x: Array) -> Array:
    """Places become channels, in the order that `mode` says."""
    mode = call.attribute("mode", "DCR")
    one_of("SpaceToDepth", "mode", mode, ("DCR", "CRD"))
    rearranged = space_to_depth_crd if mode == "CRD" else ops.space_to_depth
    return rearranged(jnp.asarray(x), blocksize=call.attribute("blocksize"))
