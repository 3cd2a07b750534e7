"""singax: Apache SINGA's imperative training API as pure functions on JAX.

Layers are pure functions; `compile` traces a Module with abstract placeholders to create its parameters, and the
training step becomes one XLA program with donated state. See ARCHITECTURE.md.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from singax import (
    autograd,
    device,
    dtypes,
    errors,
    initializer,
    layer,
    metric,
    model,
    ops,
    opt,
    singa_wrap,
    tensor,
    utils,
)
from singax.dtypes import bfloat16, bool_, float16, float32, float64, int32, int64
from singax.errors import SingaxError
from singax.model import Model
from singax.module import Module, step
from singax.tensor import PlaceHolder, Placeholder, Tensor, from_numpy, to_numpy

_LAZY = (
    "checkpoint",
    "data",
    "image_tool",
    "snapshot",
    "sonnx",
    "training",
)  # loaded when they are first used, since they need more than JAX


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"singax.{name}")
    raise AttributeError(f"module 'singax' has no attribute {name!r}")


def load(path: str | os.PathLike[str]) -> Any:
    """A model from an ONNX file alone, without its class, as `Module.from_onnx` makes it; .onnx may be left out.

    Raises `ArgumentError` for a file of states: make the model, then call its `load`.
    """
    from singax import checkpoint

    return checkpoint.load_network(path)


def load_stablehlo(path: str | os.PathLike[str]) -> Callable[..., Any]:
    """The forward that `Module.export_stablehlo` has written, as a function of arrays, compiled when it is called.

    It takes the arrays of the forward in order, returns what the forward returned as JAX arrays, and may be called
    inside `jax.jit`. Raises `FileFormatError` for another kind of file.
    """
    from singax.checkpoint.stablehlo import load_stablehlo

    return load_stablehlo(path)


__version__ = "0.1.0"
