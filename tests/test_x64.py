"""64 bits, in a process of their own: JAX's flag is global."""

from __future__ import annotations

import pathlib
import subprocess
import sys

CODE = """
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np, singax as sx
from models import MLP, blobs, states
x, y = blobs()
for use_graph in (True, False):
    net = MLP(sx.opt.Adam(0.01))
    net.compile([sx.Placeholder(x.shape, dtype="float64")], use_graph=use_graph)
    for _ in range(3):
        out, loss = net(x.astype("float64"), y.astype("int64"))
    assert out.dtype == np.float64, out.dtype
    assert net.fc1.W.dtype == np.float64
    assert len(net.compilations) == use_graph
t = sx.Tensor(data=np.arange(3))
assert (t.dtype, t.to_numpy().dtype) == (np.int64, np.int64)
assert sx.Tensor(data=[1.5]).dtype == np.float64
print("fine")
"""


def test_64_bits() -> None:
    here = pathlib.Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True, cwd=here, timeout=300
    )
    assert done.stdout.strip() == "fine", done.stderr
