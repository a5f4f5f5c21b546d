"""Entry point of the Kubeflow component's container: one training, from ExecutorInput to ExecutorOutput.

    python -m generic_trainer.executors.kubeflow_component_step --executor_input '{{$}}'

The component is in `pipelines/kubeflow/component.py`, its parameters in `parameters.py`. Only the training subprocess
imports TensorFlow. `kfp` is not needed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from absl import logging

from ...version import __version__
from ..distributed.tf_config import task_from_environment
from ..evaluation.error_analysis import read_error_analysis
from ..modules.archive import HASH
from ..monitoring import run_record
from ..monitoring.run_record import RunRecord
from ..reporting.writing import write_report
from ..runtime.files import file_io
from ..runtime.logs.exceptions import message_of
from ..runtime.logs.redaction import masked_text
from ..saved_models.locations import find_saved_model
from ..training.run import train
from .classification import classification_metadata
from .inputs import fn_args_for_step, single_artifact
from .parameters import StepParameters, read_parameters
from .step import (
    StepArtifact,
    artifacts_in,
    exit_code_of,
    failure_reported,
    output_file_of,
    parse_json_flag,
    write_output,
)
from .storage import (
    checkpoint_root,
    require_readable_pattern,
    resolve_input,
    resolve_output,
)

if TYPE_CHECKING:
    from .executor_json import ExecutorInput

MODEL, METRICS, REPORT, TENSORBOARD = "model", "metrics", "report", "tensorboard"
CLASSIFICATION = "classification"
OUTPUTS = (MODEL, METRICS, CLASSIFICATION, REPORT, TENSORBOARD)
_ALWAYS_WRITTEN = (REPORT, TENSORBOARD)
_EVAL_MODEL = "eval_model"  # folder name in the TensorBoard output
_MODULE_FILE = "module_text.py"


def run(invocation: ExecutorInput) -> None:
    """Trains as described by Kubeflow's ExecutorInput, and writes the output artifacts and the ExecutorOutput file.

    Args:
      invocation: Kubeflow's ExecutorInput.

    Raises:
      InputError: If a parameter, an input or an output is invalid.
      Exception: Any exception that the training raises.
    """
    output_file = output_file_of(invocation)
    outputs = artifacts_in(invocation["outputs"])
    failed = {key: outputs[key] for key in _ALWAYS_WRITTEN if key in outputs}
    with failure_reported(output_file, failed):
        paths = {key: resolve_output(single_artifact(outputs, key).uri, key) for key in OUTPUTS}
        with _report_written(paths), tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
            inputs = artifacts_in(invocation.get("inputs", {}))
            parameters, options = read_parameters(invocation.get("inputs", {}).get("parameterValues") or {})
            logging.info("Generic Trainer %s: training %s.", __version__, parameters.module or "the module_text")
            fn_args = fn_args_for_step(inputs, parameters, paths[MODEL], paths[TENSORBOARD])
            fn_args.seed = options.seed
            module = _module(parameters, scratch)
            root = _checkpoint_root(parameters, outputs[TENSORBOARD][0].uri, paths[TENSORBOARD], scratch)
            record = train(module, fn_args, options, function=parameters.function, checkpoint_root=root)
        if not record.check:
            logging.info("This cluster task has finished; the chief publishes the model.")
            return
        if file_io.isdir(fn_args.eval_model_dir):
            _keep_eval_model(fn_args.eval_model_dir, outputs, paths)
        _describe(outputs, paths, fn_args.serving_model_dir, record)
        classification = classification_metadata(read_error_analysis(paths[TENSORBOARD]))
        outputs[CLASSIFICATION][0].metadata.update(classification)
        file_io.write_text(paths[METRICS], json.dumps(record.metrics, indent=2) + "\n")
        file_io.write_text(paths[CLASSIFICATION], json.dumps(classification, indent=2) + "\n")
        write_output(output_file, outputs)
    for split, values in record.metrics.items():
        logging.info("%s metrics: %s", split.capitalize(), ", ".join(f"{k}={v:.5g}" for k, v in values.items()))
    logging.info("Model published to %s.", outputs[MODEL][0].uri)


def _module(parameters: StepParameters, scratch: str) -> str:
    """Returns the module's reference; module source passed as text is written to a file first."""
    if parameters.module_text:
        folder = os.path.join(scratch, "module")
        path = os.path.join(folder, _MODULE_FILE)
        file_io.write_text(path, parameters.module_text)
        return path
    name, at, place = str(parameters.module).rpartition("@")
    uri, *sha256 = place.partition(HASH)
    found = resolve_input(uri, "module") if file_io.is_remote(uri) else uri
    return "".join([name, at, found, *sha256])


def _checkpoint_root(parameters: StepParameters, uri: str, place: str, scratch: str) -> str:
    root = parameters.checkpoint_root
    if root:
        require_readable_pattern(root, "checkpoint_root")
        return root
    if beside := checkpoint_root(uri, place):
        return beside
    logging.info(
        "Checkpoints are stored in this pod only, so a retry starts from scratch. To resume from the last checkpoint, "
        "set checkpoint_root to a folder on a mounted volume or a gs:// URI."
    )
    return os.path.join(scratch, "checkpoints")


def _keep_eval_model(folder: str, outputs: Mapping[str, Sequence[StepArtifact]], paths: Mapping[str, str]) -> None:
    """Moves an Estimator's EvalSavedModel to the TensorBoard output, because its folder is in no artifact."""
    target = os.path.join(paths[TENSORBOARD], _EVAL_MODEL)
    file_io.rmtree(target)
    file_io.move(folder, target)
    outputs[MODEL][0].metadata["eval_saved_model"] = os.path.join(outputs[TENSORBOARD][0].uri, _EVAL_MODEL)


def _describe(
    outputs: Mapping[str, Sequence[StepArtifact]], paths: Mapping[str, str], serving: str, record: RunRecord
) -> None:
    """Sets the results of the run as metadata of the artifacts, as strings and numbers."""
    [model], [metrics], [logs] = (outputs[key] for key in (MODEL, METRICS, TENSORBOARD))
    values = {
        f"{split}/{name}": float(value) for split, found in record.metrics.items() for name, value in found.items()
    }
    relative_path = os.path.relpath(find_saved_model(serving) or serving, paths[MODEL])
    model.metadata.update(
        framework="TensorFlow",
        framework_version=record.stack.get("tensorflow", ""),
        saved_model=model.uri if relative_path == "." else os.path.join(model.uri, relative_path),
        signatures=", ".join(record.check["signatures"]),
        checks="; ".join(f"{name}: {outcome}" for name, outcome in record.check["checks"].items()),
        size_bytes=float(record.check["size_bytes"]),
        dialect=record.dialect["name"],
        keras=record.keras["version"],
        module_fingerprint=record.code["fingerprint"],
        **values,
    )
    metrics.metadata.update(values)
    logs.metadata.update(run_id=record.id, run_record=run_record.FILE_NAME)


@contextlib.contextmanager
def _report_written(paths: Mapping[str, str]) -> Iterator[None]:
    """Writes the run's report when the block ends, even if it raises; in a cluster only the chief does."""
    failure: dict[str, Any] = {}
    try:
        yield
    except BaseException as error:
        what = {"type": type(error).__qualname__, "message": masked_text(message_of(error))}
        failure = {"status": run_record.status_after(error), "error": what}
        raise
    finally:
        with contextlib.suppress(Exception):  # must not hide the original exception
            task = task_from_environment()
            if task is None or task.is_chief:
                record = dataclasses.replace(run_record.read(paths[TENSORBOARD]), **failure)
                write_report(paths[TENSORBOARD], record, path=paths[REPORT])


def main(line: Sequence[str]) -> int:
    """Runs the command; returns its exit code, see `exit_code_of`."""
    parser = argparse.ArgumentParser(
        prog="python -m generic_trainer.executors.kubeflow_component_step", allow_abbrev=False
    )
    parser.add_argument("--executor_input", required=True, metavar="JSON", help="Kubeflow's ExecutorInput")
    text = parser.parse_args(line).executor_input
    return exit_code_of(lambda: run(cast("ExecutorInput", parse_json_flag(text, "executor_input"))))
