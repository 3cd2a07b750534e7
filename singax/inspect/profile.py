"""Where the time of a step goes: a real run under JAX's profiler, added up by layers."""

from __future__ import annotations

import collections
import contextlib
import gzip
import json
import pathlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from singax import arguments
from singax.checked import integer
from singax.errors import StateError
from singax.functional import settled, step_function
from singax.inspect.display import Line, tree_html
from singax.inspect.graph import CALL, LabelledCall, Labels
from singax.inspect.hlo import Instructions
from singax.inspect.placed import row_at
from singax.inspect.table import aligned
from singax.inspect.watch import watching
from singax.layer import tree
from singax.mode import refuse_inside
from singax.module import Module
from singax.program import functionalize

_NAME = "singax_profile"
_HEAD = ("layer", "share", "forward", "backward")


@dataclass(frozen=True)
class ProfileRow:
    """One layer with all below it: `path`, `kind`, `depth`, and seconds per step in the forward and backward pass."""

    path: str
    kind: str
    depth: int
    forward: float
    backward: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.forward + self.backward


@dataclass(frozen=True)
class Profile:
    """What `Module.profile` returns: print it, show it in a notebook, or read its fields.

    `rows`: one `ProfileRow` for each layer that was called, in the order of the tree; `outside`: seconds of operations
    that belong to no layer (the optimizer, arithmetic in the step); `unknown`: seconds of operations that XLA has not
    given a name to (copies, mostly); `busy`: all of these together, summed over threads; `seconds`: the median time of
    a step by the clock; `steps`; `folder`: where the trace is, for TensorBoard or Perfetto, if it was kept.
    """

    model: str
    rows: tuple[ProfileRow, ...]
    outside: float
    unknown: float
    busy: float
    seconds: float
    steps: int
    folder: str | None

    def __getitem__(self, path: str) -> ProfileRow:
        return row_at(self.rows, path)

    def _cells(self, forward: float, backward: float) -> tuple[str, ...]:
        share = (forward + backward) / self.busy if self.busy else 0.0
        return (f"{share:.1%}", *(f"{1e6 * value:.0f} µs" if value else "" for value in (forward, backward)))

    def _lines(self) -> list[Line]:
        lines, around = [], [""]
        for row in self.rows:
            del around[row.depth :]
            name = row.path.removeprefix(around[-1] + tree.SEPARATOR)
            lines.append(Line(row.depth - 1, name, row.kind, self._cells(row.forward, row.backward)))
            around.append(row.path)
        lines.append(Line(0, "outside of layers", "", self._cells(self.outside, 0.0)))
        return [*lines, Line(0, "without a name", "", self._cells(self.unknown, 0.0))]

    def _notes(self) -> list[str]:
        said = [
            f"a step takes {1e6 * self.seconds:.0f} µs (median of {self.steps}); "
            f"its operations {1e6 * self.busy:.0f} µs, summed over threads"
        ]
        return [*said, f"trace: {self.folder}"] if self.folder else said

    def __str__(self) -> str:
        rows = [("  " * line.depth + f"{line.name} {line.kind}".rstrip(), *line.cells) for line in self._lines()]
        return "\n".join([self.model, *aligned([_HEAD, *rows]), *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tree_html(self.model, _HEAD, self._lines(), self._notes())


def profile(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], method: str, steps: int, folder: Any
) -> Profile:
    """See `Module.profile`."""
    steps = integer("steps", steps, 1)
    refuse_inside("profile")
    compiled, values, inputs, calls = _compiled(module, args, kwargs, method)
    jax.block_until_ready(compiled(values, inputs))
    with _folder(folder) as place:
        times = _run(lambda: compiled(values, inputs), steps, place)
        events = list(_events(place))
    shares = _shares(module, calls, Instructions(compiled.as_text()), events, steps)
    kept = None if folder is None else str(folder)
    return _report(module, calls, shares, sorted(times)[len(times) // 2], steps, kept)


def _compiled(
    module: Module, args: Any, kwargs: Any, method: str
) -> tuple[Any, list[Any], list[Any], list[LabelledCall]]:
    """The step as a program of its own that donates nothing and labels each operation with the call of its layer."""
    function = step_function(module, method)
    _, cells = settled(module, function, args, kwargs)
    packed = arguments.pack(function, args, kwargs)
    values, labels = list(module._settled_bank().values), Labels(module)
    pure = functionalize(module, function, cells, packed.form, True)
    pure.__name__ = _NAME
    with watching(labels):
        compiled = jax.jit(pure).lower(values, packed.inputs).compile()
    return compiled, values, packed.inputs, labels.calls


@contextlib.contextmanager
def _folder(folder: Any) -> Iterator[pathlib.Path]:
    if folder is not None:
        yield pathlib.Path(folder)
        return
    with tempfile.TemporaryDirectory() as made:
        yield pathlib.Path(made)


def _run(run: Any, steps: int, folder: pathlib.Path) -> list[float]:
    times = []
    with jax.profiler.trace(folder):
        for _ in range(steps):
            start = time.perf_counter()
            jax.block_until_ready(run())
            times.append(time.perf_counter() - start)
    return times


class Event(NamedTuple):
    """An operation that ran: its name in the program, and the microseconds that were its own."""

    name: str
    own: float


def _events(folder: pathlib.Path) -> Iterator[Event]:
    """What ran, of the newest trace in the folder."""
    files = sorted(folder.glob("**/*.trace.json.gz"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        raise StateError(f"JAX's profiler has written no trace into {folder}")
    with gzip.open(files[-1], "rt", encoding="utf-8") as file:
        recorded = json.load(file)["traceEvents"]
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in recorded:
        module = event.get("args", {}).get("hlo_module", "")
        if module.startswith(f"jit_{_NAME}") and "hlo_op" in event["args"]:
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for events in threads.values():
        yield from _own_times(events)


def _own_times(events: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Operations contain others (loops, calls): what an operation took without those inside it."""
    spans = [(event["ts"], event["ts"] + event.get("dur", 0.0), event["args"]["hlo_op"]) for event in events]
    spans.sort(key=lambda span: (span[0], -span[1]))
    inner = [0.0] * len(spans)
    open_: list[int] = []
    for k, (start, end, _) in enumerate(spans):
        while open_ and spans[open_[-1]][1] <= start:
            open_.pop()
        if open_:
            inner[open_[-1]] += end - start
        open_.append(k)
    for (start, end, name), below in zip(spans, inner, strict=True):
        yield Event(name, max(end - start - below, 0.0))


@dataclass
class _Shares:
    """Seconds per step: of each layer's own operations, of those outside of layers, and of those without a name."""

    forward: dict[str, float]
    backward: dict[str, float]
    outside: float = 0.0
    unknown: float = 0.0

    @property
    def busy(self) -> float:
        return sum(self.forward.values()) + sum(self.backward.values()) + self.outside + self.unknown


def _shares(
    module: Module, calls: list[LabelledCall], instructions: Instructions, events: list[Event], steps: int
) -> _Shares:
    shares = _Shares(collections.defaultdict(float), collections.defaultdict(float))
    owners, states = _owners(module, calls), module._settled_bank().values
    sizes = {number: states[number].size for number in owners}
    for event in events:
        seconds = event.own / 1e6 / steps
        origin = instructions.origin(event.name, sizes)
        found = CALL.findall(origin.name) if origin else []
        if origin is None:
            shares.unknown += seconds
        elif found or origin.parameter is not None:
            into = shares.backward if origin.backward else shares.forward
            path = calls[int(found[-1])].path if found else owners[origin.parameter or 0]
            into[path] += seconds
        else:
            shares.outside += seconds
    shares.outside += shares.forward.pop("", 0.0) + shares.backward.pop("", 0.0)
    return shares


def _owners(module: Module, calls: list[LabelledCall]) -> dict[int, str]:
    """Number of a state → the path of the layer whose parameter it is, or whose parameter's slot."""
    layers = sorted({call.path for call in calls if call.path}, key=len, reverse=True)
    parameters = {path: _owner(path, layers) for path, _ in tree.tensors(module)}
    found = {}
    for number, path in enumerate(module._settled_bank().paths):
        own = next((own for own in parameters if path == own or path.endswith(tree.SEPARATOR + own)), None)
        if own is not None and parameters[own]:
            found[number] = parameters[own]
    return found


def _owner(path: str, layers: list[str]) -> str:
    return next((layer for layer in layers if path.startswith(layer + tree.SEPARATOR)), "")


def _report(
    module: Module, calls: list[LabelledCall], shares: _Shares, seconds: float, steps: int, folder: str | None
) -> Profile:
    kinds = {call.path: call.kind for call in reversed(calls)}
    order = dict.fromkeys(path for path, _ in tree.layers(module) if path and path in kinds)
    rows = tuple(
        ProfileRow(path, kinds[path], _depth(path, kinds), _below(shares.forward, path), _below(shares.backward, path))
        for path in order
    )
    name = type(module).__name__
    return Profile(name, rows, shares.outside, shares.unknown, shares.busy, seconds, steps, folder)


def _below(times: dict[str, float], path: str) -> float:
    return sum(t for where, t in times.items() if where == path or where.startswith(path + tree.SEPARATOR))


def _depth(path: str, kinds: dict[str, str]) -> int:
    parts = path.split(tree.SEPARATOR)
    return sum(tree.SEPARATOR.join(parts[:k]) in kinds for k in range(1, len(parts) + 1))
