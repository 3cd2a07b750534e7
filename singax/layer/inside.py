"""A layer that runs inside another: plain arrays in and out, lazily created parameters, its path on every error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax

from singax import device as devices
from singax.autograd.recorder import unwrapped
from singax.errors import SingaxError, StateError
from singax.layer import tree
from singax.layer.tree import Branch
from singax.mode import Frame, NeedsBuild, local
from singax.ops.explain import FROM_BELOW, NOT_ABOUT_INPUTS, described, explained


def call_inside(
    frame: Frame, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a layer's forward inside another: plain arrays in and out, the layer's path on every error."""
    if frame.stack and frame.stack[-1] is layer:  # super().forward(...)
        return function(layer, *args, **kwargs)
    args, kwargs = unwrapped((args, kwargs))
    _ensure_owner(frame, layer)
    frame.stack.append(layer)
    try:
        if len(frame.stack) == 1:
            args, kwargs = frame.narrowed((args, kwargs))
        if not layer._initialized:
            _create_parameters(frame, layer, function, args, kwargs)
        with jax.named_scope(frame.scope(layer)):
            return function(layer, *args, **kwargs)
    except NeedsBuild:
        raise
    except SingaxError as error:
        raise error.located(layer._where) from error.__cause__
    except Exception as error:
        if _is_about_inputs(error, layer):
            raise explained(type(layer).__name__, args, kwargs, error).located(layer._where) from error
        _add_context(error, layer, args, kwargs)
        raise
    finally:
        frame.stack.pop()


def _ensure_owner(frame: Frame, layer: Branch) -> None:
    """A layer that nobody registered joins the layer that calls it, so that it is trained and saved."""
    if layer._parent is not None or not frame.stack or layer is frame.stack[0]:
        return
    caller = frame.stack[-1]
    if not frame.building:
        if tree.creates_parameters(layer):
            raise StateError(
                f"{caller._where} calls a {type(layer).__name__} that was not there when the model was built. Create "
                "layers in __init__, not in forward"
            )
        return
    number = sum(name.startswith(f"{type(layer).__name__}_") for name in caller._registered)
    name = f"{type(layer).__name__}_{number}"
    assert local.undo is not None
    local.undo.append(lambda: caller._registered.pop(name, None))
    local.undo.append(lambda: layer.__dict__.update(_parent=None, _local=None))
    caller._adopt(layer, name)


def _create_parameters(
    frame: Frame, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if not tree.creates_parameters(layer):
        layer.__dict__["_initialized"] = True
    elif not frame.building:
        raise NeedsBuild
    else:
        positional = args if not kwargs else _in_order(layer, function, args, kwargs)
        layer.initialize(*positional[: _positional_limit(layer)])


def _in_order(layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """All arguments of a call in the order of forward's parameters."""
    bound = inspect.signature(function).bind(layer, *args, **kwargs)
    return (*bound.args[1:], *bound.kwargs.values())


def _positional_limit(layer: Branch) -> int | None:
    """How many positional arguments `initialize` takes; None for any number."""
    kinds = [p.kind for p in inspect.signature(layer.initialize).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    return sum(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds)


def run_initialize(
    frame: Frame, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Run an `initialize`; if the pass around it fails, the layer becomes what it was."""
    nested = id(layer) in frame.creating  # super().initialize(...)
    if layer._initialized and not nested:
        return
    if not nested and local.undo is not None:
        saved = dict(layer.__dict__)
        local.undo.append(lambda: _restore(layer, saved))
    frame.creating.add(id(layer))
    try:
        function(layer, *args, **kwargs)
        layer.__dict__["_initialized"] = True
    finally:
        if not nested:
            frame.creating.discard(id(layer))


def _restore(layer: Branch, saved: dict[str, Any]) -> None:
    layer.__dict__.clear()
    layer.__dict__.update(saved)
    tree.structure_changed()


def generator_of(layer: Branch) -> devices.Generator:
    """The random generator in charge: the model's, or the device's for layers without a model."""
    if local.generator is not None:
        return local.generator
    return getattr(layer._root, "_generator", None) or devices.free_generator


def _is_about_inputs(error: Exception, layer: Branch) -> bool:
    """Whether a layer of ours failed on what it was given; code of users keeps its own exceptions."""
    ours = type(layer).__module__.startswith("singax.") and not layer._runs_user_code
    return ours and isinstance(error, FROM_BELOW) and not isinstance(error, NOT_ABOUT_INPUTS) and not _located(error)


def _located(error: Exception) -> bool:
    return any(note.startswith("in layer ") for note in getattr(error, "__notes__", ()))


def _add_context(error: Exception, layer: Branch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Say once, on an error that is not ours, in which layer it happened and what the layer was given."""
    if _located(error):
        return
    error.add_note(f"in layer {layer._where}, called with {described((args, kwargs))}")
    if "Tensor" in str(error):
        error.add_note("a parameter is a handle: inside a layer its array is self.W.data")
