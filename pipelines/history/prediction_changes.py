"""Compares the predictions of two runs' models on the eval split of the second run.

changes = compare_predictions(find_run("4f0c1a2b"), find_run("last"))
changes.outputs[0].metrics[0].is_significant
"""

from __future__ import annotations

from ...executors.errors import InputError
from ...executors.evaluation.model_comparison import ComparedModel, ModelComparison, run_model_comparison
from ...executors.evaluation.plan import EvaluationPlan
from ...executors.evaluation.verdict import read_verdict
from ...executors.examples_format import has_examples
from ...executors.monitoring.run_record import SUCCEEDED
from ...executors.runtime.files import file_io
from ...executors.saved_models.base_model import base_model_path
from .run import CACHED, Run
from .run_artifacts import example_files, payload_of

_SECONDS = 10.0  # time limit for reading examples


def compare_predictions(first: Run, second: Run) -> ModelComparison:
    """Runs both models on a sample of the second run's eval split; if that is impossible, `problem` is the reason.

    TensorFlow is imported in a subprocess, and only if both models and the examples exist.
    """
    try:
        if first.model and first.model == second.model:
            return ModelComparison(problem="both runs have the same model")
        models = [_model(name, run) for name, run in (("first", first), ("second", second))]
        if not has_examples(payload_of(second)):
            raise InputError(f"the second run's eval split is not of tf.Examples, but {payload_of(second)}")
        files = example_files(second, "eval")
        if not files:
            raise InputError("the second run's eval split does not exist: it was deleted, or there was none")
    except InputError as error:
        return ModelComparison(problem=str(error))
    return run_model_comparison(models, files, seconds=_SECONDS, payload=payload_of(second))


def _model(name: str, run: Run) -> ComparedModel:
    """Returns a run's model.

    Raises:
      InputError: If there is no model, it was deleted, or it has no evaluation plan.
    """
    if run.status not in (SUCCEEDED, CACHED):
        raise InputError(f"the {name} run has no model (status: {run.status})")
    if not run.model or not file_io.isdir(run.model):
        raise InputError(f"the {name} run's model was deleted, or replaced by a later run")
    plan = _plan(name, run)
    if plan.problem:
        raise InputError(f"the {name} run: {plan.problem}")
    graph = run.record.arguments.get("transform_graph_path")
    if graph and not file_io.isdir(graph):
        raise InputError(f"the {name} run's Transform graph was deleted: {graph}")
    return ComparedModel(base_model_path(run.model), plan.to_json(), graph)


def _plan(name: str, run: Run) -> EvaluationPlan:
    """Returns the plan of a run's Evaluator, which knows the options on labels; else the plan of its training.

    Raises:
      InputError: If there is neither.
    """
    verdict = read_verdict(run.evaluation) if run.evaluation else None
    if verdict and verdict.plan:
        return EvaluationPlan.from_json(verdict.plan)
    if not run.record.parts.get("evaluation_plan"):
        raise InputError(f"the {name} run's record has no evaluation plan")
    return run.record.part("evaluation_plan", EvaluationPlan)
