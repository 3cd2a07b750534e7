"""SINGA's functional names: each operation, recorded when it is called with Tensors."""

from __future__ import annotations

from singax import ops
from singax.autograd.recorder import node

relu = node(ops.relu)
sigmoid = node(ops.sigmoid)
tanh = node(ops.tanh)
gelu = node(ops.gelu)
softmax = node(ops.softmax)
add = node(ops.add)
sub = node(ops.sub)
mul = node(ops.mul)
div = node(ops.div)
pow = node(ops.pow)
negative = node(ops.negative)
abs = node(ops.abs)
matmul = node(ops.matmul)
less = node(ops.less)
greater = node(ops.greater)
equal = node(ops.equal)
reshape = node(ops.reshape)
transpose = node(ops.transpose)
flatten = node(ops.flatten)
cat = node(ops.cat)
embedding = node(ops.embedding)
softmax_cross_entropy = node(ops.softmax_cross_entropy)
mse_loss = node(ops.mse_loss)
binary_cross_entropy = node(ops.binary_cross_entropy)
