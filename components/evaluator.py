"""A drop-in for TFX's Evaluator that evaluates by an evaluation plan, with this project's batch inference.

Labels, task, outputs and signatures are derived from the trained model (`executors/evaluation`), which also covers
models that TFMA's inference cannot call. With an `eval_config` TFX's Evaluator runs, with AUC by rank.

    evaluator = Evaluator(
        examples=example_gen.outputs["examples"], model=trainer.outputs["model"],
        model_run=trainer.outputs["model_run"], schema=…, transform_graph=…, overrides=Overrides({"": "big_tip"}),
    )

A model that cannot be evaluated does not fail this step: the reason is in `verdict.json` in the evaluation's folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

import tensorflow_model_analysis as tfma
from absl import logging
from tensorflow_model_analysis.proto.config_pb2 import EvalConfig
from tfx import types
from tfx.components.evaluator import component, constants, executor
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import artifact_utils, standard_artifacts, standard_component_specs
from tfx.types.component_spec import ChannelParameter, ExecutionParameter
from tfx.utils import io_utils, json_utils, proto_utils

from ..executors.errors import InputError
from ..executors.evaluation.analysis import Analysis, Candidate, analyze
from ..executors.evaluation.blessing import missed_thresholds
from ..executors.evaluation.corrected_metrics import corrected
from ..executors.evaluation.metrics import has_threshold, has_thresholds
from ..executors.evaluation.plan import EvaluationPlan, Overrides
from ..executors.evaluation.planning import is_compatible, plan_for_model
from ..executors.evaluation.recorded_plan import record_of
from ..executors.evaluation.trivial_comparison import comparisons_in, with_comparisons
from ..executors.evaluation.verdict import Verdict
from ..executors.monitoring import run_record
from ..executors.monitoring.run_record import RunRecord
from ..executors.runtime.files import file_io
from ..executors.runtime.files.artifact_files import only_file_in
from ..executors.runtime.logs.exceptions import one_line_message
from ..executors.runtime.logs.remembered_error import remember_error
from ..executors.saved_models.base_model import base_model_path
from ..executors.saved_models.prediction.predict import SignatureError
from .batch_dependent_models import ALLOW, refusal

_EVAL = "eval"


class EvaluatorSpec(standard_component_specs.EvaluatorSpec):  # type: ignore[misc]
    """TFX's EvaluatorSpec, extended by the parameters and inputs from which an evaluation plan is made."""

    PARAMETERS = {  # noqa: RUF012  (as in TFX)
        **standard_component_specs.EvaluatorSpec.PARAMETERS,
        "overrides": ExecutionParameter(type=str, optional=True),
        "plan": ExecutionParameter(type=str, optional=True),
        "slice_by": ExecutionParameter(type=str, optional=True),
        "threshold_slack": ExecutionParameter(type=float, optional=True),
        "allow_trivial": ExecutionParameter(type=int, optional=True),
        "analysis_seconds": ExecutionParameter(type=float, optional=True),
        ALLOW: ExecutionParameter(type=int, optional=True),
    }
    INPUTS = {  # noqa: RUF012
        **standard_component_specs.EvaluatorSpec.INPUTS,
        "model_run": ChannelParameter(type=standard_artifacts.ModelRun, optional=True),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph, optional=True),
    }


class EvaluatorProperties(TypedDict, total=False):
    """The execution properties of `EvaluatorSpec` that are read here, and the component ID that TFX adds."""

    eval_config: str | None
    example_splits: str | None
    overrides: str | None
    plan: str | None
    slice_by: str | None
    threshold_slack: float | None
    allow_trivial: int | None
    analysis_seconds: float | None
    allow_batch_dependent: int | None
    current_component_id: str


class EvaluatorExecutor(executor.Executor):
    """Evaluates a model by an evaluation plan, or as TFX does if there is an `eval_config`."""

    @remember_error()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: EvaluatorProperties,
    ) -> None:
        """Evaluates the model and decides whether it is blessed.

        Args:
          input_dict: `examples` (raw) and `model`; optional: `baseline_model`, `model_run`, `schema`,
            `transform_graph`.
          output_dict: `evaluation` and `blessing`.
          exec_properties: `eval_config`, or else `overrides`, `plan`, `slice_by`, `threshold_slack` and
            `analysis_seconds`; `example_splits`, `allow_trivial`, `allow_batch_dependent`.
        """
        if config := exec_properties.get("eval_config"):
            self._evaluate_by(proto_utils.json_to_proto(config, EvalConfig()), input_dict, output_dict, exec_properties)
            return
        self._log_startup(input_dict, output_dict, exec_properties)
        evaluation = artifact_utils.get_single_instance(output_dict["evaluation"])
        [blessing] = output_dict["blessing"]
        verdict = self._verdict(_Inputs(input_dict, exec_properties), evaluation.uri)
        verdict = _without_batch_dependence(verdict, input_dict, exec_properties)
        _log_verdict(verdict)
        verdict.write(evaluation.uri)
        evaluation.set_string_custom_property("evaluation_plan", verdict.plan_line)
        _record_blessing(blessing, verdict, input_dict, exec_properties)

    def _evaluate_by(
        self,
        config: EvalConfig,
        inputs: dict[str, list[types.Artifact]],
        outputs: dict[str, list[types.Artifact]],
        properties: EvaluatorProperties,
    ) -> None:
        """Evaluates as TFX, but by rank and against trivial models, and blesses a model without a threshold."""
        allow_trivial = bool(properties.get("allow_trivial"))
        compared, notes = with_comparisons(corrected(config), allow_trivial=allow_trivial)
        super().Do(inputs, outputs, {**properties, "eval_config": proto_utils.proto_to_json(compared)})
        folder = artifact_utils.get_single_uri(outputs["evaluation"])
        used = tfma.utils.update_eval_config_with_defaults(
            compared, has_baseline=bool(inputs.get("baseline_model")), rubber_stamp=True
        )
        refusals, warnings = _refusals(used, folder, allow_trivial=allow_trivial)
        verdict = Verdict(not refusals, reason="; ".join(refusals), notes=(*notes, *warnings))
        if not has_thresholds(used):
            why = "none applies without a baseline model" if has_thresholds(compared) else "it has none"
            reason = f"No quality threshold in the EvalConfig: {why}"
            verdict = dataclasses.replace(verdict, reason=reason, has_threshold=False)
        verdict = _without_batch_dependence(verdict, inputs, properties)
        _log_verdict(verdict)
        verdict.write(folder)
        _record_blessing(outputs["blessing"][0], verdict, inputs, properties)

    def _verdict(self, inputs: _Inputs, output: str) -> Verdict:
        plan = EvaluationPlan()
        try:
            plan = inputs.plan()
            if plan.problem or not plan.outputs:
                return _verdict_without_threshold(plan)
            return self._evaluate(inputs, plan, output)
        except InputError as error:
            if isinstance(error, SignatureError):  # raised for every example: the model does not work
                return _failed_verdict(plan, error)
            return _verdict_without_threshold(dataclasses.replace(plan, problem=str(error)))
        except Exception as error:  # a failed evaluation must not discard a trained and checked model
            return _failed_verdict(plan, error)

    def _evaluate(self, inputs: _Inputs, plan: EvaluationPlan, output: str) -> Verdict:
        baseline, notes = inputs.baseline(plan)
        analysis = Analysis(
            inputs.files(),
            Candidate(inputs.model, plan),
            baseline,
            inputs.transform_graph,
            inputs.slice_by,
            inputs.threshold_slack,
            inputs.allow_trivial,
            " and ".join(inputs.splits),
            inputs.analysis_seconds,
            inputs.payload(),
        )
        result = analyze(analysis, self._make_beam_pipeline(), output)
        refusals, warnings = _refusals(result.config, output, allow_trivial=inputs.allow_trivial)
        if result.plan.is_guess and has_threshold(result.plan):
            # The other refusals are of its metrics; the training may not have fitted this output.
            refusals = [f"the evaluated output {result.plan.outputs[0].output} is {result.plan.reasons['output']}"]
        notes = (*notes, *result.notes, *warnings)
        if not refusals and not has_threshold(result.plan):
            return dataclasses.replace(_verdict_without_threshold(result.plan), notes=notes)
        return Verdict(
            blessed=not refusals,
            plan=result.plan.to_json(),
            reason="; ".join(refusals),
            notes=notes,
            class_names=result.class_names,
        )


class Evaluator(component.Evaluator):
    """`tfx.components.Evaluator` with an evaluation plan instead of an `eval_config`."""

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(EvaluatorExecutor)

    def __init__(  # noqa: PLR0913 (the arguments of TFX's component, and ours)
        self,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        baseline_model: types.BaseChannel | None = None,
        *,
        model_run: types.BaseChannel | None = None,
        schema: types.BaseChannel | None = None,
        transform_graph: types.BaseChannel | None = None,
        overrides: Overrides | None = None,
        plan: EvaluationPlan | None = None,
        slice_by: Sequence[str] = (),
        threshold_slack: float = 0.0,
        allow_trivial: bool = False,
        analysis_seconds: float = 2.0,
        allow_batch_dependent: bool = False,
        example_splits: Sequence[str] | None = None,
        eval_config: EvalConfig | None = None,
    ) -> None:
        """Constructs the component.

        Args:
          examples: Raw examples.
          model: The model to evaluate.
          baseline_model: The model to compare with.
          model_run: The Trainer's ModelRun, whose run record holds the losses and labels used in training.
          schema: Schema of the raw examples.
          transform_graph: Transform's output, for labels and signatures that need transformed features.
          overrides: User-defined parts of the plan, such as the label.
          plan: An existing plan. If it does not fit the trained model, a new plan is made from the model.
          slice_by: Names of features; metrics are also computed for each of their values.
          threshold_slack: By how much the deciding metric may be worse than the baseline's (default: 0).
          allow_trivial: Whether to bless a model that is no better than a trivial one, such as the mean of the labels.
          analysis_seconds: Time limit of the error analysis (see `TrainingOptions.analysis_seconds`); 0 for none.
          allow_batch_dependent: Whether to bless a model whose answer for an example depends on the others of its
            batch.
          example_splits: Splits to evaluate on (default: "eval").
          eval_config: A tfma.EvalConfig. If given, TFX's Evaluator runs with it, without a plan, except that
            AUC is computed by rank, that metrics with a threshold are compared with those of trivial models, and that
            a model is blessed if no threshold applies.
        """
        plan_properties: dict[str, object] = {}
        if eval_config is None:
            plan_properties = {
                "overrides": json.dumps(dataclasses.asdict(overrides or Overrides()), sort_keys=True),
                "plan": json.dumps(plan.to_json(), sort_keys=True) if plan else None,
                "slice_by": json.dumps(list(slice_by)),
                "threshold_slack": threshold_slack,
                "analysis_seconds": analysis_seconds,
                "model_run": model_run,
                "transform_graph": transform_graph,
                "schema": schema,
            }
        spec = EvaluatorSpec(
            examples=examples,
            model=model,
            baseline_model=baseline_model,
            example_splits=json_utils.dumps(list(example_splits) if example_splits else None),
            eval_config=eval_config,
            allow_trivial=int(allow_trivial),
            allow_batch_dependent=int(allow_batch_dependent),
            evaluation=types.Channel(type=standard_artifacts.ModelEvaluation),
            blessing=types.Channel(type=standard_artifacts.ModelBlessing),
            **plan_properties,
        )
        base_beam_component.BaseBeamComponent.__init__(self, spec=spec)


class _Inputs:
    """The executor's inputs and execution properties as paths and values."""

    def __init__(self, artifacts: Mapping[str, list[types.Artifact]], properties: EvaluatorProperties) -> None:
        self._artifacts, self._properties = artifacts, properties
        self._model_uri = artifact_utils.get_single_uri(artifacts["model"])
        self.model = base_model_path(self._model_uri)
        self.transform_graph = self._uri("transform_graph")
        self.slice_by: tuple[str, ...] = tuple(json.loads(properties.get("slice_by") or "[]"))
        self.threshold_slack = float(properties.get("threshold_slack") or 0.0)
        self.allow_trivial = bool(properties.get("allow_trivial"))
        self.splits: list[str] = json_utils.loads(properties.get("example_splits") or "null") or [_EVAL]
        self.analysis_seconds = float(properties.get("analysis_seconds") or 0.0)

    def plan(self) -> EvaluationPlan:
        """Returns the given plan if it fits the model, else a plan made from the model."""
        given = self._properties.get("plan")
        plan = EvaluationPlan.from_json(json.loads(given)) if given else None
        # A plan with targets of label values is from a small sample, which may lack some of the values.
        run = self._uri("model_run")
        if (
            plan is not None
            and not plan.problem
            and not (run and plan.label_values)
            and is_compatible(plan, self.model)
        ):
            return plan
        return self._plan_for(self.model, run_record.read(run or ""))

    def baseline(self, plan: EvaluationPlan) -> tuple[Candidate | None, tuple[str, ...]]:
        """Returns the baseline model with its plan, or None with notes on why it is excluded from the comparison."""
        uri = self._uri("baseline_model")
        if uri is None:
            return None, ()
        try:
            model = base_model_path(uri)
            own_targets = plan.label_values or any(output.label_scale for output in plan.outputs)
            is_same = not own_targets and is_compatible(plan, model)
            baseline_plan = plan if is_same else self._plan_for(model, record_of(model))
        except Exception as error:
            return None, (f"The baseline model {uri} was excluded from the comparison: {one_line_message(error)}",)
        differing = "outputs" if len(baseline_plan.outputs) != len(plan.outputs) else "targets of the label's values"
        if baseline_plan.problem or differing == "outputs" or baseline_plan.label_values != plan.label_values:
            why = baseline_plan.problem or f"its {differing} differ"
            return None, (f"The baseline model {uri} was excluded from the comparison: {why}",)
        return Candidate(model, baseline_plan), ()

    def files(self) -> list[str]:
        """Returns the paths of the example files of the splits to evaluate on.

        Raises:
          ValueError: When the examples do not have one of the splits.
        """
        folders = [
            uri for split in self.splits for uri in artifact_utils.get_split_uris(self._artifacts["examples"], split)
        ]
        return [path for folder in folders for path in sorted(file_io.glob(os.path.join(folder, "*")))]

    def payload(self) -> str:
        """Returns the payload format of the examples."""
        return self._artifacts["examples"][0].get_string_custom_property("payload_format") or Analysis.payload

    def _plan_for(self, model: str, record: RunRecord) -> EvaluationPlan:
        overrides = Overrides(**json.loads(self._properties.get("overrides") or "{}"))
        schema = self._uri("schema")
        schema_path = only_file_in(schema, "schema") if schema else None
        return plan_for_model(model, record, schema_path, self.transform_graph, overrides)

    def _uri(self, key: str) -> str | None:
        found = self._artifacts.get(key)
        return found[0].uri if found else None


def _refusals(config: EvalConfig, folder: str, *, allow_trivial: bool) -> tuple[list[str], list[str]]:
    """Returns all reasons to keep the model back, and warnings, from TFMA's results in a folder."""
    comparisons = comparisons_in(folder, config)
    refusals = missed_thresholds(folder, comparisons) if has_thresholds(config) else []
    close = [one.text for one in comparisons.values() if one.text and (one.is_better or allow_trivial)]
    return refusals, close


def _without_batch_dependence(
    verdict: Verdict, inputs: Mapping[str, list[types.Artifact]], properties: EvaluatorProperties
) -> Verdict:
    """Returns the verdict, not blessed if the model's answers depend on the batch.

    A blessed model is the baseline of the next ones, and no evaluation holds for this one.
    """
    problem = refusal(inputs["model"], is_allowed=bool(properties.get(ALLOW)))
    if not problem:
        return verdict
    reasons = [problem] if verdict.blessed else [verdict.reason.rstrip("."), problem]
    return dataclasses.replace(verdict, blessed=False, reason="; ".join(reasons))


def _failed_verdict(plan: EvaluationPlan, error: Exception) -> Verdict:
    logging.info("The evaluation failed.", exc_info=error, extra={"kept_only": True})
    return Verdict(
        blessed=False,
        plan=plan.to_json(),
        reason=f"The evaluation failed: {type(error).__name__}: {one_line_message(error)}",
        has_threshold=False,
        failed=True,
    )


def _verdict_without_threshold(plan: EvaluationPlan) -> Verdict:
    if plan.problem:
        why = f"the model was not evaluated: {plan.problem}"
    elif not plan.outputs or not plan.outputs[0].label:
        why = "no label is known"
    else:
        loss = plan.outputs[0].loss
        why = f"the task is {plan.outputs[0].task}" + (f" (loss {loss})" if loss else "")
    reason = f"No quality threshold: {why.rstrip('.')}"
    return Verdict(blessed=True, plan=plan.to_json(), reason=reason, has_threshold=False)


def _log_verdict(verdict: Verdict) -> None:
    for note in verdict.notes:
        logging.warning("%s", note)
    if verdict.failed:
        logging.warning(
            "%s. The model is kept, but neither blessed nor pushed. To change the evaluation, set --label, --task, "
            "--scores, --eval-signature or --eval-output.",
            verdict.reason.rstrip("."),
        )
    elif verdict.plan:
        logging.info("Evaluated: %s", verdict.plan_line)


def _record_blessing(
    blessing: types.Artifact,
    verdict: Verdict,
    inputs: Mapping[str, list[types.Artifact]],
    properties: EvaluatorProperties,
) -> None:
    """Records the verdict on the ModelBlessing artifact, as TFX's Evaluator does."""
    [model] = inputs["model"]
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    if inputs.get("baseline_model"):
        [baseline] = inputs["baseline_model"]
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline.uri)
        blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, baseline.id)
    if "current_component_id" in properties:
        blessing.set_string_custom_property("component_id", properties["current_component_id"])
    value = constants.BLESSED_VALUE if verdict.blessed else constants.NOT_BLESSED_VALUE
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, value)
    if file_io.exists(blessing.uri):  # TFX's Evaluator may have written another blessing
        file_io.rmtree(blessing.uri)
    if verdict.failed:
        return  # without an output folder there is no cache hit, so the next run repeats the evaluation
    name = constants.BLESSED_FILE_NAME if verdict.blessed else constants.NOT_BLESSED_FILE_NAME
    io_utils.write_string_file(os.path.join(blessing.uri, name), "")
