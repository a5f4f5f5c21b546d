"""The parameters of the Kubeflow component in addition to `TrainingOptions`: module, data and numbers of steps.

The component's inputs are generated from these fields and those of `TrainingOptions`, so each is declared once:

    parameters, options = read_parameters({"module": "taxi.py", "train_steps": 300.0, "keras": "2"})
    parameters.train_steps                              # 300
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import InputError, did_you_mean
from ..examples_format import payload_formats
from ..number_range import STEPS
from ..option import kinds_of
from ..options import TrainingOptions, declared_options

T = TypeVar("T")
MISSING = (None, "")
_JSON_KINDS: dict[type, type] = {tuple: list, Mapping: dict}


def _parameter(default: T, help_text: str) -> T:
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass(frozen=True)
class StepParameters:
    """Parameters of one step. Every field has a default, because all inputs of the component are optional.

    Raises:
      InputError: From the constructor, if there is no module or more than one, or a value is out of range.
    """

    module: str | None = _parameter(
        None,
        "The training module: a file's path or URI, package.module, package.module.function, or name@archive.zip. "
        "Kubeflow's cache key includes this reference, but not the module's code.",
    )
    module_text: str | None = _parameter(
        None, "The training module's source text, instead of 'module'; at most about 100 kB, and without helper files."
    )
    function: str | None = _parameter(None, "The function to run, if it is not called run_fn.")
    train_files: tuple[str, ...] = _parameter(
        (), "Paths or URI patterns of training examples, instead of the artifact 'examples'."
    )
    eval_files: tuple[str, ...] = _parameter(
        (), "Paths or URI patterns of evaluation examples; requires 'train_files'."
    )
    train_splits: tuple[str, ...] = _parameter(("train",), "Splits of 'examples' to train on.")
    eval_splits: tuple[str, ...] = _parameter(("eval",), "Splits of 'examples' to evaluate on; [] for none.")
    train_steps: int | None = _parameter(None, "fn_args.train_steps (default: the module decides).")
    eval_steps: int | None = _parameter(None, "fn_args.eval_steps (default: the module decides).")
    custom_config: Mapping[str, object] | None = _parameter(
        None,
        "fn_args.custom_config. Whole numbers become int: a pipeline's JSON does not distinguish 1.0 from 1.",
    )
    payload_format: str | None = _parameter(
        None,
        f"Encoding of the examples: {', '.join(payload_formats())} (default: from the artifact or the file names).",
    )
    serving_version: int | None = _parameter(
        None,
        "Name of a numbered folder for the SavedModel below the model's URI, as TensorFlow Serving requires "
        "(default: none; the SavedModel is directly at the URI).",
    )
    checkpoint_root: str | None = _parameter(
        None,
        "Folder or gs:// URI for checkpoints, from which retries and later runs of the same training resume, such as "
        "on a mounted volume (default: beside the outputs, if their storage outlives the pod).",
    )

    def __post_init__(self) -> None:
        if not self.module and not self.module_text:
            raise InputError("There is nothing to train: set 'module' or 'module_text'.")
        if self.module and self.module_text:
            raise InputError(f"module={self.module!r} and module_text are mutually exclusive: set only one of them.")
        if self.payload_format and self.payload_format not in payload_formats():
            raise InputError(
                f"payload_format={self.payload_format!r}: choose from {', '.join(payload_formats())}."
                f"{did_you_mean(self.payload_format, payload_formats())}"
            )
        for name in ("train_steps", "eval_steps", "serving_version"):
            value = getattr(self, name)
            if value is not None and not STEPS.includes(value):
                raise InputError(f"{name}={value}: give {STEPS}.")
        if not self.train_splits:
            raise InputError("train_splits=[]: set at least one split.")
        if self.eval_files and not self.train_files:
            raise InputError("eval_files requires train_files; with the artifact 'examples', set eval_splits instead.")


def json_kinds(fields: type[StepParameters] | type[TrainingOptions]) -> dict[str, type]:
    """Returns {field: str, int, float, bool, list or dict}: the type in JSON and in Kubeflow Pipelines."""
    return {name: _JSON_KINDS.get(kind, kind) for name, kind in kinds_of(fields).items()}


def read_parameters(values: Mapping[str, object]) -> tuple[StepParameters, TrainingOptions]:
    """Parses a step's parameters; missing, null and empty values mean the default.

    Args:
      values: `inputs.parameterValues` of ExecutorInput.

    Raises:
      InputError: If a parameter is unknown, has the wrong type, or is out of range.
    """
    given = {name: value for name, value in values.items() if value not in MISSING}
    own = {name: kind for name, kind in json_kinds(StepParameters).items() if name in given}
    options = {option.name for option in declared_options() if option.kubeflow}
    for name in given:
        if name not in own and name not in options:
            known = [*json_kinds(StepParameters), *options]
            raise InputError(
                f"Unknown parameter {name!r}.{did_you_mean(name, known)} If the component defines it, its image "
                "contains another release: use the same release for both."
            )
    parameters = StepParameters(**{name: _checked(name, given[name], kind) for name, kind in own.items()})
    return parameters, TrainingOptions.from_exec_properties({name: given[name] for name in given if name in options})


def _checked(name: str, value: object, kind: type) -> Any:
    if kind is int and (type(value) is int or (isinstance(value, float) and value.is_integer())):
        return int(value)
    if kind is list and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if kind is dict and isinstance(value, dict):
        return _with_whole_numbers(value)
    if kind is str and isinstance(value, str):
        return value
    expected = {int: "a whole number", list: "a list of strings", dict: "a JSON object", str: "a string"}[kind]
    raise InputError(f"{name}={value!r}: expected {expected}, got {type(value).__name__}.")


def _with_whole_numbers(value: object) -> object:
    """Converts integral floats to int (3.0 to 3), because protobuf's Struct only has floating-point numbers."""
    if isinstance(value, dict):
        return {key: _with_whole_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
