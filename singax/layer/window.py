"""The window arguments that convolution and pooling layers share: kernel_size, stride, padding, pad_mode."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from singax.errors import ArgumentError
from singax.ops.window import NO_PADDING, Padding, Pair, check_images, image_size, same_padding

SAME_MODES = ("SAME_UPPER", "SAME_LOWER")
PAD_MODES = ("NOTSET", "VALID", *SAME_MODES)


@dataclass(frozen=True)
class Window:
    """A window that slides over images. `padding` counts for the modes NOTSET and VALID."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Padding
    pad_mode: str

    def padding_for(self, x: jax.Array) -> Padding:
        """The padding of the images x (N, C, H, W): with SAME it depends on their size."""
        check_images(x)
        if self.pad_mode not in SAME_MODES:
            return self.padding
        return same_padding(image_size(x), self.kernel, self.stride, self.pad_mode == "SAME_UPPER", self.dilation)


def window(kernel_size: Any, stride: Any, padding: Any, pad_mode: str, dilation: Any = 1) -> Window:
    """Check and complete what a user gave. `stride` None is the kernel size.

    Raises `ArgumentError`.
    """
    kernel = integer_pair("kernel_size", kernel_size)
    steps = kernel if stride is None else integer_pair("stride", stride)
    if pad_mode not in PAD_MODES:
        raise ArgumentError(f"pad_mode must be one of {', '.join(PAD_MODES)}. Received: {pad_mode!r}")
    pads = NO_PADDING if padding is None and pad_mode in SAME_MODES else _padding(padding)
    if pads != NO_PADDING and pad_mode != "NOTSET":
        raise ArgumentError(f"pad_mode {pad_mode} determines the padding: leave padding out. Received: {padding!r}")
    return Window(kernel, steps, integer_pair("dilation", dilation), pads, pad_mode)


def integer_pair(name: str, value: Any, least: int = 1) -> Pair:
    """One integer, which stands for both axes, or a sequence of two (height, width)."""
    found = _integers(value, least)
    if found is None or len(found) not in (1, 2):
        raise ArgumentError(f"{name} must be an integer from {least} up, or two (height, width). Received: {value!r}")
    return found[0], found[-1]


def _padding(value: Any) -> Padding:
    found = _integers(value, 0)
    if found is None or len(found) not in (1, 2, 4):
        raise ArgumentError(
            "padding must be an integer from 0 up, two (height, width) or four (top, bottom, left, right); None goes "
            f"only with pad_mode SAME_UPPER and SAME_LOWER. Received: {value!r}"
        )
    if len(found) == 4:
        return (found[0], found[1]), (found[2], found[3])
    return (found[0], found[0]), (found[-1], found[-1])


def _integers(value: Any, least: int) -> list[int] | None:
    """`value` as a list of integers, all at least `least`; a sequence of one is no integer."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if several and len(value) < 2:
        return None
    try:
        found = [operator.index(item) for item in (value if several else [value]) if not isinstance(item, bool)]
    except TypeError:
        return None
    return found if found and min(found) >= least and len(found) == (len(value) if several else 1) else None
