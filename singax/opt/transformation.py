"""Any optax transformation as an optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from singax.errors import ArgumentError
from singax.opt.features import Options
from singax.opt.optimizer import Optimizer
from singax.opt.schedule import Hyper

if TYPE_CHECKING:
    import optax


class Optax(Optimizer):
    """Any `optax.GradientTransformation`, learning rate included: w ← w + update.

    **Args** tx; and the options of `Optimizer`, where groups may scale the update (`lr_scale`) and nothing else.

    **Raises** `ArgumentError` for anything else than a transformation, and when `lr` is read or set.

    >>> import optax, singax as sx
    >>> w = sx.Tensor(data=[1.0], stores_grad=True)
    >>> Optax(optax.sgd(0.5)).apply("w", w, sx.Tensor(data=[1.0])); w.to_numpy()
    array([0.5], dtype=float32)
    """

    rate_is_ours = False

    def __init__(self, tx: optax.GradientTransformation, **options: Unpack[Options]) -> None:
        if not (hasattr(tx, "init") and hasattr(tx, "update")):
            raise ArgumentError(f"Optax takes an optax.GradientTransformation. Received: {type(tx).__name__}")
        super().__init__(1.0, **options)
        self.tx = tx

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        return self.tx

    @property
    def lr(self) -> Any:
        """The rate is part of the transformation: it can be neither read nor set here."""
        raise ArgumentError("the learning rate of Optax is part of its transformation: use an optax schedule there")

    @lr.setter
    def lr(self, lr: Any) -> None:
        _ = self.lr

    def __repr__(self) -> str:
        return "Optax(…)"
