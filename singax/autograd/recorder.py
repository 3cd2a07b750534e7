"""What happens to an operation: run directly inside a layer, recorded as a node outside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from singax import dispatch
from singax.autograd.border import Cache, Call, is_tensor
from singax.autograd.node import Dummy
from singax.device import free_generator
from singax.mode import local, moved_on, store_state, wrap_key
from singax.tensor import Tensor


class _Recorder:
    """Installed into `singax.dispatch`."""

    def apply(self, operation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if local.frame is not None:
            args, kwargs = unwrapped((args, kwargs))
            return operation(*args, **kwargs)
        if not any(map(is_tensor, jax.tree.leaves(args, is_leaf=is_tensor))):
            return operation(*args, **kwargs)
        cache = _cache_of(operation)
        name = getattr(operation, "__name__", type(operation).__name__)
        body = functools.partial(operation, **kwargs)
        key = tuple(sorted(kwargs.items()))
        operator = getattr(operation, "_singax_operator", None)
        return Call(name, body, args, {}, cache=cache, key=key, numbers_are_arrays=True, operator=operator).run()

    def leaf(self, tensor: Tensor) -> Dummy:
        return Dummy(tensor)

    def next_key(self) -> jax.Array:
        if local.frame is not None:
            return local.frame.next_key()
        cell = (local.generator or free_generator).cell
        key = wrap_key(cell.array())
        store_state(cell, moved_on(cell.array()))
        return jax.random.fold_in(key, 0)


def _cache_of(operation: Any) -> Cache:
    """The programs of an operation, kept on the function itself, so that they go when it goes."""
    try:
        return operation.__dict__.setdefault("_singax_programs", {})
    except AttributeError:  # a builtin or a bound method
        return {}


def unwrapped(tree: Any) -> Any:
    """`tree` with every Tensor replaced by the array behind it."""
    return jax.tree.map(lambda leaf: leaf.data if isinstance(leaf, Tensor) else leaf, tree, is_leaf=is_tensor)


def node(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap any JAX function so that a call on Tensors is recorded as one node.

    `node(fn)(*tensors, **options)`: positional arguments are arrays (Tensors, arrays or numbers, nested as you like),
    keyword options are static. Inside a layer it is `fn` itself.

    >>> import jax.numpy as jnp, singax as sx
    >>> double = node(lambda x: jnp.sin(x) * 2)
    >>> double(sx.Tensor(data=[0.0])).shape
    (1,)
    """

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        return dispatch.apply(function, *args, **kwargs)

    return recorded


dispatch.install(_Recorder())
