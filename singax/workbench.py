"""What a model offers around its steps: looking at it before and while it trains, and the loops over its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from singax.states import StatefulLayer

if TYPE_CHECKING:
    from singax.inspect.profile import Profile
    from singax.inspect.report import DryRun
    from singax.inspect.summary import Summary
    from singax.module import Module
    from singax.training.history import History


class Workbench(StatefulLayer):
    """The part of `Module` that only calls what `inspect` and `training` define; they are loaded when they are used."""

    # -- before it costs anything -------------------------------------------------------------------------------

    def dry_run(
        self,
        *inputs: Any,
        method: str = "train_one_batch",
        batch: int | None = None,
        precision: Any = None,
        xla: bool = False,
        **options: Any,
    ) -> DryRun:
        """What a step would do and need, found out without doing it: nothing is allocated, drawn, computed or compiled.

        **Args**
          inputs, options: the arguments of the method: Placeholders, Tensors or arrays (only shapes and dtypes count),
            and whatever else it takes. A size that is None stands for N in all numbers of the report.
          method: a step, or "forward" (evaluation; what is kept for backward is that of training mode).
          batch: the size in place of None, or, where no size is None, of the first size of the first input and of all
            inputs with the same one.
          precision: as for `compile`; default what the model was compiled with, or float32.
          xla: also compile the method (not run it), and report XLA's own estimate of the memory.

        **Returns** a `DryRun`. The model stays as it is; it need not be compiled, may be far larger than the machine.

        **Raises** what compiling the method would raise, such as `ShapeError` with the path of the layer.

        >>> import singax as sx
        >>> class Net(sx.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.fc = sx.layer.Linear(2)
        ...     def forward(self, x):
        ...         return self.fc(x)
        >>> report = Net().dry_run(sx.Placeholder((4, 3)), method="forward")
        >>> report.parameters, report.forward, report.outputs.shape
        (8, 56.0, (4, 2))
        """
        from singax.inspect.dry import dry_run

        return dry_run(_module(self), inputs, options, method, batch, precision, xla)

    def summary(self, *inputs: Any, depth: int | None = None) -> Summary:
        """The layers as a table: shapes, parameters, states. Prints as text, shows as a collapsible tree in notebooks.

        **Args** inputs: as for `compile`, default those it was last compiled for; without any, shapes are left out and
        parameters that do not exist yet are said to be "not built yet". depth: how many levels are shown; default all.

        Nothing is computed, and the model stays as it is. Where the shapes do not fit, the table says why.
        """
        from singax.inspect.summary import summary

        return summary(_module(self), inputs, depth)

    # -- training -----------------------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        epochs: int = 1,
        *,
        validation: Any = None,
        callbacks: Sequence[Any] = (),
        metrics: Any = (),
        steps_per_call: int | str = 1,
        last: str = "compile",
        verbose: int = 2,
    ) -> History:
        """Train: `train_one_batch` for each batch of the data, in epochs.

        **Args**
          data: any iterable of batches, or a function that returns one: tuples or lists (the step's arguments by
            position), dicts (by name), or single arrays, of NumPy, JAX, torch or our Tensors. For arrays see
            `singax.training.Batches`.
          epochs: how often to go through it, default 1.
          validation: batches to evaluate after each epoch: the step runs without its backward pass and updates.
          callbacks: instances of `singax.training.Callback`.
          metrics: name → `singax.metric` instance, or a list of them; they compare the first array that the step
            returns with its last argument.
          steps_per_call: how many steps one program does (see `train_batches`); "auto" measures whether that helps.
          last: a smaller last batch is "compile" (run by a program of its own; default), "drop", or "pad" (filled up
            with zeros; every call then passes `weight`, 1 for real rows and 0 for others, which the step must take).
          verbose: 2 a bar and a line for each epoch (default), 1 the line, 0 nothing.

        **Returns** a `History`. Results of one element count as numbers: "loss", "loss_2" …, or by the names of a dict
        that the step returns; they are fetched every 50 steps. Ctrl-C ends the training and returns what there is.
        """
        from singax.training.fit import fit

        return fit(_module(self), data, epochs, validation, callbacks, metrics, steps_per_call, last, verbose)

    def train_batches(self, *inputs: Any, method: str = "train_one_batch", **kwargs: Any) -> Any:
        """Many training steps in one program (`jax.lax.scan`): the numbers of as many calls, one dispatch.

        **Args** inputs, kwargs: the arguments of the step, arrays with one more axis in front: the steps. **Returns**
        what the step returns, with that axis. On CPUs, steps with convolutions are slower this way.

        **Raises** `ShapeError` unless all arrays have the same number of steps.
        """
        from singax.training.runners import train_batches

        return train_batches(_module(self), inputs, kwargs, method)

    def profile(
        self, *inputs: Any, method: str = "train_one_batch", steps: int = 10, folder: Any = None, **kwargs: Any
    ) -> Profile:
        """Where the time of a step goes, layer by layer, from a real run under `jax.profiler`.

        **Args** inputs, kwargs: arguments of the step: real arrays. steps: how many are run, default 10. folder: keep
        the trace there, to open it in TensorBoard or Perfetto; default: it is thrown away.

        **Returns** a `Profile`. The steps work on copies: parameters, slots and random state stay as they are. The
        times are those of XLA's operations, each counted for the layer whose code asked for it; where XLA has fused
        several, for that of the last.
        """
        from singax.inspect.profile import profile

        return profile(_module(self), inputs, kwargs, method, steps, folder)


def _module(workbench: Workbench) -> Module:
    return cast("Module", workbench)
