"""Losses of numbers against numbers, as layers."""

from __future__ import annotations

from singax import ops
from singax.layer.loss import Loss


class MeanSquareError(Loss):
    """The mean of (x − t)² over all elements.

    **Shapes** x and t of equal shape → (1,).

    **Args** reduction: "mean" (default), "sum" or "none" (one for each element).

    **Raises** `ShapeError` for different shapes, `ArgumentError` for another reduction.

    >>> MeanSquareError().infer_shape((8, 3), (8, 3))
    (1,)
    """

    operation = ops.mse_loss

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class MeanAbsoluteError(Loss):
    """The mean of |x − t| over all elements: the L1 loss.

    **Shapes** x and t of equal shape → (1,).

    **Args** reduction: "mean" (default), "sum" or "none" (one for each element).

    **Raises** `ShapeError` for different shapes, `ArgumentError` for another reduction.

    >>> MeanAbsoluteError().infer_shape((8, 3), (8, 3))
    (1,)
    """

    operation = ops.l1_loss

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class Huber(Loss):
    """d² / 2 where |d| ≤ δ, else δ (|d| − δ / 2), for d = x − t (Huber 1964).

    **Shapes** x and t of equal shape → (1,).

    **Args** delta: δ > 0 (default 1). reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> Huber(delta=0.5).infer_shape((8, 3), (8, 3))
    (1,)
    """

    operation = ops.huber_loss

    def __init__(self, delta: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(delta=delta, reduction=reduction)


class SmoothL1(Loss):
    """d² / (2 β) where |d| < β, else |d| − β / 2, for d = x − t: Huber's loss divided by β (Girshick 2015).

    **Shapes** x and t of equal shape → (1,).

    **Args** beta: β ≥ 0 (default 1); 0 is the L1 loss. reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> SmoothL1().infer_shape((8, 3), (8, 3))
    (1,)
    """

    operation = ops.smooth_l1_loss

    def __init__(self, beta: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(beta=beta, reduction=reduction)


class GaussianNLL(Loss):
    """(log v + (x − t)² / v) / 2 with v = max(var, eps): how unlikely t is for means x and variances var.

    **Shapes** call(x, t, var): x and t of equal shape, var broadcasts to it → (1,).

    **Args**
      full: add the constant log(2π) / 2 (default False).
      eps: the smallest variance (default 1e-6); gradients pass below it, so that a variance can grow again.
      reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for shapes that do not fit, `ArgumentError` for other options.

    >>> GaussianNLL().infer_shape((8, 3), (8, 3), (8, 1))
    (1,)
    """

    operation = ops.gaussian_nll_loss

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(full=full, eps=eps, reduction=reduction)


class PoissonNLL(Loss):
    """exp(x) − t x: how unlikely the counts t are for the logarithms x of rates.

    **Shapes** x and t of equal shape → (1,).

    **Args**
      log_input: whether x holds logarithms (default True), or rates: x − t log(x + eps).
      full: add Stirling's approximation of log t! where t > 1 (default False).
      eps: default 1e-8.
      reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> PoissonNLL().infer_shape((8, 3), (8, 3))
    (1,)
    """

    operation = ops.poisson_nll_loss

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(log_input=log_input, full=full, eps=eps, reduction=reduction)
