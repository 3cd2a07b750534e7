"""Windows as ONNX's attributes describe them, and how large what a file asks for may be.

Sizes are compared in Python's integers before XLA sees them, which ends the process where a padding is too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import one_of
from singax.ops.window import Padding, Sizes, Window, no_padding, window
from singax.sonnx.registry import Call

MOST_ELEMENTS = 1 << 31
"""Elements of the largest array that attributes or small inputs of a node may ask for."""
_PADDINGS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def affordable(what: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of an array, once none is found negative and all together within `MOST_ELEMENTS`."""
    found = tuple(int(size) for size in sizes)
    if min(found, default=0) < 0 or math.prod(found) > MOST_ELEMENTS:
        raise ShapeError(f"expected {what} of at most {MOST_ELEMENTS} elements. Received: shape {list(found)}")
    return found


def spatial(call: Call, name: str, count: int, default: int = 1) -> Sizes:
    """An attribute with one value for each of the spatial axes."""
    given = call.attribute(name)
    if not given:
        return (default,) * count
    if len(given) != count:
        raise ShapeError(f"expected {name} for {count} spatial axes. Received: {list(given)}")
    return tuple(int(value) for value in given)


def pads_of(call: Call, count: int) -> Padding:
    """The attribute `pads`, all begins then all ends, as pairs."""
    flat = spatial(call, "pads", 2 * count, 0)
    return tuple(zip(flat[:count], flat[count:], strict=True))


def auto_pad(call: Call) -> str:
    """The attribute `auto_pad`."""
    mode = str(call.attribute("auto_pad", "NOTSET"))
    one_of(call.node.op_type, "auto_pad", mode, _PADDINGS)
    return mode


def kernel_of(call: Call, kernel: Sizes) -> Sizes:
    """The sizes of the kernels W, once the attribute `kernel_shape` is found to say the same."""
    given = tuple(call.attribute("kernel_shape") or kernel)
    if given != kernel:
        raise ShapeError(f"expected a kernel_shape like W, {kernel}. Received: {given}")
    return kernel


def check_ranks(x: object, kernel: Sizes) -> None:
    """Raise `ShapeError` unless x is (N, C, …) with as many further axes as the kernel has."""
    sizes = getattr(x, "shape", ())
    if not kernel or len(sizes) != len(kernel) + 2:
        raise ShapeError(f"expected an input (N, C, …) for kernels of {len(kernel)} axes. Received shape {sizes}")


def sliding(call: Call, kernel: Sizes, shape: Sizes) -> Window:
    """The window that slides over the spatial axes of an input of this shape, with `auto_pad` worked out.

    What it covers, padding included, is affordable. Strides that lead beyond it are made as long as it is.
    """
    sizes, count = shape[2:], len(kernel)
    dilation = tuple(d if k > 1 else 1 for d, k in zip(spatial(call, "dilations", count), kernel, strict=True))
    mode, stride = auto_pad(call), spatial(call, "strides", count)
    padding = pads_of(call, count) if mode == "NOTSET" else no_padding(count)
    found = window(call.node.op_type, kernel, stride, padding, dilation)
    if mode.startswith("SAME"):
        found = found.same(sizes, upper=mode == "SAME_UPPER")
    covered = [n + begin + end for n, (begin, end) in zip(sizes, found.padding, strict=True)]
    affordable("a padded input", (*shape[:2], *covered))
    if any(extent > most for extent, most in zip(found.extent, covered, strict=True)) and not call.attribute(
        "ceil_mode", 0
    ):
        raise ShapeError(
            f"expected a kernel within the padded input {covered}. Received: one that covers {found.extent}"
        )
    steps = tuple(min(step, max(most, 1)) for step, most in zip(found.stride, covered, strict=True))
    return window(call.node.op_type, kernel, steps, found.padding, dilation)


def integral(name: str, value: float) -> int:
    """A number that must be whole."""
    if value != int(value):
        raise ArgumentError(f"expected a whole number as {name}. Received: {value}")
    return int(value)
