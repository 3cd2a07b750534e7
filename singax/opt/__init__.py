"""Optimizers and schedules: SINGA's, AdamW, and any optax transformation."""

from singax.opt.optimizer import Optimizer
from singax.opt.schedule import Constant, DecayScheduler, ExponentialDecay
from singax.opt.singa import SGD, AdaGrad, Adam, AdamW, Optax, RMSProp

__all__ = [
    "SGD",
    "AdaGrad",
    "Adam",
    "AdamW",
    "Constant",
    "DecayScheduler",
    "ExponentialDecay",
    "Optax",
    "Optimizer",
    "RMSProp",
]
