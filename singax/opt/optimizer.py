"""Optimizer: SINGA's interface over an optax chain.

The learning rate, the step counter and all slots are Tensors, so they live in the model's flat state: a new learning
rate does not compile anything again, and a compiled step carries the slots along.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from singax.autograd.tape import backward
from singax.errors import ArgumentError
from singax.layer import tree
from singax.mode import evaluating, local
from singax.opt import own
from singax.opt.averaging import Averaging
from singax.opt.features import Features
from singax.opt.groups import RATES, Frozen, Groups, check_patterns
from singax.opt.loss_scale import LossScale
from singax.opt.schedule import Constant, Rate, Schedule, as_schedule
from singax.opt.slots import Slots
from singax.opt.states import States
from singax.tensor import Tensor

Pairs = Iterable[tuple[Tensor, Any]]


class Optimizer(States, Averaging):
    """Base class. `optimizer(loss)` computes gradients, updates every parameter they reach, and counts a step.

    **Args**
      lr: a number, a `DecayScheduler`, or an optax schedule (a function of the step).
      dtype: SINGA's, without effect: slots have the dtype of their parameter.
      schedules: further numbers or schedules by name, for `transform`; they are attributes as well, and setting one
        compiles again.

    Options, by keyword, of every optimizer:
      clip_norm: scale all gradients together so that their norm is at most this.
      clip_value: clip every gradient to ± this, before `clip_norm`.
      accumulate: update only at every k-th step, with the mean gradient of k steps (1). `step_counter` counts updates.
      average: decay d of an exponential moving average of the parameters, such as 0.999; see `averaged`.
      groups: options for parameters by name pattern: `{"*.b": {"weight_decay": 0}, "head.*": {"lr": 0.01}}`. An option
        is `lr`, `lr_scale` (a factor on the rate) or a number among `schedules`; the last match holds.
      freeze: a name pattern, or several: these parameters get no update and no slot.
      loss_scale: a `LossScale`, for float16. May also be assigned later: `optimizer.loss_scale = LossScale()`.

    A subclass defines `transform(hyper)`, an `optax.GradientTransformation` that turns gradients into directions; the
    update is w ← w − lr · direction. `hyper` maps the names in `schedules` to scalars at the current step. Or, as in
    SINGA, it overrides `apply` and changes the parameter in place; Tensors in its dicts and attributes are its slots.

    `lr` may be set at any time: a number takes effect at the next step without compiling again.

    **Raises** `ArgumentError` for values out of range, and `NameMismatchError` at the first step for a pattern that
    matches no parameter.

    >>> import singax as sx
    >>> class Signs(Optimizer):
    ...     def apply(self, param_name, param_value, param_grad):
    ...         param_value -= self.lr_value * sx.autograd.sign(param_grad)
    >>> w = sx.Tensor(data=[1.0, 2.0], stores_grad=True)
    >>> Signs(0.5).apply("w", w, sx.Tensor(data=[3.0, -4.0])); w.to_numpy()
    array([0.5, 2.5], dtype=float32)
    """

    slot_names: ClassVar[dict[str, str]] = {}
    public_names: ClassVar[dict[str, str]] = {}
    slots_start_at_zero: ClassVar[bool] = True
    never_negative: ClassVar[tuple[str, ...]] = ("momentum", "weight_decay")
    overrides_apply: ClassVar[bool] = False
    rate_is_ours: ClassVar[bool] = True

    _internal: ClassVar[frozenset[str]] = frozenset(
        {"schedules", "dtype", "step_counter", "micro_step", "lr_value", "groups", "frozen"}
        | {"_features", "_slots", "_loss_scale", "_given_scale", "_rate", "_changed", "_compiled", "_known_shared"}
        | {"_applying", "_patterns_checked", "_first_values", "_owner"}
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "apply" in cls.__dict__:
            cls.overrides_apply = True
            type.__setattr__(cls, "apply", own.wrapped_apply(cls.__dict__["apply"]))

    def __init__(
        self,
        lr: Any,
        dtype: Any = None,
        *,
        schedules: Mapping[str, Any] | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        accumulate: int = 1,
        average: float | None = None,
        groups: Mapping[str, Mapping[str, Any]] | None = None,
        freeze: str | Iterable[str] | None = None,
        loss_scale: LossScale | None = None,
    ) -> None:
        self._owner: Any = self
        self.dtype = np.dtype(np.float32) if dtype is None else dtype
        self.schedules: dict[str, Schedule] = {
            name: as_schedule(value, name) for name, value in (schedules or {}).items()
        }
        self.groups = Groups(groups, self._group_options())
        self.frozen = Frozen(freeze)
        self._check_not_negative()
        self._features = Features(clip_norm, clip_value, accumulate, average)
        self._rate = Rate(lr, "lr")
        self.lr_value = self._rate.value
        self.step_counter = Tensor(data=np.zeros(1, np.int32), requires_grad=False, name="step")
        self.micro_step = Tensor(data=np.zeros(1, np.int32), requires_grad=False, name="micro_step")
        self._slots = Slots()
        self._known_shared: set[frozenset[str]] = set()
        self.__dict__.setdefault("_first_values", {})
        self._changed = self._applying = self._patterns_checked = False
        self._compiled: Any = None
        self._loss_scale: LossScale | None = None
        self._given_scale: LossScale | None = None
        self._set_loss_scale(loss_scale)

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
        if evaluating():
            return
        self.apply_gradients(self.gradients(loss))

    def gradients(self, loss: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(parameter, gradient) for every parameter that `loss` reaches; the loss scale is divided out again."""
        if self._loss_scale is None:
            return list(backward(loss))
        found = list(backward(loss, self._loss_scale.scale))
        return [(parameter, self._loss_scale.unscaled(gradient)) for parameter, gradient in found]

    def apply_gradients(self, pairs: Pairs) -> None:
        """Update many parameters together, given (parameter, gradient). Call `step()` afterwards."""
        triples = [(parameter.name, parameter, gradient) for parameter, gradient in pairs]
        self._check_patterns([name for name, _, _ in triples])
        self._apply(triples)

    def apply(self, param_name: str, param_value: Tensor, param_grad: Any) -> None:
        """Update one parameter in place. Call `step()` when all are done.

        Raises `ArgumentError` where the optimizer needs all gradients together (clip_norm, loss_scale).
        """
        if self._applying:
            self._apply_inside(param_name, param_value, param_grad)
        else:
            self._apply([(param_name, param_value, param_grad)], alone=True)

    def update(self, param: Tensor, grad: Any) -> None:
        """`apply` under the parameter's own name."""
        self.apply(param.name, param, grad)

    def step(self) -> None:
        """Count a step, and move scheduled learning rates on."""
        if evaluating():
            return
        self._join_step()
        for name, value in self._features.counted(self._counters()).items():
            getattr(self, "step_counter" if name == "step" else name).data = value
        if self._loss_scale is not None:
            self._loss_scale.step()
        for rate in self._rates():
            rate.move(self.step_counter._cell.array())

    @property
    def lr(self) -> Any:
        """The schedule of the learning rate; assign a number or a schedule."""
        return self._rate.schedule

    @lr.setter
    def lr(self, lr: Any) -> None:
        if self._rate.change(lr, self._count()):
            self._note_change()

    @property
    def loss_scale(self) -> LossScale | None:
        """The loss scale, or None; assign a `LossScale` for float16."""
        return self._loss_scale

    @loss_scale.setter
    def loss_scale(self, loss_scale: LossScale | None) -> None:
        self._set_loss_scale(loss_scale)
        self._note_change()

    def _set_loss_scale(self, loss_scale: LossScale | None) -> None:
        if not isinstance(loss_scale, LossScale | None):
            raise ArgumentError(f"loss_scale is a LossScale or None. Received: {type(loss_scale).__name__}")
        self._loss_scale = loss_scale
        self._features = replace(self._features, scaled=loss_scale is not None)

    def device_check(self, *tensors: Tensor) -> None:
        """Move all Tensors to the device of the first; nothing happens while a step is being compiled."""
        for tensor in tensors[1:]:
            if not local.tracing and tensor.device != tensors[0].device:
                tensor.to_device(tensors[0].device)

    # -- inside -------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """A schedule by its name: `sgd.momentum`."""
        schedules = self.__dict__.get("schedules", {})
        if name not in schedules:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return schedules[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("schedules", {}):
            self._set_schedule(name, value)
            return
        if name in Optimizer._internal and not own.replaces_values(self.__dict__.get(name), value):
            object.__setattr__(self, name, value)
            return
        if own.replaces_values(self.__dict__.get(name), value):
            self.__dict__[name].data = value
            return
        value = own.adopted(value)
        own.note_birth(value)
        object.__setattr__(self, name, value)
        if isinstance(value, Tensor):
            self.__dict__.setdefault("_first_values", {})[name] = value._cell.get()
        if isinstance(value, Tensor | dict):
            tree.structure_changed()

    def _group_options(self) -> set[str]:
        if self.overrides_apply:
            return set()
        return {*RATES, *self.schedules} if self.rate_is_ours else {"lr_scale"}

    def _set_schedule(self, name: str, value: Any) -> None:
        """`sgd.momentum = 0.8`: steps are compiled again, since such numbers are constants of the program."""
        before, schedules = self.schedules, {**self.schedules, name: as_schedule(value, name)}
        self.schedules = schedules
        try:
            self._check_not_negative()
        except ArgumentError:
            self.schedules = before
            raise
        self._slots.look_again()
        self._note_change()

    def _check_not_negative(self) -> None:
        for schedules in (self.schedules, *(group.schedules for group in self.groups.values())):
            for name in self.never_negative:
                schedule = schedules.get(name)
                if isinstance(schedule, Constant) and schedule.init_value < 0:
                    raise ArgumentError(f"{name} must not be negative. Received: {schedule.init_value}")

    def _check_patterns(self, names: list[str]) -> None:
        """Once: every pattern matches a parameter of the model, or of the loss where there is no model."""
        if self._patterns_checked or not (self.groups or self.frozen.patterns):
            return
        if local.step is not None:
            names = names + [t.name for _, t in tree.tensors(local.step.module) if t.stores_grad]
        check_patterns([*self.groups, *self.frozen.patterns], set(names))
        self._patterns_checked = True

    def _note_change(self) -> None:
        self._changed, self._compiled = True, None
        tree.structure_changed()

    def expect_underflow(self, narrow: bool) -> None:
        if narrow and self._loss_scale is None:
            self._given_scale = LossScale()
            self.loss_scale = self._given_scale
        elif not narrow and self._given_scale is not None:
            self.loss_scale = None if self._loss_scale is self._given_scale else self._loss_scale
            self._given_scale = None

    def take_change(self) -> bool:
        changed, self._changed = self._changed, False
        return changed

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimizer:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            made.__dict__[name] = None if name == "_compiled" else copy.deepcopy(value, memo)
        made._slots.relinked()
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self._rate.shown})"
