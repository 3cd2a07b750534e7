"""Checkpoints: the whole state of a model on disk. Use `Module.save`, `Module.load` and `singax.load`."""

from singax.checkpoint.loading import load, load_network, load_plain
from singax.checkpoint.saving import save, save_plain
