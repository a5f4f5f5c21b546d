"""Results of a pipeline's newest run, read from ML Metadata: artifact locations, evaluation metrics, verdict."""

from __future__ import annotations

import dataclasses

import ml_metadata as mlmd
from ml_metadata.proto.metadata_store_pb2 import Artifact, ConnectionConfig, Execution

from ...components.pusher import ALREADY_PUSHED, NOT_PUSHED
from ...executors.evaluation.metrics import EXAMPLE_COUNT
from ...executors.monitoring import run_record
from ...executors.monitoring.unchecked_model import unchecked_line
from ..definition.options import BASELINE
from ..history.evaluation_results import ALL, Evaluation, read_evaluation
from ..history.metadata_runs import metrics_of, push_destination
from ..history.metadata_store import MetadataReader
from ..history.run_artifacts import outputs_of


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Results of a finished pipeline run.

    Attributes:
      model: Folder of the Model artifact.
      model_run: Folder of the ModelRun artifact: TensorBoard logs and `run.json`.
      pushed_model: Folder of the pushed model, or None if it was not pushed.
      blessed: Whether the Evaluator blessed the model, or None without an Evaluator.
      metadata: Location of the ML Metadata store.
      metrics: {"eval": {...}} from the Evaluator over all examples, or the metrics logged during training.
      slices: The same metrics for each requested slice: {"trip_start_hour=3": {...}}.
      cached: IDs of the steps with a cache hit.
      already_pushed: Whether `pushed_model` existed before the run, so that nothing was pushed.
      plan: The evaluation plan in one line; "" without a plan, or if the evaluation failed.
      reason: Why the model was not blessed or not pushed, or why there was no quality threshold; "" if it met the
        threshold and was pushed.
    """

    model: str | None
    model_run: str | None
    pushed_model: str | None
    blessed: bool | None
    metadata: str
    metrics: dict[str, dict[str, float]]
    cached: tuple[str, ...]
    slices: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    already_pushed: bool = False
    plan: str = ""
    reason: str = ""


def outcome_of(config: ConnectionConfig, pipeline_name: str, displayed_metadata: str) -> Outcome:
    """Reads the results of a pipeline's newest run.

    Args:
      config: Connection configuration of the ML Metadata store.
      pipeline_name: The pipeline's name.
      displayed_metadata: The store's location as displayed to the user, for `Outcome.metadata`.
    """
    store = MetadataReader(mlmd.MetadataStore(config))
    [newest] = store.executions_in("pipeline", pipeline_name, limit=1)
    steps = store.executions_in("pipeline_run", store.contexts(newest.id)["pipeline_run"])
    # The baseline's Importer also outputs a Model, which this run did not train.
    executions = [step for step in steps if _node(store, step) != BASELINE]
    artifacts = {kind: made[-1] for kind, made in outputs_of(store, executions).items()}
    evaluation, blessing = artifacts.get("ModelEvaluation"), artifacts.get("ModelBlessing")
    pushed, model = artifacts.get("PushedModel"), artifacts.get("Model")
    results = read_evaluation(evaluation.uri) if evaluation is not None else Evaluation({})
    logs = artifacts["ModelRun"].uri if "ModelRun" in artifacts else None
    slices = {name: {metric: one.value for metric, one in found.items()} for name, found in results.slices.items()}
    overall = slices.pop(ALL, {})
    logged = metrics_of(model) if model is not None else {}
    if set(overall) <= {EXAMPLE_COUNT}:  # only the example count: add the metrics logged during training
        overall = {**logged.get("eval", {}), **overall} if overall or "eval" in logged else {}
    return Outcome(
        model=model.uri if model is not None else None,
        model_run=logs,
        pushed_model=push_destination(pushed) if pushed is not None else None,
        blessed=bool(blessing.custom_properties["blessed"].int_value) if blessing is not None else None,
        metadata=displayed_metadata,
        metrics={"eval": overall} if overall else logged,
        cached=tuple(sorted(_node(store, step) for step in executions if step.last_known_state == Execution.CACHED)),
        slices=slices,
        already_pushed=pushed is not None and bool(pushed.custom_properties[ALREADY_PUSHED].int_value),
        plan=results.verdict.plan_line if results.verdict and not results.verdict.failed else "",
        reason=_reason(results, pushed, unchecked_line(run_record.read(logs)) if logs else ""),
    )


def _reason(results: Evaluation, pushed: Artifact | None, unchecked: str) -> str:
    verdict = results.verdict
    if pushed is not None and (refused := pushed.custom_properties[NOT_PUSHED].string_value):
        return str(refused)
    if verdict is None:
        return "; ".join(f"{metric} of {name}: {why}" for name, metric, why in results.failures)
    is_pushed = pushed is not None and push_destination(pushed) is not None
    if verdict.blessed and not verdict.has_threshold:
        if unchecked:
            return f"{verdict.reason}; {'pushed although ' * is_pushed}{unchecked}."
        return f"{verdict.reason}; {'pushed because ' * is_pushed}the SavedModel check passed."
    return verdict.reason


def _node(store: MetadataReader, execution: Execution) -> str:
    node: str = store.contexts(execution.id).get("node", execution.type)
    return node.rpartition(".")[2]
