"""The base class of a model file's `PredictionOutputsProcessor`."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tensor_values import Tensors


class BasePredictionOutputsProcessor(abc.ABC):
    """Takes the predictions of a job, batch by batch."""

    @abc.abstractmethod
    def process(self, predictions: Tensors, worker_id: int) -> None:
        """Takes the predictions for one batch.

        Args:
          predictions: What the model returned for the batch: tensors, as in ElasticDL; `numpy()` gives the values.
          worker_id: The worker that predicted it.
        """
