"""SINGA's operator classes, such as `autograd.ReLU`, by the functional names that they are derived from."""

from __future__ import annotations

from singax.autograd import functional as f
from singax.autograd.derived import operator_of
from singax.autograd.functional_recurrent import _RNN as _rnn

Abs = operator_of(f.abs)
Acos = operator_of(f.acos)
Acosh = operator_of(f.acosh)
Add = operator_of(f.add)
And = operator_of(f._and)
Asin = operator_of(f.asin)
Asinh = operator_of(f.asinh)
Atan = operator_of(f.atan)
Atanh = operator_of(f.atanh)
Cast = operator_of(f.cast)
Ceil = operator_of(f.ceil)
Clip = operator_of(f.clip)
Cos = operator_of(f.cos)
CosSim = operator_of(f.cossim)
Cosh = operator_of(f.cosh)
Div = operator_of(f.div)
Elu = operator_of(f.elu)
Equal = operator_of(f.equal)
Erf = operator_of(f.erf)
Exp = operator_of(f.exp)
Floor = operator_of(f.floor)
Greater = operator_of(f.greater)
HardSigmoid = operator_of(f.hardsigmoid)
Identity = operator_of(f.identity)
LeakyRelu = operator_of(f.leakyrelu)
Less = operator_of(f.less)
Log = operator_of(f.log)
Max = operator_of(f.max)
Mean = operator_of(f.mean)
Min = operator_of(f.min)
Mul = operator_of(f.mul)
Negative = operator_of(f.negative)
Not = operator_of(f._not)
Or = operator_of(f._or)
PRelu = operator_of(f.prelu)
Pow = operator_of(f.pow)
ReLU = operator_of(f.relu)
Reciprocal = operator_of(f.reciprocal)
Round = operator_of(f.round)
Rounde = operator_of(f.rounde)
SeLU = operator_of(f.selu)
Sigmoid = operator_of(f.sigmoid)
Sign = operator_of(f.sign)
Sin = operator_of(f.sin)
Sinh = operator_of(f.sinh)
SoftPlus = operator_of(f.softplus)
SoftSign = operator_of(f.softsign)
Sqrt = operator_of(f.sqrt)
Sub = operator_of(f.sub)
Sum = operator_of(f.sum)
Tan = operator_of(f.tan)
Tanh = operator_of(f.tanh)
Where = operator_of(f.where)
Xor = operator_of(f._xor)
AddBias = operator_of(f.add_bias)
BinaryCrossEntropy = operator_of(f.binary_cross_entropy)
Concat = operator_of(f.cat)
ConstantOfShape = operator_of(f.constant_of_shape)
CrossEntropy = operator_of(f.cross_entropy)
DepthToSpace = operator_of(f.depth_to_space)
Dropout = operator_of(f.dropout)
Embedding = operator_of(f.embedding)
Expand = operator_of(f.expand)
Flatten = operator_of(f.flatten)
Gather = operator_of(f.gather)
Gemm = operator_of(f.gemm)
GlobalAveragePool = operator_of(f.globalaveragepool)
Matmul = operator_of(f.matmul)
MeanSquareError = operator_of(f.mse_loss)
NonZero = operator_of(f.nonzero)
OneHot = operator_of(f.onehot)
Pad = operator_of(f.pad)
RankingLoss = operator_of(f.ranking_loss)
ReduceMean = operator_of(f.reduce_mean)
ReduceSum = operator_of(f.reduce_sum)
Reshape = operator_of(f.reshape)
ScatterElements = operator_of(f.scatter_elements)
Shape = operator_of(f.shape)
Slice = operator_of(f.slice)
SoftMax = operator_of(f.softmax)
SoftMaxCrossEntropy = operator_of(f.softmax_cross_entropy)
SpaceToDepth = operator_of(f.space_to_depth)
Split = operator_of(f.split)
Squeeze = operator_of(f.squeeze)
Tile = operator_of(f.tile)
Transpose = operator_of(f.transpose)
Unsqueeze = operator_of(f.unsqueeze)
UpSample = operator_of(f.upsample)
_BatchNorm2d = operator_of(f.batchnorm_2d)
_Conv2d = operator_of(f.conv2d)
_Pooling2d = operator_of(f.pooling_2d)
_RNN = operator_of(_rnn)

__all__ = [
    "_RNN",
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "AddBias",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BinaryCrossEntropy",
    "Cast",
    "Ceil",
    "Clip",
    "Concat",
    "ConstantOfShape",
    "Cos",
    "CosSim",
    "Cosh",
    "CrossEntropy",
    "DepthToSpace",
    "Div",
    "Dropout",
    "Elu",
    "Embedding",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "Greater",
    "HardSigmoid",
    "Identity",
    "LeakyRelu",
    "Less",
    "Log",
    "Matmul",
    "Max",
    "Mean",
    "MeanSquareError",
    "Min",
    "Mul",
    "Negative",
    "NonZero",
    "Not",
    "OneHot",
    "Or",
    "PRelu",
    "Pad",
    "Pow",
    "RankingLoss",
    "ReLU",
    "Reciprocal",
    "ReduceMean",
    "ReduceSum",
    "Reshape",
    "Round",
    "Rounde",
    "ScatterElements",
    "SeLU",
    "Shape",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Slice",
    "SoftMax",
    "SoftMaxCrossEntropy",
    "SoftPlus",
    "SoftSign",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Tan",
    "Tanh",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "UpSample",
    "Where",
    "Xor",
    "_BatchNorm2d",
    "_Conv2d",
    "_Pooling2d",
]
