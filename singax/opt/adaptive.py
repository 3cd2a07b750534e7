"""Adam's relatives: AdamW, NAdam, RAdam, AdaMax, AMSGrad, AdaBelief, Yogi.

With m and v as in `Adam`, m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ), and t the number of the update from 1. Arguments are
those of `Adam`, and weight decay is L2 (g ← g + weight_decay·w), except in `AdamW`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from singax.opt.features import Options
from singax.opt.schedule import Hyper
from singax.opt.singa import Adam, decayed, scale_by_adam

if TYPE_CHECKING:
    import optax


class AdamW(Adam):
    """Adam with decoupled weight decay: w ← w − lr·(direction + weight_decay·w) (Loshchilov and Hutter 2019).

    **Args** as for `Adam`; defaults lr 0.001, weight_decay 0.01.

    >>> import singax as sx
    >>> w = sx.Tensor(data=[1.0], stores_grad=True)
    >>> AdamW(0.1, weight_decay=0.5).apply("w", w, sx.Tensor(data=[3.0])); w.to_numpy().round(4)
    array([0.85], dtype=float32)
    """

    def __init__(
        self,
        lr: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: Any = 1e-8,
        weight_decay: Any = 0.01,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(lr, beta_1, beta_2, epsilon, weight_decay, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        return optax.chain(scale_by_adam(hyper), optax.add_decayed_weights(hyper["weight_decay"]))


class NAdam(Adam):
    """Adam with Nesterov's momentum (Dozat 2016).

    The direction is (β₁·m/(1 − β₁ᵗ⁺¹) + (1 − β₁)·g/(1 − β₁ᵗ)) / (√v̂ + ε).

    **Args** as for `Adam`.
    """

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        return decayed(hyper, scale_by_adam(hyper, nesterov=True))


class RAdam(Adam):
    """Rectified Adam (Liu et al. 2020): r·m̂ / (√v̂ + ε), and m̂ alone while the variance of v̂ is unknown (ρ < 5).

    ρ∞ = 2/(1 − β₂) − 1; ρ = ρ∞ − 2t·β₂ᵗ/(1 − β₂ᵗ); r² = (ρ − 4)(ρ − 2)ρ∞ / ((ρ∞ − 4)(ρ∞ − 2)ρ).

    **Args** as for `Adam`.
    """

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_radam(b1=hyper["beta_1"], b2=hyper["beta_2"], eps=hyper["epsilon"])
        return decayed(hyper, scale)


class AdaMax(Adam):
    """Adam with the infinity norm (Kingma and Ba 2015): v ← max(β₂v, |g| + ε); the direction is m̂ / v.

    **Args** as for `Adam`.
    """

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_adamax(b1=hyper["beta_1"], b2=hyper["beta_2"], eps=hyper["epsilon"])
        return decayed(hyper, scale)


class AMSGrad(Adam):
    """Adam whose rates never grow (Reddi et al. 2018): v_max ← max(v_max, v̂); the direction is m̂ / (√v_max + ε).

    **Args** as for `Adam`.
    """

    slot_names: ClassVar[dict[str, str]] = {"mu": "m", "nu": "v", "nu_max": "v_max"}

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_amsgrad(b1=hyper["beta_1"], b2=hyper["beta_2"], eps=hyper["epsilon"])
        return decayed(hyper, scale)


class AdaBelief(Adam):
    """Adam that trusts gradients close to their mean (Zhuang et al. 2020): v ← β₂v + (1 − β₂)(g − m)² + ε².

    The direction is m̂ / (√v̂ + ε). **Args** as for `Adam`.
    """

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        epsilon = hyper["epsilon"]
        scale = optax.scale_by_belief(hyper["beta_1"], hyper["beta_2"], eps=epsilon, eps_root=epsilon**2)
        return decayed(hyper, scale)


class Yogi(Adam):
    """Adam whose v moves slowly (Zaheer et al. 2018): v ← v − (1 − β₂)·sign(v − g²)·g²; m and v start at 1e-6.

    The direction is m̂ / (√v̂ + ε). **Args** as for `Adam`; defaults lr 0.01, epsilon 1e-3.
    """

    slots_start_at_zero = False

    def __init__(
        self,
        lr: Any = 0.01,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: Any = 1e-3,
        weight_decay: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(lr, beta_1, beta_2, epsilon, weight_decay, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_yogi(b1=hyper["beta_1"], b2=hyper["beta_2"], eps=hyper["epsilon"])
        return decayed(hyper, scale)
