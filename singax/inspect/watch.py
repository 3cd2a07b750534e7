"""The observer of an abstract run: which layers were called with what, what is kept, which updates are made."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from singax.inspect.abstract import Borrowed
from singax.inspect.alike import Likeness
from singax.inspect.once import BuildOnce, TraceOnce
from singax.inspect.scopes import scope_name
from singax.layer import tree
from singax.layer.tree import Branch
from singax.mode import Observer, local
from singax.module import Module
from singax.tensor import Tensor

Struct = jax.ShapeDtypeStruct


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer: its number in the model, the shapes and dtypes of its arguments and of its output."""

    number: int
    inputs: Any
    outputs: Any = None


@dataclass(frozen=True)
class Update:
    """The jaxpr of updating one parameter, and for how many parameters it stands."""

    jaxpr: Any
    count: int


class Watch:
    """Notes what happens while a method of `module` is traced."""

    def __init__(self, module: Module, borrowed: Borrowed) -> None:
        self.numbers = {id(layer): number for number, (_, layer) in enumerate(tree.layers(module))}
        self.calls: list[LayerCall] = []
        self.kept: list[Any] = []
        self.updates: list[Update] = []
        self.gradients: list[Any] = []
        self._borrowed = borrowed
        likeness = Likeness(module)
        self._once, self._builder = TraceOnce(likeness), BuildOnce(likeness)
        self._bases: list[int] = []  # the numbers of the layers in progress whose trace may serve others

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note the call, and run it."""
        assert local.frame is not None, "layers run inside a frame"
        if local.frame.building:
            return self._builder.run(layer, function, args, kwargs)
        number = self.numbers.get(id(layer))
        if number is None:
            return function(layer, *args, **kwargs)
        place, opens = len(self.calls), self._once.shares(layer)
        self.calls.append(LayerCall(number, shapes(_arguments(args, kwargs))))
        run = functools.partial(self._with_base, number, function) if opens else function
        with jax.named_scope(scope_name(number, self._bases[-1] if self._bases else None, opens)):
            out, original = self._once.run(layer, run, args, kwargs)
        self.calls[place] = dataclasses.replace(self.calls[place], outputs=shapes(out))
        if original is not None:
            self._replay(place, number, original)
        return out

    def _with_base(self, number: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a forward whose trace may serve other layers: numbers count from its own."""
        self._bases.append(number)
        try:
            return function(*args, **kwargs)
        finally:
            self._bases.pop()

    def _replay(self, place: int, number: int, original: Branch) -> None:
        """Note for the layers below what was noted for those below `original`."""
        start = self.numbers[id(original)]
        first = next(k for k, call in enumerate(self.calls) if call.number == start)
        below = range(start + 1, start + len(tree.layers(original)))
        found = [call for call in self._until_next(first) if call.number in below]
        self.calls[place + 1 :] = [dataclasses.replace(call, number=call.number - start + number) for call in found]

    def _until_next(self, first: int) -> list[LayerCall]:
        """The calls after the one at `first`, up to a second one of the same layer."""
        number = self.calls[first].number
        ends = [k for k, call in enumerate(self.calls) if k > first and call.number == number]
        return self.calls[first + 1 : ends[0] if ends else None]

    def meets(self, optimizer: Any) -> None:
        """Protect an optimizer that is not the model's own."""
        self._borrowed.take(optimizer)

    def update(self, optimizer: Any, named: Any) -> bool:
        """Keep the gradients; trace the update, if possible of one parameter of each shape."""
        self.gradients += [gradient for _, gradient in named.values()]
        if optimizer.overrides_apply:
            return False
        if not optimizer.slot_names:  # an optax chain may look at all parameters together
            self.updates.append(Update(optimizer.abstract_update(named), 1))
            return True
        groups: dict[Any, list[str]] = {}
        for key, (parameter, gradient) in named.items():
            groups.setdefault((parameter.shape, parameter.dtype, gradient.dtype), []).append(key)
        for keys in groups.values():
            self.updates.append(Update(optimizer.abstract_update({keys[0]: named[keys[0]]}), len(keys)))
        return True

    def recorded(self, name: str, vjp: Any) -> None:
        """Keep the arrays that a recorded call holds until its backward pass."""
        self.kept += jax.tree.leaves(vjp)


class Onlooker:
    """An observer that changes nothing and notes nothing: what others override some methods of."""

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it."""
        return function(layer, *args, **kwargs)

    def meets(self, optimizer: Any) -> None:
        """Leave it as it is."""

    def update(self, optimizer: Any, named: Any) -> bool:
        """Let the optimizer do it."""
        return False

    def recorded(self, name: str, vjp: Any) -> None:
        """Nothing to note."""


class Guard(Onlooker):
    """Protects optimizers that are not the model's own."""

    def __init__(self, borrowed: Borrowed) -> None:
        self._borrowed = borrowed

    def meets(self, optimizer: Any) -> None:
        """Put it back as it was, in the end."""
        self._borrowed.take(optimizer)


class watching:
    """Make `watch` the observer for the block."""

    def __init__(self, watch: Observer) -> None:
        self.watch = watch

    def __enter__(self) -> None:
        self.saved, local.observer = local.observer, self.watch

    def __exit__(self, *_: Any) -> None:
        local.observer = self.saved


def shapes(values: Any) -> Any:
    """Structs in place of arrays and Tensors."""
    return jax.tree.map(
        lambda v: Struct(tuple(v.shape), v.dtype) if hasattr(v, "dtype") else v,
        values,
        is_leaf=lambda v: isinstance(v, Tensor),
    )


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    given = {name: value for name, value in kwargs.items() if value is not None}
    return (*args, *([given] if given else []))
