"""Layers."""

from singax.layer.activation import SELU, Hardswish, Mish, ReLU, ReLU6, Sigmoid, SiLU, Softplus, Softsign, Swish, Tanh
from singax.layer.adjustable_activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    HardSigmoid,
    Hardtanh,
    LeakyReLU,
    LogSoftmax,
    PReLU,
    SoftMax,
    ThresholdedReLU,
)
from singax.layer.attention import MultiHeadAttention
from singax.layer.base import Layer
from singax.layer.container import Lambda, Sequential
from singax.layer.convolution import Conv1d, Conv2d, Conv3d
from singax.layer.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, SpatialDropout
from singax.layer.embedding import Embedding
from singax.layer.feed_forward import FeedForward
from singax.layer.flax_module import FromFlax
from singax.layer.global_pooling import (
    AdaptiveAvgPool,
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    GlobalAveragePool,
    GlobalAvgPool,
    GlobalAvgPool2d,
    GlobalLpPool,
    GlobalMaxPool,
    GlobalMaxPool2d,
)
from singax.layer.linear import Bilinear, Gemm, Linear
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
from singax.layer.loss_regression import GaussianNLL, Huber, MeanAbsoluteError, MeanSquareError, PoissonNLL, SmoothL1
from singax.layer.loss_similarity import (
    CosineEmbeddingLoss,
    CosineSimilarityLoss,
    HingeLoss,
    MarginRankingLoss,
    RankingLoss,
    TripletLoss,
)
from singax.layer.normalization import BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d
from singax.layer.pooling import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LpPool1d,
    LpPool2d,
    LpPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    Pooling2d,
)
from singax.layer.position import PositionalEmbedding, PositionalEncoding
from singax.layer.recurrent import GRU, LSTM, RNN
from singax.layer.recurrent_base import RNN_Base
from singax.layer.recurrent_cudnn import CudnnRNN
from singax.layer.remat import Remat
from singax.layer.repeat import Repeat
from singax.layer.sample_normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from singax.layer.separable_convolution import DepthwiseConv2d, SeparableConv2d
from singax.layer.shape import Add, Cat, Flatten, Reshape
from singax.layer.spatial import Pad, PixelShuffle, PixelUnshuffle, UpSample, ZeroPad, ZeroPad2d
from singax.layer.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from singax.layer.transposed_convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
