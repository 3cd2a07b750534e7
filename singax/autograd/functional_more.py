"""Operations that SINGA does not have, recorded when they are called with Tensors: `autograd.silu(x)`.

Their attributes are keyword arguments, as in `singax.ops`: `autograd.reduce_max(x, axes=(1,))`.
"""

from __future__ import annotations

from singax import ops
from singax.autograd.recorder import node

__all__ = [
    "argmax", "argmin", "celu", "cumsum", "einsum", "fmod", "gelu", "greater_equal", "hard_tanh", "hardswish",
    "less_equal", "log_softmax", "mish", "mod", "not_equal", "reduce_max", "reduce_min", "reduce_prod", "relu6",
    "shrink", "silu", "thresholded_relu", "topk", "trilu",
]  # fmt: skip

argmax = node(ops.argmax)
argmin = node(ops.argmin)
celu = node(ops.celu)
cumsum = node(ops.cumsum)
einsum = node(ops.einsum)
fmod = node(ops.fmod)
gelu = node(ops.gelu)
greater_equal = node(ops.greater_equal)
hard_tanh = node(ops.hard_tanh)
hardswish = node(ops.hardswish)
less_equal = node(ops.less_equal)
log_softmax = node(ops.log_softmax)
mish = node(ops.mish)
mod = node(ops.mod)
not_equal = node(ops.not_equal)
reduce_max = node(ops.reduce_max)
reduce_min = node(ops.reduce_min)
reduce_prod = node(ops.reduce_prod)
relu6 = node(ops.relu6)
shrink = node(ops.shrink)
silu = node(ops.silu)
thresholded_relu = node(ops.thresholded_relu)
topk = node(ops.topk)
trilu = node(ops.trilu)
