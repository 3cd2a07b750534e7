"""Training steps and cold starts of singax, divided by those of a hand-written `jax.jit` + optax step.

    python benchmarks/step_time.py                        # all models, a quarter of an hour on two cores
    python benchmarks/step_time.py --quick                # the two small models, few rounds
    python benchmarks/step_time.py --models mlp --rounds 21

Both sides run in one process, in alternating rounds; a row shows the median over the rounds of the ratio of two
neighbouring rounds, so that a busy machine slows both. Batches are NumPy arrays. singax copies each one on the host
before it hands it to JAX, which reads a NumPy array after the call has returned: the hand-written step does not, and
would train on wrong data if a loader reused its buffer.

Cold start: in a fresh process with jax and optax imported and the device started, the time until the parameters are
drawn, the step is traced and compiled, and its first loss is there. The persistent compilation cache is off.
"CPU ratio" compares the processor seconds of all threads, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import gpt_others
import gpt_plain
import gpt_singax
import jax
import lstm_others
import lstm_plain
import lstm_singax
import numpy as np
import optax
import plain_models
import singax_models

import singax as sx

Batch = tuple[np.ndarray, np.ndarray]
Loop = Callable[[int], Any]  # runs so many steps and returns the last loss, still in flight


def image_batch(rng: np.random.Generator, shape: tuple[int, ...]) -> Batch:
    """Random inputs and ten classes."""
    return rng.standard_normal(shape, np.float32), rng.integers(0, 10, shape[0]).astype(np.int32)


class Case(NamedTuple):
    """A model on both sides, the shape of its input, and how many steps make a round.

    `by_hand` is the module with the steps of the hand-written side; `others` are further columns.
    """

    singax: Callable[[float], Any]
    plain: Callable[[], plain_models.Plain]
    shape: tuple[int, ...]
    steps: int
    batch: Callable[[np.random.Generator, tuple[int, ...]], Batch] = image_batch
    by_hand: Any = plain_models
    others: Mapping[str, Callable[[float, list[Batch]], Loop]] = MappingProxyType({})


CASES = {
    "mlp": Case(singax_models.MLP, plain_models.mlp, (32, 64), 1000),
    "cnn": Case(singax_models.CNN, plain_models.cnn, (64, 1, 28, 28), 30),
    "resnet18": Case(singax_models.ResNet18, plain_models.resnet18, (32, 3, 32, 32), 2),
    "char_lstm": Case(
        lstm_singax.CharLSTM, lstm_plain.char_lstm, (32, 50), 5, lstm_plain.batch, lstm_plain, lstm_others.OTHERS
    ),
    "gpt": Case(gpt_singax.GPT, gpt_plain.gpt, (16, 64), 4, gpt_plain.batch, gpt_plain, gpt_others.OTHERS),
}
LR = 0.01


def batches(case: Case, count: int = 4) -> list[Batch]:
    """Random batches."""
    rng = np.random.default_rng(1)
    return [case.batch(rng, case.shape) for _ in range(count)]


# -- the two sides ----------------------------------------------------------------------------------------------


def singax_model(case: Case) -> Any:
    """The compiled singax model."""
    net = case.singax(LR)
    net.compile([sx.Placeholder(case.shape, dtype=batches(case, 1)[0][0].dtype)], is_train=True, use_graph=True)
    return net


def singax_loop(net: Any, data: list[Batch]) -> Loop:
    """Steps of the singax model."""

    def loop(steps: int) -> Any:
        for index in range(steps):
            _, loss = net(*data[index % len(data)])
        return loss.data

    return loop


def plain_loop(case: Case, state: plain_models.State, data: list[Batch]) -> Loop:
    """Steps of the hand-written model."""
    step = case.by_hand.make_step(case.plain(), LR)

    def loop(steps: int) -> Any:
        nonlocal state
        for index in range(steps):
            state, (_, loss) = step(state, *data[index % len(data)])
        return loss

    return loop


def equal_state(case: Case, net: Any) -> plain_models.State:
    """A hand-written state with the values of the singax model."""
    held = {name: np.array(tensor.to_numpy()) for name, tensor in net.get_states().items()}
    shapes = case.plain().shapes
    if {name: value.shape for name, value in held.items()} != shapes:
        raise SystemExit(f"the two models differ: {sorted(held)} and {sorted(shapes)}")
    running = {name: held.pop(name) for name in shapes if "running" in name}
    return case.by_hand.start(held, running, LR)


# -- measuring --------------------------------------------------------------------------------------------------


class Steps(NamedTuple):
    """What a row of the first table says: medians, the ratios and the difference within a round."""

    plain: float
    own: float
    ratio: float
    cpu_ratio: float
    difference: float


def measure_steps(case: Case, rounds: int) -> tuple[dict[str, Steps], float]:
    """Each side against the hand-written one in interleaved rounds, and the largest gap of singax's first losses."""
    data = batches(case)
    net = singax_model(case)
    plain, singax = plain_loop(case, equal_state(case, net), data), singax_loop(net, data)
    gaps = [abs(float(plain(1)) - float(singax(1)[0])) for _ in range(3)]
    loops = {"hand-written": plain, "singax": singax, **{n: make(LR, data) for n, make in case.others.items()}}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for number in range(rounds):
        for name in loops if number % 2 else reversed(loops):
            times[name].append(seconds(loops[name], case.steps))
    first = times.pop("hand-written")
    return {name: compared(first, own) for name, own in times.items()}, max(gaps)


def compared(plain: list[tuple[float, float]], own: list[tuple[float, float]]) -> Steps:
    """The row of a side with these wall and processor seconds."""
    pairs = list(zip(plain, own, strict=True))
    rows = [(a, b, b / a, cpu_b / cpu_a, b - a) for (a, cpu_a), (b, cpu_b) in pairs]
    return Steps(*(statistics.median(values) for values in zip(*rows, strict=True)))


def seconds(loop: Loop, steps: int) -> tuple[float, float]:
    """Wall and processor seconds per step."""
    jax.block_until_ready(loop(max(1, steps // 10)))
    start, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(loop(steps))
    return (time.perf_counter() - start) / steps, (time.process_time() - cpu) / steps


class Cold(NamedTuple):
    """What a row of the second table says: medians, the ratios within a pair of processes."""

    plain: float
    singax: float
    ratio: float
    cpu_ratio: float


def measure_cold(name: str, repetitions: int) -> Cold:
    """Cold starts of both sides in turn."""
    pairs = []
    for number in range(repetitions):
        sides = ("plain", "singax") if number % 2 else ("singax", "plain")
        times = {side: cold_in_fresh_process(side, name) for side in sides}
        pairs.append((*times["plain"], *times["singax"]))
    rows = [(plain, singax, singax / plain, cpu / plain_cpu) for plain, plain_cpu, singax, cpu in pairs]
    return Cold(*(statistics.median(values) for values in zip(*rows, strict=True)))


def cold_in_fresh_process(side: str, name: str) -> tuple[float, float]:
    """Run this script again for one cold start: wall and processor seconds."""
    command = [sys.executable, __file__, "--cold-start-of", side, name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, cpu = done.stdout.split()[-2:]
    return float(wall), float(cpu)


def cold_start(side: str, case: Case) -> tuple[float, float]:
    """Wall and processor seconds from nothing to the first loss."""
    data = batches(case, 1)
    jax.block_until_ready(jax.device_put(np.zeros(1)))
    optax.sgd(LR)
    start, cpu = time.perf_counter(), time.process_time()
    if side == "singax":
        loop = singax_loop(singax_model(case), data)
    else:
        drawn = case.by_hand.draw(case.plain().shapes)
        loop = plain_loop(case, case.by_hand.start(*drawn, LR), data)
    jax.block_until_ready(loop(1))
    return time.perf_counter() - start, time.process_time() - cpu


# -- the tables -------------------------------------------------------------------------------------------------


def print_steps(names: Sequence[str], rounds: int) -> None:
    """The table of step times."""
    print(f"step time, {rounds} interleaved rounds")
    print(f"{'model':11}{'side':9}{'hand-written':>14}{'side':>12}{'ratio':>8}{'CPU ratio':>11}{'difference':>13}")
    for name in names:
        sides, gap = measure_steps(CASES[name], rounds)
        for side, steps in sides.items():
            times = f"{steps.plain * 1e3:11.3f} ms{steps.own * 1e3:9.3f} ms{steps.ratio:8.3f}{steps.cpu_ratio:11.3f}"
            print(f"{name:11}{side:9}{times}{steps.difference * 1e6:10.1f} µs", flush=True)
        print(f"{name:11}largest gap of the first three losses: {gap:.1e}", flush=True)


def print_cold(names: Sequence[str], repetitions: int) -> None:
    """The table of cold starts."""
    print(f"\ncold start, {repetitions} interleaved pairs of fresh processes")
    print(f"{'model':10}{'hand-written':>14}{'singax':>12}{'ratio':>8}{'CPU ratio':>12}")
    for name in names:
        cold = measure_cold(name, repetitions)
        print(f"{name:10}{cold.plain:12.2f} s{cold.singax:10.2f} s{cold.ratio:8.3f}{cold.cpu_ratio:12.3f}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold", type=int, default=3, metavar="N", help="pairs of cold starts; 0 leaves them out")
    parser.add_argument("--quick", action="store_true", help="mlp and cnn, 3 rounds, 1 pair of cold starts")
    parser.add_argument("--cold-start-of", nargs=2, metavar=("SIDE", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.cold_start_of:
        side, name = args.cold_start_of
        print(*cold_start(side, CASES[name]))
        return
    names = ["mlp", "cnn"] if args.quick else args.models
    print_steps(names, 3 if args.quick else args.rounds)
    repetitions = 1 if args.quick else args.cold
    if repetitions:
        print_cold(names, repetitions)


if __name__ == "__main__":
    main()
