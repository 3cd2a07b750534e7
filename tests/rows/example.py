"""Rows of the first layers and operations, to be joined by the other families."""

from __future__ import annotations

import numpy as np
from catalogue import TWIN, Row, floats

from singax import layer, ops

ROWS = [
    Row("ops.relu", lambda: ops.relu, [floats(3, 4)], lambda x: np.maximum(x, 0)),
    Row("ops.gemm", lambda: ops.gemm, [floats(3, 4), floats(5, 4)], TWIN, {"transB": 1, "alpha": 0.5}),
    Row(
        "layer.Linear",
        lambda: layer.Linear(3),
        [floats(2, 4)],
        lambda states, x: x @ states["W"] + states["b"],
        rejects=[[floats(2, 5)], [floats()]],
    ),
]
