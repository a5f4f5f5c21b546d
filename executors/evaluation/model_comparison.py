"""Compares two models on the same labeled examples, in a subprocess: metrics and changed predictions.

Usage:

    models = [ComparedModel("one/model/Format-Serving", plan), ComparedModel("two/model/Format-Serving", other_plan)]
    run_model_comparison(models, ["iris/eval/examples.tfrecord"], seconds=10).outputs[0].metrics
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from absl import logging

from ..engines import child_process
from ..errors import TrainerError
from ..examples_format import TF_EXAMPLE
from ..runtime.files.json_data import JsonData, from_json
from ..runtime.logs.exceptions import one_line_message
from .paired_metrics import PairedMetric

_WORKER = f"{__package__}.model_comparison_worker"  # imports TensorFlow
_LONGEST_FACTOR, _LONGEST_LOAD = 10, 120.0  # of the time limit, and seconds more, after which the process is ended


@dataclasses.dataclass(frozen=True)
class ComparedModel(JsonData):
    """A model to compare.

    Attributes:
      model: The SavedModel's folder.
      plan: Its evaluation plan, as JSON values.
      transform_graph: The Transform graph that its plan refers to, or None.
    """

    model: str
    plan: Mapping[str, object]
    transform_graph: str | None = None


@dataclasses.dataclass(frozen=True)
class ChangedExample:
    """An example whose prediction changed.

    Attributes:
      label: The label: a class, or a value.
      before: The first model's prediction.
      after: The second model's prediction.
      features: {feature: text} of at most 12 features that have a value.
    """

    label: str
    before: str
    after: str
    features: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class OutputComparison:
    """The comparison of one output.

    Attributes:
      label: The label.
      task: The task, one of `plan.TASKS`.
      metrics: The metrics of both models.
      changed: Number of examples with another predicted class; for regression, with another value.
      improved: Number of these whose prediction became right; for regression, came closer to the label.
      worsened: Number of these whose prediction was right; for regression, was closer to the label.
      changes: Examples of them, those with the largest change first; at most 10.
    """

    label: str
    task: str
    metrics: tuple[PairedMetric, ...] = ()
    changed: int = 0
    improved: int = 0
    worsened: int = 0
    changes: tuple[ChangedExample, ...] = ()


@dataclasses.dataclass(frozen=True)
class ModelComparison(JsonData):
    """The result of `run_model_comparison`.

    Attributes:
      examples: Number of compared examples: those with a label and predictions of both models.
      sampled: Number of examples in the sample.
      total: Number of examples in the split; those that were read in time if not `is_complete`.
      is_complete: Whether the sample was drawn from the whole split.
      outputs: One entry for each label that both models predict.
      problem: Why there is no comparison; "" if there is one.
    """

    examples: int = 0
    sampled: int = 0
    total: int = 0
    is_complete: bool = True
    outputs: tuple[OutputComparison, ...] = ()
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class ModelComparisonRequest(JsonData):
    """Request to the process; see `run_model_comparison`."""

    models: Sequence[ComparedModel]
    files: Sequence[str]
    seconds: float
    payload: str = TF_EXAMPLE


def run_model_comparison(
    models: Sequence[ComparedModel], files: Sequence[str], *, seconds: float, payload: str = TF_EXAMPLE
) -> ModelComparison:
    """Returns the comparison of two models; never raises: without a comparison, `problem` is the reason.

    Args:
      models: The two models.
      files: Files of labeled examples, raw ones if there is a Transform graph.
      seconds: Time limit for reading the examples; see `sample_of`.
      payload: The payload format of the files.
    """
    try:
        state = child_process.run(
            _WORKER,
            ModelComparisonRequest(models, files, seconds, payload).to_json(),
            environment={"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"},
            timeout=_LONGEST_FACTOR * seconds + _LONGEST_LOAD,
            quiet=True,
            what="comparison",
        )
    except TrainerError as error:
        return ModelComparison(problem=str(error))
    except Exception as error:  # the models are the user's: any error of theirs must not end the command
        logging.info("The models could not be compared.", exc_info=True, extra={"kept_only": True})
        return ModelComparison(problem=f"{type(error).__name__}: {one_line_message(error)}")
    return from_json(ModelComparison, state, "The comparison", finite=False)
