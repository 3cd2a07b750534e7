"""The one door between values and operations.

`apply(operation, *args)` runs a pure function on whatever it is given: plain arrays directly, Tensors through the
recorder that `singax.autograd` installs. It stands below Tensor, so that Tensor's operators need not import autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Recorder(Protocol):
    """What `singax.autograd` provides."""

    def apply(self, operation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def leaf(self, tensor: Any) -> Any: ...
    def next_key(self) -> Any: ...


_recorder: Recorder | None = None


def install(recorder: Recorder) -> None:
    """Make `recorder` the handler of everything that involves Tensors."""
    global _recorder
    _recorder = recorder


def _installed() -> Recorder:
    assert _recorder is not None, "singax.autograd installs the recorder when it is imported"
    return _recorder


def apply(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run `operation`, recording it if Tensors are involved outside a layer."""
    return _installed().apply(operation, args, kwargs)


def leaf(tensor: Any) -> Any:
    """The `Dummy` node of a Tensor that no operation made."""
    return _installed().leaf(tensor)


def next_key() -> Any:
    """A fresh random key from the generator in charge: the layer's, the step's, or the device's."""
    return _installed().next_key()
