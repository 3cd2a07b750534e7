"""Equal blocks in a row as one `lax.scan`: a program, and a build, whose size does not grow with their number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.checked import integer
from singax.errors import ArgumentError, DTypeError, NameMismatchError, ShapeError
from singax.layer import tree
from singax.layer.base import Layer
from singax.layer.container_base import BuiltByForward
from singax.layer.pure import PureCall
from singax.layer.remat import checked_policy, checkpointed
from singax.mode import local
from singax.ops.explain import described
from singax.recipes import Stacked
from singax.storage import Cell, Deferred, Unfilled, exchanged
from singax.tensor import Tensor


class Repeat(BuiltByForward):
    """`n` blocks of one kind in a row, run as one `lax.scan`: y = blockₙ₋₁(… block₁(block₀(x, *extra), *extra) …).

    Outputs, gradients, states and dropout masks are those of n separate blocks, but compile time, and the time of
    `compile`, do not grow with n: one block is built and traced, and each of its parameters and states holds the values
    of all blocks along a new first axis. Inside a block `self.W.data` is the block's own slice.

    The wrapper does not show in paths: `self.blocks = Repeat(lambda: Block(64), 24)` has the parameter `blocks.fc.W` of
    shape (24, …). Block i starts with the values of `blocks.<i>.fc.W`, as in `self.blocks = [Block(64), Block(64), …]`;
    `unstacked_states` and `set_unstacked_states` exchange values with such a list. Values that are there before the
    first input (set in a constructor, or of a block that was built already) are the same in all blocks.

    What the model also holds outside of it (a layer that all blocks share) is not stacked: the blocks share it.

    **Shapes** x any, or a tuple, list or dict of arrays → the same; every parameter and state (n, …). Further arguments
    go to every block as they are.

    **Args**
      layer: one block, or a function without arguments that makes one; it is called once.
      n: how many, from 1.
      remat: whether activations inside of a block are computed again in the backward pass instead of kept: False
        (default), True, or a policy (see `Remat`).
      unroll: how many blocks are written out in the body of the loop (default 1); True for all of them. On a CPU a
        convolution inside a loop is slow: unroll those.

    **Raises** `ArgumentError` for arguments outside of these; `ShapeError` or `DTypeError` for a block whose output
    does not look like its input; `StateError` where a block assigns a state that all blocks share.

    *Differences from SINGA*: SINGA has no such layer. An optimizer sees one parameter in place of n: what it computes
    from a whole parameter, such as the norm for clipping, is over all blocks.

    >>> import singax as sx
    >>> blocks = Repeat(lambda: sx.layer.Linear(4), 3)
    >>> blocks(sx.Tensor((2, 4)).set_value(1.0)).shape, blocks.get_params()["W"].shape
    ((2, 4), (3, 4, 4))
    """

    _internal = Layer._internal | {"_shared"}

    def __init__(self, layer: Layer | Callable[[], Layer], n: int, remat: Any = False, unroll: int | bool = 1) -> None:
        super().__init__()
        count = integer("n", n, 1)
        if not isinstance(unroll, bool) and not _is_count(unroll):
            raise ArgumentError(f"unroll must be True, False or an integer from 1. Received: {unroll!r}")
        self.n, self.unroll, self.remat = count, unroll, remat if isinstance(remat, bool) else checked_policy(remat)
        self._stacked = False
        self._shared: tuple[Tensor, ...] = ()
        self._adopt(_made(layer), "")

    @property
    def layer(self) -> Layer:
        """The one block that stands for all; its parameters are those of all blocks."""
        return self._registered[""]

    def forward(self, *inputs: Any, **options: Any) -> Any:
        x, extra = _first_and_others(inputs)
        if local.frame is not None and local.frame.building:
            return self._build(x, extra, options)
        return self._scan(x, extra, options)

    # -- running ------------------------------------------------------------------------------------------------

    def _scan(self, x: Any, extra: tuple[Any, ...], options: dict[str, Any]) -> Any:
        call = PureCall(self.layer, [tensor for _, tensor in self._own()], (x, *extra), options)
        run = checkpointed(call, None if self.remat is True else self.remat, False) if self.remat else call
        width = len(jax.tree.leaves(x))
        first, others = [jnp.asarray(value) for value in call.arrays[:width]], call.arrays[width:]

        def body(carry: Any, states: list[Any]) -> Any:
            values, drawn = carry
            outputs, new_states = run(states, [*values, *others], drawn)
            _check_alike(x, call.output(outputs))
            return (outputs, drawn + call.draws), new_states

        start = (first, jnp.uint32(call.drawn_before))
        (outputs, _), new_states = jax.lax.scan(body, start, call.states, self.n, unroll=self.unroll)
        return call.finish(outputs, new_states, runs=self.n)

    # -- building -----------------------------------------------------------------------------------------------

    def _build(self, x: Any, extra: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run one block abstractly, and stack what it has created."""
        cells = [tensor._cell for _, tensor in self._own()] if self._stacked else []
        before = [_of_one_block(cell.get()) for cell in cells]
        with exchanged(cells, before):
            out = self.layer(x, *extra, **options)
            after = [cell.get() for cell in cells]
        _check_alike(x, out)
        known = {id(cell) for cell in cells}
        for cell, old, new in zip(cells, before, after, strict=True):
            if new is not old:
                self._replace(cell, self._stack(new, None, ""))
        self._stack_new(known | {id(tensor._cell) for tensor in self._shared})
        self._stacked = True
        return out

    def _stack_new(self, known: set[int]) -> None:
        outside = self._held_outside()
        for below, tensor in tree.tensors(self):
            cell = tensor._cell
            if id(cell) in known:
                continue
            if id(cell) in outside:
                self._shared = (*self._shared, tensor)
            else:
                self._replace(cell, self._stack(cell.get(), cell.recipe, below))

    def _stack(self, value: Any, recipe: Any, below: str) -> Unfilled | Deferred:
        """The values of all blocks, for those of one."""
        shape, dtype = (self.n, *value.shape), value.dtype
        if isinstance(value, Unfilled):
            return Unfilled(shape, dtype)
        if isinstance(value, Deferred) and value.draw is None:
            return Deferred(shape, dtype, Stacked(value.recipe, self.n, below))
        stacked = None if recipe is None else Stacked(recipe, self.n, below)
        return Deferred(shape, dtype, stacked, functools.partial(_repeated, value, self.n))

    def _replace(self, cell: Cell, value: Any) -> None:
        old, recipe = cell.get(), cell.recipe

        def undo() -> None:
            cell.set(old)
            cell.recipe = recipe

        assert local.undo is not None
        local.undo.append(undo)
        cell.set(value, lent=False)

    def _held_outside(self) -> set[int]:
        """The cells of what the model holds outside of this layer."""
        found: set[int] = set()
        seen, waiting = {id(self)}, [self._root]
        while waiting:
            layer = waiting.pop()
            if id(layer) not in seen:
                seen.add(id(layer))
                values = [value for _, value in tree.members(layer)]
                waiting += [value for value in values if isinstance(value, tree.Branch)]
                found |= {id(value._cell) for value in values if isinstance(value, Tensor)}
        return found

    def _own(self) -> list[tuple[str, Tensor]]:
        """The stacked parameters and states, with their paths inside a block."""
        shared = {id(tensor._cell) for tensor in self._shared}
        return [(path, tensor) for path, tensor in tree.tensors(self) if id(tensor._cell) not in shared]

    # -- exchange with separate blocks --------------------------------------------------------------------------

    def unstacked_states(self) -> dict[str, jax.Array]:
        """The parameters and states as n separate blocks would name them: `0.fc.W`, `1.fc.W` …"""
        self.get_states()
        values = {path: tensor.data for path, tensor in self._own()}
        return {f"{i}.{path}": value[i] for i in range(self.n) for path, value in values.items()}

    def set_unstacked_states(self, states: Mapping[str, Any]) -> None:
        """Set parameters and states from those of n separate blocks; what is given is given for every block.

        Raises `NameMismatchError` or `ShapeError` before anything is changed.
        """
        self.get_states()
        own = dict(self._own())
        given = {path: [f"{i}.{path}" for i in range(self.n)] for path in own}
        wanted = {path: names for path, names in given.items() if any(name in states for name in names)}
        known = {name for names in wanted.values() for name in names}
        if known != set(states):
            raise NameMismatchError(
                f"the states do not fit {self.n} blocks; missing: {', '.join(sorted(known - set(states))) or 'none'}; "
                f"unknown: {', '.join(sorted(set(states) - known)) or 'none'}"
            )
        self.set_states({
            tree.join(self._path, path): _together(path, [states[name] for name in names], own[path].shape[1:])
            for path, names in wanted.items()
        })  # fmt: skip


def _made(layer: Any) -> Layer:
    made = layer() if not isinstance(layer, Layer) and callable(layer) else layer
    if not isinstance(made, Layer):
        raise ArgumentError(f"expected a layer or a function that makes one. Received: {made!r}")
    return made


def _first_and_others(inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    leaves = jax.tree.leaves(inputs[:1])
    if not leaves or not all(hasattr(leaf, "dtype") for leaf in leaves):
        raise ArgumentError(f"the first input must be an array or made of arrays. Received: {described(inputs)}")
    return inputs[0], inputs[1:]


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _of_one_block(value: Any) -> Unfilled | Deferred:
    """A stand-in for the values of one block, in an abstract pass."""
    if isinstance(value, Unfilled):
        return Unfilled(value.shape[1:], value.dtype)
    return Deferred(value.shape[1:], value.dtype, None)


def _repeated(value: Any, n: int) -> np.ndarray:
    array = np.asarray(value.draw() if isinstance(value, Deferred) and value.draw is not None else value)
    return np.repeat(array[None], n, axis=0)


def _together(path: str, values: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    arrays = [np.asarray(value.data if isinstance(value, Tensor) else value) for value in values]
    for number, array in enumerate(arrays):
        if array.shape != shape:
            raise ShapeError(f"{path} of each block has shape {shape}. Received for block {number}: {array.shape}")
    return np.stack(arrays)


def _check_alike(x: Any, out: Any) -> None:
    """Refuse a block whose output cannot be the input of the next one."""
    leaves, others = jax.tree.leaves(x), jax.tree.leaves(out)
    structures = {jax.tree.structure(x), jax.tree.structure(out)}
    same_tree = len(structures) == 1 and all(hasattr(leaf, "dtype") for leaf in others)
    shapes = same_tree and [v.shape for v in leaves] == [v.shape for v in others]
    if not shapes or [v.dtype for v in leaves] != [v.dtype for v in others]:
        kind = DTypeError if shapes else ShapeError
        raise kind(
            f"a block that is repeated must return what it takes as its first input, here {described(x)}. "
            f"Received from it: {described(out)}"
        )
