"""Losses as layers: call them with outputs and targets. In mixed precision they compute in float32."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from singax import ops
from singax.errors import ArgumentError
from singax.layer.base import Layer
from singax.ops.loss_arguments import check_options
from singax.tensor import Tensor


class Loss(Layer):
    """Base of the losses: a call is the class's `operation` with the options that the instance holds as attributes.

    >>> import singax as sx
    >>> loss = sx.layer.Huber(delta=2.0)
    >>> loss.delta, loss.infer_shape((8, 3), (8, 3))
    (2.0, (1,))
    """

    _computes_wide = True
    operation: ops.Operation

    def __init__(self, **options: Any) -> None:
        super().__init__()
        try:
            check_options(**options)
        except ArgumentError as error:
            raise error.located(type(self).__name__) from None
        self.__dict__.update(options)

    def forward(self, *inputs: Any) -> jax.Array:
        names = self.operation.function.__kwdefaults__ or {}
        return self.operation(*inputs, **{name: getattr(self, name) for name in names})


class SoftMaxCrossEntropy(Loss):
    """The mean of −Σ_c w_c p_c log softmax(x)_c: cross entropy with class ids, or with rows p divided by their sum.

    **Shapes** logits (N, C) with targets (N,), (N, 1) or (N, C) → (1,). Logits may have any rank: (N, T, V) with ids
    (N, T), or, with `axis=1`, (N, C, H, W) with ids (N, H, W).

    **Args**
      axis: where the classes are (default −1).
      label_smoothing: ε; p becomes (1 − ε) p + ε / C (default 0).
      ignore_index: a class id that counts nowhere, such as that of padding (default None).
      weights: a weight for each class, (C,) numbers that stay as they are (default None).
      reduction: "mean" (over weights and samples that count, default), "sum" or "none".

    **Raises** `ArgumentError` for options outside of these, `ShapeError` for targets that do not fit. An id outside
    0 … C − 1 gives NaN. See `ops.softmax_cross_entropy`.

    *Differences from SINGA*: the gradient honours dy; ids may be of any dtype; the options.

    >>> SoftMaxCrossEntropy().infer_shape((8, 10), (8,))
    (1,)
    """

    operation = ops.softmax_cross_entropy

    def __init__(
        self,
        axis: int = -1,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        weights: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(axis=axis, label_smoothing=label_smoothing, ignore_index=ignore_index, reduction=reduction)
        self.weights = _constant("weights", weights)

    def forward(self, x: jax.Array, t: jax.Array) -> jax.Array:
        return super().forward(x, t, self.weights)


class CrossEntropy(Loss):
    """−Σ t log x / N for probabilities x, such as those of SoftMax, and targets t.

    **Shapes** x and t of equal shape (N, C) → (1,).

    **Args** reduction: "mean" (over the N samples, default), "sum" or "none" (N,).

    **Raises** `ShapeError` for different shapes, `ArgumentError` for another reduction.

    *Differences from SINGA*: where t is 0, x does not matter, be it 0; the gradient honours dy.

    >>> CrossEntropy().infer_shape((8, 10), (8, 10))
    (1,)
    """

    operation = ops.cross_entropy

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class BinaryCrossEntropy(Loss):
    """Cross entropy of probabilities x against targets t, summed and divided by the batch size N.

    **Shapes** x and t of equal shape (N, …) → (1,).

    **Args** reduction: "mean" (the sum divided by N, as in SINGA, default), "sum" or "none" (one for each element).

    **Raises** `ShapeError` for different shapes, `ArgumentError` for another reduction.

    *Differences from SINGA*: the gradient honours dy. See `BinaryCrossEntropyWithLogits` for a stable form.

    >>> BinaryCrossEntropy().infer_shape((8, 1), (8, 1))
    (1,)
    """

    operation = ops.binary_cross_entropy

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class BinaryCrossEntropyWithLogits(Loss):
    """−w t log σ(x) − (1 − t) log(1 − σ(x)) for logits x and targets t: finite for all finite logits.

    **Shapes** x and t of equal shape → (1,).

    **Args**
      pos_weight: w, the weight of positive targets: a number, or an array that broadcasts to x (default None: 1).
      label_smoothing: ε; t becomes (1 − ε) t + ε / 2 (default 0).
      reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for shapes that do not fit, `ArgumentError` for other options.

    *Differences from SINGA*: SINGA has no such layer; its `BinaryCrossEntropy` divides by N, not by all elements.

    >>> BinaryCrossEntropyWithLogits(pos_weight=3.0).infer_shape((8, 1), (8, 1))
    (1,)
    """

    operation = ops.binary_cross_entropy_with_logits

    def __init__(self, pos_weight: Any = None, label_smoothing: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(label_smoothing=label_smoothing, reduction=reduction)
        self.pos_weight = _constant("pos_weight", pos_weight)

    def forward(self, x: jax.Array, t: jax.Array) -> jax.Array:
        return super().forward(x, t, self.pos_weight)


class FocalLoss(Loss):
    """−α_t (1 − p_t)^γ log p_t for logits x and targets t of 0 or 1: what is easy counts less (Lin et al. 2017).

    **Shapes** x and t of equal shape → (1,).

    **Args**
      alpha: the weight of t = 1, that of t = 0 is 1 − alpha (default 0.25; None: 1 for both).
      gamma: γ ≥ 0 (default 2).
      reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> FocalLoss().infer_shape((8, 1), (8, 1))
    (1,)
    """

    operation = ops.sigmoid_focal_loss

    def __init__(self, alpha: float | None = 0.25, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__(alpha=alpha, gamma=gamma, reduction=reduction)


class KLDivergence(Loss):
    """Σ t (log t − x) / N for log-probabilities x and probabilities t (Kullback and Leibler 1951).

    **Shapes** x and t of equal shape (N, …) → (1,).

    **Args**
      log_target: whether t holds log-probabilities too (default False).
      reduction: "batchmean" (divided by N, default), "mean" (by the number of elements), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> KLDivergence().infer_shape((8, 10), (8, 10))
    (1,)
    """

    operation = ops.kl_divergence

    def __init__(self, log_target: bool = False, reduction: str = "batchmean") -> None:
        super().__init__(log_target=log_target, reduction_of_divergence=reduction)
        self.reduction = reduction


class CTCLoss(Loss):
    """−log of the probability of all alignments of labels with frames (Graves et al. 2006).

    **Shapes** call(x (N, T, C), labels (N, S)[, input_lengths (N,), label_lengths (N,)]) → (1,). x: logits or
    log-probabilities. Lengths count from the front; what lies behind does not matter.

    **Args**
      blank: the class of the blank (default 0).
      zero_infinity: whether impossible alignments cost 0 instead of infinity; their gradient is 0 anyway (default
        False). They need as many frames as labels plus repeated neighbours.
      reduction: "mean" (each divided by its number of labels, then the mean of the samples, default), "sum" or "none".

    **Raises** `ShapeError` for shapes that do not fit, `ArgumentError` for other options. See `ops.ctc_loss`.

    *Differences from PyTorch*: batch first, and logits are taken as well as log-probabilities.

    >>> CTCLoss().infer_shape((8, 50, 30), (8, 12))
    (1,)
    """

    operation = ops.ctc_loss

    def __init__(self, blank: int = 0, zero_infinity: bool = False, reduction: str = "mean") -> None:
        super().__init__(blank=blank, zero_infinity=zero_infinity, reduction=reduction)


def _constant(what: str, values: Any) -> np.ndarray | None:
    """Weights as a host array, which a program takes as a constant."""
    if values is None:
        return None
    array = values.to_numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "biuf" or (array.ndim and not array.size):
        raise ArgumentError(f"{what} must be numbers. Received: {values!r}")
    return array
