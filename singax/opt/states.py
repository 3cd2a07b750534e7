"""The states of an optimizer: in SINGA's form, and as named Tensors of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from singax.errors import NameMismatchError
from singax.layer import tree
from singax.opt import own
from singax.opt.schedule import Constant, Rate
from singax.opt.updating import Updating
from singax.tensor import Tensor


class States(Updating):
    """Mixin of Optimizer."""

    public_names: ClassVar[dict[str, str]]
    _rate: Rate

    def get_states(self) -> dict[str, Any]:
        """SINGA's form: `step_counter` as a NumPy number, and a dict name → Tensor for each kind of slot."""
        kinds = [*self.slot_names.values(), *self._features.slots({})]
        slots: dict[str, dict[str, Tensor]] = {name: {} for name in kinds} | self._slots.held
        states: dict[str, Any] = {"step_counter": np.float32(self._count())}
        states.update({self.public_names.get(slot, slot): dict(held) for slot, held in slots.items()})
        states.update(self._slots.shared)
        if self._features.accumulate > 1:
            states["micro_step"] = self.micro_step
        if self._loss_scale is not None:
            states["loss_scale"] = self._loss_scale.tensors()
        states.update({name: self.__dict__[name] for name in own.names(self)})
        return states

    def set_states(self, states: Mapping[str, Any]) -> None:
        """Restore what `get_states` returned (Tensors or arrays); the learning rate follows the step.

        Raises `NameMismatchError` for an unknown kind of slot before anything is changed.
        """
        private = {public: slot for slot, public in self.public_names.items()}
        known = self.get_states()
        waiting = self._of_optax(set(states) - set(known))
        unknown = sorted(set(states) - set(known) - waiting)
        if unknown and type(self).set_states is States.set_states:
            raise NameMismatchError(
                f"{type(self).__name__} has no state named {', '.join(unknown)}; known: {sorted(known)}"
            )
        for name, value in states.items():
            if name == "step_counter":
                self.step_counter.set_value(int(np.asarray(value).reshape(())))
            elif name in known:
                self._restore(private.get(name, name), known[name], value)
            elif name in waiting:
                self._slots.restore(name, value)
        for rate in self._rates():
            if not isinstance(rate.schedule, Constant):
                rate.rewind(self._count())

    def _of_optax(self, names: set[str]) -> set[str]:
        """Which of these states an optax chain will have once it has met parameters."""
        if not names:
            return set()
        slots, shared = self._kinds_of_optax()
        return {n for n in names if n in slots or any(n == kind or n.startswith(f"{kind}.") for kind in shared)}

    def _restore(self, name: str, held: Any, value: Any) -> None:
        if isinstance(held, Tensor):
            held.copy_from(value)
        elif name in own.names(self) or name == "loss_scale":
            for key, item in value.items():
                if key in held:
                    held[key].copy_from(item)
                else:
                    held[key] = Tensor(data=np.asarray(item), requires_grad=False, name=str(key))
        else:
            self._slots.restore(name, value)

    def state_tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield "step", self.step_counter
        yield "lr", self.lr_value
        yield from self.groups.tensors().items()
        if self._features.accumulate > 1:
            yield "micro_step", self.micro_step
        if self._loss_scale is not None:
            for name, tensor in self._loss_scale.tensors().items():
                yield tree.join("loss_scale", name), tensor
        yield from self._slots.tensors()
        yield from own.own_tensors(self)

    def fresh_state(self) -> dict[str, Any]:
        params = {key: _handle(cell) for key, cell in self._slots.parameters().items()}
        slots, shared = self._initial(params)
        fresh = {path: tensor._cell.get() for path, tensor in own.own_tensors(self)}
        fresh.update(self._first_values)
        if self.overrides_apply:
            fresh.update(own.fresh_slots(self, params))
        fresh.update({"step": np.zeros(1, np.int32), "lr": self._rate.at(0)})
        fresh.update({path: rate.at(0) for path, rate in self.groups.rates()})
        if self._features.accumulate > 1:
            fresh["micro_step"] = np.zeros(1, np.int32)
        if self._loss_scale is not None:
            fresh.update({tree.join("loss_scale", n): value for n, value in self._loss_scale.fresh().items()})
        flat = {tree.join(slot, key): value for slot, held in slots.items() for key, value in held.items()}
        return {**fresh, **shared, **flat}

    def remembered(self) -> Callable[[], None]:
        slots, known, first = self._slots.remembered(), set(self._known_shared), dict(self._first_values)
        own_slots = own.remembered(self)

        def put_back() -> None:
            slots()
            own_slots()
            self._known_shared, self._first_values = known, first

        return put_back

    def values_came(self) -> None:
        """A constant rate is what was set; a schedule moves on from the step."""
        for rate in self._rates():
            if isinstance(rate.schedule, Constant):
                rate.schedule = Constant(float(rate.value.to_numpy()[0]))

    def _count(self) -> int:
        return int(self.step_counter.to_numpy()[0])

    def _rates(self) -> list[Rate]:
        return [self._rate, *(rate for _, rate in self.groups.rates())]


def _handle(cell: Any) -> Tensor:
    made = Tensor._of(None)
    made._cell = cell
    return made
