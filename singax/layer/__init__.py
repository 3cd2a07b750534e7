"""Layers."""

from singax.layer.activation import GELU, ReLU, Sigmoid, SoftMax, Tanh
from singax.layer.base import Layer
from singax.layer.linear import Linear
from singax.layer.loss import BinaryCrossEntropy, MeanSquareError, SoftMaxCrossEntropy
