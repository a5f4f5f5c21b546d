"""Analyzes the errors of a run's published model in a separate process, so that it cannot harm the run.

    write_error_analysis(run_error_analysis(plan, model, fn_args, seconds=2), "model_run")

The calling process passes the analysis on as JSON values, so that it need not import what computes it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from ..engines import child_process
from ..errors import InputError
from ..examples_format import TF_EXAMPLE, has_examples
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..runtime.files import file_io
from ..runtime.files.json_data import JsonData
from ..runtime.logs.exceptions import one_line_message
from . import evaluated_examples
from .plan import ANALYSIS_FILE, UNKNOWN, EvaluationPlan

if TYPE_CHECKING:
    from ..fn_args import FnArgs

_WORKER = f"{__package__}.error_analysis_worker"  # imports TensorFlow
_LONGEST_FACTOR, _LONGEST_LOAD = 10, 60.0  # of the time limit, and seconds more, after which the process is ended


@dataclasses.dataclass(frozen=True)
class ErrorAnalysisRequest(JsonData):
    """Request to the process; see `run_error_analysis`.

    `evaluated` is the folder with the examples that the training process has evaluated; None to read `files`.
    """

    model: str
    plan: EvaluationPlan
    seconds: float
    files: Sequence[str] = ()
    transform_graph: str | None = None
    op_packages: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    evaluated: str | None = None
    payload: str = TF_EXAMPLE


def run_error_analysis(
    plan: EvaluationPlan,
    model: str,
    fn_args: FnArgs,
    *,
    raw_eval_files: Sequence[str] = (),
    op_packages: Mapping[str, Sequence[str]] | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float,
) -> Mapping[str, Any]:
    """Returns the `ErrorAnalysis` of a model as JSON values; never raises: without one, `problem` is the reason.

    Args:
      plan: The model's evaluation plan.
      model: The SavedModel's folder.
      fn_args: The run's arguments: eval files, their format, and the Transform graph.
      raw_eval_files: Patterns of the eval examples before Transform.
      op_packages: Packages to import first because they register ops; see `CheckReport`.
      environment: Environment variables of the process.
      seconds: Time limit for reading examples, and again for the permutation importance.
    """
    if plan.problem or all(one.task == UNKNOWN for one in plan.outputs):
        return {"problem": plan.problem or "no output of the model has a known task"}
    if fn_args.model_run_dir and evaluated_examples.are_in(fn_args.model_run_dir):
        return _analysis(ErrorAnalysisRequest(model, plan, seconds, evaluated=fn_args.model_run_dir), environment)
    if not plan.compares and fn_args.transform_graph_path and plan.examples != TRANSFORMED:
        return {"problem": "the label is unknown"}
    payload = fn_args.examples_format.payload
    if not has_examples(payload):
        return {"problem": f"the eval split is not of tf.Examples, but {payload}"}
    patterns: Sequence[str] = fn_args.eval_files or ()
    graph = fn_args.transform_graph_path
    if graph and raw_eval_files:
        patterns = raw_eval_files
    elif graph:
        if plan.examples != TRANSFORMED:
            return {"problem": "the model takes raw examples, and the eval split has transformed ones"}
        plan, graph = _plan_of_transformed(plan), None
    files = sorted(path for pattern in patterns for path in file_io.glob(pattern) if not file_io.isdir(path))
    if not files:
        return {"problem": "there is no eval split"}
    request = ErrorAnalysisRequest(model, plan, seconds, files, graph, op_packages or {}, payload=payload)
    return _analysis(request, environment)


def _analysis(request: ErrorAnalysisRequest, environment: Mapping[str, str] | None) -> Mapping[str, Any]:
    try:
        return child_process.run(
            _WORKER,
            request.to_json(),
            environment={"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **(environment or {})},
            timeout=_LONGEST_FACTOR * request.seconds + _LONGEST_LOAD,
            quiet=True,
            forked=True,
            what="error analysis",
        )
    except InputError as error:
        return {"problem": str(error)}
    except Exception as error:  # the model is published: nothing here may fail the run
        logging.info("The errors of the model could not be analyzed.", exc_info=True, extra={"kept_only": True})
        return {"problem": f"{type(error).__name__}: {one_line_message(error)}"}


def write_error_analysis(analysis: Mapping[str, Any], folder: str) -> None:
    """Writes an analysis into a folder; `error_analysis.read_error_analysis` reads it."""
    file_io.write_text(os.path.join(folder, ANALYSIS_FILE), json.dumps(analysis) + "\n")


def delete_error_analysis(folder: str) -> None:
    """Deletes the analysis of an earlier run in the same folder, if there is one."""
    path = os.path.join(folder, ANALYSIS_FILE)
    if file_io.exists(path):
        file_io.file_system(path).remove(path)


def _plan_of_transformed(plan: EvaluationPlan) -> EvaluationPlan:
    """Returns the plan for a split whose examples are transformed already."""
    outputs = tuple(dataclasses.replace(one, label_is_transformed=False) for one in plan.outputs)
    return dataclasses.replace(plan, examples=RAW, outputs=outputs)
