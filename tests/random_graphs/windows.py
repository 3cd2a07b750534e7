"""Convolution and pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from random_graphs.builder import F32, Builder
from random_graphs.products import summed
from random_graphs.rules import rule
from random_graphs.tame import away_from_zero, tame
from random_graphs.values import Shape, Shapes, Value, integers, like, need, rough


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations, pads (all before, then all after), how sizes are rounded."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    auto: str = "NOTSET"
    ceil: int = 0

    def size(self, length: int, axis: int) -> int:
        """The size of an axis after the window has passed."""
        stride, span = self.strides[axis], (self.kernel[axis] - 1) * self.dilations[axis] + 1
        if self.auto == "VALID":
            return (length - span) // stride + 1
        if self.auto != "NOTSET":
            return -(-length // stride)
        room = length + self.pads[axis] + self.pads[axis + len(self.kernel)] - span
        need(room >= 0)
        return self._ceiled(room, stride, length, axis) if self.ceil else room // stride + 1

    def _ceiled(self, room: int, stride: int, length: int, axis: int) -> int:
        count = math.ceil(room / stride) + 1
        # onnx's inference of shapes also counts a window that would start beyond the end, onnxruntime does not
        need((count - 1) * stride < length + self.pads[axis])
        return count

    def attributes(self, dilated: bool = True) -> dict[str, Any]:
        """The attributes of a node."""
        given: dict[str, Any] = {"kernel_shape": self.kernel, "strides": self.strides}
        given.update({"dilations": self.dilations} if dilated else {})
        given.update({"pads": self.pads} if self.auto == "NOTSET" else {"auto_pad": self.auto})
        return {**given, **({"ceil_mode": 1} if self.ceil else {})}


def window(g: Builder, x: Value, dilated: bool = True, ceil: bool = False) -> Window:
    """A window that fits the spatial axes."""
    axes = x.rank - 2
    smallest = [x.smallest(2 + at) for at in range(axes)]
    kernel = [g.int(1, min(3, n)) for n in smallest]
    dilations = [g.int(1, 2) if dilated and 2 * (k - 1) < n else 1 for k, n in zip(kernel, smallest, strict=True)]
    auto = "NOTSET" if ceil or g.chance(0.7) else g.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    dilations = dilations if auto == "NOTSET" else [1] * axes
    pads = [g.int(0, k - 1) for k in kernel * 2]
    strides = [g.int(1, 2) for _ in kernel]
    if auto.startswith("SAME"):  # a stride beyond the kernel would mean negative pads, which onnxruntime refuses
        strides = [min(s, k) for s, k in zip(strides, kernel, strict=True)]
    return Window(kernel, strides, dilations, pads, auto, int(ceil))


def slid(x: Value, w: Window, channels: int | None = None) -> Shapes:
    """The shapes after a window has passed, with another number of channels if given."""

    def after(shape: Shape) -> list[int]:
        spatial = [w.size(n, at) for at, n in enumerate(shape[2:])]
        return [shape[0], shape[1] if channels is None else channels, *spatial]

    return x.mapped(after)


def spatial(g: Builder, exact: bool = False, ranks: tuple[int, ...] = (3, 4)) -> Value:
    """A float32 value with channels of a known number and one or two spatial axes."""
    return g.pick(F32, ranks, exact=exact, where=lambda v: v.shapes[0][1] == v.shapes[1][1])


@rule("Conv")
def _conv(g: Builder) -> Any:
    x = tame(g, spatial(g, ranks=(3, 4, 4, 5)), 8)
    channels, w = x.size(1), window(g, x)
    group = g.choice([n for n in (1, 1, 2, channels) if channels % n == 0])
    made = group * g.int(1, 3)
    weight = g.weight((made, channels // group, *w.kernel), bound=0.5)
    given = [x, weight, *([g.weight((made,))] if g.chance() else [])]
    terms = channels // group * math.prod(w.kernel) + 1
    result = summed(x, weight, slid(x, w, made), terms)
    result = like(result, low=result.low - 1, high=result.high + 1)
    return g.emit("Conv", given, result, group=group, **w.attributes())


@rule("ConvTranspose")
def _conv_transpose(g: Builder) -> Any:
    x = tame(g, spatial(g), 8)
    channels, axes = x.size(1), x.rank - 2
    group = g.choice([n for n in (1, 1, 2) if channels % n == 0])
    kernel, strides = [g.int(1, 3) for _ in range(axes)], [g.int(1, 2) for _ in range(axes)]
    extra = [g.int(0, s - 1) for s in strides]
    dilations = [g.int(1, 2) for _ in range(axes)]
    pads = [g.int(0, k - 1) for k in kernel * 2]
    made = g.int(1, 2)
    weight = g.weight((channels, made, *kernel), bound=0.5)

    def after(shape: Shape) -> list[int]:
        each = [
            strides[a] * (n - 1) + extra[a] + (kernel[a] - 1) * dilations[a] + 1 - pads[a] - pads[a + axes]
            for a, n in enumerate(shape[2:])
        ]
        need(min(each) > 0)
        return [shape[0], made * group, *each]

    result = summed(x, weight, x.mapped(after), channels // group * math.prod(kernel))
    given = [x, weight, *([g.weight((made * group,))] if g.chance() else [])]
    result = like(result, low=result.low - 1, high=result.high + 1)
    more = {"output_padding": extra, "dilations": dilations, "group": group}
    return g.emit("ConvTranspose", given, result, kernel_shape=kernel, strides=strides, pads=pads, **more)


@rule("MaxPool", 8)
def _max_pool(g: Builder) -> Any:
    x = spatial(g, exact=g.chance(0.3))
    w = window(g, x, dilated=g.opset >= 10, ceil=g.opset >= 10 and g.chance(0.3))
    shapes = slid(x, w)
    indices = integers("int64", shapes, 0, 4096)
    wanted = x.exact and w.auto == "NOTSET" and g.chance()
    results = [like(x, shapes=shapes), *([indices] if wanted else [])]
    return g.emit_all("MaxPool", [x], *results, **w.attributes(g.opset >= 10))


@rule("AveragePool", 7)
def _average_pool(g: Builder) -> Any:
    x = spatial(g)
    # onnxruntime counts the cells beyond the pads of ceil_mode differently in its releases: no pads there
    ceil = g.opset >= 10 and g.chance(0.2)
    w = window(g, x, dilated=g.opset >= 19, ceil=ceil)
    need(not ceil or not any(w.pads))
    result = rough([x], slid(x, w), min(0, x.low), max(0, x.high), 1, 4)
    more = {} if w.auto.startswith("SAME") else {"count_include_pad": g.int(0, 1)}
    return g.emit("AveragePool", [x], result, **more, **w.attributes(g.opset >= 19))


@rule("LpPool", 11)
def _lp_pool(g: Builder) -> Any:
    x = away_from_zero(g, spatial(g), bound=2.0)
    w = window(g, x, dilated=False)
    result = rough([x], slid(x, w), 0, x.high * math.prod(w.kernel), math.prod(w.kernel), 4)
    return g.emit("LpPool", [x], result, p=g.choice([1, 2, 3]), **w.attributes(g.opset >= 18))


def _global(name: str, until: int = 99) -> None:
    @rule(name, 7, until)
    def make(g: Builder) -> Any:
        x = spatial(g)
        shapes = x.mapped(lambda s: [*s[:2], *[1] * (len(s) - 2)])
        if name == "GlobalMaxPool":
            return g.emit(name, [x], like(x, shapes=shapes))
        if name == "GlobalAveragePool":
            return g.emit(name, [x], rough([x], shapes, x.low, x.high, 1, 8))
        x = away_from_zero(g, x, bound=2.0)
        count = max(math.prod(s[2:]) for s in x.shapes)
        return g.emit(name, [x], rough([x], shapes, 0, x.bound * count, count, 4), p=g.choice([1, 2]))


_global("GlobalMaxPool")
_global("GlobalAveragePool")
_global("GlobalLpPool", 21)  # onnxruntime has no kernel for opset 22


@rule("MaxUnpool", 11)
def _unpool(g: Builder) -> Any:
    x = g.pick(F32, [4], exact=True, where=lambda v: all(n % 2 == 0 for s in v.shapes for n in s[2:]))
    half = x.mapped(lambda s: [*s[:2], s[2] // 2, s[3] // 2])
    indices = integers("int64", half, 0, 4096)
    how = {"kernel_shape": [2, 2], "strides": [2, 2]}
    best, at = g.emit_all("MaxPool", [x], like(x, shapes=half), indices, **how)
    return g.emit("MaxUnpool", [best, at], like(x, low=min(0, x.low), high=max(0, x.high)), **how)
