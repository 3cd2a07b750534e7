"""Which results of a step are numbers to keep, and which is the output of the model.

`lead` is 1 for the results of many steps, which have one more axis at the front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from singax.autograd.border import is_tensor
from singax.tensor import Tensor


def scalars(result: Any, lead: int = 0) -> dict[str, Any]:
    """The results of one element: by their names where a step returns a dict, else "loss", "loss_2", …"""
    if isinstance(result, Mapping):
        return {str(name): array_of(value) for name, value in result.items() if _is_scalar(value, lead)}
    found = [leaf for leaf in _leaves(result) if _is_scalar(leaf, lead)]
    return {"loss" if k == 0 else f"loss_{k + 1}": array_of(leaf) for k, leaf in enumerate(found)}


def output(result: Any, lead: int = 0) -> Any:
    """The first array that has more than one element, None if there is none; steps are joined to one batch."""
    arrays = [array_of(leaf) for leaf in _leaves(result) if hasattr(leaf, "shape")]
    found = next((array for array in arrays if not _is_scalar(array, lead)), None)
    return joined(found) if lead and found is not None else found


def joined(array: Any) -> Any:
    """The batches of many steps as one."""
    return array.reshape(-1, *array.shape[2:]) if array.ndim > 1 else array


def array_of(value: Any) -> Any:
    """The array of a Tensor, without waiting for it; anything else as it is."""
    return value.data if isinstance(value, Tensor) else value


def number(value: Any) -> Any:
    """The value of a metric as a float, or nested lists of them; waits for it."""
    found = np.asarray(value)
    return float(found) if found.size == 1 else found.tolist()


def _leaves(result: Any) -> list[Any]:
    return jax.tree.leaves(result, is_leaf=is_tensor)


def _is_scalar(value: Any, lead: int) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (hasattr(value, "shape") and all(n == 1 for n in value.shape[lead:]))
