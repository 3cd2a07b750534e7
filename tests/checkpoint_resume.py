"""Run as a process of its own: `checkpoint_resume.py FOLDER` loads each case's checkpoint, makes the last six of ten
steps, and saves the whole state as `<case>.resumed.safetensors`. Some load before compile, some after.
"""

from __future__ import annotations

import pathlib
import sys

import conftest  # noqa: F401  # the settings of the tests, and their compilation cache
from checkpoint_models import CASES, compiled, trained

import singax as sx

BEFORE_COMPILE = ("adam", "batchnorm", "charrnn", "float16")


def resumed(case: str, folder: pathlib.Path) -> sx.Module:
    """The model of a case after the step at which it was saved, in this process."""
    sx.device.set_seed(1234)  # nothing may depend on it
    if case in BEFORE_COMPILE:
        make, batch, precision = CASES[case]
        net = make()
        assert net.load(folder / case) == {"steps": 4}
        net.compile([sx.Placeholder(batch(0)[0].shape)], precision=precision)
        return net
    net = compiled(case)
    assert net.load(folder / case) == {"steps": 4}
    return net


def main(folder: pathlib.Path) -> None:
    """All cases."""
    for case in CASES:
        net = trained(resumed(case, folder), case, range(4, 10))
        net.save(folder / f"{case}.resumed", onnx=False)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
