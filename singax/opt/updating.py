"""What happens in an update: arrays out of the Tensors, one pure function, arrays back.

The pure function is jitted where a step runs eagerly, and traced into the step where it is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.layer import tree
from singax.mode import NeedsBuild, local, store_state
from singax.opt import own
from singax.opt.features import BARE, SLOTS, Features, when
from singax.opt.groups import Frozen, Groups
from singax.opt.leaves import Arrays, Leaves, SlotArrays, kept_dtypes, merged
from singax.opt.loss_scale import LossScale
from singax.opt.schedule import Hyper, Schedule
from singax.opt.slots import Made, Slots, put, slots_came
from singax.tensor import Tensor

if TYPE_CHECKING:
    import optax

Named = dict[str, tuple[Tensor, Any]]


class Updating(tree.Stateful):
    """Mixin of Optimizer."""

    slot_names: ClassVar[dict[str, str]]
    slots_start_at_zero: ClassVar[bool]
    overrides_apply: ClassVar[bool]
    rate_is_ours: ClassVar[bool]
    _internal: ClassVar[frozenset[str]]

    schedules: dict[str, Schedule]
    groups: Groups
    frozen: Frozen
    step_counter: Tensor
    micro_step: Tensor
    lr_value: Tensor
    _owner: Any
    _features: Features
    _slots: Slots
    _loss_scale: LossScale | None
    _compiled: Any
    _known_shared: set[frozenset[str]]
    _applying: bool
    _first_values: dict[str, Any]

    def transform(self, hyper: Hyper) -> optax.GradientTransformation:
        """The chain that turns gradients into directions."""
        raise NotImplementedError(f"{type(self).__name__} defines neither transform nor apply")

    def apply(self, param_name: str, param_value: Tensor, param_grad: Any) -> None:
        """Update one parameter in place."""
        raise NotImplementedError

    # -- one update ---------------------------------------------------------------------------------------------

    def _apply(self, triples: list[tuple[str, Tensor, Any]], alone: bool = False) -> None:
        reason = self._features.needs_all_gradients if alone else ""
        if reason:
            raise ArgumentError(
                f"{reason} looks at all gradients together: call the optimizer with the loss, or "
                f"apply_gradients([(parameter, gradient), …]). Received: one gradient, of {triples[0][0]}"
            )
        named = self._named(triples)
        if named:
            self._join_step()
            self._ensure({key: parameter for key, (parameter, _) in named.items()})
            (self._run_own if self.overrides_apply else self._run)(named)

    def _named(self, triples: list[tuple[str, Tensor, Any]]) -> Named:
        """Key → (parameter, gradient) for all that are not frozen."""
        found: Named = {}
        for name, parameter, gradient in triples:
            value = _checked_gradient(name, parameter, gradient)
            if name not in self.frozen:
                found[self._slots.key_of(name, parameter)] = (parameter, value)
            if local.step is not None:  # frozen ones too: nobody need be told that they were not trained
                local.step.updated.add(id(parameter._cell))
        return found

    def _run(self, named: Named, features: Features | None = None) -> None:
        params = {key: parameter._cell.array() for key, (parameter, _) in named.items()}
        grads = {key: gradient for key, (_, gradient) in named.items()}
        slots, shared = self._slots.arrays(named), self._slots.shared_arrays()
        if features is None and not local.tracing:
            self._compiled = self._compiled or jax.jit(self._pure_update)
            new = self._compiled(params, grads, slots, shared, self._numbers())
        else:
            new = self._pure_update(params, grads, slots, shared, self._numbers(), features)
        self._store(named, *new)

    def _store(self, named: Named, values: Arrays, slots: SlotArrays, shared: Arrays, finite: Arrays) -> None:
        for key, value in values.items():
            put(named[key][0], value)
        self._slots.store(slots, shared)
        if finite and self._loss_scale is not None:
            put(self._loss_scale.finite, finite["finite"])

    def _counters(self) -> Arrays:
        found = {"step": self.step_counter._cell.array()}
        if self._features.accumulate > 1:
            found["micro_step"] = self.micro_step._cell.array()
        if self._loss_scale is not None:
            found["finite"] = self._loss_scale.finite._cell.array()
        return found

    def _numbers(self) -> Arrays:
        rates = {path: tensor._cell.array() for path, tensor in self.groups.tensors().items()}
        return {**self._counters(), "lr": self.lr_value._cell.array(), "rates": rates}

    # -- pure ---------------------------------------------------------------------------------------------------

    def _pure_update(
        self,
        params: Arrays,
        grads: Arrays,
        slots: SlotArrays,
        shared: Arrays,
        numbers: Arrays,
        features: Features | None = None,
    ) -> tuple[Arrays, SlotArrays, Arrays, Arrays]:
        features = self._features if features is None else features
        ready, grads, accumulators, finite = features.gathered(grads, slots, numbers)
        held = {slot: arrays for slot, arrays in slots.items() if slot not in accumulators}

        def update() -> tuple[Arrays, SlotArrays, Arrays]:
            values, after, common = self._moved(params, grads, held, shared, numbers)
            averages = features.averaged(values, slots, numbers["step"])
            return merged([({}, held, shared), (values, {**after, **averages}, common)])

        values, after, common = when(ready, update, (params, held, shared))
        return values, {**after, **accumulators}, common, finite

    def _moved(
        self, params: Arrays, grads: Arrays, slots: SlotArrays, shared: Arrays, numbers: Arrays
    ) -> tuple[Arrays, SlotArrays, Arrays]:
        """The rule itself, for each part of the parameters with its own hyperparameters."""
        made = []
        for label, (changed, keys) in self._parts(params).items():
            some = {key: params[key] for key in keys}
            transformation = self.transform(Hyper({**self.schedules, **changed}, numbers["step"]))
            leaves = Leaves(self.slot_names, keys, label)
            state = leaves.packed(transformation.init, some, slots, shared, numbers["step"])
            directions, after = transformation.update({key: grads[key] for key in keys}, state, some)
            values = {key: self._stepped(key, some[key], directions[key], numbers) for key in keys}
            made.append((values, *leaves.unpacked(kept_dtypes(after, state))))
        return merged(made)

    def _stepped(self, key: str, value: Any, direction: Any, numbers: Arrays) -> Any:
        name = self._slots.names[key]
        if self.rate_is_ours:
            return (value - self.groups.rate(name, numbers["lr"], numbers["rates"])[0] * direction).astype(value.dtype)
        if self.groups.of(name):
            direction = self.groups.rate(name, jnp.ones(1, jnp.float32), numbers["rates"])[0] * direction
        return (value + direction).astype(value.dtype)

    def _parts(self, params: Mapping[str, Any]) -> dict[str, tuple[dict[str, Schedule], list[str]]]:
        return self.groups.parts({key: self._slots.names.get(key, key) for key in params})

    # -- a subclass's own `apply` --------------------------------------------------------------------------------

    def _run_own(self, named: Named) -> None:
        """What `_pure_update` does, around the subclass's `apply`."""
        slots, numbers = self._slots.arrays(named), self._numbers()
        grads = {key: gradient for key, (_, gradient) in named.items()}
        ready, grads, accumulators, finite = self._features.gathered(grads, slots, numbers)
        cells = [parameter._cell for parameter, _ in named.values()] + self._cells_of_apply()
        before = [cell.array() for cell in cells]
        with own.applying(self):
            for key, (parameter, _) in named.items():
                self.apply(key, parameter, Tensor._of(grads[key], f"{key}_g"))
        for cell, value in own.guarded(cells, before, ready):
            store_state(cell, value)
        values = {key: parameter._cell.array() for key, (parameter, _) in named.items()}
        averages = self._features.averaged(values, slots, numbers["step"])
        averages = {slot: when(ready, lambda s=slot: averages[s], slots[slot]) for slot in averages}
        self._store({}, {}, {**accumulators, **averages}, {}, finite)

    def _cells_of_apply(self) -> list[Any]:
        """The states that an `apply` may change, besides the parameters."""
        inner = [t for slot, held in self._slots.held.items() if slot not in SLOTS for t in held.values()]
        tensors = [*inner, *self._slots.shared.values(), *(t for _, t in own.own_tensors(self))]
        return [tensor._cell for tensor in tensors]

    def _apply_inside(self, name: str, parameter: Tensor, gradient: Any) -> None:
        """`super().apply` within a subclass's own `apply`."""
        if not own.rehearsing():
            key = self._slots.key_of(name, parameter)
            self._run({key: (parameter, _checked_gradient(name, parameter, gradient))}, BARE)

    # -- slots --------------------------------------------------------------------------------------------------

    def _ensure(self, params: dict[str, Tensor]) -> None:
        missing = self._slots.ask(params)
        if not missing and self._has_shared(params):
            return
        self._slots.wanted.update(missing or params)
        if local.tracing:
            raise NeedsBuild
        self.prepare()
        slots_came()

    def _has_shared(self, params: Mapping[str, Tensor]) -> bool:
        """Whether the values that optax keeps for all of these parameters together are there."""
        keys = frozenset(params)
        if not self.slot_names and not self.overrides_apply and keys not in self._known_shared:
            if not set(self._made_by_optax(_shapes(params))[1]) <= set(self._slots.shared):
                return False
            self._known_shared.add(keys)
        return True

    def want(self, parameters: list[Tensor]) -> set[int]:
        params = {self._slots.key_of(p.name, p): p for p in parameters if p.name not in self.frozen}
        return {id(p._cell) for p in self._slots.ask(params).values()}

    def prepare(self) -> None:
        if self._slots.wanted:
            params = self._slots.create(self._initial)
            if self.overrides_apply:
                self._first_values.update(
                    {path: value for path, value in own.rehearse(self, params).items() if "." not in path}
                )

    def forget(self, cells: set[int]) -> bool:
        before = [path for path, _ in self.state_tensors()]
        for key in self._slots.forget(cells):
            own.forget(self, key)
        if before == [path for path, _ in self.state_tensors()]:
            return False
        tree.structure_changed()
        return True

    def _initial(self, params: dict[str, Tensor]) -> Made:
        """Initial arrays of all slots for these parameters."""
        slots: SlotArrays = {}
        shared: Arrays = {}
        if self._has_transform():
            slots, shared = self._made_by_optax(_shapes(params))
            if self.slots_start_at_zero and self.slot_names:
                slots = {s: {k: np.zeros(a.shape, a.dtype) for k, a in held.items()} for s, held in slots.items()}
            else:
                values = {key: parameter._cell.array() for key, parameter in params.items()}
                slots, shared = jax.jit(self._init_of_optax)(values)
        return {**slots, **self._features.slots(params)}, shared

    def _made_by_optax(self, params: Arrays) -> Any:
        return jax.eval_shape(self._init_of_optax, params)

    def _kinds_of_optax(self) -> tuple[set[str], set[str]]:
        """The slots that any optax chain will ask for, and the values that it shares between parameters."""
        if self.slot_names or not self._has_transform():
            return set(), set()
        probe = {f"of rank {rank}": jax.ShapeDtypeStruct((1,) * rank, np.float32) for rank in range(5)}
        slots, shared = self._made_by_optax(probe)
        return set(slots), set(shared)

    def _init_of_optax(self, params: Arrays) -> tuple[SlotArrays, Arrays]:
        made: list[tuple[Arrays, SlotArrays, Arrays]] = []
        for label, (changed, keys) in self._parts(params).items():
            transformation = self.transform(Hyper({**self.schedules, **changed}))
            state = transformation.init({key: params[key] for key in keys})
            made.append(({}, *Leaves(self.slot_names, keys, label).unpacked(state)))
        return merged(made)[1:]

    def _has_transform(self) -> bool:
        return not self.overrides_apply or type(self).transform is not Updating.transform

    def _join_step(self) -> None:
        if local.step is not None:
            local.step.module._ledger.welcome(self._owner)


def _shapes(params: Mapping[str, Tensor]) -> Arrays:
    return {key: jax.ShapeDtypeStruct(p.shape, p.dtype) for key, p in params.items()}


def _checked_gradient(name: str, parameter: Tensor, gradient: Any) -> Any:
    if not isinstance(parameter, Tensor):
        raise ArgumentError(f"{name}: the parameter is a Tensor. Received: {type(parameter).__name__}")
    if not jnp.issubdtype(parameter.dtype, jnp.inexact):
        raise DTypeError(f"{name}: an optimizer updates floating parameters. Received: {parameter.dtype}")
    value = gradient._cell.array() if isinstance(gradient, Tensor) else jnp.asarray(gradient)
    if tuple(value.shape) != parameter.shape:
        raise ShapeError(f"{name} has shape {parameter.shape}; its gradient has shape {tuple(value.shape)}")
    return value
