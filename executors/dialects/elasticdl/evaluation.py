"""The evaluations of an ElasticDL job, its best weights and its TensorBoard summaries."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TypedDict

import tensorflow as tf
from absl import logging

from ...checkpoints.damage import set_aside
from ...checkpoints.fallback import damage_of
from ...keras.weight_fingerprints import of_weights
from .best_weights import BestWeights
from .job import Job
from .options import ElasticDLOptions
from .repeated_evaluation import RepeatedEvaluation
from .shared_batches import share


class EvaluationState(TypedDict):
    """The best weights so far: their evaluation loss and the path of their checkpoint."""

    lowest: float
    best: str | None


class Evaluation:
    """Evaluates the job, saves the best weights and writes TensorBoard summaries.

    Args:
      job: The job.
      folder: See the attribute.
      evaluate: Evaluates the current weights and returns the metrics by name; None without validation data.

    Attributes:
      results: The metrics of the last evaluation by name.
      folder: The directory for the best weights and the summaries.
    """

    def __init__(self, job: Job, folder: str, evaluate: Callable[[], Mapping[str, float]] | None) -> None:
        self.results: dict[str, float] = {}
        self._job = job
        self._best = BestWeights(job.inner, os.path.join(folder, "best", "weights"))
        self._earlier_best: str | None = None  # of an earlier attempt
        self._evaluate = evaluate
        self._lowest = math.inf
        self._done: tuple[int, tuple[str, ...]] = -1, ()
        self.folder = folder
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def to_json(self) -> EvaluationState:
        """Returns the state for `resume`."""
        return {"lowest": self._lowest, "best": self.save_best()}

    def resume(self, state: EvaluationState) -> None:
        """Restores the best loss and path from an earlier attempt; a damaged checkpoint is moved aside."""
        path = state["best"]
        if path and (problem := damage_of(path)):
            set_aside(path, problem, "the last weights are evaluated and exported as the best")
        elif path:
            self._lowest, self._earlier_best = state["lowest"], path

    def run(self, step: int) -> None:
        """Evaluates the current weights, unless the same weights were evaluated at this step."""
        if self._evaluate is None:
            return
        weights = of_weights(self._job.inner.weights)
        if (step, weights) == self._done:  # a callback may have changed the weights since
            return
        self._done = step, weights
        values = self._evaluate()
        self.results = {name: float(value) for name, value in values.items()}
        self.log("eval", step, self.results)
        if self.results["loss"] < self._lowest:
            self._lowest, self._earlier_best = self.results["loss"], None
            self._best.keep()

    def save_best(self) -> str | None:
        """Writes the weights with the lowest loss; returns the path of the checkpoint, or None without evaluations."""
        if self._earlier_best is not None or math.isinf(self._lowest):
            return self._earlier_best
        return self._best.save()

    def log(self, split: str, step: int, values: dict[str, float]) -> None:
        """Writes values to the log and to the TensorBoard summaries of a split ("train" or "eval")."""
        shown = ", ".join(f"{name} {value:.5g}" for name, value in values.items())
        logging.info("Step %d: %s %s", step, split, shown)
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(os.path.join(self.folder, split))
        with self._writers[split].as_default(step):
            for name, value in values.items():
                tf.summary.scalar(name, value)


def evaluator(job: Job, options: ElasticDLOptions, dataset: tf.data.Dataset) -> Callable[[], dict[str, float]]:
    """Returns a function that evaluates the current weights, in a single process or on all replicas together."""
    replicas = job.distribute_strategy.num_replicas_in_sync
    if replicas == 1:
        return RepeatedEvaluation(job, dataset)
    parts = share(dataset, replicas, options.minibatch_size)

    def evaluate() -> dict[str, float]:
        job.synchronize()
        values: dict[str, float] = job.evaluate(parts, verbose=0, return_dict=True)
        return values

    return evaluate
