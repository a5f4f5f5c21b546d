"""Logs a training to MLflow: parameters, metrics, tags, the model with its signature, `run.json` and the report.

The server is that of MLflow's usual environment variables: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME or
MLFLOW_EXPERIMENT_ID, and MLFLOW_RUN_ID for an existing run. The MLflow run exists while the training is in progress,
and a module's own `mlflow.start_run()` in the training process continues it.

    with tracked(record, fn_args.model_run_dir, fn_args.serving_model_dir, "http://mlflow:5000", is_required=False):
        ...                          # trains
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from absl import logging

from ...errors import InputError
from ...monitoring.report_file import FILE_NAME as REPORT
from ...monitoring.run_record import FAILED, FILE_NAME, INTERRUPTED, RUN_SPECIFIC_ARGUMENTS, SUCCEEDED, RunRecord
from ...monitoring.series import EPOCH, read_metrics
from ...runtime.files import file_io
from ...runtime.logs.redaction import masked_text
from ...runtime.process.run_environment import extended_environment, inherited_environment
from ...runtime.process.shared_setting import SharedSetting
from ...saved_models.locations import find_saved_model

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import Model, ModelSignature

    from ...monitoring.run_json import SignatureTensors

RUN_ID = "MLFLOW_RUN_ID"
# MLflow's defaults wait ten minutes for a server that does not respond.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": 3, "MLFLOW_HTTP_REQUEST_TIMEOUT": 30}
_KIND = {"mlflow.experimentKind": "custom_model_development"}  # its page shows trainings, not traces of agents
_STATUS = {SUCCEEDED: "FINISHED", FAILED: "FAILED", INTERRUPTED: "KILLED"}
_SAVED_MODEL = "saved_model"
_SPEC = re.compile(r"(\w+) \((.*)\)")  # a tensor in the record of the model's check: "float32 (?, 1)"
_MOST_METRICS, _MOST_PARAMETERS, _LONGEST_PARAMETER = 1000, 100, 6000  # of MLflow's REST API
_UNTRACKED = (*RUN_SPECIFIC_ARGUMENTS, "options")


@contextlib.contextmanager
def tracked(
    record: RunRecord, model_run_dir: str, serving_model_dir: str, server: str, is_required: bool
) -> Iterator[None]:
    """Logs the run of the block to MLflow, also if it raises.

    Args:
      record: The run's record; complete at the end of the block.
      model_run_dir: Folder with `run.json`, the report and TensorBoard's event files.
      serving_model_dir: Folder of the published model.
      server: The server, for messages; "" for MLflow's default.
      is_required: Whether the user asked for MLflow.

    Raises:
      InputError: If `is_required`, and MLflow is not installed or its server does not respond at the beginning.
        Otherwise, and at the end of the block, such errors are logged as warnings: they must not stop or discard a
        training.
    """
    with _PATIENT.held():
        run = _begin(record, model_run_dir, server, is_required)
    if run is None:
        yield
        return
    try:
        with extended_environment({RUN_ID: run.id}):
            yield
    finally:
        with _PATIENT.held():
            run.finish(serving_model_dir)


def _begin(record: RunRecord, model_run_dir: str, server: str, is_required: bool) -> _Run | None:
    try:
        if find_spec("mlflow") is None:
            raise InputError("mlflow is not installed: pip install 'generic-trainer[mlflow]'.")
        return _Run(record, model_run_dir)
    except Exception as error:
        message = masked_text(f"MLflow at {server or 'its default location'}: {error}")
        if is_required:
            raise InputError(f"--track mlflow: {message}") from error
        logging.warning("The run is not logged to %s", message)
        return None


class _Run:
    """A run in MLflow."""

    def __init__(self, record: RunRecord, model_run_dir: str) -> None:
        import mlflow

        self._client = mlflow.MlflowClient()
        self._record = record
        self._model_run_dir = model_run_dir
        known = inherited_environment().get(RUN_ID)
        self.id: str = known or self._client.create_run(_experiment(self._client)).info.run_id

    def finish(self, serving_model_dir: str) -> None:
        """Logs everything, part by part: a part that fails is a warning, and the others are still logged."""
        steps: dict[str, Callable[[], object]] = {
            "the parameters": self._log_parameters,
            "the tags": self._log_tags,
            "the metrics": self._log_metrics,
            "run.json and the report": self._log_files,
            "the model": lambda: self._log_model(serving_model_dir),
            "the status": lambda: self._client.set_terminated(self.id, _STATUS.get(self._record.status, "FAILED")),
        }
        for what, log in steps.items():
            try:
                log()
            except Exception as error:  # of the server, the network, or MLflow
                logging.warning("MLflow: %s could not be logged: %s", what, masked_text(str(error)))

    def _log_parameters(self) -> None:
        from mlflow.entities import Param

        parameters = [Param(name, text) for name, text in _parameters(self._record.arguments).items()]
        for begin in range(0, len(parameters), _MOST_PARAMETERS):
            self._client.log_batch(self.id, params=parameters[begin : begin + _MOST_PARAMETERS])

    def _log_tags(self) -> None:
        from mlflow.entities import RunTag

        record = self._record
        name = str(record.code.get("name") or record.code.get("reference") or "training")
        tags = {
            "mlflow.runName": f"{name.rpartition('.')[2]} {record.id[:8]}",
            "mlflow.source.name": record.code.get("path") or record.code.get("reference"),
            "mlflow.source.type": "LOCAL",
            "generic_trainer.run": record.id,
            "generic_trainer.model_run": self._model_run_dir,
            "dialect": record.dialect.get("name"),
            "keras": record.keras.get("version"),
            "module_fingerprint": record.code.get("fingerprint"),
            **{f"version.{package}": version for package, version in record.stack.items()},
            **({"error": f"{record.error['type']}: {record.error['message']}"[:5000]} if record.error else {}),
        }
        self._client.log_batch(self.id, tags=[RunTag(key, str(text)) for key, text in tags.items() if text])

    def _log_metrics(self) -> None:
        """Logs the curves of TensorBoard, and the metrics of the published weights as `model/eval/loss`."""
        from mlflow.entities import Metric

        logged = read_metrics(self._model_run_dir)
        by_epoch = {metric.name for metric in logged if metric.axis == EPOCH}
        curves = [
            Metric(_metric_name(f"{split}/{metric.name}{suffix}"), value, int(moment * 1000), step)
            for metric in logged
            for suffix in (" by step" if metric.axis != EPOCH and metric.name in by_epoch else "",)
            for split, curve in metric.splits.items()
            for step, value, moment in zip(curve.steps, curve.values, curve.moments, strict=True)
            if value is not None
        ]
        end = int(datetime.datetime.now().timestamp() * 1000)
        final = [
            Metric(_metric_name(f"model/{split}/{name}"), value, end, 0)
            for split, values in self._record.metrics.items()
            for name, value in values.items()
        ]
        metrics = [*curves, *final]
        for begin in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self.id, metrics=metrics[begin : begin + _MOST_METRICS])

    def _log_files(self) -> None:
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
            for name in (FILE_NAME, REPORT):
                path = os.path.join(self._model_run_dir, name)
                if file_io.exists(path):
                    file_io.copy(path, os.path.join(folder, name))
            self._client.log_artifacts(self.id, folder)

    def _log_model(self, serving_model_dir: str) -> None:
        from mlflow.models import Model

        place = find_saved_model(serving_model_dir) if self._record.status == SUCCEEDED else None
        asked = self._record.check.get("asked")
        if place is None or not asked:
            return
        signature = _signature(self._record.check["signatures"][asked])
        flavor = _SavedModelFlavor(place, asked)
        Model.log(artifact_path=None, name="model", flavor=flavor, run_id=self.id, signature=signature)


@dataclasses.dataclass(frozen=True)
class _SavedModelFlavor:
    """Saves a SavedModel as an MLflow model that `mlflow.pyfunc` and `mlflow.tensorflow` load.

    MLflow has no function for a SavedModel that exists already. Its flavor for one is called "tf1-estimator", whoever
    wrote it: `mlflow.tensorflow.load_model` loads the folder with `tf.saved_model.load` and returns the signature.

    Attributes:
      folder: The SavedModel.
      signature_name: The signature that the loaded model calls.
    """

    folder: str
    signature_name: str

    def save_model(self, path: str, mlflow_model: Model, signature: ModelSignature | None = None, **more: Any) -> None:
        """Writes the model; called by `mlflow.models.Model.log`."""
        from mlflow.pyfunc import add_to_model

        del more
        os.makedirs(path, exist_ok=True)
        file_io.copytree(self.folder, os.path.join(path, _SAVED_MODEL))
        mlflow_model.signature = signature
        mlflow_model.add_flavor(
            "tensorflow", saved_model_dir=_SAVED_MODEL, model_type="tf1-estimator", meta_graph_tags=["serve"],
            signature_def_key=self.signature_name, code=None,
        )  # fmt: skip
        add_to_model(mlflow_model, loader_module="mlflow.tensorflow")
        with open(os.path.join(path, "requirements.txt"), "w") as file:
            file.write(f"mlflow\ntensorflow=={importlib.metadata.version('tensorflow')}\n")
        mlflow_model.save(os.path.join(path, "MLmodel"))


def _experiment(client: MlflowClient) -> str:
    """Returns the id of the experiment that MLflow's environment variables name, which is created if it is missing."""
    if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return number
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name, tags=_KIND))


def _parameters(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns a run's arguments and options as texts by name; nested values have names such as `custom_config.rate`."""
    given = {name: value for name, value in arguments.items() if name not in _UNTRACKED}
    flat = dict(_flattened("", {**given, **arguments.get("options", {})}))
    return {re.sub(r"[^\w./ -]", "_", name)[:250]: text[:_LONGEST_PARAMETER] for name, text in flat.items()}


def _flattened(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _flattened(f"{name}.{key}" if name else str(key), part)
    elif value not in (None, "", [], {}):
        yield name, value if isinstance(value, str) else json.dumps(value, default=str)


def _metric_name(text: str) -> str:
    return re.sub(r"[^\w./ -]", "_", text)[:250]


def _signature(specification: SignatureTensors) -> ModelSignature:
    """Returns MLflow's form of a signature in the record of the model's check."""
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    def schema(tensors: Mapping[str, str]) -> Schema:
        specs = []
        for name, text in tensors.items():
            match = _SPEC.fullmatch(text)
            dtype, dimensions = (match[1], match[2]) if match else (text, "")
            shape = [int(size) if size.strip().isdigit() else -1 for size in dimensions.split(",") if size.strip()]
            # NumPy has no type for strings of any length, for which MLflow uses objects.
            kind = np.dtype(object if dtype == "string" else dtype)
            specs.append(TensorSpec(kind, tuple(shape), name))
        return Schema(specs)

    return ModelSignature(schema(specification["inputs"]), schema(specification["outputs"]))


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Shortens MLflow's default waiting times, for all of its calls in this process; set variables take precedence."""
    if find_spec("mlflow") is None:
        yield
        return
    from mlflow import environment_variables

    with contextlib.ExitStack() as stack:
        for name, number in _PATIENCE.items():
            variable = getattr(environment_variables, name)
            stack.callback(setattr, variable, "default", variable.default)
            variable.default = number
        yield


_PATIENT = SharedSetting(_patience)
