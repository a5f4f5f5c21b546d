"""Entry point of the Trainer's step in Kubeflow Pipelines: a lightweight replacement of TFX's container command.

    python -m generic_trainer.executors.kubeflow_step \
        --executor_class_path generic_trainer.executors.generic_executor.GenericExecutor \
        --json_serialized_invocation_args '{{$}}' --json_serialized_inputs_spec_args '{…}'

The arguments and the output file are those of `tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor`. That
command imports TensorFlow, Beam and TFMA before it loads the executor. This one parses the invocation's JSON itself,
and only the training subprocess imports TensorFlow. For executors other than the trainer it runs TFX's command, so it
can be used for every step of a pipeline.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from absl import logging
from tfx.version import __version__ as tfx_version

from ..distributed.tf_config import task_from_environment
from ..errors import InputError, TrainerError
from ..monitoring.run_record import status_after
from ..runtime.files import file_io
from ..runtime.files import output_file as output_files
from ..runtime.files.plain_values import parsed_json
from ..runtime.files.temporary_folder import require_temporary_folder
from ..runtime.logs.error_output import error_lines, traceback_lines
from ..runtime.logs.exceptions import RemoteTraceback, message_of, traceback_of
from ..runtime.logs.redaction import masked_text
from ..runtime.logs.setup import show_logs
from ..runtime.process import deadline, termination
from ..runtime.process.preemption import handle_like_sigterm
from ..runtime.process.termination import Terminated
from ..training.step import train_from_artifacts

if TYPE_CHECKING:
    from .executor_json import ArtifactJson, ExecutorInput, InputsSpec, Part

EXECUTOR = f"{__package__.rpartition('.')[0]}.generic_executor.GenericExecutor"
_TFX_COMMAND = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"
_CUSTOM_PREFIX = "custom:"  # tfx.types.artifact.CUSTOM_PROPERTIES_PREFIX, for names that are also properties
_LONGEST_MESSAGE = 4000  # maximum length of an error message in the metadata store, in characters


class StepArtifact:
    """An artifact as described by Kubeflow Pipelines; implements `artifacts.Artifact`.

    Attributes:
      uri: URI of the artifact.
      description: Kubeflow's JSON for the artifact: name, uri, type, metadata.
      metadata: Properties and custom properties by name.
    """

    def __init__(self, description: ArtifactJson) -> None:
        self.description: ArtifactJson = {**description}
        self.uri: str = description.get("uri") or ""
        self.metadata: dict[str, Any] = {}
        # Properties are in these fields in pipelines of schema 2.0.
        for group in (description.get("properties", {}), description.get("customProperties", {})):
            for name, value in group.items():
                self.metadata[name] = _unwrapped(value)
        self.metadata.update(description.get("metadata") or {})

    @property
    def split_names(self) -> str | None:
        """Names of the splits, as a JSON list."""
        return self.metadata.get("split_names")

    def has_custom_property(self, key: str) -> bool:
        """Returns whether the artifact has the custom property."""
        return key in self.metadata or _CUSTOM_PREFIX + key in self.metadata

    def get_string_custom_property(self, key: str) -> str:
        """Returns a string property; "" if it is not set."""
        value = self._get(key)
        return value if isinstance(value, str) else ""

    def get_int_custom_property(self, key: str) -> int:
        """Returns an integer property; 0 if it is not set."""
        value = self._get(key)
        return int(value) if isinstance(value, (int, float)) else 0

    def set_string_custom_property(self, key: str, value: str) -> None:
        """Sets a string property."""
        self.metadata[key] = value

    def set_int_custom_property(self, key: str, value: int) -> None:
        """Sets an integer property, as a float: Kubeflow's JSON does not distinguish them."""
        self.metadata[key] = float(value)

    def set_float_custom_property(self, key: str, value: float) -> None:
        """Sets a float property."""
        self.metadata[key] = float(value)

    def to_json(self) -> ArtifactJson:
        """Returns the artifact as JSON for ExecutorOutput."""
        named: ArtifactJson = {"name": self.description["name"]} if "name" in self.description else {}
        return {**named, "uri": self.uri, "metadata": self.metadata}

    def _get(self, key: str) -> object:
        return self.metadata.get(_CUSTOM_PREFIX + key, self.metadata.get(key))


def run(invocation: ExecutorInput, inputs_spec: InputsSpec) -> None:
    """Trains as described by an invocation, and writes the executor output file.

    Args:
      invocation: Kubeflow's ExecutorInput.
      inputs_spec: The component's ComponentInputsSpec, for the types of parameters; {} in pipelines of schema 2.0.

    Raises:
      InputError: If a required field is missing from the invocation.
      Exception: Any exception that the training raises.
    """
    inputs_json, outputs_json = invocation.get("inputs", {}), invocation.get("outputs", {})
    output_file = output_file_of(invocation)
    driver_parameters = _read_driver_parameters(output_file)
    parameters = {**inputs_json.get("parameters", {}), **inputs_json.get("parameterValues", {})}
    parameters |= {**driver_parameters.get("parameters", {}), **driver_parameters.get("parameterValues", {})}
    properties = {name: _typed(value, name, inputs_spec) for name, value in parameters.items()}
    inputs, outputs = (artifacts_in(part) for part in (inputs_json, outputs_json))
    run_outputs = {key: artifacts for key, artifacts in outputs.items() if key != "model"}
    with failure_reported(output_file, run_outputs, driver_parameters):
        train_from_artifacts(inputs, outputs, properties)
    for artifacts in outputs.values():
        for artifact in artifacts:
            artifact.metadata.setdefault("tfx_version", tfx_version)
    write_output(output_file, outputs)


def output_file_of(invocation: ExecutorInput) -> str:
    """Returns the path of the executor output file.

    Raises:
      InputError: If the invocation has no such path.
    """
    output_file: str | None = invocation.get("outputs", {}).get("outputFile")
    if not output_file:
        raise InputError("ExecutorInput: outputs.outputFile is missing.")
    return output_file


def artifacts_in(part: Part) -> dict[str, list[StepArtifact]]:
    """Returns the artifacts in ExecutorInput's inputs or outputs; optional inputs without artifacts are missing."""
    found = part.get("artifacts", {})
    return {key: [StepArtifact(one) for one in value.get("artifacts", ())] for key, value in found.items()}


def write_output(
    output_file: str, outputs: Mapping[str, Sequence[StepArtifact]], others: Mapping[str, object] | None = None
) -> None:
    """Writes Kubeflow's ExecutorOutput; in a cluster, whose tasks share the file, only the chief writes it.

    Args:
      output_file: Path of the file.
      outputs: Output artifacts in their current state.
      others: Other fields of ExecutorOutput. Kubeflow rejects files with unknown fields.
    """
    task = task_from_environment()
    if task is not None and not task.is_chief:
        return
    report = {key: {"artifacts": [artifact.to_json() for artifact in found]} for key, found in outputs.items()}
    output_files.write_output(output_file, json.dumps({**(others or {}), "artifacts": report}, indent=2))


@contextlib.contextmanager
def failure_reported(
    output_file: str, outputs: Mapping[str, Sequence[StepArtifact]], others: Mapping[str, object] | None = None
) -> Iterator[None]:
    """Writes an exception that the block raises to the executor output, as metadata of the artifacts of a failed run.

    Kubeflow's launcher does not read the file of a failed step. On a mounted bucket the file stays available.

    Args:
      output_file: Path of the file.
      outputs: Artifacts that a failed run has; without the model, because no model was published.
      others: Other fields of ExecutorOutput.
    """
    try:
        yield
    except BaseException as error:
        for artifacts in outputs.values():
            for artifact in artifacts:
                artifact.metadata["status"] = status_after(error)
                artifact.metadata["error_type"] = type(error).__qualname__
                artifact.metadata["error"] = masked_text(message_of(error))[:_LONGEST_MESSAGE]
        with contextlib.suppress(OSError, TrainerError):  # must not hide the original exception
            write_output(output_file, outputs, others)
        raise


def _read_driver_parameters(output_file: str) -> dict[str, dict[str, object]]:
    """Returns the parameters that a driver has written to the output file before the step started."""
    if output_files.is_stream(output_file) or not file_io.exists(output_file):
        return {}
    content = json.loads(file_io.read_text(output_file))
    return {name: content[name] for name in ("parameters", "parameterValues") if name in content}


def _typed(value: object, name: str, inputs_spec: InputsSpec) -> object:
    kind = inputs_spec.get("parameters", {}).get(name, {}).get("parameterType")
    plain = _unwrapped(value)
    return int(plain) if kind == "NUMBER_INTEGER" and isinstance(plain, (int, float)) else plain


def _unwrapped(value: object) -> object:
    """Unwraps {"stringValue": "…"}, as in pipelines of schema 2.0; returns other values unchanged."""
    if isinstance(value, dict) and len(value) == 1:
        [(kind, inner)] = value.items()
        if kind == "intValue":
            return int(inner)  # protobuf's JSON has 64-bit integers as strings
        if kind in ("stringValue", "doubleValue"):
            return inner
    return value


def _arguments(line: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m generic_trainer.executors.kubeflow_step", allow_abbrev=False)
    parser.add_argument("--executor_class_path", default=EXECUTOR)
    parser.add_argument("--json_serialized_invocation_args", required=True, metavar="JSON", help="ExecutorInput")
    parser.add_argument("--json_serialized_inputs_spec_args", metavar="JSON", help="ComponentInputsSpec")
    options, _ = parser.parse_known_args(line)  # other arguments are for Beam
    return options


def parse_json_flag(text: str | None, flag: str) -> dict[str, object]:
    """Parses the JSON object in a flag's value; returns {} if the flag is not given.

    Raises:
      InputError: If the value is not JSON, or not an object.
    """
    value = parsed_json(text or "{}", f"--{flag}")
    if not isinstance(value, dict):
        raise InputError(f"--{flag} must be a JSON object, not a {type(value).__name__}.")
    return value


def exit_code_of(step: Callable[[], None]) -> int:
    """Runs a container's step, prints errors to standard error, and returns the process's exit code.

    The exit codes are those of `generic-trainer`: 0, 1 if the module failed, 2 for invalid input, 3 if the model failed
    its check.
    """
    # Unbuffered, so that the module's output appears immediately.
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    show_logs(verbose=False)
    termination.raise_on_signals([signal.SIGTERM], Ended)
    handle_like_sigterm()
    deadline.enforce()
    try:
        require_temporary_folder()
        step()
        termination.raise_if_ended()  # a signal whose exception was lost
    except TrainerError as error:
        if isinstance(error.__cause__, RemoteTraceback) and error.exit_code == 1:
            _print_traceback(str(error.__cause__).strip())
        _log_error(str(error))
        return error.exit_code
    except Exception as error:
        remote = error.__cause__
        text = remote.text if isinstance(remote, RemoteTraceback) else traceback_of(error)
        _print_traceback(text)
        _log_error(f"failed: {type(error).__qualname__}: {message_of(error)}")
        return 1
    finally:
        termination.end()
    return 0


def _print_traceback(text: str) -> None:
    print("\n".join(traceback_lines(text)), file=sys.stderr, flush=True)  # noqa: T201


def _log_error(message: str) -> None:
    for line in error_lines(message):
        logging.error("%s", line)


class Ended(Terminated):
    """The step was terminated by a signal. Unwinding ends the training process and removes staging directories."""

    def __str__(self) -> str:
        outcome = next(iter(getattr(self, "__notes__", ())), "nothing was published.")
        return f"The step was ended by {self.name}; {outcome}"


def main(line: Sequence[str]) -> int:
    """Runs the command; returns its exit code, see `exit_code_of`."""
    options = _arguments(line)
    if options.executor_class_path != EXECUTOR:
        runpy.run_module(_TFX_COMMAND, run_name="__main__", alter_sys=True)
        return 0
    return exit_code_of(
        lambda: run(
            cast(
                "ExecutorInput",
                parse_json_flag(options.json_serialized_invocation_args, "json_serialized_invocation_args"),
            ),
            cast(
                "InputsSpec",
                parse_json_flag(options.json_serialized_inputs_spec_args, "json_serialized_inputs_spec_args"),
            ),
        )
    )
