"""The numbers of a model on data that it is not trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from singax.errors import ArgumentError
from singax.metric import Metric
from singax.module import Module
from singax.training.batches import arguments_of, iterated, rows_of, target_of
from singax.training.results import array_of, number, output, scalars
from singax.training.runners import Evaluation, runner


def validate(model: Module, data: Any, metrics: Mapping[str, Metric]) -> dict[str, float]:
    """ "val_…" for every number that a step returns and every metric.

    The step runs in evaluation mode, without its backward pass and updates, so the model stays as it is. Means count
    each batch by its rows.
    """
    fresh = {name: metric.init() for name, metric in metrics.items()}
    found: list[dict[str, Any]] = []
    rows: list[int] = []
    was = model.training
    model.eval()
    try:
        for batch in iterated(data):
            arguments = arguments_of(batch)
            result = runner(model, Evaluation, "train_one_batch")(*arguments)
            found.append(scalars(result))
            rows.append(rows_of(arguments) or 1)
            out, target = output(result), array_of(target_of(arguments))
            fresh = {name: metrics[name].step(state, out, target) for name, state in fresh.items()}
    finally:
        model.train(was)
    if not found:
        raise ArgumentError("the validation data has no batches")
    measured = {f"val_{name}": number(metrics[name].read(state)) for name, state in fresh.items()}
    return {**_means(jax.device_get(found), rows), **measured}


def _means(found: list[dict[str, Any]], rows: list[int]) -> dict[str, float]:
    columns = {name: [float(np.reshape(each[name], ())) for each in found] for name in found[0]}
    return {f"val_{name}": float(np.average(values, weights=rows)) for name, values in columns.items()}
