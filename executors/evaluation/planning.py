"""Makes an evaluation plan from files: reads the model's signatures, the schemas and the Transform graph.

plan = plan_of("model/Format-Serving", evidence, "schema.pbtxt", "transform_graph", Overrides({"": "big_tip"}))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ..monitoring import run_record
from ..monitoring.run_record import RunRecord
from ..runtime.files import file_io
from ..runtime.files.schema import read_schema
from ..saved_models.base_model import base_model_path
from ..saved_models.signatures import TRANSFORM_FN, meta_graph_of, signatures_of
from .decision import make_plan
from .evidence import TrainingEvidence
from .feature_origins import origins_of
from .features import (
    TRANSFORMED_SCHEMA,
    ExampleFeatures,
    features_of_schema,
)
from .plan import EvaluationPlan, Overrides

if TYPE_CHECKING:
    from .features import FeatureSummary

Sample: TypeAlias = "Mapping[str, Mapping[str, FeatureSummary]]"


class PlanningFacts(TypedDict, total=False):
    """Facts about a training, as JSON values; all optional.

    Attributes:
      evidence: A `TrainingEvidence`; {} if no Keras fit was observed.
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
    """Returns the evaluation plan of a model; never raises: errors become the plan's `problem`.

    Args:
      model: The SavedModel's folder, or a Model artifact's.
      evidence: Observations of its training, or None.
      schema_path: The raw examples' schema file; None for the one in the Transform graph.
      transform_graph_path: The Transform graph's folder, or None.
      overrides: The user's options, with the label.
      sample: Statistics of some examples: {"raw" or "transformed": {feature: statistics}}.
    """
    try:
        features = features_of(schema_path, transform_graph_path, sample)
        signatures = signatures_of(base_model_path(model), transform_graph_path)
        return make_plan(evidence, signatures, features, overrides or Overrides())
    except Exception as error:  # a trained model must not be discarded because it cannot be evaluated
        return EvaluationPlan(problem=f"the model cannot be evaluated: {type(error).__name__}: {error}")


def plan_for_model(
    model_dir: str,
    record: str | RunRecord,
    schema_path: str | None,
    transform_graph_path: str | None,
    overrides: Overrides | None = None,
) -> EvaluationPlan:
    """Returns the evaluation plan of a trained model.

    Args:
      model_dir: The SavedModel's folder, or a Model artifact's.
      record: The model run's folder, or its record; "" if there is none.
      schema_path: The raw examples' schema file; None for the one in the Transform graph.
      transform_graph_path: The Transform graph's folder, or None.
      overrides: The user's options, with the label.

    Returns:
      The plan. Errors in model, schema or Transform graph are not raised, but become the plan's `problem`.
    """
    known = run_record.read(record) if isinstance(record, str) else record
    has_evidence = bool(known.parts.get("evaluation_evidence"))
    evidence = known.part("evaluation_evidence", TrainingEvidence) if has_evidence else None
    return plan_of(model_dir, evidence, schema_path, transform_graph_path, overrides)


def is_compatible(plan: EvaluationPlan, model: str) -> bool:
    """Whether a SavedModel has the signature and outputs that a plan names.

    Raises:
      OSError, ValueError: If there is no readable SavedModel.
    """
    signature = meta_graph_of(model).signature_def.get(plan.signature)
    if signature is None:
        return False
    unknown = plan.takes_tensors and not plan.inputs
    if not unknown and len(set(signature.inputs) - set(plan.inputs)) != (not plan.takes_tensors):
        return False
    return all(one.output in signature.outputs for one in plan.outputs)


def features_of(schema_path: str | None, transform_graph_path: str | None, sample: Sample | None) -> ExampleFeatures:
    """Returns the features of raw and transformed examples.

    Args:
      schema_path: As for `plan_of`.
      transform_graph_path: As for `plan_of`.
      sample: As for `plan_of`.

    Raises:
      InputError: If a schema cannot be read.
      OSError, ValueError: If the Transform graph cannot be read.
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
