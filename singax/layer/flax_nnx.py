"""Flax NNX modules as `FromFlax` wants them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError
from singax.layer.flax_values import Drawn, Given, JointDraw, Plan, Values, Variable


class NNXAdapter:
    """A `flax.nnx.Module`: an instance, which has values already, or a class and its arguments.

    Variables are named by their path (`linear.kernel`, `norm.mean`); `nnx.Param` and its subclasses are parameters, all
    others states, except for the state of `nnx.Rngs`, which is given anew in every call.
    """

    def __init__(self, module: Any, args: tuple[Any, ...], named: dict[str, Any], method: str | None) -> None:
        from flax import nnx

        self.method = method or "__call__"
        self.values: Values = {}
        if isinstance(module, type):
            self.make: Callable[[jax.Array], Any] = functools.partial(_made, module, args, named)
            module = nnx.eval_shape(lambda: self.make(jax.random.key(0)))
        else:
            self.values = {_name(path): _value(variable) for path, variable in _flat(module)}
        self.graph, self.template = nnx.graphdef(module), [(path, _abstract(v)) for path, v in _flat(module)]
        self.streams = [path for path, variable in self.template if _is_rng(variable, nnx.RngKey)]
        self.function: Callable[..., Any] = getattr(module, self.method)

    def __deepcopy__(self, memo: dict[int, Any]) -> NNXAdapter:
        return self

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
        """The variables, whatever the inputs are."""
        from flax import nnx

        joint = JointDraw(lambda key: {_name(path): _value(v) for path, v in _flat(self.make(key)) if not _is_rng(v)})
        return Plan(
            {
                _name(path): Variable(
                    _value(variable).shape,
                    _value(variable).dtype,
                    isinstance(variable, nnx.Param),
                    Given(self.values[_name(path)]) if self.values else Drawn(joint, _name(path)),
                )
                for path, variable in self.template
                if not _is_rng(variable)
            },
            None,
        )

    def apply(
        self, plan: Plan, values: Values, keys: Sequence[jax.Array], training: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Values]:
        """The outputs, and new values of variables."""
        from flax import nnx

        streams = dict(zip(self.streams, keys, strict=True))
        flat = [(path, _with(v, values, streams.get(path), _name(path))) for path, v in self.template]
        module = nnx.merge(self.graph, nnx.from_flat_state(flat))
        module.train() if training else module.eval()
        out = getattr(module, self.method)(*args, **kwargs)
        return out, {_name(path): _value(v) for path, v in _flat(module) if _name(path) in values}


def _made(module: Any, args: tuple[Any, ...], named: dict[str, Any], key: jax.Array) -> Any:
    from flax import nnx

    wants_rngs = "rngs" in inspect.signature(module.__init__).parameters and "rngs" not in named
    return module(*args, **named, **({"rngs": nnx.Rngs(key)} if wants_rngs else {}))


def _flat(module: Any) -> Any:
    """(path, variable) of everything that a module holds."""
    from flax import nnx

    return nnx.to_flat_state(nnx.state(module))


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _value(variable: Any) -> Any:
    from flax import nnx

    value = variable.get_value() if isinstance(variable, nnx.Variable) else variable
    if not hasattr(value, "dtype"):
        raise ArgumentError(f"the variables of a module must hold one array each. Received: {type(value).__name__}")
    return value


def _replaced(variable: Any, value: Any) -> Any:
    from flax import nnx

    return variable.replace(value) if isinstance(variable, nnx.Variable) else value


def _abstract(variable: Any) -> Any:
    value = _value(variable)
    return _replaced(variable, jax.ShapeDtypeStruct(value.shape, value.dtype))


def _is_rng(variable: Any, kind: Any = None) -> bool:
    from flax import nnx

    return isinstance(variable, nnx.RngState if kind is None else kind)


def _with(variable: Any, values: Values, key: jax.Array | None, name: str) -> Any:
    """The variable with its value for one call; random streams start anew from `key`."""
    if not _is_rng(variable):
        return _replaced(variable, values[name])
    shape = _value(variable).shape
    if key is None:
        return _replaced(variable, jnp.zeros(shape, _value(variable).dtype))
    return _replaced(variable, jax.random.split(key, shape) if shape else key)
