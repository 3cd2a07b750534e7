"""The abstract pass: run a forward on shapes alone, so that every layer creates its parameters.

Nothing is computed and nothing is allocated. A parameter gets a recipe and, when the pass is over, a path; its
values are drawn from (seed, path) when somebody needs them. If the pass fails, every layer is as it was before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from singax import device as devices
from singax.autograd.border import framed, is_tensor
from singax.autograd.recorder import unwrapped
from singax.errors import ArgumentError, ShapeError
from singax.layer import tree
from singax.layer.inside import call_inside, generator_of, run_initialize
from singax.layer.tree import Branch
from singax.mode import Frame, NeedsBuild, local, traced
from singax.recipes import host_source
from singax.storage import Deferred, Unfilled
from singax.tensor import Tensor

_PROBES = (960, 1344)  # stand for unknown sizes: large, and divisible by most strides and patches
_ARRAYS = (Tensor, jax.Array, np.ndarray, np.generic)


def ensure(layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Build `layer` from these arguments unless everything below it is built already.

    While a step is being traced, what was built is not among the states of that trace: it has to start again.
    """
    if layer._ready == tree.structure_version():
        return
    tree.name_members(layer)
    waiting = tree.unbuilt(layer)
    if waiting:
        build(layer, function, args, kwargs)
    layer._called_with(function, args, kwargs)
    layer.__dict__["_ready"] = tree.structure_version()
    if local.tracing and any(child._initialized for child in waiting):
        raise NeedsBuild


def build(
    layer: Branch,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    keep: bool = True,
    initialize_only: bool = False,
    constants: bool = False,
) -> Any:
    """Run `function(layer, *args, **kwargs)` abstractly; return its output with shapes in place of arrays.

    With `keep=False`, or when it fails, all layers are left as they were.
    """
    tree.name_members(layer)
    with journal(keep):
        runner = _run_initialize if initialize_only else _run_forward
        shapes = _probed(functools.partial(runner, layer, function), layer, args, kwargs, constants)
        decide_draws(layer)
        if keep and not local.tracing and hasattr(layer._root, "_receive"):
            layer._root._receive(settled=False)
    return shapes


class journal:
    """Collect undo actions in `local.undo`; carry them out if the block fails or nothing is to be kept."""

    def __init__(self, keep: bool) -> None:
        self.keep = keep

    def __enter__(self) -> None:
        self.saved, local.undo = local.undo, []

    def __exit__(self, kind: Any, *_: Any) -> None:
        actions, local.undo = local.undo or [], self.saved
        if kind is not None or not self.keep:
            for action in reversed(actions):
                action()
        elif local.undo is not None:
            local.undo.extend(actions)


def _probed(
    run: Callable[..., Any], layer: Branch, args: tuple[Any, ...], kwargs: dict[str, Any], constants: bool
) -> Any:
    """One abstract run, or two with different sizes where a size is unknown: what differs stays unknown."""
    if not _has_unknown((args, kwargs)):
        return _traced(run, layer, args, kwargs, None, constants)
    try:
        with journal(keep=False):
            other = _traced(run, layer, args, kwargs, _PROBES[1], constants)
            other_sizes = _sizes(layer)
        first = _traced(run, layer, args, kwargs, _PROBES[0], constants)
    except Exception as error:
        error.add_note(f"sizes that are None in the placeholder were tried as {_PROBES[0]} and {_PROBES[1]}")
        raise
    for path, shape in _sizes(layer).items():
        if other_sizes.get(path) != shape:
            raise ShapeError(
                f"the parameter {path} of {layer._where} depends on a size that is None in the placeholder: "
                "give that size"
            )
    return jax.tree.map(_merged, first, other)


def _run_forward(layer: Branch, function: Callable[..., Any], frame: Frame, args: Any, kwargs: Any) -> Any:
    return unwrapped(call_inside(frame, layer, function, args, kwargs))


def _run_initialize(layer: Branch, function: Callable[..., Any], frame: Frame, args: Any, kwargs: Any) -> None:
    run_initialize(frame, layer, function, args, kwargs)


def _traced(run: Callable[..., Any], layer: Branch, args: Any, kwargs: Any, probe: int | None, constants: bool) -> Any:
    """The shapes that `run` returns for these arguments, unknown sizes replaced by `probe`.

    With `constants`, Tensors that have values keep them, so that a forward may look at them.
    """
    leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
    if constants:
        leaves = [
            v.data if isinstance(v, Tensor) and v.is_filled() and not traced(v._cell.get()) else v for v in leaves
        ]
    abstract = {i: _abstract(leaf, probe) for i, leaf in enumerate(leaves) if _is_abstract(leaf, constants)}

    def pure(arrays: dict[int, Any]) -> Any:
        args, kwargs = jax.tree.unflatten(structure, [arrays.get(i, leaf) for i, leaf in enumerate(leaves)])
        with framed(Frame([], generator_of(layer).cell, building=True, compute=tree.compute_dtype(layer))) as frame:
            return run(frame, args, kwargs)

    return _eval_shape(pure, abstract)


def _eval_shape(function: Callable[..., Any], arguments: Any) -> Any:
    """`jax.eval_shape` for functions that may also return what is not an array; such leaves come back as None."""

    def arrays_only(arguments: Any) -> Any:
        out = function(arguments)
        return jax.tree.map(lambda v: v if hasattr(v, "dtype") else None, out)

    return jax.eval_shape(arrays_only, arguments)


def _is_abstract(leaf: Any, constants: bool) -> bool:
    return isinstance(leaf, Tensor if constants else _ARRAYS)


def _abstract(leaf: Any, probe: int | None) -> Any:
    value = leaf._cell.get() if isinstance(leaf, Tensor) else leaf
    shape = tuple(probe if size is None else size for size in value.shape)
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(value.dtype))


def _has_unknown(arguments: Any) -> bool:
    leaves = jax.tree.leaves(arguments, is_leaf=is_tensor)
    return any(isinstance(leaf, Tensor) and None in leaf.shape for leaf in leaves)


def _sizes(layer: Branch) -> dict[str, tuple[int, ...]]:
    return {path: tensor.shape for path, tensor in tree.tensors(layer)}


def _merged(a: Any, b: Any) -> Any:
    if len(a.shape) != len(b.shape):
        raise ShapeError("the rank of the output depends on a size that is None in the placeholder: give that size")
    return Unfilled(tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)), a.dtype)


def decide_draws(layer: Branch) -> None:
    """Tie the recipe of every new parameter to its path and the current seed."""
    root, prefix = _root_and_prefix(layer)
    tree.name_members(root)
    for path, tensor in tree.tensors(root):
        value = tensor._cell.get()
        if isinstance(value, Deferred) and value.draw is None:
            source = functools.partial(host_source, devices.randomness.seed, prefix + path)
            value.draw = functools.partial(_draw, value.recipe, source, value.shape, value.dtype)
    for _, member in tree.layers(root):
        member._parameters_made()


def _draw(recipe: Any, source: Callable[[], Any], shape: Any, dtype: np.dtype) -> Any:
    return recipe.draw(source(), shape, dtype)


def _root_and_prefix(layer: Branch) -> tuple[Branch, str]:
    """The top of the tree, and what tells layers without a model apart when they draw."""
    layer = layer._root
    if hasattr(layer, "_generator"):
        return layer, ""
    if layer._free_index is None:
        layer.__dict__["_free_index"] = devices.randomness.next_free_layer()
    return layer, f"{type(layer).__name__}#{layer._free_index}/"


def infer_shape(layer: Branch, shapes: tuple[Any, ...]) -> Any:
    """See `Layer.infer_shape`."""
    inputs = tuple(_placeholder(shape, getattr(layer, "input_dtype", np.float32)) for shape in shapes)
    found = build(layer, own_forward(layer), inputs, {}, keep=False)
    return jax.tree.map(lambda s: tuple(s.shape), found, is_leaf=lambda s: isinstance(s, Unfilled))


def own_forward(layer: Branch) -> Callable[..., Any]:
    forward = getattr(type(layer), "forward")  # noqa: B009
    return getattr(forward, "__wrapped__", forward)


def _placeholder(shape: Any, dtype: Any) -> Any:
    if isinstance(shape, Tensor) or hasattr(shape, "dtype"):
        return shape if isinstance(shape, Tensor) else Tensor(shape.shape, dtype=shape.dtype)
    if isinstance(shape, list):
        return [_placeholder(item, dtype) for item in shape]
    if isinstance(shape, tuple) and any(isinstance(item, tuple | list) for item in shape):
        return tuple(_placeholder(item, dtype) for item in shape)
    if shape is not None and not isinstance(shape, tuple):
        raise ArgumentError(f"infer_shape takes tuples of sizes, Placeholders, arrays and None. Received: {shape!r}")
    return None if shape is None else Tensor(shape, dtype=dtype)
