"""Losses that compare scores with scores and vectors with vectors, as layers."""

from __future__ import annotations

from singax import ops
from singax.layer.loss import Loss


class RankingLoss(Loss):
    """max(0, M − pos + neg): a right answer is to score higher than a wrong one by M.

    **Shapes** call(pos, neg), scores of equal shape → (1,).

    **Args** M: the margin (default 0.2). reduction: "mean" (default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    *Differences from SINGA*: there it is a function of `autograd` only, and its gradient ignores dy.

    >>> RankingLoss().infer_shape((8,), (8,))
    (1,)
    """

    operation = ops.ranking_loss

    def __init__(self, M: float = 0.2, reduction: str = "mean") -> None:
        super().__init__(M=M, reduction=reduction)


class MarginRankingLoss(Loss):
    """max(0, margin − t (a − b)): a is to be larger where the sign t is 1, b where it is −1.

    **Shapes** call(a, b, t), all of equal shape → (1,).

    **Args** margin: default 0. reduction: "mean" (default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> MarginRankingLoss().infer_shape((8,), (8,), (8,))
    (1,)
    """

    operation = ops.margin_ranking_loss

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class HingeLoss(Loss):
    """max(0, 1 − t x), or its square, for scores x and signs t (1 or −1, not 0).

    **Shapes** x and t of equal shape → (1,).

    **Args** squared: default False. reduction: "mean" (over all elements, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> HingeLoss().infer_shape((8,), (8,))
    (1,)
    """

    operation = ops.hinge_loss

    def __init__(self, squared: bool = False, reduction: str = "mean") -> None:
        super().__init__(squared=squared, reduction=reduction)


class CosineSimilarityLoss(Loss):
    """1 − cos(a, b): 0 for vectors of one direction, 2 for opposite ones, 1 with a vector of zeros.

    **Shapes** a and b of equal shape, vectors along `axis` → (1,).

    **Args** axis: default −1. reduction: "mean" (over the pairs, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> CosineSimilarityLoss().infer_shape((8, 16), (8, 16))
    (1,)
    """

    operation = ops.cosine_similarity_loss

    def __init__(self, axis: int = -1, reduction: str = "mean") -> None:
        super().__init__(axis=axis, reduction=reduction)


class CosineEmbeddingLoss(Loss):
    """1 − cos(a, b) where the sign t is 1, max(0, cos(a, b) − margin) where it is −1.

    **Shapes** call(a (…, D), b (…, D), t (…)) → (1,).

    **Args** margin: from −1 to 1 (default 0). reduction: "mean" (over the pairs, default), "sum" or "none".

    **Raises** `ShapeError` for shapes that do not fit, `ArgumentError` for other options.

    >>> CosineEmbeddingLoss().infer_shape((8, 16), (8, 16), (8,))
    (1,)
    """

    operation = ops.cosine_embedding_loss

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class TripletLoss(Loss):
    """max(0, margin + d(anchor, positive) − d(anchor, negative)), d(a, b) = ‖a − b + eps‖_p (Schroff et al. 2015).

    **Shapes** call(anchor, positive, negative), all (…, D) → (1,).

    **Args**
      margin: default 1.
      p: the norm, at least 1 (default 2; `math.inf` is the largest difference).
      swap: also compare the positive with the negative, and take the smaller distance (default False).
      eps: keeps the gradient of equal vectors finite (default 1e-6).
      reduction: "mean" (over the triplets, default), "sum" or "none".

    **Raises** `ShapeError` for different shapes, `ArgumentError` for other options.

    >>> TripletLoss().infer_shape((8, 16), (8, 16), (8, 16))
    (1,)
    """

    operation = ops.triplet_margin_loss

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, swap: bool = False, eps: float = 1e-6, reduction: str = "mean"
    ) -> None:
        super().__init__(margin=margin, p=p, swap=swap, eps=eps, reduction=reduction)
