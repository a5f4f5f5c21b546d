"""Makes the evaluation plan of a trained model from its run record, without a trial.

plan = plan_for_model("pipeline/Trainer/model/7", "pipeline/Trainer/model_run/7", "schema.pbtxt", graph, overrides)
"""

from __future__ import annotations

from ..monitoring import run_record
from ..monitoring.run_record import RunRecord
from .evidence import TrainingEvidence
from .plan import EvaluationPlan, Overrides
from .planning import plan_of


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
