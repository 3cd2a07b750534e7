"""Loops over a training step: `Module.fit`, its callbacks and its history, and many steps in one program."""

from singax.training.batches import Batches
from singax.training.callback import Callback
from singax.training.callbacks import BestCheckpoint, EarlyStopping, TensorBoard
from singax.training.history import History
from singax.training.nan_stop import NaNStop
