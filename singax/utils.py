"""SINGA's helpers: progress, the arithmetic of padding, a walk over recorded operations.

>>> get_padding_shape("SAME_UPPER", [5, 6], [2, 3], [1, 2])
([0, 0, 0, 0], [0, 1, 0, 1])
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax import dispatch
from singax.errors import ArgumentError, ShapeError
from singax.ops.window import halves

_bar: Any = None


def update_progress(progress: float, info: str) -> None:
    """Show a progress bar with a text: `progress` from 0 to 1; 1 or more is done, less than 0 is a halt.

    Needs tqdm. *Differences from SINGA*: a `progress` that is no number is an error.
    """
    from tqdm.auto import tqdm

    global _bar
    if isinstance(progress, bool) or not isinstance(progress, int | float) or math.isnan(progress):
        raise ArgumentError(f"progress must be a number from 0 to 1. Received: {progress!r}")
    if _bar is None:
        _bar = tqdm(total=100, bar_format="[{bar:20}] {percentage:3.1f}% {desc}")
    status = "Halt. " if progress < 0 else "Done. " if progress >= 1 else ""
    _bar.set_description_str(status + info, refresh=False)
    _bar.n = 100 * min(max(progress, 0.0), 1.0)
    _bar.refresh()
    if progress >= 1:
        _bar.close()
        _bar = None


def handle_odd_pad_fwd(x: Any, odd_padding: Sequence[int], is_pool: bool = False) -> Any:
    """x (N, C, H, W) with (top, bottom, left, right) further rows and columns: zeros, or for pooling the border."""
    mode = "edge" if is_pool else "constant"
    return dispatch.apply(_padded, x, amounts=_amounts(odd_padding), mode=mode)


def _padded(x: jax.Array, *, amounts: tuple[int, ...], mode: str) -> jax.Array:
    _check_images(x)
    return jnp.pad(x, ((0, 0), (0, 0), amounts[:2], amounts[2:]), mode=mode)


def handle_odd_pad_bwd(dx: Any, odd_padding: Sequence[int]) -> Any:
    """dx (N, C, H, W) without the rows and columns that `handle_odd_pad_fwd` has added."""
    return dispatch.apply(_cropped, dx, amounts=_amounts(odd_padding))


def _cropped(x: jax.Array, *, amounts: tuple[int, ...]) -> jax.Array:
    _check_images(x)
    top, bottom, left, right = amounts
    if top + bottom > x.shape[2] or left + right > x.shape[3]:
        raise ShapeError(f"expected an image larger than the padding {amounts}. Received shape {x.shape}")
    return lax.slice(x, (0, 0, top, left), (*x.shape[:2], x.shape[2] - bottom, x.shape[3] - right))


def get_output_shape(
    auto_pad: str,
    input_spatial_shape: Sequence[int],
    kernel_spatial_shape: Sequence[int],
    strides_spatial: Sequence[int],
) -> list[int]:
    """How many windows there are along each axis: ceil(size / stride) for SAME_UPPER and SAME_LOWER,
    ceil((size − kernel + 1) / stride) for VALID."""
    sizes = _triples(input_spatial_shape, kernel_spatial_shape, strides_spatial)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return [-(-size // stride) for size, _, stride in sizes]
    if auto_pad == "VALID":
        return [-(-(size - kernel + 1) // stride) for size, kernel, stride in sizes]
    raise ArgumentError(f"auto_pad must be SAME_UPPER, SAME_LOWER or VALID. Received: {auto_pad!r}")


def get_padding_shape(
    pad_mode: str,
    input_spatial_shape: Sequence[int],
    kernel_spatial_shape: Sequence[int],
    strides_spatial: Sequence[int],
) -> tuple[list[int], list[int]]:
    """The padding (begin, end of each axis) that both ends share, and the odd row or column where the sum is odd.

    *Differences from SINGA*: the padding is never negative.
    """
    pads: list[int] = []
    odd: list[int] = []
    counts = get_output_shape(pad_mode, input_spatial_shape, kernel_spatial_shape, strides_spatial)
    sizes = _triples(input_spatial_shape, kernel_spatial_shape, strides_spatial)
    for count, (size, kernel, stride) in zip(counts, sizes, strict=True):
        begin, end = halves(max((count - 1) * stride + kernel - size, 0), pad_mode == "SAME_UPPER")
        shared = min(begin, end)
        pads += [shared, shared]
        odd += [begin - shared, end - shared]
    return pads, odd


def same_pad_shape_check(handle: Any, pad_mode: str, x: Any) -> tuple[list[int], list[int]]:
    """`get_padding_shape` for a handle and images x. Raises `ShapeError` if the handle has another padding."""
    kernel, stride, _ = _geometry(handle)
    pads, odd = get_padding_shape(pad_mode, x.shape[2:], kernel, stride)
    if (handle.pad_h, handle.pad_w) != (pads[0], pads[2]):
        wanted, received = (pads[0], pads[2]), (handle.pad_h, handle.pad_w)
        raise ShapeError(f"{pad_mode} expected a handle with padding {wanted}. Received: {received}")
    return pads, odd


def re_new_handle(handle: Any, x: Any, is_pool: bool = False) -> Any:
    """A handle like `handle` for the images x."""
    own = (handle.is_max_pooling,) if is_pool else (handle.channels, handle.num_filters, handle.bias_term, handle.group)
    return type(handle)(x, *_geometry(handle), *own)


def _geometry(handle: Any) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    kernel, stride = (handle.kernel_h, handle.kernel_w), (handle.stride_h, handle.stride_w)
    return kernel, stride, (handle.pad_h, handle.pad_w)


def force_unicode(s: str | bytes) -> str:
    """The text of UTF-8 bytes, or the text itself."""
    return s.decode("utf-8") if isinstance(s, bytes) else s


def post_order_recursive(root: Any, root_t: Any) -> tuple[OrderedDict, OrderedDict, OrderedDict]:
    """What a Tensor was computed from: (operations, weights, inputs) by name, each after what it depends on.

    `root` is the creator of the Tensor, `root_t` the Tensor itself; weights are leaves that store a gradient, other
    leaves are inputs (with the value None).
    """
    nodes: OrderedDict[str, Any] = OrderedDict()
    weights: OrderedDict[str, Any] = OrderedDict()
    inputs: OrderedDict[str, Any] = OrderedDict()
    waiting: list[tuple[Any, Any, bool]] = [(root, root_t, False)]
    while waiting:
        operation, tensor, done = waiting.pop()
        if operation.name in nodes:
            continue
        if not operation.src:
            (inputs if tensor is None else weights)[operation.name] = tensor
        elif done:
            nodes[operation.name] = operation
        else:
            waiting.append((operation, tensor, True))
            waiting += [(source, kept, False) for source, _, kept, _ in reversed(operation.src)]
    return nodes, weights, inputs


def _amounts(odd_padding: Sequence[int]) -> tuple[int, ...]:
    found = tuple(odd_padding)
    if len(found) != 4 or any(not isinstance(n, int) or n < 0 for n in found):
        raise ArgumentError(f"odd_padding must be four integers (top, bottom, left, right). Received: {odd_padding!r}")
    return found


def _triples(sizes: Sequence[int], kernels: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int, int]]:
    if not len(sizes) == len(kernels) == len(strides):
        received = f"{tuple(sizes)}, {tuple(kernels)}, {tuple(strides)}"
        raise ShapeError(f"expected one size, kernel size and stride for each axis. Received: {received}")
    return list(zip(sizes, kernels, strides, strict=True))


def _check_images(x: jax.Array) -> None:
    if jnp.ndim(x) != 4:
        raise ShapeError(f"expected images (N, C, H, W). Received shape {jnp.shape(x)}")
