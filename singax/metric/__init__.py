"""Streaming metrics: they stay on the device until they are read."""

from singax.metric.area import AUC
from singax.metric.base import Metric
from singax.metric.classification import Accuracy, ConfusionMatrix, TopKAccuracy
from singax.metric.mean import Mean, MeanAbsoluteError, MeanSquaredError
from singax.metric.scores import F1, Precision, Recall
