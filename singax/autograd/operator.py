"""Operations that users write as a class with `forward` and `backward`, as in SINGA.

`forward` may keep what `backward` needs on `self`. In a compiled program the two run on separate copies of the
operator, and what was kept travels between them as the residuals of a `jax.custom_vjp`.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import dispatch
from singax.dtypes import is_floating
from singax.errors import ArgumentError
from singax.mode import local
from singax.tensor import Tensor


class Operator:
    """Base class of user-defined operations.

    Override `forward(self, *arrays)` → an array or a tuple of arrays, and `backward(self, *dys)` → one gradient per
    input (an array, or a tuple; None where there is none). Arrays are plain JAX arrays.

    A call on Tensors returns **always a tuple** of Tensors; inside a layer, a tuple of arrays. The `creator` of these
    Tensors is an instance of the class too, whose `backward` gives the gradients of this call.

    >>> import singax as sx
    >>> class Scale(Operator):
    ...     def forward(self, x):
    ...         return x * 3.0
    ...     def backward(self, dy):
    ...         return dy * 3.0
    >>> Scale()(sx.Tensor(data=[2.0]))[0].to_numpy()
    array([6.], dtype=float32)
    """

    op_count = 0

    def __init__(self, name: str | None = None) -> None:
        self.name = f"{type(self).__name__}#{Operator.op_count}" if name is None else name
        Operator.op_count += 1

    @property
    def requires_grad(self) -> bool:
        """Whether any gradient can flow back through it."""
        return False

    @property
    def src(self) -> list[tuple[Any, int, Tensor | None, bool]]:
        """The inputs of a call: (creator, id, the Tensor if it stores its gradient, whether it does) of each."""
        return []

    @property
    def y_id2idx(self) -> dict[int, int]:
        """The number of each output by its id."""
        return {}

    def forward(self, *xs: Any) -> Any:
        """Compute the output from the inputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def backward(self, *dys: Any) -> Any:
        """Compute the gradients of the inputs from those of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward")

    def __call__(self, *xs: Any) -> tuple[Any, ...]:
        if local.frame is None and not all(isinstance(x, Tensor) for x in xs):
            kinds = ", ".join(type(x).__name__ for x in xs)
            raise ArgumentError(f"{type(self).__name__} is called with Tensors outside a layer. Received: {kinds}")
        return dispatch.apply(_shared_function(self), *xs)

    def output_name(self, index: int) -> str:
        """The name of output `index`."""
        return f"{self.name}:{index}"

    def grad_name(self, index: int) -> str:
        """The name of the gradient of output `index`."""
        return f"{self.output_name(index)}_g"

    def get_params(self) -> list[Tensor]:
        """Parameters: none."""
        return []


Operation = Operator  # SINGA's older name


@jax.tree_util.register_static
class _Kept:
    """Attributes of an operator that are not arrays."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.attributes = attributes


_functions: dict[Hashable, Any] = {}
_MOST_FUNCTIONS = 256


def _shared_function(operator: Operator) -> Any:
    """One function for all operators of a class with equal attributes: they are made anew for each call in SINGA."""
    attributes = {k: v for k, v in operator.__dict__.items() if k != "name"}
    key = (type(operator), tuple((k, type(v), v) for k, v in sorted(attributes.items(), key=lambda item: item[0])))
    try:
        found = _functions.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return _as_function(copy.copy(operator))
    if found is None:
        if len(_functions) >= _MOST_FUNCTIONS:
            _functions.pop(next(iter(_functions)))
        found = _functions[key] = _as_function(copy.copy(operator))
    return found


def _as_function(operator: Operator) -> Any:
    """The operator as a pure function with its own gradient; returns a tuple of arrays."""

    @jax.custom_vjp
    def run(*xs: Any) -> tuple[Any, ...]:
        return _forward(operator, xs)[0]

    def forward(*xs: Any) -> Any:
        ys, kept = _forward(operator, xs)
        return ys, (kept, xs)

    def backward(residuals: Any, dys: tuple[Any, ...]) -> tuple[Any, ...]:
        (arrays, others), xs = residuals
        fresh = copy.copy(operator)
        fresh.__dict__.update(arrays, **others.attributes)
        return _checked(operator, fresh.backward(*dys), xs)

    run.defvjp(forward, backward)

    def named(*xs: Any) -> tuple[Any, ...]:
        return run(*xs)

    named.__name__ = type(operator).__name__
    named._singax_operator = operator  # type: ignore[attr-defined]  # what its nodes look like
    return named


def _forward(operator: Operator, xs: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    fresh = copy.copy(operator)
    out = fresh.forward(*xs)
    ys = tuple(jnp.asarray(y) for y in (out if isinstance(out, tuple) else (out,)))
    kept = dict(fresh.__dict__)
    arrays = {k: v for k, v in kept.items() if _is_array_tree(v)}
    return ys, (arrays, _Kept({k: v for k, v in kept.items() if k not in arrays}))


def _is_array_tree(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves)


def _checked(operator: Operator, grads: Any, xs: tuple[Any, ...]) -> tuple[Any, ...]:
    grads = grads if isinstance(grads, tuple) else (grads,)
    if len(grads) != len(xs):
        raise ArgumentError(
            f"{type(operator).__name__}.backward must return one gradient per input, {len(xs)} in all. "
            f"Received: {len(grads)}"
        )
    return tuple(g if g is not None and is_floating(x.dtype) else None for g, x in zip(grads, xs, strict=True))
