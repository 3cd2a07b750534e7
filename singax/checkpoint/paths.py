"""The two files of a checkpoint: `net.safetensors` is complete, `net.onnx` is the network for everybody else."""

from __future__ import annotations

import os
import pathlib

STATES, NETWORK = ".safetensors", ".onnx"

PathLike = str | os.PathLike[str]


def both(path: PathLike) -> tuple[pathlib.Path, pathlib.Path]:
    """The paths of the two files; `path` may have either ending or none."""
    text = os.fspath(path)
    stem = text.removesuffix(STATES).removesuffix(NETWORK) if text.endswith((STATES, NETWORK)) else text
    return pathlib.Path(stem + STATES), pathlib.Path(stem + NETWORK)


def to_read(path: PathLike) -> pathlib.Path:
    """The file to load from: the one that `path` names, or of the two the complete one if it is there.

    Raises FileNotFoundError.
    """
    if os.fspath(path).endswith((STATES, NETWORK)):
        return pathlib.Path(path)
    for found in both(path):
        if found.exists():
            return found
    raise FileNotFoundError(f"there is neither {os.fspath(path)}{STATES} nor {os.fspath(path)}{NETWORK}")
