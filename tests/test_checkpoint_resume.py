"""Ten steps are four steps, a checkpoint, a new process and six steps, bit for bit."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from checkpoint_models import CASES, compiled, trained
from models import states

import singax as sx
from singax import files

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Checkpoints after four steps, gone on with by another process."""
    found = tmp_path_factory.mktemp("resume")
    for case in CASES:
        sx.device.set_seed(0)
        trained(compiled(case), case, range(4)).save(found / case, state={"steps": 4}, onnx=False)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    script = [sys.executable, "-W", "error", str(HERE / "checkpoint_resume.py"), str(found)]
    subprocess.run(script, check=True, env=environment, timeout=500)
    return found


@pytest.mark.parametrize("case", CASES)
def test_resume_in_a_new_process(case: str, folder: pathlib.Path) -> None:
    """Every state, among them slots, random key, step, rate, loss scale and running statistics."""
    wanted = states(trained(compiled(case), case, range(10)))
    with files.open_safetensors(folder / f"{case}.resumed.safetensors") as file:
        found = {name: file.read(name) for name in file.fields}
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        assert value.dtype == found[name].dtype
        np.testing.assert_array_equal(found[name].view(np.uint8), value.view(np.uint8), err_msg=name)
    assert len(wanted) > len(CASES)
