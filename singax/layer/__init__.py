"""Layers."""

from singax.layer.activation import GELU, ReLU, Sigmoid, SoftMax, Tanh
from singax.layer.base import Layer
from singax.layer.convolution import Conv2d
from singax.layer.dropout import Dropout
from singax.layer.embedding import Embedding
from singax.layer.linear import Linear
from singax.layer.loss import (
    BinaryCrossEntropy,
    BinaryCrossEntropyWithLogits,
    CrossEntropy,
    CTCLoss,
    FocalLoss,
    KLDivergence,
    Loss,
    SoftMaxCrossEntropy,
)
from singax.layer.loss_regression import (
    GaussianNLL,
    Huber,
    MeanAbsoluteError,
    MeanSquareError,
    PoissonNLL,
    SmoothL1,
)
from singax.layer.loss_similarity import (
    CosineEmbeddingLoss,
    CosineSimilarityLoss,
    HingeLoss,
    MarginRankingLoss,
    RankingLoss,
    TripletLoss,
)
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
from singax.layer.shape import Add, Cat, Flatten, Reshape
