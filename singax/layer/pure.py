"""A layer's call as a pure function, so that a JAX transformation can be put around it in the middle of a forward.

States that a layer assigns may not cross the border of `jax.checkpoint`, `scan` or `vmap` by themselves: they go in as
arguments and come out as results. Random keys are numbered on from those drawn before, so that the layer draws what it
would have drawn without the transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.autograd.border import framed
from singax.autograd.recorder import unwrapped
from singax.mode import Frame, local
from singax.storage import Cell, exchanged
from singax.tensor import Tensor

_ARRAY = object()  # stands for an array among the outputs of a call


class PureCall:
    """`layer(*args, **kwargs)` as a function (states, arrays, drawn_before) → (output arrays, new states).

    `states` are values for `tensors`, `arrays` the arguments that are arrays, in order; all other arguments and outputs
    stay outside as they are. The function has to be traced at least once before `finish` is called: the trace leaves
    behind which states it has read and changed, and how many random keys it has drawn (`draws`).
    """

    def __init__(
        self, layer: Callable[..., Any], tensors: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.layer, self.outer = layer, _current_frame()
        self.cells: list[Cell] = [tensor._cell for tensor in tensors]
        self._leaves, self._tree = jax.tree.flatten((args, kwargs))
        self._places = [i for i, leaf in enumerate(self._leaves) if _is_array(leaf)]

    @property
    def states(self) -> list[Any]:
        """The states as the frame around the call has them."""
        return [cell.get() for cell in self.cells]

    @property
    def arrays(self) -> list[Any]:
        """The arguments that are arrays."""
        return [self._leaves[i] for i in self._places]

    @property
    def form(self) -> Hashable:
        """What of the arguments is no array: their structure and the other leaves."""
        places = set(self._places)
        return self._tree, tuple((i, leaf) for i, leaf in enumerate(self._leaves) if i not in places)

    @property
    def drawn_before(self) -> Any:
        """How many random keys were drawn before the call."""
        return self.outer.drawn_before + self.outer.draws

    def __call__(self, states: Sequence[Any], arrays: Sequence[Any], drawn_before: Any) -> tuple[list[Any], list[Any]]:
        leaves = list(self._leaves)
        for i, value in zip(self._places, arrays, strict=True):
            leaves[i] = value
        args, kwargs = jax.tree.unflatten(self._tree, leaves)
        with exchanged(self.cells, states), framed(self.outer.nested(self.cells, drawn_before)) as inner:
            out, self._out_tree = jax.tree.flatten(unwrapped(self.layer(*args, **kwargs)))
            self._changed = [k for k, cell in enumerate(self.cells) if cell.get() is not states[k]]
            new = [self.cells[k].get() for k in self._changed]
        self.reads, self.draws = inner.reads, inner.draws
        self._out = [_ARRAY if _is_array(leaf) else leaf for leaf in out]
        return [jnp.asarray(leaf) for leaf in out if _is_array(leaf)], new

    def output(self, arrays: Sequence[Any]) -> Any:
        """What the layer returned, with these arrays."""
        values = iter(arrays)
        return jax.tree.unflatten(self._out_tree, [next(values) if leaf is _ARRAY else leaf for leaf in self._out])

    def take_trace(self, other: PureCall) -> None:
        """Go by the trace of a call of a layer just like this one, whose states are in the same order."""
        self._changed, self._out, self._out_tree, self.draws = other._changed, other._out, other._out_tree, other.draws
        own = dict(zip(map(id, other.cells), map(id, self.cells), strict=True))
        self.reads = {own.get(cell, cell) for cell in other.reads}

    def finish(self, outputs: Sequence[Any], new_states: Sequence[Any], runs: int = 1) -> Any:
        """Give the new states and the count of draws to the frame around the call; returns the layer's output."""
        for k, value in zip(self._changed, new_states, strict=True):
            self.outer.write(self.cells[k], value)
        self.outer.reads |= self.reads
        self.outer.draws += runs * self.draws
        return self.output(outputs)


def _current_frame() -> Frame:
    frame = local.frame
    assert frame is not None, "local.frame is set while a forward runs"
    return frame


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray | np.generic)
