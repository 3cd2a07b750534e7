"""Tensor and Placeholder: named, mutable handles on values, and SINGA's functions on them."""

from singax.dtypes import bfloat16, float16, float32, int32
from singax.tensor.functions import from_numpy, ones, ones_like, random, to_numpy, zeros, zeros_like
from singax.tensor.handle import PlaceHolder, Placeholder, Tensor
