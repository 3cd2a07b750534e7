"""Autograd: nodes, the tape that hangs on Tensors, SINGA's functional names and its operator classes.

`singax.autograd.training` is SINGA's global switch: operations are recorded while it is True.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

from singax import mode
from singax.autograd.classes import *
from singax.autograd.functional import *
from singax.autograd.helpers import axis_helper, back_broadcast, ctensor2numpy, infer_dependency
from singax.autograd.node import Dummy, Node
from singax.autograd.operator import Operation, Operator
from singax.autograd.recorder import node
from singax.autograd.tape import backward, gradients

__all__ = ["Dummy", "Node", "Operation", "Operator", "backward", "gradients", "node", "training"]

training: bool

# SINGA's older code finds these layers here; they are looked up when used, since layers are built on this package.
_LAYERS = (
    "Linear", "Conv2d", "SeparableConv2d", "BatchNorm2d", "Pooling2d", "MaxPool2d", "AvgPool2d", "MaxPool1d",
    "AvgPool1d", "RNN_Base", "RNN", "LSTM",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "layer" and name not in _LAYERS:
        raise AttributeError(f"module 'singax.autograd' has no attribute {name!r}")
    layers = importlib.import_module("singax.layer")
    return layers if name == "layer" else getattr(layers, name)


class _AutogradModule(types.ModuleType):
    """The package itself, so that `autograd.training = True` reaches the one place where the flag lives."""

    @property
    def training(self) -> bool:
        return mode.training

    @training.setter
    def training(self, flag: bool) -> None:
        mode.training = bool(flag)


sys.modules[__name__].__class__ = _AutogradModule
