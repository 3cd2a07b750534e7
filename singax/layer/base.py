"""Layer: a pure function with parameters that are created from its first input."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from singax import initializer as initializers
from singax.errors import NameMismatchError, ShapeError, StateError, UninitializedError
from singax.layer import build, tree
from singax.layer.call import call_initialize, call_layer
from singax.mode import local, traced
from singax.tensor import Tensor


class Layer(tree.Branch):
    """Base class of everything with a `forward`.

    Override `forward(self, *inputs)`, which receives and returns plain JAX arrays, and, if there are parameters,
    `initialize(self, *inputs)`, which creates them as Tensor attributes from the shapes of the first inputs:

    >>> import jax.numpy as jnp, singax as sx
    >>> class Scale(sx.layer.Layer):
    ...     def initialize(self, x):
    ...         self.gain = self.param(x.shape[-1:], "ones")
    ...     def forward(self, x):
    ...         return jnp.tanh(x) * self.gain.data
    >>> Scale().infer_shape((None, 4))
    (None, 4)

    Sublayers are found in attributes, lists, tuples, dicts and `register_layers`.

    *Differences from SINGA*: Tensor attributes are parameters and states without overriding get_params; layers in lists
    and dicts are registered; a layer called without an owner joins the layer that calls it.
    """

    _not_copied = frozenset({"_parent", "_cache", "_ready", "_free_index"})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, wrapper in (("forward", _wrapped_forward), ("initialize", _wrapped_initialize)):
            own = cls.__dict__.get(name)
            if callable(own) and not hasattr(own, "__singax_border__"):
                setattr(cls, name, wrapper(own))

    # -- to override --------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs from the inputs; all are JAX arrays."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.forward(*inputs, **kwargs)

    # -- creating parameters ------------------------------------------------------------------------------------

    def param(self, shape: tuple[int, ...], initializer: Any, dtype: Any = np.float32, device: Any = None) -> Tensor:
        """A new parameter. `initializer`: a name ("he_uniform"), a recipe, `f(tensor)` or `f(key, shape, dtype)`."""
        if local.frame is not None:
            dtype = local.frame.stored_dtype(dtype)
        made = Tensor(shape, device, dtype, requires_grad=True, stores_grad=True)
        initializers.fill(made, initializer)
        return made

    def state(self, shape: tuple[int, ...], initializer: Any = "zeros", dtype: Any = np.float32) -> Tensor:
        """A new state: a Tensor that is saved and carried from step to step, but has no gradient."""
        made = self.param(shape, initializer, dtype)
        made.requires_grad = made.stores_grad = False
        return made

    def device_check(self, *tensors: Tensor) -> None:
        """Move all Tensors to the device of the first one, in place."""
        for tensor in tensors[1:]:
            tensor.to_device(tensors[0].device)

    def dtype_check(self, *tensors: Tensor) -> None:
        """Convert all Tensors to the dtype of the first one, in place."""
        for tensor in tensors[1:]:
            tensor.to_type(tensors[0].dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        current = self.__dict__.get(name)
        if _running(self):
            if isinstance(current, Tensor) and value is not current and _is_value(value):
                _write_state(current, value)
                return
            _refuse_traced(self, name, value)
        elif value is not current:
            self._forget_programs()
        object.__setattr__(self, name, value)
        if isinstance(value, tree.Branch) and value is not self:
            value.__dict__.update(_parent=self, _local=name)
        elif isinstance(value, Tensor) and value.is_dummy():
            value.name = tree.join(self._path, name)
        if tree.is_member(value) or tree.is_member(current):
            tree.structure_changed()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy with parameters of its own; it shares nothing with the original, compiled programs included."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            if name not in self._not_copied:
                made.__dict__[name] = copy.deepcopy(value, memo)
        made.__dict__["_parent"] = memo.get(id(self._parent))
        tree.structure_changed()
        return made

    def _forget_programs(self) -> None:
        """An attribute has changed: what was compiled for eager calls may have read it."""
        layer: tree.Branch | None = self
        while layer is not None:
            layer._cache.clear()
            layer = layer._parent

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        tree.structure_changed()

    # -- parameters and states ----------------------------------------------------------------------------------

    def get_params(self) -> dict[str, Tensor]:
        """Path → parameter, for this layer and all below it.

        Raises `UninitializedError` while no input has been seen.
        """
        return {path: t for path, t in self._named_tensors() if t.stores_grad}

    def get_states(self) -> dict[str, Tensor]:
        """Path → Tensor: the parameters and what else is saved, such as running means."""
        return dict(self._named_tensors())

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Copy values (Tensors or arrays) into the parameters with exactly these paths; others stay as they are.

        Raises `NameMismatchError` or `ShapeError` before anything is changed.
        """
        _copy_into(self.get_params(), params)

    def set_states(self, states: Mapping[str, Any]) -> None:
        """Copy values into the parameters and states with exactly these paths; others stay as they are.

        Raises `NameMismatchError` or `ShapeError` before anything is changed.
        """
        _copy_into(self.get_states(), states)

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        tree.name_members(self)
        waiting = [layer for _, layer in tree.layers(self) if tree.creates_parameters(layer)]
        if waiting and not any(layer._initialized for layer in waiting):
            raise UninitializedError(
                f"{self._where} has no parameters yet: they are created from the first input. Call "
                "compile([placeholder]) on the model, or call it with an input"
            )
        return [(tree.join(self._path, path), tensor) for path, tensor in tree.tensors(self)]

    # -- shapes -------------------------------------------------------------------------------------------------

    input_dtype: Any = np.float32

    def infer_shape(self, *shapes: Any) -> Any:
        """Output shape for input `shapes`, by tracing; nothing is allocated and the layer stays as it was.

        Each argument is a tuple of sizes (None: unknown; the same axis of all inputs is the same unknown), or a
        Placeholder or array where the dtype matters, None for None, or a list of those. Returns a tuple, or what
        `forward` returns with tuples in place of arrays; a size that depends on an unknown one is None. Raises
        `ArgumentError` for anything else.
        """
        return build.infer_shape(self, shapes)

    def __repr__(self) -> str:
        return f"<{self._where}>"


def mark_border(method: Callable[..., Any]) -> Callable[..., Any]:
    """Note that `method` passes the border itself and needs no second wrapper."""
    method.__singax_border__ = True  # type: ignore[attr-defined]
    return method


def _wrapped_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def forward(self: Layer, *args: Any, **kwargs: Any) -> Any:
        return call_layer(self, function, args, kwargs)

    return mark_border(forward)


def _wrapped_initialize(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def initialize(self: Layer, *args: Any, **kwargs: Any) -> None:
        call_initialize(self, function, args, kwargs)

    return mark_border(initialize)


def _running(layer: Layer) -> bool:
    """Whether a forward or a step is in progress (creating parameters in `initialize` does not count)."""
    frame = local.frame
    return local.step is not None if frame is None else id(layer) not in frame.creating


def _is_value(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "dtype")


def _write_state(current: Tensor, value: Any) -> None:
    """Assigning to an attribute that holds a Tensor, inside a layer or step, changes the state."""
    current.data = value
    if isinstance(value, Tensor) and local.frame is None:
        current._creator, current._slot = value._creator, value._slot


def _refuse_traced(layer: Layer, name: str, value: Any) -> None:
    leaves = jax.tree.leaves(value, is_leaf=lambda leaf: isinstance(leaf, Tensor))
    if any(traced(leaf._cell.get() if isinstance(leaf, Tensor) else leaf) for leaf in leaves):
        raise StateError(
            f"{layer._where}.{name} was assigned a value that exists only while a step is being compiled. To carry it "
            f"over, make self.{name} a Tensor in __init__ or initialize; otherwise use a local variable"
        )


def _copy_into(known: dict[str, Tensor], values: Mapping[str, Any]) -> None:
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise NameMismatchError(f"there is nothing named {', '.join(unknown)}; known names: {', '.join(known)}")
    for path, value in values.items():
        shape = tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
        if shape != known[path].shape:
            raise ShapeError(f"{path} has shape {known[path].shape}; received shape {shape}")
    for path, value in values.items():
        known[path].copy_from(value)
