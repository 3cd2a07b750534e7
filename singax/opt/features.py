"""What every optimizer can do besides its rule: clip, accumulate, average. Pure functions on dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError
from singax.opt.leaves import Arrays, SlotArrays
from singax.opt.loss_scale import LossScale, all_finite
from singax.storage import copied_array, zeros
from singax.tensor import Tensor

ACCUMULATED, AVERAGE = "accumulated", "average"
SLOTS = (ACCUMULATED, AVERAGE)


class Options(TypedDict, total=False):
    """The keyword arguments that every optimizer takes: see `Optimizer`."""

    clip_norm: float | None
    clip_value: float | None
    accumulate: int
    average: float | None
    groups: Mapping[str, Mapping[str, Any]] | None
    freeze: Any
    loss_scale: LossScale | None


@dataclass(frozen=True)
class Features:
    """Which of them an optimizer has. The order: unscale, accumulate, clip the mean gradient, update, average."""

    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int = 1
    average: float | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        for name in ("clip_norm", "clip_value"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ArgumentError(f"{name} must be above 0. Received: {value!r}")
        if isinstance(self.accumulate, bool) or not hasattr(self.accumulate, "__index__") or self.accumulate < 1:
            raise ArgumentError(f"accumulate is a number of steps, 1 or more. Received: {self.accumulate!r}")
        if self.average is not None and not 0 <= self.average < 1:
            raise ArgumentError(f"average is a decay between 0 and 1, such as 0.999. Received: {self.average!r}")

    @property
    def needs_all_gradients(self) -> str:
        """Why parameters cannot be updated one by one; empty if they can."""
        return "clip_norm" if self.clip_norm is not None else "loss_scale" if self.scaled else ""

    def slots(self, params: Mapping[str, Tensor]) -> SlotArrays:
        """Initial values of its slots: zeros, and the parameters themselves."""
        found: SlotArrays = {}
        if self.accumulate > 1:
            found[ACCUMULATED] = {key: zeros(p.shape, _wide(p)) for key, p in params.items()}
        if self.average is not None:
            found[AVERAGE] = {key: _wide_copy(p._cell.array()) for key, p in params.items()}
        return found

    def gathered(self, grads: Arrays, slots: SlotArrays, numbers: Arrays) -> tuple[Any, Arrays, SlotArrays, Arrays]:
        """(whether to update now, or None for always; gradients to use; new accumulators; whether all was finite)."""
        ready, finite = None, {}
        if self.scaled:
            finite = {"finite": numbers["finite"] & all_finite(grads.values())}
            ready = finite["finite"][0]
        if self.accumulate == 1:
            return ready, self.clipped(grads), {}, finite
        full = numbers["micro_step"][0] == self.accumulate - 1
        kept = slots[ACCUMULATED]
        sums = {key: kept[key] + grads[key].astype(kept[key].dtype) for key in grads}
        after = {key: jnp.where(full, 0, value).astype(value.dtype) for key, value in sums.items()}
        if ready is not None:
            after = {key: jnp.where(ready, value, kept[key]) for key, value in after.items()}
        means = {key: value / self.accumulate for key, value in sums.items()}
        return full if ready is None else full & ready, self.clipped(means), {ACCUMULATED: after}, finite

    def clipped(self, grads: Arrays) -> Arrays:
        """g ← min(max(g, −c), c), then g ← g · min(1, c / ‖g‖) with the norm over all gradients together."""
        if self.clip_value is not None:
            grads = {key: jnp.clip(g, -self.clip_value, self.clip_value) for key, g in grads.items()}
        if self.clip_norm is not None:
            squares = [jnp.sum(jnp.square(jnp.abs(g.astype(_wide(g))))) for g in grads.values()]
            factor = self.clip_norm / jnp.maximum(jnp.sqrt(sum(squares)), self.clip_norm)
            grads = {key: (g * factor).astype(g.dtype) for key, g in grads.items()}
        return grads

    def averaged(self, params: Arrays, slots: SlotArrays, count: Any) -> SlotArrays:
        """a ← a + (1 − d) / (1 − dᵗ) · (w − a): the mean of all w so far, weighted by d to the power of their age."""
        if self.average is None:
            return {}
        weight = (1 - self.average) / (1 - self.average ** (count[0] + 1).astype(jnp.float32))
        held = slots[AVERAGE]
        return {AVERAGE: {key: (a + weight * (params[key] - a)).astype(a.dtype) for key, a in held.items()}}

    def counted(self, numbers: Arrays) -> Arrays:
        """The counters at the end of a step."""
        step, good = numbers["step"], numbers.get("finite")
        if self.accumulate == 1:
            return {"step": step + (1 if good is None else good.astype(step.dtype))}
        full = numbers["micro_step"] == self.accumulate - 1
        micro = jnp.where(full, 0, numbers["micro_step"] + 1)
        if good is not None:
            full, micro = full & good, jnp.where(good, micro, numbers["micro_step"])
        return {"step": step + full.astype(step.dtype), "micro_step": micro}


BARE = Features()


def when(ready: Any, update: Any, held: Any) -> Any:
    """`update()`, or `held` where `ready` (None for always) is False."""
    return update() if ready is None else jax.lax.cond(ready, update, lambda: held)


def _wide(value: Any) -> Any:
    return jnp.promote_types(value.dtype, jnp.float32)


def _wide_copy(value: Any) -> Any:
    wide = _wide(value)
    return copied_array(value) if value.dtype == wide else value.astype(wide)
