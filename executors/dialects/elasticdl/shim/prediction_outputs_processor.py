"""The base class of a model file's `PredictionOutputsProcessor`."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tensor_values import Tensors


class BasePredictionOutputsProcessor(abc.ABC):
    """Base class of processors that receive a job's predictions batch by batch."""

    @abc.abstractmethod
    def process(self, predictions: Tensors, worker_id: int) -> None:
        """Processes the predictions for one batch.

        Args:
          predictions: The model's outputs for the batch, as eager tensors; `numpy()` returns their values.
          worker_id: The id of the worker, which is always 0 here.
        """
