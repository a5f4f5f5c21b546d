"""The comparison of two models on the same labeled examples: metrics with significance, and changed predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..runtime.files.json_data import JsonData
from .paired_metrics import PairedMetric


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
