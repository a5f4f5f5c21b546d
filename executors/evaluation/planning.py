"""Reads what a plan is made from: the model's signatures, the schemas and the Transform graph.

plan = plan_of("model/Format-Serving", evidence, "schema.pbtxt", "transform_graph", Overrides({"": "big_tip"}))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ..runtime.files import file_io
from ..runtime.files.schema import read_schema
from ..saved_models.locations import base_model_path
from ..saved_models.signatures import signatures_of
from .decision import make_plan
from .evidence import TrainingEvidence
from .features import (
    TRANSFORM_FN,
    TRANSFORMED_SCHEMA,
    ExampleFeatures,
    features_of_schema,
)
from .plan import EvaluationPlan, Overrides
from .transform_graph import origins_of

if TYPE_CHECKING:
    from .features import FeatureSummary

Sample: TypeAlias = "Mapping[str, Mapping[str, FeatureSummary]]"


class Known(TypedDict, total=False):
    """What is known of a training, as JSON values; each may be missing.

    Attributes:
      evidence: A `TrainingEvidence`; {} where no fit was seen.
      overrides: The fields of `Overrides`.
      features: The sample for `plan_of`.
    """

    evidence: Mapping[str, object]
    overrides: Mapping[str, Any]
    features: Sample


def plan_of(
    model: str,
    evidence: TrainingEvidence | None,
    schema_path: str | None,
    transform_graph_path: str | None,
    overrides: Overrides | None = None,
    sample: Sample | None = None,
) -> EvaluationPlan:
    """Returns how a model is evaluated; a plan that cannot be made has a `problem`.

    Args:
      model: The SavedModel's folder, or a Model artifact's.
      evidence: What its training showed, or None.
      schema_path: The raw examples' schema file; None to take the one that the Transform graph was made with.
      transform_graph_path: The Transform graph's folder, or None.
      overrides: What the user decided, with the label.
      sample: What some examples hold: {"raw" or "transformed": {feature: its facts}}.
    """
    try:
        features = features_of(schema_path, transform_graph_path, sample)
        transform_fn = os.path.join(transform_graph_path, TRANSFORM_FN) if transform_graph_path else None
        signatures = signatures_of(base_model_path(model), transform_fn)
        return make_plan(evidence, signatures, features, overrides or Overrides())
    except Exception as error:  # a trained model must not be lost because it cannot be evaluated
        return EvaluationPlan(problem=f"the model cannot be evaluated: {type(error).__name__}: {error}")


def plan_from(model: str, schema_path: str | None, transform_graph_path: str | None, known: Known) -> EvaluationPlan:
    """Returns how a model is evaluated, from what a process passed on as JSON values.

    Args:
      model: As for `plan_of`.
      schema_path: As for `plan_of`.
      transform_graph_path: As for `plan_of`.
      known: `evidence`, a TrainingEvidence; `overrides`; and `features`, the sample for `plan_of`. Each may be missing.
    """
    evidence = TrainingEvidence.from_json(known["evidence"]) if known.get("evidence") else None
    overrides = Overrides(**known.get("overrides", {}))
    return plan_of(model, evidence, schema_path, transform_graph_path, overrides, known.get("features"))


def features_of(schema_path: str | None, transform_graph_path: str | None, sample: Sample | None) -> ExampleFeatures:
    """Returns the features of raw and transformed examples.

    Args:
      schema_path: As for `plan_of`.
      transform_graph_path: As for `plan_of`.
      sample: As for `plan_of`.

    Raises:
      InputError: When a schema cannot be read.
      OSError, ValueError: When the Transform graph cannot be read.
    """
    sample = sample or {}
    graph = transform_graph_path or ""
    in_graph = os.path.join(graph, "metadata", "schema.pbtxt")
    path = schema_path or (in_graph if graph and file_io.exists(in_graph) else None)
    raw = features_of_schema(read_schema(path) if path else None, sample.get("raw"))
    if not graph:
        return ExampleFeatures(raw)
    transformed = features_of_schema(read_schema(os.path.join(graph, TRANSFORMED_SCHEMA)), sample.get("transformed"))
    return ExampleFeatures(raw, transformed, origins_of(os.path.join(graph, TRANSFORM_FN)))
