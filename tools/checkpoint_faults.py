"""Run the experiments of tests/checkpoint_faults.py at full size and print what came of them.

    python tools/checkpoint_faults.py
    python tools/checkpoint_faults.py --only kills --scale 0.1

1,000 writers killed, 20 full disks, 100 races of two writers, 300 loads during renames, 2,000 flipped bits, a
truncation at every 1,000th byte. Ends with an error if anything was lost, corrupt, mixed, stale or silent, or if
litter stayed. Exceptions at every array, and Ctrl-C, are in tests/test_checkpoint_faults.py at full size already.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"kills": 1000, "full_disk": 20, "races": 100, "readers": 300, "flips": 2000}
BAD = ("lost", "corrupt", "mixed", "stale", "litter", "mixed pair", "failed", "silent", "changed the model")


def experiment(name: str, count: int) -> dict[str, int]:
    """The counts of one experiment, made in a process and a folder of its own."""
    paths = [str(ROOT), str(ROOT / "tests")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "tests" / "checkpoint_faults.py"), name, str(count), folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main() -> None:
    """All experiments, or one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*SIZES, "truncations"])
    parser.add_argument("--scale", type=float, default=1.0, help="a factor on all counts")
    given = parser.parse_args()
    counts = {name: max(1, round(size * given.scale)) for name, size in SIZES.items()}
    counts["truncations"] = round(1000 / given.scale)
    wrong = 0
    for name in [given.only] if given.only else counts:
        found = experiment(name, counts[name])
        wrong += sum(found.get(kind, 0) for kind in BAD)
        print(f"{name}: {', '.join(f'{number} {kind}' for kind, number in found.items())}", flush=True)
    if wrong:
        raise SystemExit(f"{wrong} times something went wrong")


if __name__ == "__main__":
    main()
