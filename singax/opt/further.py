"""Optimizers that SINGA never had: AdaDelta, Lion, LAMB, LARS, Adafactor, Muon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from singax.errors import ArgumentError
from singax.opt.features import Options
from singax.opt.optimizer import Optimizer
from singax.opt.schedule import Hyper
from singax.opt.singa import Adam, decayed, scale_by_adam

if TYPE_CHECKING:
    import optax


class AdaDelta(Optimizer):
    """a ← ρa + (1 − ρ)g²; u = g·√(b + ε)/√(a + ε); b ← ρb + (1 − ρ)u²; w ← w − lr·u (Zeiler 2012).

    **Args** lr (1.0), rho (0.9), epsilon (1e-6), weight_decay (0, L2): numbers or schedules; and the options of
    `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"e_g": "squares", "e_x": "updates"}

    def __init__(
        self,
        lr: Any = 1.0,
        rho: Any = 0.9,
        epsilon: Any = 1e-6,
        weight_decay: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(lr, schedules={"rho": rho, "epsilon": epsilon, "weight_decay": weight_decay}, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        return decayed(hyper, optax.scale_by_adadelta(rho=hyper["rho"], eps=hyper["epsilon"]))


class Lion(Optimizer):
    """w ← w − lr·(sign(β₁m + (1 − β₁)g) + weight_decay·w); m ← β₂m + (1 − β₂)g (Chen et al. 2023).

    **Args** lr (0.0001), beta_1 (0.9), beta_2 (0.99), weight_decay (0, decoupled): numbers or schedules; and the
    options of `Optimizer`.

    >>> import singax as sx
    >>> w = sx.Tensor(data=[1.0, 1.0], stores_grad=True)
    >>> Lion(0.25).apply("w", w, sx.Tensor(data=[3.0, -0.1])); w.to_numpy()
    array([0.75, 1.25], dtype=float32)
    """

    slot_names: ClassVar[dict[str, str]] = {"mu": "m"}

    def __init__(
        self,
        lr: Any = 0.0001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.99,
        weight_decay: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        schedules = {"beta_1": beta_1, "beta_2": beta_2, "weight_decay": weight_decay}
        super().__init__(lr, schedules=schedules, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        scale = optax.scale_by_lion(b1=hyper["beta_1"], b2=hyper["beta_2"])
        return optax.chain(scale, optax.add_decayed_weights(hyper["weight_decay"]))


class LAMB(Adam):
    """For large batches (You et al. 2020): u = Adam's direction + weight_decay·w; w ← w − lr·(‖w‖/‖u‖)·u per parameter.

    The ratio is 1 where a norm is 0. **Args** as for `Adam`; defaults lr 0.001, epsilon 1e-6.
    """

    def __init__(
        self,
        lr: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: Any = 1e-6,
        weight_decay: Any = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(lr, beta_1, beta_2, epsilon, weight_decay, **options)

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        decay = optax.add_decayed_weights(hyper["weight_decay"])
        return optax.chain(scale_by_adam(hyper), decay, optax.scale_by_trust_ratio())


class LARS(Optimizer):
    """u = g + weight_decay·w; v ← μv + η·(‖w‖/‖u‖)·u, per parameter; w ← w − lr·v (You et al. 2017).

    The ratio η·‖w‖/‖u‖ is 1 where a norm is 0. As in `SGD` the learning rate stands outside the momentum.

    **Args** lr (0.1), momentum (0.9), weight_decay (0), trust_coefficient η (0.001): numbers or schedules; nesterov
    (False); and the options of `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"trace": "momentum"}
    public_names: ClassVar[dict[str, str]] = {"momentum": "moments"}

    def __init__(
        self,
        lr: Any = 0.1,
        momentum: Any = 0.9,
        weight_decay: Any = 0,
        trust_coefficient: Any = 0.001,
        nesterov: bool = False,
        **options: Unpack[Options],
    ) -> None:
        schedules = {"momentum": momentum, "weight_decay": weight_decay, "trust_coefficient": trust_coefficient}
        super().__init__(lr, schedules=schedules, **options)
        self.nesterov = nesterov

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        ratio = optax.scale_by_trust_ratio(trust_coefficient=hyper["trust_coefficient"])
        return decayed(hyper, ratio, optax.trace(hyper["momentum"], nesterov=self.nesterov))


class Adafactor(Optimizer):
    """Adam without momentum that keeps the second moments of a matrix as a row and a column (Shazeer and Stern 2018).

    With β = 1 − t^(−decay_rate): v ← βv + (1 − β)(g² + ε), for large matrices the outer product of its row and column
    means; u = g/√v; u ← u / max(1, RMS(u)/clipping_threshold); u ← u·max(RMS(w), 0.001) if `scale_by_parameter`;
    w ← w − lr·(u + weight_decay·w).

    **Args** lr (0.01), weight_decay (0): numbers or schedules; decay_rate (0.8); clipping_threshold (1.0); epsilon
    (1e-30); smallest_factored (128): factored where the two largest sizes of a parameter are at least this;
    scale_by_parameter (True); and the options of `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"v_row": "v_row", "v_col": "v_col", "v": "v"}

    def __init__(
        self,
        lr: Any = 0.01,
        decay_rate: float = 0.8,
        clipping_threshold: float = 1.0,
        epsilon: float = 1e-30,
        weight_decay: Any = 0,
        smallest_factored: int = 128,
        scale_by_parameter: bool = True,
        **options: Unpack[Options],
    ) -> None:
        if not (0 < decay_rate <= 1 and clipping_threshold > 0 and epsilon > 0 and smallest_factored >= 1):
            raise ArgumentError(
                "Adafactor takes 0 < decay_rate ≤ 1, clipping_threshold > 0, epsilon > 0 and smallest_factored ≥ 1. "
                f"Received: {decay_rate}, {clipping_threshold}, {epsilon}, {smallest_factored}"
            )
        super().__init__(lr, schedules={"weight_decay": weight_decay}, **options)
        self.decay_rate, self.clipping_threshold, self.epsilon = decay_rate, clipping_threshold, epsilon
        self.smallest_factored, self.scale_by_parameter = smallest_factored, scale_by_parameter

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        import optax

        factored = optax.scale_by_factored_rms(
            decay_rate=self.decay_rate, min_dim_size_to_factor=self.smallest_factored, epsilon=self.epsilon
        )
        scale = [optax.scale_by_param_block_rms()] if self.scale_by_parameter else []
        decay = optax.add_decayed_weights(hyper["weight_decay"])
        return optax.chain(factored, optax.clip_by_block_rms(self.clipping_threshold), *scale, decay)


class Muon(Optimizer):
    """Momentum made orthogonal, for matrices; AdamW for every parameter that has not two axes (Jordan et al. 2024).

    Matrices: m ← βm + (1 − β)g, with Nesterov's step and bias correction as in `NAdam`; u = five Newton–Schulz steps
    towards the nearest orthogonal matrix, times √max(1, columns/rows) for a weight of shape (rows, columns);
    w ← w − lr·(u + weight_decay·w).

    **Args** lr (0.02), momentum β (0.95), beta_1 (0.9), beta_2 (0.999), epsilon (1e-8), weight_decay (0, decoupled):
    numbers or schedules; steps (5): of Newton and Schulz; nesterov (True); and the options of `Optimizer`.
    """

    slot_names: ClassVar[dict[str, str]] = {"mu": "m", "nu": "v"}

    def __init__(
        self,
        lr: Any = 0.02,
        momentum: Any = 0.95,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: Any = 1e-8,
        weight_decay: Any = 0,
        steps: int = 5,
        nesterov: bool = True,
        **options: Unpack[Options],
    ) -> None:
        adam = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        super().__init__(lr, schedules={"momentum": momentum, "weight_decay": weight_decay, **adam}, **options)
        if steps < 1:
            raise ArgumentError(f"steps must be 1 or more. Received: {steps}")
        self.steps, self.nesterov = steps, nesterov

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        from optax import contrib

        return contrib.muon(
            -1.0,  # optax steps against its rate, and Optimizer steps against the direction
            ns_steps=self.steps,
            beta=hyper["momentum"],
            eps=hyper["epsilon"],
            weight_decay=hyper["weight_decay"],
            nesterov=self.nesterov,
            adam_b1=hyper["beta_1"],
            adam_b2=hyper["beta_2"],
            adam_weight_decay=hyper["weight_decay"],
        )
