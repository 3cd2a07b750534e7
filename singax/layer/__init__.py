"""Layers."""

from singax.layer.activation import GELU, ReLU, Sigmoid, SoftMax, Tanh
from singax.layer.base import Layer
from singax.layer.container import Lambda, Sequential
from singax.layer.convolution import Conv2d
from singax.layer.dropout import Dropout
from singax.layer.embedding import Embedding
from singax.layer.flax_module import FromFlax
from singax.layer.linear import Linear
from singax.layer.loss import BinaryCrossEntropy, MeanSquareError, SoftMaxCrossEntropy
from singax.layer.normalization import BatchNorm2d, LayerNorm
from singax.layer.pooling import (
    AvgPool2d,
    GlobalAveragePool,
    GlobalAvgPool2d,
    GlobalMaxPool2d,
    MaxPool2d,
    Pooling2d,
)
from singax.layer.recurrent import LSTM, RNN, RNN_Base
from singax.layer.remat import Remat
from singax.layer.repeat import Repeat
from singax.layer.shape import Add, Cat, Flatten, Reshape
