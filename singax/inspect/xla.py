"""XLA's own estimate of the memory of a method: it is compiled, and not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from singax.inspect.quantity import bytes_text


@dataclass(frozen=True)
class XlaMemory:
    """What XLA says about the compiled program, in bytes: an estimate by XLA, for the device it was compiled for."""

    arguments: int
    outputs: int
    aliased: int
    temporaries: int

    @property
    def peak(self) -> int:
        """Arguments, outputs that do not take the place of an argument, and temporaries."""
        return self.arguments + self.outputs - self.aliased + self.temporaries

    def __str__(self) -> str:
        return (
            f"{bytes_text(self.peak)} (estimate by XLA: arguments {bytes_text(self.arguments)}, outputs "
            f"{bytes_text(self.outputs)}, of these in place {bytes_text(self.aliased)}, temporaries "
            f"{bytes_text(self.temporaries)})"
        )


def xla_memory(lowered: Any) -> XlaMemory | None:
    """Compile what was lowered, without running it; None where XLA gives no estimate."""
    found = lowered.compile().memory_analysis()
    if found is None:
        return None
    return XlaMemory(
        found.argument_size_in_bytes,
        found.output_size_in_bytes,
        found.alias_size_in_bytes,
        found.temp_size_in_bytes,
    )
