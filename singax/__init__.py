"""singax: Apache SINGA's imperative training API as pure functions on JAX.

Layers are pure functions; `compile` traces a Module with abstract placeholders to create its parameters, and the
training step becomes one XLA program with donated state. See ARCHITECTURE.md.
"""

from singax import autograd, device, dtypes, errors, initializer, layer, metric, model, ops, opt, tensor
from singax.dtypes import bfloat16, bool_, float16, float32, float64, int32, int64
from singax.errors import SingaxError
from singax.model import Model
from singax.module import Module, step
from singax.tensor import PlaceHolder, Placeholder, Tensor, from_numpy, to_numpy

__version__ = "0.1.0"
