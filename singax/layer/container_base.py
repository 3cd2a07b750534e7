"""Layers whose parameters come from what they hold."""

from __future__ import annotations

from typing import Any

from singax.layer.base import Layer
from singax.mode import local


class BuiltByForward(Layer):
    """A layer that creates its parameters in `forward`, when it runs in an abstract pass for the first time."""

    def initialize(self, *inputs: Any) -> None:
        """Create the parameters from the first inputs (only their shapes and dtypes are known)."""
        frame = local.frame
        if frame is not None and (not frame.stack or frame.stack[-1] is not self):
            self.forward(*inputs)  # called from outside; otherwise `forward` is on its way
