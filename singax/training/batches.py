"""Where batches come from, and how a batch becomes the arguments of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from singax.autograd.border import is_tensor
from singax.checked import integer
from singax.errors import ShapeError
from singax.tensor import Tensor

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Batches:
    """Batches of some arrays, cut along their first axes.

    **Args**
      arrays: NumPy arrays, or what NumPy makes arrays of, with the same first size.
      batch_size: how many rows a batch has; the last one of an epoch may have fewer.
      shuffle: draw another order for each epoch (default), from `seed` and the number of the epoch.

    May be iterated again and again; `len` is the number of batches. Yields tuples of arrays.

    **Raises** `ShapeError` for arrays of different first sizes, `ArgumentError` for a batch size below 1.

    >>> import numpy as np
    >>> [x.tolist() for (x,) in Batches(np.arange(5), batch_size=2, shuffle=False)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, *arrays: Any, batch_size: int, shuffle: bool = True, seed: int = 0) -> None:
        self.arrays = tuple(np.asarray(array) for array in arrays)
        sizes = {array.shape[:1] for array in self.arrays}
        if len(sizes) != 1 or () in sizes:
            raise ShapeError(f"expected arrays with one first size. Received: {[a.shape for a in self.arrays]}")
        self.batch_size, self.shuffle, self.seed, self.epoch = integer("batch_size", batch_size, 1), shuffle, seed, 0

    def __len__(self) -> int:
        return -(-len(self.arrays[0]) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        order = np.arange(len(self.arrays[0]))
        if self.shuffle:
            np.random.default_rng((self.seed, self.epoch)).shuffle(order)
        self.epoch += 1
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            yield tuple(array[rows] for array in self.arrays)


def iterated(data: Any) -> Iterable[Any]:
    """The batches of an iterable, or of what a function returns."""
    return data() if callable(data) and not isinstance(data, Iterable) else data


def arguments_of(batch: Any) -> Arguments:
    """A batch as arguments: a tuple or list by position, a mapping by name, anything else as the only one."""
    batch = jax.tree.map(_as_array, batch, is_leaf=is_tensor)
    if isinstance(batch, Mapping):
        return (), {str(name): value for name, value in batch.items()}
    return (tuple(batch) if isinstance(batch, tuple | list) else (batch,)), {}


def _as_array(leaf: Any) -> Any:
    """Arrays of other libraries (a torch tensor, say) as NumPy arrays; ours and everything else as they are."""
    if isinstance(leaf, np.ndarray | np.generic | jax.Array | Tensor) or not hasattr(leaf, "__array__"):
        return leaf
    return np.asarray(leaf)


def rows_of(arguments: Arguments) -> int | None:
    """The first size of the first array among the arguments; None if there is none."""
    leaves = jax.tree.leaves(arguments, is_leaf=is_tensor)
    return next((leaf.shape[0] for leaf in leaves if getattr(leaf, "shape", ())), None)


def target_of(arguments: Arguments) -> Any:
    """What a metric compares the output with: the last argument (`weight`, which `padded` adds, is none)."""
    args, kwargs = arguments
    found = list(args) or [value for name, value in kwargs.items() if name != "weight"]
    return found[-1] if found else None


def padded(arguments: Arguments, rows: int) -> Arguments:
    """The arguments with rows of zeros added up to `rows`, and `weight`: 1 for the rows that were there, else 0."""
    had = rows_of(arguments) or 0

    def grown(leaf: Any) -> Any:
        if not hasattr(leaf, "shape") or leaf.shape[:1] != (had,):
            return leaf
        value = np.asarray(leaf.to_numpy() if isinstance(leaf, Tensor) else leaf)
        return np.concatenate([value, np.zeros((rows - had, *value.shape[1:]), value.dtype)])

    args, kwargs = jax.tree.map(grown, arguments, is_leaf=is_tensor)
    return args, {**kwargs, "weight": (np.arange(rows) < had).astype(np.float32)}
