"""XLA's own estimate of the memory of a method: it is compiled, and not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from singax.arguments import Packed
from singax.inspect.abstract import Borrowed, struct
from singax.inspect.quantity import bytes_text
from singax.inspect.watch import watching
from singax.module import Module
from singax.program import functionalize


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


class _Guard:
    """An observer that changes nothing, and protects optimizers that are not the model's own."""

    def __init__(self, borrowed: Borrowed) -> None:
        self.meets = borrowed.take

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(layer, *args, **kwargs)

    def update(self, optimizer: Any, named: Any) -> bool:
        return False

    def recorded(self, name: str, vjp: Any) -> None:
        pass


def xla_memory(
    module: Module, function: Callable[..., Any], packed: Packed, training: bool, borrowed: Borrowed
) -> XlaMemory | None:
    """Compile a method of an abstract copy that is complete; None where XLA gives no estimate."""
    cells = list(module._current_bank().cells)
    pure = functionalize(module, function, cells, packed.form, training)
    jitted = jax.jit(pure, donate_argnums=0) if training else jax.jit(lambda values, inputs: pure(values, inputs)[1])
    with watching(_Guard(borrowed)):
        lowered = jitted.lower([struct(cell) for cell in cells], packed.inputs)
    found = lowered.compile().memory_analysis()
    if found is None:
        return None
    return XlaMemory(
        found.argument_size_in_bytes,
        found.output_size_in_bytes,
        found.alias_size_in_bytes,
        found.temp_size_in_bytes,
    )
