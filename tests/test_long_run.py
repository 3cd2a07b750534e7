"""Twenty thousand steps: the process does not grow, and nothing is compiled again."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATUS = pathlib.Path("/proc/self/status")

CODE = """
import gc, pathlib, sys
sys.path.insert(0, "tests")
import singax as sx
from models import MLP, blobs

def resident_mb():
    gc.collect()
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

net, (x, y) = MLP(sx.opt.Adam(0.001)), blobs()
net.compile([sx.Placeholder((16, 5))])
for step in range(21_000):
    out, loss = net(x, y)
    if step == 999:
        float(loss)
        before = resident_mb()
print(float(loss), resident_mb() - before, len(net.compilations))
"""


@pytest.mark.skipif(not STATUS.exists(), reason="the size of the process is read from /proc")
def test_twenty_thousand_steps() -> None:
    """Less than 20 MB of growth after the first thousand, one program."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, cwd=ROOT)
    loss, growth, programs = map(float, done.stdout.split())
    assert loss < 0.5
    assert growth < 20
    assert programs == 1
