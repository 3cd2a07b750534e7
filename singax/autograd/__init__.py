"""Autograd: nodes, the tape that hangs on Tensors, SINGA's functional names and user-defined operations.

`singax.autograd.training` is SINGA's global switch: operations are recorded while it is True.
"""

from __future__ import annotations

import sys
import types

from singax import mode
from singax.autograd.functional import *
from singax.autograd.node import Dummy, Node
from singax.autograd.operator import Operation, Operator
from singax.autograd.recorder import node
from singax.autograd.tape import backward, gradients

__all__ = ["Dummy", "Node", "Operation", "Operator", "backward", "gradients", "node", "training"]

training: bool


class _AutogradModule(types.ModuleType):
    """The package itself, so that `autograd.training = True` reaches the one place where the flag lives."""

    @property
    def training(self) -> bool:
        return mode.training

    @training.setter
    def training(self, flag: bool) -> None:
        mode.training = bool(flag)


sys.modules[__name__].__class__ = _AutogradModule
