"""Layers."""

from singax.layer.activation import GELU, ReLU, Sigmoid, SoftMax, Tanh
from singax.layer.attention import MultiHeadAttention
from singax.layer.base import Layer
from singax.layer.container import Lambda, Sequential
from singax.layer.convolution import Conv2d
from singax.layer.dropout import Dropout
from singax.layer.embedding import Embedding
from singax.layer.feed_forward import FeedForward
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
from singax.layer.recurrent import GRU, LSTM, RNN
from singax.layer.recurrent_base import RNN_Base
from singax.layer.recurrent_cudnn import CudnnRNN
from singax.layer.position import PositionalEmbedding, PositionalEncoding
from singax.layer.recurrent import LSTM, RNN, RNN_Base
from singax.layer.remat import Remat
from singax.layer.repeat import Repeat
from singax.layer.shape import Add, Cat, Flatten, Reshape
from singax.layer.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
