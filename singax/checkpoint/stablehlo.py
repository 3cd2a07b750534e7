"""A forward as StableHLO: one file with network and weights that any program with JAX, or another XLA, runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from singax import files
from singax.arguments import Outline, batch_of, open_size, outlined
from singax.autograd.border import is_tensor
from singax.checkpoint.paths import PathLike
from singax.errors import ExportError, FileFormatError, UninitializedError
from singax.layer import build
from singax.tensor import Tensor


def export_stablehlo(model: Any, path: PathLike, inputs: Sequence[Any] | None, platforms: Sequence[str] | None) -> None:
    """See `Module.export_stablehlo`."""
    forward = build.own_forward(model)
    seen = model._inputs_seen if inputs is None else outlined(forward, tuple(inputs), {})
    if seen is None:
        raise UninitializedError(
            f"what the forward of {type(model).__name__} takes is not known yet: pass inputs, or call compile first"
        )
    made = _exported(_pure(model, seen), seen, platforms)
    with files.replacing(path) as file:
        file.write(made.serialize())


def _pure(model: Any, seen: tuple[Any, ...]) -> Callable[..., Any]:
    """The forward in evaluation mode as a function of the arrays among its arguments; the weights are constants."""
    placeholders = [Tensor(one.shape, dtype=one.dtype) for one in _open(seen)]
    build.ensure(model, build.own_forward(model), _filled(seen, placeholders), {})
    _, apply = model.functional()
    values = {name: tensor._cell.array() for name, tensor in model.get_states().items()}
    return lambda *arrays: apply(values, *_filled(seen, list(arrays)))


def _open(seen: tuple[Any, ...]) -> list[Outline]:
    return [leaf for leaf in jax.tree.leaves(seen) if isinstance(leaf, Outline)]


def _filled(seen: tuple[Any, ...], arrays: list[Any]) -> tuple[Any, ...]:
    given = iter(arrays)
    return tuple(jax.tree.map(lambda leaf: next(given) if isinstance(leaf, Outline) else leaf, seen))


def _exported(function: Callable[..., Any], seen: tuple[Any, ...], platforms: Sequence[str] | None) -> export.Exported:
    """With a free batch if the forward runs with any, else with the sizes that are given."""
    make = export.export(jax.jit(function), platforms=platforms)
    try:
        return make(*_avals(seen, free=True))
    except Exception as error:
        if any(None in one.shape for one in _open(seen)):
            raise ExportError(
                f"the forward does not run with unknown sizes: give all of them. {type(error).__name__}: {error}"
            ) from error
    return make(*_avals(seen, free=False))


def _avals(seen: tuple[Any, ...], free: bool) -> list[jax.ShapeDtypeStruct]:
    """The arrays of the forward; with `free` sizes that are None, and the batch, are symbols, shared by all."""
    scope = export.SymbolicScope()
    batch = batch_of(_open(seen)) if free else None
    found = []
    for one in _open(seen):
        text = ", ".join(str(open_size(number, axis, batch)) for axis, number in enumerate(one.shape))
        shape = export.symbolic_shape(f"({text},)" if one.shape else "()", scope=scope)
        found.append(jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(one.dtype)))
    return found


def load_stablehlo(path: PathLike) -> Callable[..., Any]:
    """What `Module.export_stablehlo` has written, as a function of arrays that is compiled when it is called.

    It takes the arrays of the forward in order, and returns what the forward returned, as JAX arrays; it can be used
    inside `jax.jit`. Nothing of singax is needed to read the file: `jax.export.deserialize` of its bytes does the same.

    **Raises** `FileFormatError` for another kind of file; FileNotFoundError.
    """
    with open(path, "rb") as file:
        content = bytearray(file.read())
    try:
        loaded = export.deserialize(content)
    except Exception as error:
        raise FileFormatError(
            f"{os.fspath(path)} holds no StableHLO of jax.export: {type(error).__name__}: {str(error)[:200]}"
        ) from None
    called = jax.jit(loaded.call)

    def forward(*arrays: Any) -> Any:
        """The forward of the model that was exported."""
        return called(*[_array(value, aval.dtype) for value, aval in zip(arrays, loaded.in_avals, strict=True)])

    return forward


def _array(value: Any, dtype: Any) -> Any:
    if is_tensor(value):
        value = value.data
    if isinstance(value, np.ndarray) and value.dtype != dtype == jax.dtypes.canonicalize_dtype(value.dtype):
        return value.astype(dtype)
    return value
