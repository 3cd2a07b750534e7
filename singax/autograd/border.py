"""The border: an outermost call unwraps Tensors, runs one pure function, records a node and wraps the results.

Inside that pure function values are plain arrays: the call's cells hold the function's own arguments, and hold again
what they held before when it ends, however it ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import mode
from singax.autograd.node import Node, looks_like, pullback_of
from singax.autograd.operator import Operator
from singax.dtypes import is_floating
from singax.errors import StaticArgumentError, UnfilledError
from singax.mode import Frame, local, store_state, traced
from singax.ops.operation import is_capturing
from singax.storage import Cell, exchanged
from singax.tensor import Tensor

Cache = dict[Hashable, Callable[..., Any]]


INNER_STATE = (
    "a likely cause: a layer that assigns a state (such as BatchNorm in training mode) runs inside jax.checkpoint, "
    "jit, scan or cond in a forward; states can only be assigned outside of those, or by way of layer.Remat and "
    "layer.Repeat"
)


def is_tensor(value: Any) -> bool:
    """Leaf test for `jax.tree`: a Tensor is a leaf."""
    return isinstance(value, Tensor)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Result:
    """How to rebuild what a pure function returned: static, so that it can leave a compiled function.

    `kinds` says of each leaf of `tree` where it is: ("float", i), ("other", i) or ("static", value).
    """

    tree: Any
    kinds: tuple[tuple[str, Any], ...]
    changed: tuple[int, ...]
    read: frozenset[int]


@dataclass
class Call:
    """One outermost call: what is run, on which Tensors, and where its compiled form is kept."""

    name: str
    body: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: Sequence[Tensor] = ()
    generator: Cell | None = None
    cache: Cache | None = None
    key: Hashable = None
    numbers_are_arrays: bool = False
    operator: Operator | None = None
    compute: np.dtype | None = None
    leaves: list[Any] = field(default_factory=list)
    tree: Any = None

    def run(self) -> Any:
        """Do it, and return the results as Tensors."""
        self.leaves, self.tree = jax.tree.flatten((self.args, self.kwargs), is_leaf=is_tensor)
        self.dynamic = [i for i, leaf in enumerate(self.leaves) if self._is_array(leaf)]
        self.values = [_value_of(self.leaves[i]) for i in self.dynamic]
        self.cells = [t._cell for t in self.tensors] + ([self.generator] if self.generator is not None else [])
        self.held = [_held(cell, t) for cell, t in zip(self.cells, [*self.tensors, None], strict=False)]
        self._divide()
        return self._finish(*self._execute())

    def _is_array(self, leaf: Any) -> bool:
        if isinstance(leaf, Tensor | jax.Array | np.ndarray | np.generic):
            return True
        return self.numbers_are_arrays and isinstance(leaf, bool | int | float | complex)

    def _divide(self) -> None:
        """Which arguments and states are differentiated: floating Tensors that require it, while recording."""
        recording = mode.training
        wanted = [_differentiable(self.leaves[i]) for i in self.dynamic]
        self.diff_inputs = [k for k, w in enumerate(wanted) if w and recording]
        self.diff_cells = [k for k, t in enumerate(self.tensors) if recording and t.stores_grad and _differentiable(t)]
        self.records = bool(self.diff_inputs or self.diff_cells)
        self.flows = any(wanted) or any(t.stores_grad and _differentiable(t) for t in self.tensors)

    def _execute(self) -> tuple[Any, Any, Any]:
        diff = [self.held[k] for k in self.diff_cells] + [self.values[k] for k in self.diff_inputs]
        rest = _others(self.held, self.diff_cells) + _others(self.values, self.diff_inputs)
        self.direct = local.tracing or is_capturing() or any(map(traced, diff + rest))
        try:
            return self._ready_program()(diff, rest)
        except jax.errors.UnexpectedTracerError as error:
            error.add_note(INNER_STATE)
            raise

    def _ready_program(self) -> Callable[..., Any]:
        """The program to call: as it is while something is being traced, else compiled and kept."""
        if self.direct:
            return self._program()
        if self.cache is None:
            return jax.jit(self._program())
        key = self._cache_key()
        if key not in self.cache:
            self.cache[key] = jax.jit(self._program())
        return self.cache[key]

    def _statics(self) -> dict[int, Any]:
        dynamic = set(self.dynamic)
        return {i: leaf for i, leaf in enumerate(self.leaves) if i not in dynamic}

    def _cache_key(self) -> Hashable:
        statics = tuple(self._statics().items())
        for index, leaf in statics:
            _check_hashable(leaf, f"argument {index} of {self.name}")
        types = tuple(type(leaf) for _, leaf in statics)
        split = (tuple(self.diff_inputs), tuple(self.diff_cells), mode.training)
        return (self.key, self.compute, self.tree, statics, types, split, tuple(map(id, self.cells)))

    def _program(self) -> Callable[..., Any]:
        """(diff, rest) → (vjp or None, float outputs, (other outputs, new states, how to put them together))."""
        pure = self._pure()
        if not self.records:
            return lambda diff, rest: (None, *pure(diff, rest))

        def recorded(diff: list[Any], rest: list[Any]) -> tuple[Any, Any, Any]:
            floats, vjp, aux = jax.vjp(lambda d: pure(d, rest), diff, has_aux=True)
            return vjp, floats, aux

        return recorded

    def _pure(self) -> Callable[..., Any]:
        statics = self._statics()
        body, tree, cells, generator, count = self.body, self.tree, self.cells, self.generator, len(self.leaves)
        compute = self.compute
        diff_cells, diff_inputs, dynamic = list(self.diff_cells), list(self.diff_inputs), list(self.dynamic)

        def pure(diff: list[Any], rest: list[Any]) -> tuple[list[Any], Any]:
            states, inputs = _reunited(diff, rest, diff_cells, len(cells), diff_inputs, len(dynamic))
            leaves = [statics.get(i) for i in range(count)]
            for i, value in zip(dynamic, inputs, strict=True):
                leaves[i] = value
            args, kwargs = jax.tree.unflatten(tree, leaves)
            frame = Frame(cells, generator, compute=compute)  # type: ignore[arg-type]
            with exchanged(cells, states), framed(frame):
                out = body(*args, **kwargs)
                return _collected(out, frame, cells, states, generator)

        return pure

    def _finish(self, vjp: Any, floats: list[Any], aux: Any) -> Any:
        others, changed, result = aux
        if local.observer is not None and vjp is not None:
            local.observer.recorded(self.name, vjp)
        for index, value in zip(result.changed, changed, strict=True):
            store_state(self.cells[index], value)
        node = self._node(vjp, floats, result) if vjp is not None else None
        return _wrapped(result, floats, others, node, self.flows)

    def _node(self, vjp: Any, floats: list[Any], result: Result) -> Node:
        shapes = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in floats]
        params = [self.tensors[k] for k in self.diff_cells]
        inputs = [self.leaves[self.dynamic[k]] for k in self.diff_inputs]
        used = [k in result.read for k in self.diff_cells] + [True] * len(inputs)
        pull = pullback_of(vjp, shapes, jitted=not self.direct)
        keep = [i for i, u in enumerate(used) if u]
        sources = [t for t, u in zip([*params, *inputs], used, strict=True) if u]
        slots = [where if kind == "float" else None for kind, where in result.kinds]
        arguments = [leaf if isinstance(leaf, Tensor) else None for leaf in (self.leaves[i] for i in self.dynamic)]
        read = [t for t, u in zip(params, used, strict=False) if u]
        node = Node(self.name, arguments, read, sources, lambda dys: _picked(pull(dys), keep), shapes, slots)
        self.values, self.held = [], []  # an exporter fills in other ones; the node need not keep these alive
        node.call = None if self.direct else self
        return node if self.operator is None else looks_like(node, self.operator)


def _others(values: list[Any], taken: list[int]) -> list[Any]:
    without = set(taken)
    return [value for k, value in enumerate(values) if k not in without]


def _picked(values: list[Any], keep: list[int]) -> list[Any]:
    return [values[i] for i in keep]


def _reunited(
    diff: list[Any], rest: list[Any], diff_cells: list[int], cells: int, diff_inputs: list[int], inputs: int
) -> tuple[list[Any], list[Any]]:
    """Undo the division into differentiated and other values: (values of the cells, values of the inputs)."""
    diffs, others = iter(diff), iter(rest)
    in_cells, in_inputs = set(diff_cells), set(diff_inputs)
    first = [k in in_cells for k in range(cells)]
    states: list[Any] = [None] * cells
    for k in diff_cells:
        states[k] = next(diffs)
    for k, is_diff in enumerate(first):
        if not is_diff:
            states[k] = next(others)
    values = [None] * inputs
    for k in diff_inputs:
        values[k] = next(diffs)
    for k in range(inputs):
        if k not in in_inputs:
            values[k] = next(others)
    return states, values


# JAX keeps the trace of an inner jit, checkpoint or cond by the identity of the function. Two frames may give one layer
# different arrays, so each frame is a context of its own for that cache.
_frame_token = jax.make_user_context(default_value=None)
_frame_numbers = itertools.count()


class framed:
    """Make `frame` the current one for the block."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.context = _frame_token(next(_frame_numbers))

    def __enter__(self) -> Frame:
        self.context.__enter__()
        self.saved, local.frame = local.frame, self.frame
        return self.frame

    def __exit__(self, *error: Any) -> None:
        local.frame = self.saved
        self.context.__exit__(*error)


def _collected(
    out: Any, frame: Frame, cells: list[Cell], before: list[Any], generator: Cell | None
) -> tuple[list[Any], Any]:
    """Sort what a body returned: floats are differentiated, the rest and the changed states are carried along."""
    leaves, tree = jax.tree.flatten(out, is_leaf=is_tensor)
    floats: list[Any] = []
    others: list[Any] = []
    kinds: list[tuple[str, Any]] = []
    for leaf in leaves:
        value = leaf.data if isinstance(leaf, Tensor) else leaf
        if not isinstance(value, jax.Array | np.ndarray | np.generic):
            kinds.append(("static", value))
            continue
        group, kind = (floats, "float") if is_floating(value.dtype) else (others, "other")
        kinds.append((kind, len(group)))
        group.append(jnp.asarray(value))
    if generator is not None and frame.draws:
        generator.values[generator.index] = frame.advanced_generator()
    changed = [k for k, cell in enumerate(cells) if cell.get() is not before[k]]
    states = [_like(cells[k].get(), before[k]) for k in changed]
    read = frozenset(k for k, cell in enumerate(cells) if id(cell) in frame.reads)
    return floats, (others, states, Result(tree, tuple(kinds), tuple(changed), read))


def _like(value: Any, before: Any) -> Any:
    """A new state value in the dtype of the old one, never weakly typed."""
    return jax.lax.convert_element_type(value, before.dtype)


def _wrapped(result: Result, floats: list[Any], others: list[Any], node: Node | None, flows: bool) -> Any:
    groups = {"float": floats, "other": others}
    leaves: list[Any] = []
    for index, (kind, where) in enumerate(result.kinds):
        if kind == "static":
            leaves.append(where)
            continue
        is_float = kind == "float"
        made = Tensor._of(groups[kind][where], requires_grad=is_float and flows)
        if node is not None and is_float:
            made._creator, made._slot, made.name = node, where, node.output_name(index)
            node.output_ids[id(made)] = index
        leaves.append(made)
    return jax.tree.unflatten(result.tree, leaves)


def _differentiable(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad and is_floating(leaf.dtype)


def _value_of(leaf: Any) -> Any:
    """The array behind an argument; a NumPy array is copied, since the caller may overwrite it at once."""
    if isinstance(leaf, Tensor):
        return _held(leaf._cell, leaf)
    return np.array(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf


def _held(cell: Cell, tensor: Tensor | None) -> Any:
    try:
        return cell.array()
    except UnfilledError as error:
        raise error.located(tensor.name if tensor is not None else "") from None


def _check_hashable(value: Any, what: str) -> None:
    try:
        hash(value)
    except TypeError:
        raise StaticArgumentError(
            f"{what} is a {type(value).__name__}, which is not hashable: arguments that are not arrays select a "
            "program, so pass a number, a string, a tuple, or an array or Tensor"
        ) from None
