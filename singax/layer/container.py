"""Layers in a row, and functions as layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

from singax.errors import ArgumentError, NameMismatchError
from singax.layer.base import Layer


class Lambda(Layer):
    """A function on arrays as a layer: y = function(*inputs).

    **Shapes** those of the function.

    **Args** function: any function that takes and returns JAX arrays.

    **Raises** `ArgumentError` for what cannot be called, and for a class (pass an instance).

    *Differences from SINGA*: SINGA has no such layer.

    >>> import jax.numpy as jnp
    >>> Lambda(lambda x: jnp.swapaxes(x, 0, 1)).infer_shape((2, 3))
    (3, 2)
    """

    _runs_user_code = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if not callable(function) or isinstance(function, type):
            raise ArgumentError(f"expected a function on arrays. Received: {function!r}")
        self.function = function

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.function(*inputs, **options)


class Sequential(Layer):
    """Layers in a row, each fed with what the one before returns: y = fₙ(… f₂(f₁(*inputs))).

    The first takes all inputs and keyword arguments; every other one takes a single value, whatever the one before
    returned. Without layers it returns its only input.

    Its members are attributes named "0", "1" … or by their names, so that paths read `features.0.W` or
    `features.conv.W`. `s[0]`, `s["conv"]`, `s[-1]`, `len(s)`, iteration, `s[1] = layer` and `s.append(layer)` work as
    for a list. A slice is a Sequential of the same layers under the same names, which goes on belonging to the whole.

    **Shapes** from the input of the first to the output of the last.

    **Args**
      layers: layers or functions on arrays such as `jax.nn.relu` (which become `Lambda`), or one mapping of names to
        them.
      named: the same by keyword.

    **Raises** `ArgumentError` for other objects, for names that are attributes of every Sequential or contain a dot,
    and for positional and named layers together; `NameMismatchError` for a name that is not there.

    *Differences from SINGA*: SINGA has no such layer.

    >>> import jax, singax as sx
    >>> mlp = Sequential(sx.layer.Linear(8), jax.nn.relu, sx.layer.Linear(3))
    >>> mlp.infer_shape((None, 4)), len(mlp), mlp[-1]
    ((None, 3), 3, <2 (Linear)>)
    """

    def __init__(self, *layers: Any, **named: Any) -> None:
        super().__init__()
        if layers and named:
            raise ArgumentError("expected layers in a row or layers by name, not both")
        self._names: tuple[str, ...] = ()
        by_name = len(layers) == 1 and isinstance(layers[0], Mapping)
        for item in () if by_name else layers:
            self.append(item)
        for name, item in (layers[0] if by_name else named).items():
            self._add(_checked_name(name), item)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        if not self._names:
            return _only(inputs, options)
        first, *others = list(self)
        value = first(*inputs, **options)
        for layer in others:
            value = layer(value)
        return value

    def append(self, item: Any) -> Sequential:
        """Add a layer or function at the end, named by the first free number from `len` on. Returns self."""
        number = len(self)
        while str(number) in self._names:
            number += 1
        self._add(str(number), item)
        return self

    def _add(self, name: str, item: Any) -> None:
        setattr(self, name, _as_layer(item))
        self._names = (*self._names, name)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Layer]:
        return iter([self.__dict__[name] for name in self._names])

    @overload
    def __getitem__(self, index: int | str) -> Layer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | str | slice) -> Layer | Sequential:
        if isinstance(index, slice):
            return self._part(self._names[index])
        return self.__dict__[self._name_of(index)]

    def __setitem__(self, index: int | str, item: Any) -> None:
        setattr(self, self._name_of(index), _as_layer(item))

    def _name_of(self, index: int | str) -> str:
        if isinstance(index, str):
            if index not in self._names:
                raise NameMismatchError(f"there is no layer named {index!r}; known: {', '.join(self._names)}")
            return index
        return self._names[index]

    def _part(self, names: tuple[str, ...]) -> Sequential:
        """Some of the layers in a Sequential that does not become their owner: their paths stay."""
        made = type(self).__new__(type(self))
        made.__dict__.update({name: self.__dict__[name] for name in names}, _names=names, _parent=self, _local="")
        return made


def _as_layer(item: Any) -> Layer:
    return item if isinstance(item, Layer) else Lambda(item)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name or "." in name or hasattr(Sequential, name):
        raise ArgumentError(f"expected a name without dots that Sequential does not use itself. Received: {name!r}")
    return name


def _only(inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if len(inputs) != 1 or options:
        raise ArgumentError(f"an empty Sequential returns its only input. Received: {len(inputs)} inputs, {options}")
    return inputs[0]
