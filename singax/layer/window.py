"""The window arguments that convolution and pooling layers share: kernel_size, stride, padding, pad_mode, dilation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax

from singax.errors import ArgumentError
from singax.ops.window import Padding, Sizes, Window, check_spatial, no_padding

SAME_MODES = ("SAME_UPPER", "SAME_LOWER")
PAD_MODES = ("NOTSET", "VALID", *SAME_MODES)

_WORDS = ("", "one", "two", "three", "four", "five", "six")
_AXES = ("depth", "height", "width")
_SIDES = ("front, back", "top, bottom", "left, right")


def window(
    name: str, axes: int, kernel_size: Any, stride: Any, padding: Any, pad_mode: str = "NOTSET", dilation: Any = 1
) -> Window:
    """Check and complete what a user gave for the operation `name`. `stride` None is the kernel size.

    Raises `ArgumentError`.
    """
    kernel = integers("kernel_size", kernel_size, axes)
    steps = kernel if stride is None else integers("stride", stride, axes)
    if pad_mode not in PAD_MODES:
        raise ArgumentError(f"pad_mode must be one of {', '.join(PAD_MODES)}. Received: {pad_mode!r}")
    if padding is None and pad_mode not in SAME_MODES:
        raise ArgumentError(f"padding None goes only with pad_mode SAME_UPPER and SAME_LOWER. Received: {pad_mode!r}")
    pads = no_padding(axes) if padding is None else paddings(padding, axes)
    if pads != no_padding(axes) and pad_mode != "NOTSET":
        raise ArgumentError(f"pad_mode {pad_mode} determines the padding: leave padding out. Received: {padding!r}")
    return Window(kernel, steps, pads, integers("dilation", dilation, axes), name)


def fitted(given: Window, pad_mode: str, x: jax.Array) -> Window:
    """The window for the input x (N, C, …): with SAME the padding depends on its sizes."""
    check_spatial(given.name, x, len(given.kernel))
    return given.same(x.shape[2:], pad_mode == "SAME_UPPER") if pad_mode in SAME_MODES else given


def integers(name: str, value: Any, axes: int, least: int = 1) -> Sizes:
    """One integer, which stands for all axes, or a sequence of one for each.

    Raises `ArgumentError`.
    """
    found = _integers(value, least, axes, (axes,))
    if found is None:
        raise ArgumentError(
            f"{name} must be an integer from {least} up, or {_WORDS[axes]} ({', '.join(_AXES[-axes:])}). "
            f"Received: {value!r}"
        )
    return found


def paddings(value: Any, axes: int) -> Padding:
    """One integer for all sides, one for each axis, or two for each axis, begin and end.

    Raises `ArgumentError`.
    """
    found = _integers(value, 0, axes, (axes, 2 * axes))
    if found is None:
        raise ArgumentError(
            f"padding must be an integer from 0 up, {_WORDS[axes]} ({', '.join(_AXES[-axes:])}) or "
            f"{_WORDS[2 * axes]} ({', '.join(_SIDES[-axes:])}). Received: {value!r}"
        )
    return tuple((n, n) for n in found) if len(found) == axes else tuple(zip(found[::2], found[1::2], strict=True))


def _integers(value: Any, least: int, axes: int, lengths: Sequence[int]) -> Sizes | None:
    """An integer repeated for all axes, or a sequence of one of these lengths; None if it is neither."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    items = list(value) if several else [value] * axes
    try:
        found = tuple(operator.index(item) for item in items if not isinstance(item, bool))
    except TypeError:
        return None
    fits = len(found) == len(items) and len(found) in lengths and min(found) >= least
    return found if fits else None
