"""Calling a layer from outside: build it if need be, then run its forward as one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from singax.autograd.border import Call
from singax.layer import build, tree
from singax.layer.inside import call_inside, generator_of, run_initialize
from singax.layer.tree import Branch
from singax.mode import NeedsBuild, local


def call_layer(layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `function`, the forward of `layer`: directly inside another layer, else as an outermost call."""
    if local.frame is not None:
        return call_inside(local.frame, layer, function, args, kwargs)
    build.ensure(layer, function, args, kwargs)
    try:
        return _outermost(layer, function, args, kwargs)
    except NeedsBuild:
        build.build(layer, function, args, kwargs)
        return _outermost(layer, function, args, kwargs)


def _outermost(layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def body(*args: Any, **kwargs: Any) -> Any:
        return call_layer(layer, function, args, kwargs)

    call = Call(
        type(layer).__name__,
        body,
        args,
        kwargs,
        tensors=[tensor for _, tensor in tree.tensors(layer)],
        generator=generator_of(layer).cell,
        cache=layer._cache,
        key=function,
        compute=tree.compute_dtype(layer),
    )
    return call.run()


def call_initialize(layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run `initialize`: inside an abstract pass directly, from outside in a pass of its own."""
    if local.frame is not None:
        run_initialize(local.frame, layer, function, args, kwargs)
    else:
        build.build(layer, function, args, kwargs, initialize_only=True)
