"""Optimizer: SINGA's interface over an optax chain.

The learning rate, the step counter and all slots are Tensors, so they live in the model's flat state: a new learning
rate does not compile anything again, and a compiled step carries the slots along.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from singax.autograd.tape import backward
from singax.errors import ArgumentError, NameMismatchError, ShapeError
from singax.layer import tree
from singax.mode import NeedsBuild, local, store_state
from singax.opt.schedule import Constant, DecayScheduler, Schedule, as_schedule, value_at
from singax.storage import Cell, Unfilled
from singax.tensor import Tensor

if TYPE_CHECKING:
    import optax

Arrays = dict[str, Any]


class Optimizer(tree.Stateful):
    """Base class. `optimizer(loss)` computes gradients, updates every parameter they reach, and counts a step.

    **Args**
      lr: a number, a `DecayScheduler`, or an optax schedule (a function of the step).

    A subclass defines `transform(hyper)`, an `optax.GradientTransformation` that turns gradients into directions; the
    update is w ← w − lr · direction. `hyper` maps the names in `schedules` to scalars at the current step.

    `lr` may be set at any time: a number takes effect at the next step without compiling again.
    """

    slot_names: ClassVar[dict[str, str]] = {}
    _scaled_by_lr = True

    def __init__(self, lr: Any, **schedules: Any) -> None:
        self.schedules: dict[str, Schedule] = {name: as_schedule(value, name) for name, value in schedules.items()}
        self._schedule = as_schedule(lr, "lr")
        self.step_counter = Tensor(data=np.zeros(1, np.int32), requires_grad=False, name="step")
        self.lr_value = Tensor(data=self._lr_at(0), requires_grad=False, name="lr")
        self._slots: dict[str, dict[str, Tensor]] = {}
        self._shared: dict[str, Tensor] = {}
        self._keys: dict[int, tuple[Cell, str]] = {}
        self._wanted: dict[str, Tensor] = {}
        self._changed = False
        self._slotless: bool | None = None
        self._compiled: Any = None

    # -- what subclasses say ------------------------------------------------------------------------------------

    def transform(self, hyper: Arrays) -> optax.GradientTransformation:
        """The chain that turns gradients into directions."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform")

    # -- SINGA's interface --------------------------------------------------------------------------------------

    def __call__(self, loss: Tensor) -> None:
        """Backward from `loss`, update, count a step."""
        self.call(loss)
        self.step()

    def backward_and_update(self, loss: Tensor) -> None:
        """The same as calling the optimizer."""
        self(loss)

    def call(self, loss: Tensor) -> None:
        """Backward from `loss` and update, without counting a step."""
        self._apply([(p.name, p, g) for p, g in backward(loss)])

    def apply(self, param_name: str, param_value: Tensor, param_grad: Any) -> None:
        """Update one parameter in place. Call `step()` when all are done."""
        self._apply([(param_name, param_value, param_grad)])

    def update(self, param: Tensor, grad: Any) -> None:
        """`apply` under the parameter's own name."""
        self.apply(param.name, param, grad)

    def step(self) -> None:
        """Count a step, and move a scheduled learning rate on."""
        self._join_step()
        count = self.step_counter._cell.array() + 1
        self.step_counter.data = count
        if not isinstance(self._schedule, Constant):
            self.lr_value.data = value_at(self._schedule, count).reshape(1)

    @property
    def lr(self) -> Schedule:
        """The schedule of the learning rate; assign a number or a schedule."""
        return self._schedule

    @lr.setter
    def lr(self, lr: Any) -> None:
        schedule = as_schedule(lr, "lr")
        if not (isinstance(schedule, Constant) and isinstance(self._schedule, Constant)):
            self._changed = True
            tree.structure_changed()
        self._schedule = schedule
        self.lr_value.copy_from_numpy(self._lr_at(int(self.step_counter.to_numpy()[0])))

    def _lr_at(self, step: int) -> np.ndarray:
        if isinstance(self._schedule, DecayScheduler) and step == 0:
            return np.array([self._schedule.init_value], np.float32)
        return np.asarray(value_at(self._schedule, np.array([step], np.int32)), np.float32).reshape(1)

    def get_states(self) -> dict[str, Any]:
        """SINGA's form: `step_counter` as a NumPy number, and a dict name → Tensor for each kind of slot."""
        return {
            "step_counter": np.float32(self.step_counter.to_numpy()[0]),
            **{slot: dict(held) for slot, held in self._slots.items()},
            **self._shared,
        }

    def set_states(self, states: Mapping[str, Any]) -> None:
        """Restore what `get_states` returned (Tensors or arrays); the learning rate follows the step.

        Raises `NameMismatchError` for an unknown kind of slot before anything is changed.
        """
        known = {"step_counter", *self._slots, *self._shared, *self.slot_names.values()}
        unknown = sorted(set(states) - known)
        if unknown:
            raise NameMismatchError(
                f"{type(self).__name__} has no state named {', '.join(unknown)}; known: {sorted(known)}"
            )
        for slot, held in states.items():
            if slot == "step_counter":
                self.step_counter.set_value(int(np.asarray(held).reshape(())))
            elif slot in self._shared:
                self._shared[slot].copy_from(held)
            else:
                self._restore_slot(slot, held)
        if not isinstance(self._schedule, Constant):
            self.lr_value.copy_from_numpy(self._lr_at(int(self.step_counter.to_numpy()[0])))

    def _restore_slot(self, slot: str, held: Mapping[str, Any]) -> None:
        mine = self._slots.setdefault(slot, {})
        for key, value in held.items():
            if key in mine:
                mine[key].copy_from(value)
            else:
                mine[key] = Tensor(data=np.asarray(value), requires_grad=False, name=key)
        tree.structure_changed()

    # -- updating -----------------------------------------------------------------------------------------------

    def _apply(self, triples: list[tuple[str, Tensor, Any]]) -> None:
        named = {self._key_of(name, p): (p, _checked_gradient(name, p, g)) for name, p, g in triples}
        if not named:
            return
        self._join_step()
        self._ensure_slots({key: p for key, (p, _) in named.items()})
        params = {key: p._cell.array() for key, (p, _) in named.items()}
        grads = {key: g for key, (_, g) in named.items()}
        slots = {slot: {key: held[key]._cell.array() for key in named} for slot, held in self._slots.items()}
        shared = {name: t._cell.array() for name, t in self._shared.items()}
        run = self._pure_update if local.tracing else self._jitted()
        new = run(params, grads, slots, shared, self.lr_value._cell.array(), self.step_counter._cell.array())
        self._store({key: p for key, (p, _) in named.items()}, *new)

    def _jitted(self) -> Any:
        if self._compiled is None:
            self._compiled = jax.jit(self._pure_update)
        return self._compiled

    def _store(self, params: dict[str, Tensor], values: Arrays, slots: Any, shared: Arrays) -> None:
        for key, parameter in params.items():
            _put(parameter, values[key])
            if local.step is not None:
                local.step.updated.add(id(parameter._cell))
            for slot, held in slots.items():
                _put(self._slots[slot][key], held[key])
        for name, value in shared.items():
            _put(self._shared[name], value)

    def _pure_update(
        self, params: Arrays, grads: Arrays, slots: dict[str, Arrays], shared: Arrays, lr: Any, count: Any
    ) -> tuple[Arrays, dict[str, Arrays], Arrays]:
        hyper = {name: value_at(schedule, count) for name, schedule in self.schedules.items()}
        transformation = self.transform(hyper)
        state = self._packed(jax.eval_shape(transformation.init, params), params, slots, shared, count)
        directions, after = transformation.update(grads, state, params)
        state = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state)
        factor = -lr[0]
        values = {key: self._moved(params[key], directions[key], factor) for key in params}
        return values, *self._unpacked(state, params)

    def _moved(self, value: Any, direction: Any, factor: Any) -> Any:
        change = factor * direction if self._scaled_by_lr else direction
        return (value + change).astype(value.dtype)

    # -- between optax's state and ours -------------------------------------------------------------------------

    def _place(self, path: Any, params: Mapping[str, Any]) -> tuple[str, str | None]:
        """Where a leaf of optax's state lives: (slot, parameter key), or (name, None) for a shared value."""
        parts = [_part(entry) for entry in path]
        keys = [part for part in parts if part in params]
        name = ".".join(self.slot_names.get(part, part) for part in parts if part not in params and part)
        if self.slot_names:
            name = name.rpartition(".")[2]
        elif not keys and len(params) == 1:  # one parameter updated by itself counts for itself
            name = tree.join(name, *params)
        return name, keys[0] if keys else None

    def _packed(self, template: Any, params: Arrays, slots: Any, shared: Arrays, count: Any) -> Any:
        def pick(path: Any, leaf: Any) -> Any:
            name, key = self._place(path, params)
            if key is not None:
                return slots[name][key]
            return count[0] if self._counts(name) else shared[name]

        return jax.tree_util.tree_map_with_path(pick, template)

    def _unpacked(self, state: Any, params: Mapping[str, Any]) -> tuple[dict[str, Arrays], Arrays]:
        slots: dict[str, Arrays] = {}
        shared: Arrays = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(state):
            name, key = self._place(path, params)
            if key is not None:
                slots.setdefault(name, {})[key] = leaf
            elif not self._counts(name):
                shared[name] = leaf
        return slots, shared

    def _counts(self, name: str) -> bool:
        """Whether this shared value is optax's step count, for which SINGA's optimizers use their own counter."""
        return bool(self.slot_names) and name == "count"

    # -- slots --------------------------------------------------------------------------------------------------

    def _key_of(self, name: str, parameter: Tensor) -> str:
        """The key of a parameter's slots: its name, made unique where two parameters share it."""
        cell = parameter._cell
        if id(cell) not in self._keys:
            taken = {key for _, key in self._keys.values()}
            candidates = (name if number == 1 else f"{name}#{number}" for number in range(1, len(taken) + 2))
            self._keys[id(cell)] = (cell, next(key for key in candidates if key not in taken))
        return self._keys[id(cell)][1]

    def _ensure_slots(self, params: dict[str, Tensor]) -> None:
        missing = {key: p for key, p in params.items() if not self._has_slots(key)}
        if not missing and self._has_shared(params):
            return
        self._wanted.update(missing or params)
        if local.tracing:
            raise NeedsBuild
        self.prepare()

    def _has_slots(self, key: str) -> bool:
        return self._stateless() or any(key in held for held in self._slots.values())

    def _has_shared(self, params: dict[str, Tensor]) -> bool:
        """Whether the values that optax keeps for all of these parameters together are there."""
        if self.slot_names:
            return True
        shapes = {key: jax.ShapeDtypeStruct(p.shape, p.dtype) for key, p in params.items()}
        return set(self._unpacked(self._template(shapes), shapes)[1]) <= set(self._shared)

    def _stateless(self) -> bool:
        if self._slotless is None:
            probe = {"w": jax.ShapeDtypeStruct((1,), jnp.float32)}
            self._slotless = not jax.tree.leaves(self._template(probe))
        return self._slotless

    def _template(self, params: Arrays) -> Any:
        hyper = {name: np.float32(0) for name in self.schedules}
        return jax.eval_shape(lambda p: self.transform(hyper).init(p), params)

    def want(self, parameters: list[Tensor]) -> set[int]:
        params = {self._key_of(p.name, p): p for p in parameters}
        fresh = {key: p for key, p in params.items() if not self._has_slots(key)}
        self._wanted.update(fresh)
        return {id(p._cell) for p in fresh.values()}

    def prepare(self) -> None:
        if not self._wanted:
            return
        slots, shared = self._unpacked(self._initial(self._wanted), self._wanted)
        for slot, held in slots.items():
            mine = self._slots.setdefault(slot, {})
            for key, value in held.items():
                if key not in mine:
                    mine[key] = _slot_tensor(value, f"{slot}.{key}", self._wanted[key]._cell.place)
        for name, value in shared.items():
            self._shared.setdefault(name, _slot_tensor(value, name, None))
        self._wanted.clear()
        tree.structure_changed()

    def _initial(self, params: dict[str, Tensor]) -> Any:
        """The initial state of optax for these parameters: zeros for SINGA's optimizers, whatever optax says else."""
        shapes = {key: jax.ShapeDtypeStruct(p.shape, p.dtype) for key, p in params.items()}
        if self.slot_names:
            return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._template(shapes))
        values = {key: p._cell.array() for key, p in params.items()}
        return jax.jit(lambda p: self.transform({}).init(p))(values)

    def forget(self, cells: set[int]) -> bool:
        keys = {key for cell, key in self._keys.values() if id(cell) in cells}
        dropped = False
        for held in self._slots.values():
            for key in keys & set(held):
                del held[key]
                dropped = True
        if dropped:
            tree.structure_changed()
        return dropped

    def take_change(self) -> bool:
        changed, self._changed = self._changed, False
        return changed

    def state_tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield "step", self.step_counter
        yield "lr", self.lr_value
        for name, tensor in self._shared.items():
            yield name, tensor
        for slot, held in self._slots.items():
            for key, tensor in held.items():
                yield tree.join(slot, key), tensor

    def fresh_state(self) -> dict[str, Any]:
        fresh = {"step": np.zeros(1, np.int32), "lr": self._lr_at(0)}
        params = {key: Tensor._of(cell.array()) for cell, key in self._keys.values() if self._has_slots(key)}
        slots, shared = self._unpacked(self._initial(params), params)
        flat = {tree.join(slot, key): value for slot, held in slots.items() for key, value in held.items()}
        return {**fresh, **shared, **flat}

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimizer:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            made.__dict__[name] = None if name == "_compiled" else copy.deepcopy(value, memo)
        made._keys = {id(cell): (cell, key) for cell, key in made._keys.values()}
        return made

    def _join_step(self) -> None:
        if local.step is not None:
            local.step.module._ledger.welcome(self)

    def __repr__(self) -> str:
        held = self.lr_value._cell.get()
        shown = (
            "schedule"
            if isinstance(held, Unfilled) or not isinstance(self._schedule, Constant)
            else self._schedule.init_value
        )
        return f"{type(self).__name__}(lr={shown})"


def _part(entry: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def _slot_tensor(value: Any, name: str, place: Any) -> Tensor:
    made = Tensor._of(value, name=name, requires_grad=False)
    made._cell.place = place
    made._cell.lent = False
    return made


def _put(tensor: Tensor, value: Any) -> None:
    if local.step is not None:
        local.step.check_known(tensor.name, tensor._cell)
    store_state(tensor._cell, value)


def _checked_gradient(name: str, parameter: Tensor, gradient: Any) -> Any:
    if not isinstance(parameter, Tensor):
        raise ArgumentError(f"{name}: the parameter is a Tensor. Received: {type(parameter).__name__}")
    value = gradient._cell.array() if isinstance(gradient, Tensor) else jnp.asarray(gradient)
    if tuple(value.shape) != parameter.shape:
        raise ShapeError(f"{name} has shape {parameter.shape}; its gradient has shape {tuple(value.shape)}")
    return value
