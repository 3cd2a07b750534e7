"""Any Flax module as a layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax

from singax import dispatch, mode
from singax.errors import ArgumentError
from singax.layer.container_base import BuiltByForward
from singax.layer.flax_values import Adapter, Plan
from singax.mode import local
from singax.tensor import Tensor

_TRAINING = ("train", "training", "is_training")
_EVALUATION = ("deterministic", "use_running_average")


class FromFlax(BuiltByForward):
    """A Flax Linen or NNX module as a layer: y = module(*inputs).

    Parameters and states are created from the first input like those of any other layer, by the initialisers of the
    module under a key that depends on the seed and the path of the layer alone. They are named as in Flax, joined by
    dots.

    - **Linen**: "params" are parameters (`Dense_0.kernel`), other collections states (`batch_stats.BatchNorm_0.mean`).
      What `sow` collects is dropped.
    - **NNX**: `nnx.Param` is a parameter, every other variable a state (`norm.mean`), except for random streams. Every
      call works on a fresh module, in the mode of `module.train()` or `module.eval()`. An instance brings its values.

    Random keys (dropout) come from singax's generator; one is drawn if the module uses any. Training mode is handed to
    the module as far as its `__call__` takes one of the arguments `train`, `training`, `is_training` (True in training
    mode), `deterministic`, `use_running_average` (False in training mode), unless the call or `kwargs` gives it or a
    field of the module sets it.

    **Shapes** those of the module.

    **Args**
      module: an instance, or a class with its arguments. An NNX class gets `rngs=nnx.Rngs(key)` if it takes `rngs`.
      args, named: the arguments of the class.
      method: the method that is called (default `__call__`).
      rngs: Linen's names of random streams (default "dropout" alone).
      kwargs: keyword arguments that every call gets.

    **Raises** `ArgumentError` for what is no Flax module, for variables that are no arrays or are named like attributes
    of this layer, and for a stream of random numbers that `rngs` does not name.

    *Differences from SINGA*: SINGA has no such layer.

    >>> import flax.linen as nn
    >>> mlp = FromFlax(nn.Sequential([nn.Dense(8), nn.relu, nn.Dense(3)]))
    >>> mlp.infer_shape((None, 4))
    (None, 3)
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        method: str | None = None,
        rngs: Sequence[str] = ("dropout",),
        kwargs: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        super().__init__()
        self._flax = _adapter(module, args, named, method, rngs)
        self._options = dict(kwargs or {})
        self._plan: Plan | None = None
        self._draws: dict[Hashable, bool] = {}

    def forward(self, *inputs: Any, **options: Any) -> Any:
        options = {**self._options, **options}
        options.update(_mode_options(self._flax.function, inputs, options))
        plan = self._create(inputs, options) if self._plan is None else self._plan
        tensors = {name: self.__dict__[name] for name in plan.variables}
        values = {name: _read(tensor, plan.variables[name].trains) for name, tensor in tensors.items()}
        out, new = self._flax.apply(
            plan, values, self._keys(plan, values, inputs, options), mode.training, inputs, options
        )
        for name, value in new.items():
            if value is not values[name]:
                tensors[name].data = value
        return out

    def _create(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Plan:
        plan = self._flax.plan(inputs, options)
        for name, variable in plan.variables.items():
            if name in self.__dict__ or hasattr(type(self), name):
                raise ArgumentError(f"a variable must not be named like an attribute of FromFlax. Received: {name!r}")
            make = self.param if variable.trains else self.state
            self.__dict__[name] = make(variable.shape, variable.recipe, variable.dtype)
        self.__dict__["_plan"] = plan
        return plan

    def _keys(self, plan: Plan, values: dict[str, Any], inputs: Any, options: Any) -> list[jax.Array]:
        """A key for each random stream of the module; nothing is drawn if it uses none."""
        count = len(self._flax.streams)
        key = jax.random.key(0)
        if count and self._uses_keys(plan, values, inputs, options):
            key = dispatch.next_key()
        return [jax.random.fold_in(key, number) for number in range(count)]

    def _uses_keys(self, plan: Plan, values: dict[str, Any], inputs: Any, options: Any) -> bool:
        """Whether the module uses its random keys, found by one abstract run for each mode and kind of arguments."""
        kind = _kind(inputs, options)
        if kind not in self._draws:

            def run(keys: list[jax.Array]) -> list[Any]:
                out = self._flax.apply(plan, values, keys, mode.training, inputs, options)
                return [leaf for leaf in jax.tree.leaves(out) if isinstance(leaf, jax.Array)]

            jaxpr = jax.make_jaxpr(run)([jax.random.key(0) for _ in self._flax.streams]).jaxpr
            used = {id(variable) for equation in jaxpr.eqns for variable in equation.invars}
            self._draws[kind] = any(id(variable) in used for variable in jaxpr.invars)
        return self._draws[kind]


def _adapter(module: Any, args: tuple[Any, ...], named: dict[str, Any], method: Any, rngs: Sequence[str]) -> Adapter:
    from flax import linen, nnx

    from singax.layer.flax_linen import LinenAdapter
    from singax.layer.flax_nnx import NNXAdapter

    kind = module if isinstance(module, type) else type(module)
    if not issubclass(kind, linen.Module | nnx.Module) or (kind is type(module) and (args or named)):
        raise ArgumentError(
            "expected a Flax module, or a class of modules with its arguments. Received: "
            f"{type(module).__name__} with {len(args) + len(named)} arguments"
        )
    if issubclass(kind, nnx.Module):
        return NNXAdapter(module, args, named, method)
    names = (rngs,) if isinstance(rngs, str) else tuple(rngs)
    return LinenAdapter(module(*args, **named) if isinstance(module, type) else module, method, names)


def _mode_options(function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> dict[str, bool]:
    """The arguments that tell the module whether it is training."""
    signature, module = inspect.signature(function), getattr(function, "__self__", None)
    try:
        given = signature.bind_partial(*inputs, **options).arguments
    except TypeError:  # the module itself says best what it expected
        return {}
    free = [name for name in signature.parameters if name not in given]
    found = {name: mode.training for name in free if name in _TRAINING}
    found |= {name: not mode.training for name in free if name in _EVALUATION and getattr(module, name, None) is None}
    return found


def _read(tensor: Tensor, trains: bool) -> jax.Array:
    """The value of a variable; mixed precision narrows parameters, not states."""
    assert local.frame is not None, "local.frame is set while a forward runs"
    return tensor.data if trains else local.frame.read(tensor._cell)


def _kind(inputs: Any, options: Any) -> Hashable:
    leaves, tree = jax.tree.flatten((inputs, options))
    return mode.training, str(tree), tuple("array" if hasattr(leaf, "dtype") else repr(leaf) for leaf in leaves)
