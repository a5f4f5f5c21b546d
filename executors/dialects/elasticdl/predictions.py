"""Passes the predictions of an ElasticDL model to the file's processor and writes them as JSON lines."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from ...saved_models.prediction.files import opened
from .export import name_outputs
from .job import call_model
from .shim.prediction_outputs_processor import BasePredictionOutputsProcessor
from .shim.tensor_values import Tensors

FILE_NAME = "predictions.jsonl"


class Predictions:
    """Context manager that predicts batches of features and writes them to `predictions.jsonl` in a directory.

    Attributes:
      count: The number of predictions so far.
    """

    def __init__(self, model: tf.keras.Model, processor: BasePredictionOutputsProcessor | None, folder: str) -> None:
        self.count = 0
        self._function = tf.function(lambda features: call_model(model, features, False), reduce_retracing=True)
        self._processor = processor
        self._opened = opened(os.path.join(folder, FILE_NAME))

    def __enter__(self) -> Predictions:
        self._file = self._opened.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def add(self, features: Tensors) -> None:
        """Predicts one batch of features, calls the processor and writes the predictions."""
        outputs = self._function(features)
        arrays = {name: value.numpy() for name, value in name_outputs(outputs).items()}
        if self._processor is not None:
            self._processor.process(outputs, 0)
        self._file.write(arrays, {})
        self.count += len(next(iter(arrays.values())))
