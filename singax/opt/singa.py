"""SINGA's optimizers as optax chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from singax.errors import ArgumentError
from singax.opt.features import Options
from singax.opt.optimizer import Optimizer
from singax.opt.schedule import Hyper, is_zero

if TYPE_CHECKING:
    import optax


def decayed(hyper: Hyper, *links: Any) -> Any:
    """A chain of `links`, preceded by L2 decay (g ← g + wd·w) unless it is zero."""
    import optax

    decay = [] if hyper.absent("weight_decay") else [optax.add_decayed_weights(hyper["weight_decay"])]
    return optax.chain(optax.identity(), *decay, *links)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    With g ← g + weight_decay·w:  w ← w − lr·g, or with momentum μ > 0: v ← μ·v + (1 − dampening)·g, v starting at 0,
    and w ← w − lr·v, or with `nesterov` w ← w − lr·(g + μ·v).

    **Args** lr (0.1), momentum (0), dampening (0), weight_decay (0): numbers or schedules; nesterov (False); dtype is
    SINGA's and has no effect: slots have the dtype of their parameter; and the options of `Optimizer`.

    *Differences from SINGA*: a schedule that starts at 0 is no constant 0, and counts.

    **Raises** `ArgumentError` for negative values, and for nesterov without momentum or with dampening.

    >>> import singax as sx
    >>> w = sx.Tensor(data=[1.0], stores_grad=True)
    >>> SGD(lr=0.5).apply("w", w, sx.Tensor(data=[1.0])); w.to_numpy()
    array([0.5], dtype=float32)
    """

    slot_names: ClassVar[dict[str, str]] = {"trace": "momentum"}
    public_names: ClassVar[dict[str, str]] = {"momentum": "moments"}

    def __init__(
        self,
        lr: Any = 0.1,
        momentum: Any = 0,
        dampening: Any = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        dtype: Any = None,
        **options: Unpack[Options],
    ) -> None:
        schedules = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(lr, dtype, schedules=schedules, **options)
        self.nesterov = nesterov
        if nesterov and (is_zero(self.schedules["momentum"]) or not is_zero(self.schedules["dampening"])):
            raise ArgumentError(
                "Nesterov momentum needs a momentum above 0 and a dampening of 0. "
                f"Received: momentum={momentum}, dampening={dampening}"
            )

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        if hyper.absent("momentum"):
            return decayed(hyper)
        links = [] if hyper.absent("dampening") else [optax.scale(1 - hyper["dampening"])]
        return decayed(hyper, *links, optax.trace(hyper["momentum"], nesterov=self.nesterov))


class RMSProp(Optimizer):
    """r ← ρ·r + (1 − ρ)·g²; w ← w − lr·g / sqrt(r + ε), with g ← g + weight_decay·w (Tieleman and Hinton 2012).

    **Args** lr (0.1), rho (0.9), epsilon (1e-8), weight_decay (0): numbers or schedules; and the options of
    `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"nu": "running_average"}

    def __init__(
        self,
        lr: Any = 0.1,
        rho: Any = 0.9,
        epsilon: Any = 1e-8,
        weight_decay: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(lr, schedules={"rho": rho, "epsilon": epsilon, "weight_decay": weight_decay}, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_rms(decay=hyper["rho"], eps=hyper["epsilon"], initial_scale=0.0, eps_in_sqrt=True)
        return decayed(hyper, scale)


class AdaGrad(Optimizer):
    """h ← h + g²; w ← w − lr·g / sqrt(h + ε), with g ← g + weight_decay·w (Duchi et al. 2011).

    **Args** lr (0.1), epsilon (1e-8), weight_decay (0): numbers or schedules; and the options of `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"sum_of_squares": "history"}

    def __init__(self, lr: Any = 0.1, epsilon: Any = 1e-8, weight_decay: Any = 0, **options: Unpack[Options]) -> None:
        super().__init__(lr, schedules={"epsilon": epsilon, "weight_decay": weight_decay}, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        return decayed(hyper, optax.scale_by_rss(initial_accumulator_value=0.0, eps=hyper["epsilon"]))


class Adam(Optimizer):
    """t = step + 1; m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; w ← w − lr·(m/(1 − β₁ᵗ)) / (sqrt(v/(1 − β₂ᵗ)) + ε).

    Weight decay is L2: g ← g + weight_decay·w before the moments (Kingma and Ba 2015).

    **Args** lr (0.1), beta_1 (0.9), beta_2 (0.999), epsilon (1e-8), weight_decay (0): numbers or schedules; and the
    options of `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"mu": "m", "nu": "v"}

    def __init__(
        self,
        lr: Any = 0.1,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: Any = 1e-8,
        weight_decay: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        schedules = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(lr, schedules=schedules, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        return decayed(hyper, scale_by_adam(hyper))


def scale_by_adam(hyper: Hyper, **options: Any) -> Any:
    """Adam's direction."""
    import optax

    return optax.scale_by_adam(b1=hyper["beta_1"], b2=hyper["beta_2"], eps=hyper["epsilon"], **options)
