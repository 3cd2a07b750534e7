"""ConvTranspose1d, ConvTranspose2d, ConvTranspose3d: the transpose of convolution, which makes images larger."""

from __future__ import annotations

from typing import Any

import jax

from singax import ops
from singax.layer.convolution import Convolution
from singax.layer.window import SAME_MODES, integers
from singax.ops.convolution import check_output_padding
from singax.ops.window import halves


class _ConvTranspose(Convolution):
    operation = ops.conv_transpose

    def __init__(self, nb_kernels: int, kernel_size: Any, *args: Any, output_padding: Any = 0, **kwargs: Any) -> None:
        super().__init__(nb_kernels, kernel_size, *args, **kwargs)
        more = integers("output_padding", output_padding, self.axes, 0)
        check_output_padding(more, self.window.stride, self.window.dilation)
        self.output_padding = more
        if self.pad_mode in SAME_MODES:  # whatever the size of the input
            rows = zip(self.window.extent, self.window.stride, more, strict=True)
            totals = [covered - step + extra for covered, step, extra in rows]
            upper = self.pad_mode == "SAME_UPPER"
            self.window = self.window.padded_by(tuple(halves(max(total, 0), upper) for total in totals))
            self.output_padding = tuple(max(extra, extra - total) for extra, total in zip(more, totals, strict=True))

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        return channels, self.nb_kernels // self.group

    def attributes(self, x: jax.Array) -> dict[str, Any]:
        found = self.window
        return {
            "stride": found.stride,
            "padding": found.padding,
            "output_padding": self.output_padding,
            "dilation": found.dilation,
        }


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution: every value of x adds a kernel, s apart: y[i·s + u·d, …] += x[i, …] · W[u, …].

    **Shapes** x (N, C, H, W) → (N, O, H', W') with H' = s · (H − 1) + d · (kh − 1) + 1 + output_padding − top − bottom,
    W' alike; `W` (C, O / group, kh, kw), `b` (O,). C is inferred from the first input.

    **Args**
      nb_kernels: the number O of output channels; `ConvTranspose2d(in, out, kernel_size[, stride[, padding]])` is
        understood like the older form of `Conv2d`.
      kernel_size, stride, dilation: an integer, or two (height, width).
      padding: how many rows and columns of the result are cut off: an integer, two (height, width) or four (top,
        bottom, left, right); None goes only with SAME.
      output_padding: rows and columns that are added at the end of the result, fewer than the larger of stride and
        dilation: an integer, or two (height, width). Default 0.
      pad_mode: "NOTSET" (as `padding` says), "VALID" (none), "SAME_UPPER" or "SAME_LOWER" (H' = H · s; an odd row
        or column is cut off at the end or at the beginning).
      group: how many groups the channels fall into, each with its own kernels; it divides C and O.
      bias, activation, kernel_init, bias_init: as in `Conv2d`. The fans of named initializers take W's first two axes
        as (out, in), as PyTorch does.

    **Raises** `ArgumentError` for arguments outside of these, `ShapeError` for an input that is not (N, C, H, W), has
    other channels than the first one or of which padding leaves nothing, `DTypeError` for one of integers.

    *Differences from SINGA*: SINGA has no such layer. ONNX: ConvTranspose.

    >>> ConvTranspose2d(8, 4, stride=2, padding=1).infer_shape((None, 16, 7, 7))
    (None, 8, 14, 14)
    """

    axes = 2


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution along one axis, as `ConvTranspose2d` along two.

    **Shapes** x (N, C, W) → (N, O, W') with W' = s · (W − 1) + d · (k − 1) + 1 + output_padding − left − right;
    `W` (C, O / group, k), `b` (O,).

    **Args** those of `ConvTranspose2d`; a padding is one integer or two (left, right).

    **Raises** as `ConvTranspose2d`. ONNX: ConvTranspose.

    >>> ConvTranspose1d(8, 3, stride=2, pad_mode="SAME_UPPER").infer_shape((None, 4, 9))
    (None, 8, 18)
    """

    axes = 1


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution along three axes, as `ConvTranspose2d` along two.

    **Shapes** x (N, C, D, H, W) → (N, O, D', H', W'); `W` (C, O / group, kd, kh, kw), `b` (O,).

    **Args** those of `ConvTranspose2d`; a window has three sizes (depth, height, width), a padding one, three or six
    integers (front, back, top, bottom, left, right).

    **Raises** as `ConvTranspose2d`. ONNX: ConvTranspose.

    >>> ConvTranspose3d(8, 2, stride=2).infer_shape((None, 4, 3, 5, 5))
    (None, 8, 6, 10, 10)
    """

    axes = 3
