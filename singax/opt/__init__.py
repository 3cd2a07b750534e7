"""Optimizers and schedules: SINGA's, those that it never had, and any optax transformation."""

from singax.opt.adaptive import AdaBelief, AdaMax, AdamW, AMSGrad, NAdam, RAdam, Yogi
from singax.opt.decays import (
    CosineDecay,
    InverseSquareRoot,
    LinearDecay,
    PiecewiseConstant,
    PolynomialDecay,
    WarmUp,
    WarmUpCosine,
)
from singax.opt.distributed import DistOpt
from singax.opt.further import LAMB, LARS, AdaDelta, Adafactor, Lion, Muon
from singax.opt.loss_scale import LossScale
from singax.opt.optimizer import Optimizer
from singax.opt.schedule import Constant, DecayScheduler, ExponentialDecay
from singax.opt.singa import SGD, AdaGrad, Adam, RMSProp
from singax.opt.transformation import Optax

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "AMSGrad",
    "AdaBelief",
    "AdaDelta",
    "AdaGrad",
    "AdaMax",
    "Adafactor",
    "Adam",
    "AdamW",
    "Constant",
    "CosineDecay",
    "DecayScheduler",
    "DistOpt",
    "ExponentialDecay",
    "InverseSquareRoot",
    "LinearDecay",
    "Lion",
    "LossScale",
    "Muon",
    "NAdam",
    "Optax",
    "Optimizer",
    "PiecewiseConstant",
    "PolynomialDecay",
    "RAdam",
    "RMSProp",
    "WarmUp",
    "WarmUpCosine",
    "Yogi",
]
