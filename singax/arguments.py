"""Arguments of a compiled method: which are arrays, which select a program, and how to describe a change."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np

from singax.autograd.border import is_tensor
from singax.errors import StaticArgumentError
from singax.storage import Cell, Deferred, Unfilled
from singax.tensor import Tensor

Avals = tuple[tuple[tuple[int, ...], Any], ...]


class Packed:
    """A call's arrays (`inputs`), their shapes and dtypes (`avals`), and a hashable `form` of everything else."""

    __slots__ = ("avals", "form", "inputs")

    def __init__(self, inputs: list[Any], form: Hashable, avals: Avals) -> None:
        self.inputs, self.form, self.avals = inputs, form, avals


def pack(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
    """Sort the arguments of one call. The quick way serves calls with arrays and Tensors only."""
    inputs: list[Any] = []
    if not kwargs:
        for arg in args:
            value = array_of(arg)
            if value is None:
                break
            inputs.append(value)
        else:
            return Packed(inputs, len(args), tuple([(v.shape, v.dtype) for v in inputs]))
    return _pack_any(function, args, kwargs)


def array_of(arg: Any) -> Any:
    """The array to hand to a compiled program, or None for an argument that is not an array.

    A NumPy array is copied: JAX may read it after the call has returned, when its owner has overwritten it.
    """
    if isinstance(arg, np.ndarray):
        return arg.copy()
    if isinstance(arg, jax.Array):
        return arg
    if isinstance(arg, Tensor):
        return _tensor_value(arg)
    return np.array(arg) if isinstance(arg, np.generic) else None


def _tensor_value(tensor: Tensor) -> Any:
    cell: Cell = tensor._cell
    value = cell.values[cell.index]
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Unfilled | Deferred) or cell.bank is not None:
        return tensor.data
    return value


def pack_shapes(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], unknown: int | None = None
) -> Packed:
    """Like `pack`, with shapes and dtypes in place of arrays: nothing is read. Sizes that are None become `unknown`."""

    def shape_of(leaf: Any) -> jax.ShapeDtypeStruct | None:
        if not isinstance(leaf, Tensor | jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
            return None
        shape = tuple([unknown if size is None else size for size in leaf.shape])
        return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(leaf.dtype))

    return _pack_any(function, args, kwargs, shape_of)


def _pack_any(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    value_of: Callable[[Any], Any] = array_of,
) -> Packed:
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
    inputs: list[Any] = []
    kinds: list[Any] = []
    for position, leaf in enumerate(leaves):
        value = value_of(leaf)
        if value is None:
            _check_hashable(function, args, kwargs, leaf, position)
            kinds.append((type(leaf), leaf))
        else:
            inputs.append(value)
            kinds.append(None)
    return Packed(inputs, (tree, tuple(kinds)), tuple([(v.shape, v.dtype) for v in inputs]))


def _check_hashable(function: Callable[..., Any], args: Any, kwargs: Any, leaf: Any, position: int) -> None:
    try:
        hash(leaf)
    except TypeError:
        name = _names(function, args, kwargs)[position]
        raise StaticArgumentError(
            f"{function.__qualname__}: the argument {name} is a {type(leaf).__name__}, which is not hashable. "
            "Arguments that are not arrays select a program: pass a number, a string or a tuple, or an array or Tensor"
        ) from None


def unpack(form: Hashable, inputs: list[Any], wrap: Callable[[Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The (args, kwargs) of a call, with `wrap(array)` in place of each array."""
    arrays = iter(inputs)
    if isinstance(form, int):
        return tuple(wrap(a) for a in arrays), {}
    tree, kinds = cast(tuple[Any, tuple[Any, ...]], form)
    leaves = [wrap(next(arrays)) if kind is None else kind[1] for kind in kinds]
    args, kwargs = jax.tree.unflatten(tree, leaves)
    return args, kwargs


def batch_of(arrays: Iterable[Any]) -> int | None:
    """The size of the first axis of the first array that has one."""
    return next((array.shape[0] for array in arrays if len(array.shape)), None)


def open_size(size: int | None, axis: int, batch: int | None) -> int | str:
    """A size, or the name of the unknown one in its place: for None, and on the first axis for the batch."""
    if size is None or (axis == 0 and size == batch):
        return "batch" if axis == 0 else f"size_{axis}"
    return size


@dataclass(frozen=True)
class Outline:
    """An array among arguments: its shape, unknown sizes None, and dtype."""

    shape: tuple[int | None, ...]
    dtype: Any


def outlined(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """The arguments of a forward with an `Outline` for each array; None if they cannot be given by position."""
    if kwargs:
        try:
            bound = inspect.signature(function).bind(None, *args, **kwargs)
        except TypeError:  # the call itself says what is wrong
            return None
        if bound.kwargs:
            return None
        args = bound.args[1:]
    return tuple(jax.tree.map(_outline, args, is_leaf=is_tensor))


def _outline(leaf: Any) -> Any:
    if isinstance(leaf, Tensor | jax.Array | np.ndarray | np.generic):
        return Outline(tuple(size if isinstance(size, int) else None for size in leaf.shape), leaf.dtype)
    return leaf


def as_placeholders(arguments: tuple[Any, ...]) -> list[Any]:
    """What `outlined` has returned, with placeholders in place of the outlines."""
    return [
        jax.tree.map(lambda leaf: Tensor(leaf.shape, dtype=leaf.dtype) if isinstance(leaf, Outline) else leaf, argument)
        for argument in arguments
    ]


def _names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A readable name for every leaf of a call, such as `x`, `states[1]`, `mask`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for index, arg in enumerate(args):
        plain = index < len(parameters) and parameters[index].kind is not inspect.Parameter.VAR_POSITIONAL
        names += _expanded(parameters[index].name if plain else f"argument {index}", arg)
    for key in sorted(kwargs):
        names += _expanded(key, kwargs[key])
    return names


def _expanded(name: str, value: Any) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(value, is_leaf=is_tensor)[0]
    return [name + jax.tree_util.keystr(path) for path, _ in paths]


def describe(function: Callable[..., Any], packed: Packed) -> dict[str, str]:
    """Name → what it is, for every argument of a call: `float32[32,64]`, or the repr of a static value."""
    marks = iter([f"{np.dtype(d).name}[{','.join(map(str, s))}]" for s, d in packed.avals])
    args, kwargs = unpack(packed.form, packed.inputs, lambda a: a)
    names = _names(function, args, kwargs)
    kinds = [None] * len(names) if isinstance(packed.form, int) else packed.form[1]  # type: ignore[index]
    shown = [next(marks) if kind is None else repr(kind[1]) for kind in kinds]
    return dict(zip(names, shown, strict=True))
