"""Operations: pure functions on arrays, each with its ONNX twin."""

from singax.ops.activation import (
    celu,
    elu,
    gelu,
    hard_tanh,
    hardsigmoid,
    hardswish,
    leakyrelu,
    log_softmax,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    shrink,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    tanh,
    thresholded_relu,
)
from singax.ops.adaptive_pooling import adaptive_avg_pool, adaptive_max_pool, uneven_avg_pool, uneven_max_pool
from singax.ops.arithmetic import (
    abs,
    add,
    div,
    equal,
    floordiv,
    fmod,
    getitem,
    greater,
    greater_equal,
    integer_div,
    integer_mod,
    less,
    less_equal,
    matmul,
    mod,
    mul,
    negative,
    not_equal,
    pow,
    sub,
    take,
)
from singax.ops.attention import attention, attention_with_dropout
from singax.ops.combination import cossim, max, mean, min, sum
from singax.ops.convolution import conv, conv_transpose
from singax.ops.dropout import alpha_dropout, channel_dropout, dropout
from singax.ops.elementwise import (
    cast,
    ceil,
    clip,
    erf,
    exp,
    floor,
    identity,
    log,
    reciprocal,
    round,
    rounde,
    sign,
    sqrt,
)
from singax.ops.indexing import constant_of_shape, gather, nonzero, onehot, scatter_elements, slice
from singax.ops.linear import add_bias, einsum, gemm, trilu
from singax.ops.logic import logical_and, logical_not, logical_or, logical_xor, where
from singax.ops.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_divergence,
    sigmoid_focal_loss,
)
from singax.ops.loss_ctc import ctc_loss
from singax.ops.loss_regression import (
    gaussian_nll_loss,
    huber_loss,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from singax.ops.loss_similarity import (
    cosine_embedding_loss,
    cosine_similarity_loss,
    hinge_loss,
    margin_ranking_loss,
    ranking_loss,
    triplet_margin_loss,
)
from singax.ops.loss_softmax import negative_log_likelihood_loss, softmax_cross_entropy, softmax_cross_entropy_loss
from singax.ops.normalization import batch_norm, batch_norm_inference, group_norm, instance_norm, layer_norm, rms_norm
from singax.ops.operation import Operation, Twin, capturing, operation, operations
from singax.ops.ordering import argmax, argmin, topk
from singax.ops.pooling import avg_pool, global_average_pool, global_lp_pool, global_max_pool, lp_pool, max_pool
from singax.ops.position import rotary_embedding
from singax.ops.recurrent import gru, lstm, rnn
from singax.ops.recurrent_cudnn import CudnnLayout, cudnn_rnn
from singax.ops.reduction import cumsum, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum
from singax.ops.shape import (
    cat,
    embedding,
    expand,
    flatten,
    lookup,
    reshape,
    shape,
    split,
    squeeze,
    tile,
    transpose,
    unsqueeze,
)
from singax.ops.spatial import depth_to_space, pad, space_to_depth, space_to_depth_crd, upsample
from singax.ops.trigonometry import acos, acosh, asin, asinh, atan, atanh, cos, cosh, sin, sinh, tan

max_pool2d, avg_pool2d = max_pool, avg_pool
