"""Operators about images and regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from random_graphs.builder import F32, Builder
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import both, integers, like, need, rough


@rule("GridSample", 16)
def _grid_sample(g: Builder) -> Any:
    x = tame(g, g.pick(F32, [4], where=lambda v: v.shapes[0][0] == v.shapes[1][0]), 4)
    old = g.opset < 20
    mode = g.choice(["bilinear", "bicubic"] if old else ["linear", "cubic"])
    height, width = g.int(1, 3), g.int(1, 3)
    where = g.weight((x.size(0), height, width, 2), bound=1.0)
    shapes = x.mapped(lambda s: [s[0], s[1], height, width])
    result = rough([x], shapes, -2 * x.bound, 2 * x.bound, 2, 16)
    how = {"padding_mode": g.choice(["zeros", "border", "reflection"]), "align_corners": g.int(0, 1)}
    return g.emit("GridSample", [x, where], result, mode=mode, **how)


@rule("AffineGrid", 20)
def _affine_grid(g: Builder) -> Any:
    theta = g.weight((g.int(1, 2), 2, 3), bound=1.0)
    size = [theta.shape[0], 1, g.int(2, 3), g.int(2, 3)]
    result = rough([theta], both((size[0], size[2], size[3], 2)), -3, 3, 2, 4)
    return g.emit("AffineGrid", [theta, g.ints(size)], result, align_corners=g.int(0, 1))


@rule("RoiAlign", 16, 21)  # onnxruntime has no kernel for opset 22
def _roi_align(g: Builder) -> Any:
    x = tame(g, g.pick(F32, [4], where=lambda v: v.smallest(0) >= 1 and v.smallest(2) > 2 and v.smallest(3) > 2), 4)
    corners = [[g.int(0, 8) / 8, g.int(0, 8) / 8, 1 + g.int(0, 8) / 8, 1 + g.int(0, 8) / 8] for _ in range(2)]
    boxes = g.constant(corners, "float32", 3)
    batch = g.ints([0, g.int(0, x.smallest(0) - 1)])
    how = {"output_height": 2, "output_width": g.int(1, 2), "sampling_ratio": 2}
    shapes = x.mapped(lambda s: [2, s[1], 2, how["output_width"]])
    mode = {"coordinate_transformation_mode": g.choice(["half_pixel", "output_half_pixel"])}
    return g.emit("RoiAlign", [x, boxes, batch], rough([x], shapes, -x.bound, x.bound, 2, 16), **how, **mode)


@rule("MaxRoiPool", 7, 21)  # onnxruntime has no kernel for opset 22
def _roi_pool(g: Builder) -> Any:
    x = g.pick(F32, [4])
    rois = g.constant([[0, 0, 0, x.smallest(3) - 1, x.smallest(2) - 1]], "float32")
    shapes = x.mapped(lambda s: [1, s[1], 2, 2])
    result = like(x, shapes=shapes, low=min(0, x.low), high=max(0, x.high))
    return g.emit("MaxRoiPool", [x, rois], result, pooled_shape=[2, 2])


@rule("Col2Im", 18)
def _columns(g: Builder) -> Any:
    """An image of 4 × 4 from windows of 2 × 2."""
    x = g.pick(F32, range(1, 5), where=lambda v: v.fixed and v.count() % 36 == 0)
    y = tame(g, x, 8)
    blocks = y.count() // 36
    columns = g.emit("Reshape", [y, g.ints([blocks, 4, 9])], like(y, shapes=both((blocks, 4, 9))))
    result = rough([columns], both((blocks, 1, 4, 4)), -4 * y.bound, 4 * y.bound, 4, 4)
    return g.emit("Col2Im", [columns, g.ints([4, 4]), g.ints([2, 2])], result)


@rule("NonMaxSuppression", 10)
def _suppression(g: Builder) -> Any:
    """How many boxes are left depends on the scores: their sum is used."""
    x = g.pick(F32, [3], exact=True, where=lambda v: v.fixed and v.shapes[0][0] * v.shapes[0][1] <= 6)
    boxes = [[a, b, a + 1, b + 1] for a, b in ((0, 0), (0.25, 0.125), (2, 2), (2, 2.5), (4, 0), (0, 4))]
    count = x.size(2)
    need(count <= 6)
    places = g.constant(np.broadcast_to(np.asarray(boxes[:count]), (x.size(0), count, 4)), "float32", 3)
    limits = [g.ints([g.int(1, 4)]), g.constant([0.375], "float32", 3), g.constant([-1.0], "float32")]
    chosen = g.emit("NonMaxSuppression", [places, x, *limits], integers("int64", both((1, 3)), 0, 6))
    g.pool.remove(chosen)
    total = integers("int64", both((3,)), 0, 64)
    if g.opset < 13:
        return g.emit("ReduceSum", [chosen], total, keepdims=0, axes=[0])
    return g.emit("ReduceSum", [chosen, g.ints([0])], total, keepdims=0)
