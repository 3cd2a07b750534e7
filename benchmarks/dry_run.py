"""How long a dry run takes, beside `jax.eval_shape` of the same training step in Flax Linen and NNX.

python benchmarks/dry_run.py [gpt2 resnet50 gpt3 gpt3-blocks]

Seconds are processor time of the third of three runs in a process of its own. `jax.eval_shape` gives shapes only; a dry
run also counts operations and memory by layer. The models of Flax are built and initialised abstractly, and one step
(loss, gradients, AdamW or SGD of optax) is traced.
"""

from __future__ import annotations

import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"gpt2": (12, 768, 12, 50257, 1024), "gpt3": (96, 12288, 96, 50257, 2048)}
CASES = {
    "gpt2": ("singax", "linen", "nnx"),
    "resnet50": ("singax", "linen", "nnx"),
    "gpt3": ("singax",),
    "gpt3-blocks": ("singax", "linen", "nnx"),
}


def with_singax(case: str) -> Callable[[], Any]:
    """A dry run of one of the models of the tests."""
    sys.path.insert(0, str(ROOT / "tests"))
    from dry_models import GPT, ResNet50, floats, integers

    if case == "resnet50":
        return lambda: ResNet50().dry_run(floats(1, 3, 224, 224), integers(1))
    sizes = SIZES[case.removesuffix("-blocks")]
    ids, labels = integers(1, sizes[-1]), integers(sizes[-1])
    return lambda: GPT(*sizes, repeat=case == "gpt3").dry_run(ids, labels, precision="bfloat16")


def with_flax(case: str, kind: str) -> Callable[[], Any]:
    """`jax.eval_shape` of building and one step."""
    import flax_models

    step = flax_models.step_of(case, kind, SIZES.get(case.removesuffix("-blocks")))
    return step


def measure(case: str, kind: str) -> None:
    """Print the seconds of the third run, and by how many megabytes the process has grown."""
    run = with_singax(case) if kind == "singax" else with_flax(case, kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        start = time.process_time()
        run()
        seconds = time.process_time() - start
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main(cases: list[str]) -> None:
    """A table: seconds, growth, and the ratio to singax."""
    for case in cases or list(CASES):
        first = None
        for kind in CASES[case]:
            command = [sys.executable, __file__, "--one", case, kind]
            out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "benchmarks").stdout
            seconds, growth = map(float, out.split())
            first = seconds if first is None else first
            print(
                f"{case:12} {kind:8} {seconds:7.2f} s  {growth:6.0f} MB  {seconds / first:5.2f} of singax", flush=True
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(*sys.argv[2:])
    else:
        main(sys.argv[1:])
