"""The Trainer step of a pipeline: from artifacts and execution properties to a published model, on any orchestrator.

`GenericExecutor` passes TFX artifacts; `kubeflow_step` passes those of Kubeflow Pipelines without importing TFX.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from ..checkpoints.directory import step_checkpoint_root
from ..errors import ModuleError
from ..fn_args import FnArgs
from ..monitoring import run_record
from ..monitoring.report_file import path_in
from ..monitoring.run_record import RunRecord
from ..options import TrainingOptions
from ..runtime.logs.sanitize import printable
from ..runtime.logs.setup import announce
from ..saved_models.model_check import BATCH_DEPENDENCE, BATCHES
from .after_publishing import warned_after_publishing
from .artifacts import Artifact, Artifacts, fn_args_from_artifacts, raw_eval_files
from .run import record_failure, train

_MODULES = ("module_path", "module_file", "run_fn", "trainer_fn")  # properties in TFX's order of precedence


def train_from_artifacts(inputs: Artifacts, outputs: Artifacts, properties: Mapping[str, object]) -> None:
    """Trains the module named in the properties, and sets the run's results as custom properties of the artifacts.

    Args:
      inputs: Artifacts by key: examples (required); transform_graph, schema, base_model, hyperparameters,
        statistics and raw_examples if connected.
      outputs: Artifacts by key: model and model_run.
      properties: Execution properties of TFX's Trainer, and the fields of `TrainingOptions`.

    Raises:
      TrainerError: If an input is invalid or the model fails its check.
      Exception: Exceptions raised by the module, with their original type and traceback.
    """
    [model], [model_run] = outputs["model"], outputs["model_run"]
    with _failure_recorded(model_run.uri, properties):
        options = TrainingOptions.from_exec_properties(properties)
        fn_args = fn_args_from_artifacts(inputs, outputs, properties)
        module, function = _module_of(properties)
        record = train(
            module,
            fn_args,
            options,
            function=function,
            checkpoint_root=step_checkpoint_root(model_run.uri),
            raw_eval_files=raw_eval_files(inputs, fn_args, properties),
        )
    with warned_after_publishing():
        _describe_run(model, model_run, fn_args.serving_model_dir, record)


def _describe_run(model: Artifact, model_run: Artifact, serving_model_dir: str, record: RunRecord) -> None:
    model_run.set_string_custom_property("run_record", record.path)
    model_run.set_string_custom_property("run_id", record.id)
    report = path_in(model_run.uri)
    if report:
        model_run.set_string_custom_property("report", report)
    if not record.check:
        logging.info("This cluster task has finished; the chief publishes the model.")
        return
    _describe(model, record)
    announce(f"Model published to {serving_model_dir}; TensorBoard logs are below {model_run.uri}.")
    announce(_metrics_line(record))
    announce(f"Report: {report}" if report else f"Run record: {record.path}")


@contextlib.contextmanager
def _failure_recorded(folder: str, properties: Mapping[str, object]) -> Iterator[None]:
    """Writes the run record and the report if the block fails before `train` has created its own record."""
    try:
        yield
    except Exception as error:
        if run_record.status_of(folder) is None:
            module = str(next(filter(None, map(properties.get, _MODULES)), ""))
            record_failure(error, module, FnArgs(model_run_dir=folder), step_checkpoint_root(folder))
        raise


def _module_of(properties: Mapping[str, Any]) -> tuple[str, str | None]:
    """Returns the module reference and the name of the function to run, by TFX's precedence."""
    module_path, module_file, run_fn, trainer_fn = (properties.get(key) or None for key in _MODULES)
    function = run_fn or trainer_fn
    if module_path or module_file:
        return str(module_path or module_file), function
    if function:
        return str(function), None
    raise ModuleError("no module is given: set module_file (a path) or run_fn (package.module.function).")


def _metrics_line(record: RunRecord) -> str:
    """Returns the eval metrics, or the train metrics without any: "Eval metrics: accuracy 0.9667, loss 0.1043"."""
    split = "eval" if record.metrics.get("eval") else "train"
    values = ", ".join(f"{name} {value:.5g}" for name, value in record.metrics.get(split, {}).items())
    return printable(f"{split.capitalize()} metrics: {values or 'none'}")


def _describe(model: Artifact, record: RunRecord) -> None:
    """Sets the model's metrics, signatures, check results and size as custom properties, for lineage tools."""
    for split, values in record.metrics.items():
        for name, value in values.items():
            model.set_float_custom_property(f"{split}/{name}", float(value))
    model.set_string_custom_property("dialect", record.dialect["name"])
    model.set_string_custom_property("keras", record.keras["version"])
    model.set_string_custom_property("module_fingerprint", record.code["fingerprint"])
    if not record.check:  # a script that needs no model wrote none
        return
    model.set_string_custom_property("signatures", ", ".join(record.check["signatures"]))
    model.set_string_custom_property("checks", "; ".join(f"{k}: {v}" for k, v in record.check["checks"].items()))
    if record.check["batch_dependence"]:
        model.set_string_custom_property(BATCH_DEPENDENCE, record.check["checks"][BATCHES])
    model.set_string_custom_property("answer", f"{record.check['answer']} to {record.check['example']}")
    model.set_int_custom_property("size_bytes", record.check["size_bytes"])
