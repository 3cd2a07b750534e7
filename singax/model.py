"""SINGA's name for `singax.module`: `Model = Module`."""

from singax.module import Module

Model = Module

__all__ = ["Model"]
