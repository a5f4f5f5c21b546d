"""Plans the evaluation in the check of the model, and analyzes the errors of the published one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ...evaluation import evaluated_examples
from ...evaluation.plan import EvaluationPlan
from ...evaluation.run_error_analysis import delete_error_analysis, run_error_analysis, write_error_analysis
from ...saved_models.locations import find_saved_model
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class ErrorAnalysis(RunCallback):
    """Analyzes the errors of the published model.

    Parts of the record:
      evaluation_evidence: What training shows of the task: losses, labels and inputs of the last Keras fit, as
        `evaluation.evidence.TrainingEvidence`; empty without a Keras fit.
      evaluation_plan: How the model is evaluated, as `evaluation.plan.EvaluationPlan`; empty before the model's check.
    """

    parts: ClassVar[Mapping[str, object]] = {"evaluation_evidence": {}, "evaluation_plan": {}}

    @contextlib.contextmanager
    def training(self, run: Run) -> Iterator[None]:
        """Deletes what an earlier training has left, in the chief of a cluster only."""
        if run.place.is_chief:
            delete_error_analysis(run.fn_args.model_run_dir)
            if not run.record.resumed_model:
                evaluated_examples.delete(run.fn_args.model_run_dir)
        yield

    def merge(self, part: Any, run: Run) -> None:
        """Records the evidence of the training."""
        run.record.parts["evaluation_evidence"] = part

    @contextlib.contextmanager
    def check(self, run: Run) -> Iterator[None]:
        """Lets the check of the model plan the evaluation, and records the plan."""
        run.check_parts["evaluation"] = {"evidence": dict(run.record.parts["evaluation_evidence"])}
        yield
        run.record.parts["evaluation_plan"] = run.record.check["parts"].pop("evaluation", {})

    @contextlib.contextmanager
    def published(self, run: Run) -> Iterator[None]:
        """Analyzes the errors within `analysis_seconds`."""
        model, seconds = find_saved_model(run.fn_args.serving_model_dir), run.options.analysis_seconds
        plan = run.record.parts["evaluation_plan"]
        if seconds and model is not None and plan:
            with run.timed("analysis"):
                analysis = run_error_analysis(
                    EvaluationPlan.from_json(plan),
                    model,
                    run.fn_args,
                    raw_eval_files=run.raw_eval_files,
                    op_packages=run.record.check["op_packages"],
                    environment=run.keras.environment(),
                    seconds=seconds,
                )
                write_error_analysis(analysis, run.fn_args.model_run_dir)
        evaluated_examples.delete(run.fn_args.model_run_dir)
        yield
