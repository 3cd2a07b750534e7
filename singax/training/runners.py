"""Programs made of a training step: many steps at once, and a step that updates nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from singax.arguments import Packed
from singax.autograd.border import is_tensor
from singax.errors import ShapeError
from singax.functional import step_function
from singax.mode import StepContext, local, refuse_inside
from singax.module import Module
from singax.program import Program, Runner
from singax.storage import Bank, Cell
from singax.tensor import Tensor


class ManySteps(Runner):
    """Runs a step over the first axes of its arguments in one `jax.lax.scan`; the state is donated."""

    def pure(self, cells: list[Cell], packed: Packed, observe: Callable[[StepContext], None]) -> Callable[..., Any]:
        """The steps as one function of (state values, stacked arrays)."""
        step = super().pure(cells, packed, observe)
        return lambda values, inputs: jax.lax.scan(step, list(values), inputs)


class Evaluation(Runner):
    """Runs a step without its backward pass and updates; states that it changes are dropped."""

    def _run_untimed(self, bank: Bank, program: Program, inputs: list[Any]) -> Any:
        return program.call(bank.values[: program.count], inputs)[1]


def runner(module: Module, kind: type[Runner], method: str) -> Runner:
    """The runner of this kind for a step; made when it is first wanted, and again after a `compile`."""
    found = module._runners.get((kind, method))
    if found is None:
        function = step_function(module, method)
        name = f"{type(module).__name__}.{method}, {'scanned' if kind is ManySteps else 'evaluated'}"
        if kind is Evaluation:
            function = _without_updates(function)
        found = module._runners[kind, method] = kind(module, name, function, donates=kind is ManySteps)
    return found


def _without_updates(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def evaluated(module: Module, *args: Any, **kwargs: Any) -> Any:
        assert local.step is not None, "a runner opens a step"
        local.step.evaluates = True
        return function(module, *args, **kwargs)

    return evaluated


def train_batches(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], method: str) -> Any:
    """See `Module.train_batches`."""
    refuse_inside("train_batches")
    step_function(module, method)
    count = _count((args, kwargs))
    if module.graph_mode:
        return runner(module, ManySteps, method)(args, kwargs)
    return _one_by_one(module, args, kwargs, method, count)


def _count(arguments: Any) -> int:
    """How many steps there are."""
    leaves = [leaf for leaf in jax.tree.leaves(arguments, is_leaf=is_tensor) if hasattr(leaf, "shape")]
    sizes = {int(leaf.shape[0]) if leaf.shape else 0 for leaf in leaves}
    if len(sizes) != 1 or 0 in sizes:
        shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves) or "no array"
        raise ShapeError(f"expected arrays with one number of steps as first size. Received: {shapes}")
    return sizes.pop()


def _one_by_one(module: Module, args: Any, kwargs: Any, method: str, count: int) -> Any:
    """The steps one after the other, for models that run eagerly."""
    results = []
    for k in range(count):
        take = lambda leaf, k=k: leaf[k] if hasattr(leaf, "shape") else leaf  # noqa: E731
        some, named = jax.tree.map(take, (args, kwargs), is_leaf=is_tensor)
        results.append(getattr(module, method)(*some, **named))
    return jax.tree.map(_stacked, *results, is_leaf=is_tensor)


def _stacked(*leaves: Any) -> Any:
    if not isinstance(leaves[0], Tensor):
        return leaves[0]
    return Tensor(data=jax.numpy.stack([leaf.data for leaf in leaves]), requires_grad=False)
