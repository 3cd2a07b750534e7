"""Operations: pure functions on arrays, each with its ONNX twin."""

from singax.ops.activation import gelu, relu, sigmoid, softmax, tanh
from singax.ops.arithmetic import (
    abs,
    add,
    div,
    equal,
    floordiv,
    getitem,
    greater,
    greater_equal,
    less,
    less_equal,
    matmul,
    mod,
    mul,
    negative,
    pow,
    sub,
    take,
)
from singax.ops.convolution import conv2d
from singax.ops.dropout import dropout
from singax.ops.loss import binary_cross_entropy, mse_loss, softmax_cross_entropy
from singax.ops.normalization import batch_norm, batch_norm_inference, layer_norm
from singax.ops.operation import Operation, Twin, capturing, operation, operations
from singax.ops.pooling import avg_pool2d, global_average_pool, global_max_pool, max_pool2d
from singax.ops.recurrent import lstm, rnn
from singax.ops.shape import cat, embedding, flatten, reshape, transpose
