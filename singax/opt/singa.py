"""SINGA's optimizers, and AdamW, as optax chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from singax.errors import ArgumentError
from singax.opt.optimizer import Arrays, Optimizer
from singax.opt.schedule import DecayScheduler, starts_at_zero

if TYPE_CHECKING:
    import optax


def _decayed(optimizer: Optimizer, hyper: Arrays, *links: Any) -> Any:
    """A chain of `links`, preceded by L2 decay (g ← g + wd·w) unless it is zero."""
    import optax

    decay = (
        []
        if starts_at_zero(optimizer.schedules["weight_decay"])
        else [optax.add_decayed_weights(hyper["weight_decay"])]
    )
    return optax.chain(optax.identity(), *decay, *links)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    With g ← g + weight_decay·w:  w ← w − lr·g, or with momentum μ > 0: v ← μ·v + (1 − dampening)·g, v starting at 0,
    and w ← w − lr·v, or with `nesterov` w ← w − lr·(g + μ·v).

    **Args** lr (0.1), momentum (0), dampening (0), weight_decay (0): numbers or schedules; nesterov (False); dtype is
    SINGA's and has no effect: slots have the dtype of their parameter.

    **Raises** `ArgumentError` for negative values, and for nesterov without momentum or with dampening.

    >>> import singax as sx
    >>> w = sx.Tensor(data=[1.0], stores_grad=True)
    >>> SGD(lr=0.5).apply("w", w, sx.Tensor(data=[1.0])); w.to_numpy()
    array([0.5], dtype=float32)
    """

    slot_names: ClassVar[dict[str, str]] = {"trace": "momentum"}

    def __init__(
        self,
        lr: Any = 0.1,
        momentum: Any = 0,
        dampening: Any = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay)
        self.nesterov = nesterov
        for name in ("momentum", "weight_decay"):
            _check_not_negative(self, name)
        still = starts_at_zero(self.schedules["momentum"])
        if nesterov and (still or not starts_at_zero(self.schedules["dampening"])):
            raise ArgumentError("Nesterov momentum needs a momentum above 0 and a dampening of 0")

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
        import optax

        if starts_at_zero(self.schedules["momentum"]):
            return _decayed(self, hyper)
        dampened = not starts_at_zero(self.schedules["dampening"])
        links = [optax.scale(1 - hyper["dampening"])] if dampened else []
        return _decayed(self, hyper, *links, optax.trace(hyper["momentum"], nesterov=self.nesterov))

    def get_states(self) -> dict[str, Any]:
        states = super().get_states()
        states["moments"] = states.pop("momentum", {})
        return states

    def set_states(self, states: Any) -> None:
        super().set_states({("momentum" if name == "moments" else name): held for name, held in states.items()})


class RMSProp(Optimizer):
    """r ← ρ·r + (1 − ρ)·g²; w ← w − lr·g / sqrt(r + ε), with g ← g + weight_decay·w (Tieleman and Hinton 2012).

    **Args** lr (0.1), rho (0.9), epsilon (1e-8), weight_decay (0): numbers or schedules.
    """

    slot_names: ClassVar[dict[str, str]] = {"nu": "running_average"}

    def __init__(self, lr: Any = 0.1, rho: Any = 0.9, epsilon: Any = 1e-8, weight_decay: Any = 0) -> None:
        super().__init__(lr, rho=rho, epsilon=epsilon, weight_decay=weight_decay)
        _check_not_negative(self, "weight_decay")

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_rms(decay=hyper["rho"], eps=hyper["epsilon"], initial_scale=0.0, eps_in_sqrt=True)
        return _decayed(self, hyper, scale)


class AdaGrad(Optimizer):
    """h ← h + g²; w ← w − lr·g / sqrt(h + ε), with g ← g + weight_decay·w (Duchi et al. 2011).

    **Args** lr (0.1), epsilon (1e-8), weight_decay (0): numbers or schedules.
    """

    slot_names: ClassVar[dict[str, str]] = {"sum_of_squares": "history"}

    def __init__(self, lr: Any = 0.1, epsilon: Any = 1e-8, weight_decay: Any = 0) -> None:
        super().__init__(lr, epsilon=epsilon, weight_decay=weight_decay)
        _check_not_negative(self, "weight_decay")

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
        import optax

        return _decayed(self, hyper, optax.scale_by_rss(initial_accumulator_value=0.0, eps=hyper["epsilon"]))


class Adam(Optimizer):
    """t = step + 1; m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; w ← w − lr·(m/(1 − β₁ᵗ)) / (sqrt(v/(1 − β₂ᵗ)) + ε).

    Weight decay is L2: g ← g + weight_decay·w before the moments (Kingma and Ba 2015).

    **Args** lr (0.1), beta_1 (0.9), beta_2 (0.999), epsilon (1e-8), weight_decay (0): numbers or schedules.
    """

    slot_names: ClassVar[dict[str, str]] = {"mu": "m", "nu": "v"}

    def __init__(
        self, lr: Any = 0.1, beta_1: Any = 0.9, beta_2: Any = 0.999, epsilon: Any = 1e-8, weight_decay: Any = 0
    ) -> None:
        super().__init__(lr, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, weight_decay=weight_decay)
        _check_not_negative(self, "weight_decay")

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
        return _decayed(self, hyper, _scale_by_adam(hyper))


class AdamW(Adam):
    """Adam with decoupled weight decay: w ← w − lr·(direction + weight_decay·w) (Loshchilov and Hutter 2019).

    **Args** as for `Adam`; defaults lr 0.001, weight_decay 0.01.
    """

    def __init__(
        self, lr: Any = 0.001, beta_1: Any = 0.9, beta_2: Any = 0.999, epsilon: Any = 1e-8, weight_decay: Any = 0.01
    ) -> None:
        super().__init__(lr, beta_1, beta_2, epsilon, weight_decay)

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
        import optax

        return optax.chain(_scale_by_adam(hyper), optax.add_decayed_weights(hyper["weight_decay"]))


class Optax(Optimizer):
    """Any `optax.GradientTransformation`, learning rate included: w ← w + update.

    >>> import optax, singax as sx
    >>> w = sx.Tensor(data=[1.0], stores_grad=True)
    >>> Optax(optax.sgd(0.5)).apply("w", w, sx.Tensor(data=[1.0])); w.to_numpy()
    array([0.5], dtype=float32)
    """

    _scaled_by_lr = False

    def __init__(self, tx: optax.GradientTransformation) -> None:
        if not (hasattr(tx, "init") and hasattr(tx, "update")):
            raise ArgumentError(f"Optax takes an optax.GradientTransformation. Received: {type(tx).__name__}")
        super().__init__(1.0)
        self.tx = tx

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
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


def _scale_by_adam(hyper: Arrays) -> Any:
    import optax

    return optax.scale_by_adam(b1=hyper["beta_1"], b2=hyper["beta_2"], eps=hyper["epsilon"])


def _check_not_negative(optimizer: Optimizer, name: str) -> None:
    schedule = optimizer.schedules[name]
    if isinstance(schedule, DecayScheduler) and schedule.init_value < 0:
        raise ArgumentError(f"{name} must not be negative. Received: {schedule.init_value}")
