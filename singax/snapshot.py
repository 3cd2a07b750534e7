"""SINGA's old way of keeping arrays by name; deprecated there and here in favour of `Module.save_states`."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from singax.errors import ArgumentError, FileFormatError, NameMismatchError
from singax.files import read_arrays, replacing, suspicious
from singax.tensor import Tensor


class Snapshot:
    """Named arrays in one file `<f>.npz`, without pickle.

    **Args**
      f: the path without its ending.
      mode: True to write, False to read.
      buffer_size: SINGA's, in MB; the file is written whole, so it has no effect.

    *Differences from SINGA*: SINGA's class needs a wrapper that 5.1 no longer builds; the file is NumPy's npz.

    >>> import tempfile, numpy as np, warnings
    >>> warnings.simplefilter("ignore")
    >>> path = tempfile.mkdtemp() + "/a"
    >>> Snapshot(path, True).write("W", np.ones(2, "float32"))
    >>> Snapshot(path, False).read()
    {'W': Tensor 'W' float32[2] [1., 1.]}
    """

    def __init__(self, f: Any, mode: bool, buffer_size: int = 10) -> None:
        warnings.warn("Snapshot is deprecated: use Module.save_states", DeprecationWarning, stacklevel=2)
        self.path, self.writes = f"{os.fspath(f)}.npz", bool(mode)
        self._arrays: dict[str, np.ndarray] = {}
        if not self.writes and not os.path.exists(self.path):
            raise FileNotFoundError(self.path)

    def write(self, param_name: str, param_val: Any) -> None:
        """Add an array or Tensor to the file."""
        if not self.writes:
            raise ArgumentError("this Snapshot was opened for reading: pass mode=True to write")
        if param_name in self._arrays:
            raise NameMismatchError(f"{param_name} was written already")
        value = param_val.to_numpy() if isinstance(param_val, Tensor) else np.array(param_val)
        if value.dtype.kind not in "biufc":
            raise FileFormatError(
                f"a snapshot holds numbers of NumPy's dtypes. Received: {param_name} of {value.dtype}"
            )
        self._arrays[param_name] = value
        with replacing(self.path) as file:
            np.savez(file, **self._arrays)  # type: ignore[arg-type]

    def read(self) -> dict[str, Tensor]:
        """All arrays by name, as Tensors."""
        if self.writes:
            raise ArgumentError("this Snapshot was opened for writing: pass mode=False to read")
        with open(self.path, "rb") as file, suspicious(self.path, "npz file"):
            arrays = read_arrays(file, os.path.getsize(self.path))
        return {name: Tensor(data=value, requires_grad=False, name=name) for name, value in arrays.items()}
