"""The tree of layers: who owns what, and under which path.

A layer's members are its attributes that are layers, Tensors or other owners of state, directly or inside lists,
tuples and dicts. A path joins attribute names, indices and keys with dots: `blocks.0.conv.W`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from singax.errors import ArgumentError
from singax.tensor import Tensor

SEPARATOR = "."

_version = 0


class Stateful:
    """Something other than a layer that owns state Tensors: an optimizer."""

    def state_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Its Tensors with names relative to itself."""
        raise NotImplementedError

    def fresh_state(self) -> dict[str, Any]:
        """Initial values for all of `state_tensors`, as arrays."""
        raise NotImplementedError

    def want(self, parameters: list[Tensor]) -> set[int]:
        """Ask for slots for these parameters; returns the ids of the cells that had none."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Create the slots that have been asked for."""
        raise NotImplementedError

    def forget(self, cells: set[int]) -> bool:
        """Drop the slots of the parameters with these cells; whether there were any."""
        raise NotImplementedError

    def remembered(self) -> Callable[[], None]:
        """What drops the slots that are created from now on."""
        raise NotImplementedError

    def may_yet_have(self, path: str) -> bool:
        """Whether a state with this path, relative to itself, may be created although `prepare` has not done so."""
        return False

    def values_came(self) -> None:
        """Note that values of `state_tensors` have been set from a file."""

    def expect_underflow(self, narrow: bool) -> None:
        """Note whether the model computes in float16, where small gradients vanish unless the loss is scaled."""

    def take_change(self) -> bool:
        """Whether something that is compiled into programs has changed since the last call."""
        return False


def structure_version() -> int:
    """A number that grows whenever a layer gains, loses or replaces a member."""
    return _version


def structure_changed() -> None:
    """Note that some layer's members have changed."""
    global _version
    _version += 1


def compute_dtype(layer: Branch) -> Any:
    """The dtype in which the model of `layer` computes in mixed precision, or None."""
    return layer._root.__dict__.get("_compute_dtype")


def join(*parts: str) -> str:
    """The path made of the non-empty `parts`."""
    return SEPARATOR.join(part for part in parts if part)


class Branch:
    """What makes a layer part of a tree: members, a parent, a path."""

    _internal = frozenset({"_initialized", "_parent", "_local", "_registered", "_cache", "_ready", "_free_index"})
    sep = SEPARATOR
    _runs_user_code = False  # True for layers of ours that call functions of users
    _computes_wide = False  # True for layers that compute in float32 in mixed precision: norms and losses

    _initialized: bool
    _parent: Branch | None
    _local: str | None
    _registered: dict[str, Any]
    _cache: dict[Any, Any]
    _ready: int
    _free_index: int | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made.__dict__.update(
            _initialized=False, _parent=None, _local=None, _registered={}, _cache={}, _ready=-1, _free_index=None
        )
        return made

    def initialize(self, *inputs: Any) -> None:
        """Create the parameters from the first inputs (only their shapes and dtypes are known)."""

    def _parameters_made(self) -> None:
        """Called when parameters below may have been created."""

    def _called_with(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before the first outermost call of a forward, and after members have changed."""

    @property
    def _path(self) -> str:
        """Where the layer stands in its model, such as `block1.conv`; empty for a root."""
        return join(self._parent._path, self._local or "") if self._parent is not None else ""

    @property
    def name(self) -> str | None:
        """The path, or the name it was given; None for an unnamed root."""
        return self._path or self._local

    @name.setter
    def name(self, name: str | None) -> None:
        self.__dict__["_local"] = name

    @property
    def _where(self) -> str:
        """How error messages name the layer: `block1.conv (Conv2d)`."""
        return f"{self._path} ({type(self).__name__})" if self._path else type(self).__name__

    @property
    def _root(self) -> Branch:
        """The top of the tree."""
        return self if self._parent is None else self._parent._root

    def register_layers(self, *layers: Any) -> None:
        """Register sublayers as `<ClassName>_<index>`, or under the keys of one dict."""
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            named = dict(layers[0])
        else:
            named = {f"{type(layer).__name__}_{index}": layer for index, layer in enumerate(layers)}
        for name, layer in named.items():
            if not isinstance(layer, Branch):
                raise ArgumentError(f"register_layers takes layers. Received: {type(layer).__name__}")
            self._adopt(layer, name)

    def register_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Register Tensors as parameters and states under names that need not be those of attributes."""
        self._registered.update(tensors)
        structure_changed()

    def _adopt(self, layer: Branch, name: str) -> None:
        layer.__dict__.update(_parent=self, _local=name)
        self._registered[name] = layer
        structure_changed()


def creates_parameters(layer: Branch) -> bool:
    """Whether the layer's class overrides `initialize`."""
    return type(layer).initialize is not Branch.initialize


def unbuilt(root: Branch) -> list[Branch]:
    """The layers from `root` down that will have parameters and have none yet."""
    return [layer for _, layer in layers(root) if creates_parameters(layer) and not layer._initialized]


def is_member(value: Any) -> bool:
    """Whether assigning `value` to an attribute can change the tree."""
    return isinstance(value, Branch | Tensor | Stateful | list | tuple | dict)


def members(layer: Branch) -> Iterator[tuple[str, Any]]:
    """The direct members of a layer with their names, in the order in which they were assigned."""
    for name, value in list(layer.__dict__.items()):
        if name not in layer._internal:
            yield from _expanded(name, value)
    for name, child in layer._registered.items():
        yield name, child


def _expanded(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Branch | Tensor | Stateful):
        yield name, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _expanded(f"{name}{SEPARATOR}{index}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _expanded(f"{name}{SEPARATOR}{key}", item)


def walk(root: Branch, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every layer, Tensor and other owner below `root` with its path, each object once, parents first."""
    yield from _walk(root, path, set())


def _walk(layer: Branch, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    seen.add(id(layer))
    yield path, layer
    for name, value in members(layer):
        if id(value) in seen:
            continue
        if isinstance(value, Branch):
            yield from _walk(value, join(path, name), seen)
        else:
            seen.add(id(value))
            yield join(path, name), value


def layers(root: Branch) -> list[tuple[str, Branch]]:
    """All layers from `root` down, with paths."""
    return [(path, value) for path, value in walk(root) if isinstance(value, Branch)]


def tensors(root: Branch, owners: bool = False) -> list[tuple[str, Tensor]]:
    """The Tensors of all layers from `root` down, one per cell; with `owners` also those of optimizers and the like."""
    found: list[tuple[str, Tensor]] = []
    cells: set[int] = set()
    for path, value in walk(root):
        named = [(path, value)] if isinstance(value, Tensor) else []
        if owners and isinstance(value, Stateful):
            named = [(join(path, name), tensor) for name, tensor in value.state_tensors()]
        for full, tensor in named:
            if id(tensor._cell) not in cells:
                cells.add(id(tensor._cell))
                found.append((full, tensor))
    return found


def name_members(root: Branch) -> None:
    """Give every layer below `root` its parent and local name, and every unnamed Tensor its path."""
    for path, layer in layers(root):
        for name, value in members(layer):
            if isinstance(value, Branch) and value is not root and value._parent is None:
                value.__dict__.update(_parent=layer, _local=name)
            elif isinstance(value, Tensor) and value.is_dummy():
                value.name = join(root._path, path, name)
