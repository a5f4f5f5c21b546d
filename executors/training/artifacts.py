"""Fills `FnArgs` from TFX artifacts, following TFX's Trainer and all artifact layouts that TFX versions have used.

Does not import TensorFlow. Artifacts may be TFX's, whose classes import it, or any other `Artifact`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from absl import logging
from google.protobuf import json_format
from google.protobuf.message import Message
from tfx.proto import trainer_pb2

from ..errors import InputError, did_you_mean
from ..examples_format import PROTO, TF_EXAMPLE, ExamplesFormat, payload_formats
from ..fn_args import FnArgs
from ..number_range import STEPS
from ..runtime.files import file_io
from ..runtime.files.artifact_files import only_file_in, read_json_object
from ..runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..runtime.files.plain_values import parsed_json
from ..runtime.logs.redaction import masked_text, remember_secrets
from ..saved_models.base_model import base_model_path

# As in tfx.components.experimental.data_view.constants.
_DATA_VIEW, _DATA_VIEW_TIME = "data_view_uri", "data_view_create_time_since_epoch"


class Artifact(Protocol):
    """The part of TFX's `Artifact` interface that is used here; custom properties are strings and numbers."""

    uri: str

    @property
    def split_names(self) -> str | None:
        """Names of the splits, as a JSON list."""

    def has_custom_property(self, key: str) -> bool:
        """Returns whether the artifact has the custom property."""

    def get_string_custom_property(self, key: str) -> str:
        """Returns a string property; "" if it is not set."""

    def get_int_custom_property(self, key: str) -> int:
        """Returns an integer property; 0 if it is not set."""

    def set_string_custom_property(self, key: str, value: str) -> None:
        """Sets a string property."""

    def set_int_custom_property(self, key: str, value: int) -> None:
        """Sets an integer property."""

    def set_float_custom_property(self, key: str, value: float) -> None:
        """Sets a float property."""


Artifacts = Mapping[str, Sequence[Artifact]]
_Args = TypeVar("_Args", bound=Message)


def fn_args_from_artifacts(inputs: Artifacts, outputs: Artifacts, properties: Mapping[str, object]) -> FnArgs:
    """Returns the `FnArgs` that TFX's Trainer would pass to `run_fn` for the same artifacts.

    Args:
      inputs: Artifacts by key: examples (one or more); transform_graph, schema, base_model, hyperparameters and
        statistics if connected. For `raw_examples` see `raw_eval_files`.
      outputs: Artifacts by key: model, model_run.
      properties: Execution properties: train_args, eval_args, custom_config, train_steps and eval_steps. The latter
        two take precedence over the numbers of steps in train_args and eval_args.

    Raises:
      InputError: If an artifact lacks a required split, file or property, or a property is invalid.
    """
    fn_args = common_fn_args(inputs, properties)
    model_dir = _only(outputs, "model").uri
    fn_args.model_run_dir = _only(outputs, "model_run").uri
    fn_args.serving_model_dir = os.path.join(model_dir, SERVING_DIRS[0])
    fn_args.eval_model_dir = os.path.join(model_dir, EVAL_DIR)
    fn_args.hyperparameters = _hyperparameters(inputs)
    if inputs.get("statistics"):
        fn_args.num_examples = _num_examples(_only(inputs, "statistics"))
    return fn_args


def raw_eval_files(inputs: Artifacts, fn_args: FnArgs, properties: Mapping[str, object]) -> list[str]:
    """Returns patterns of the eval examples before Transform; [] without `raw_examples`, or in another format.

    Args:
      inputs: Artifacts by key.
      fn_args: The result of `fn_args_from_artifacts`.
      properties: Execution properties.
    """
    raw = inputs.get("raw_examples") or ()
    if not raw or _examples_format(raw) != fn_args.examples_format:
        return []
    splits = _steps_and_splits(properties, "eval_args", trainer_pb2.EvalArgs()).splits or ["eval"]
    return _patterns(raw, splits)


def common_fn_args(inputs: Artifacts, properties: Mapping[str, object]) -> FnArgs:
    """Returns the `FnArgs` that TFX's Trainer and Tuner have in common: all inputs, no output folders.

    Args:
      inputs: Artifacts by key: examples (one or more); transform_graph, schema and base_model if connected.
      properties: Execution properties, see `fn_args_from_artifacts`.

    Raises:
      InputError: See `fn_args_from_artifacts`.
    """
    examples = inputs.get("examples") or ()
    if not examples:
        raise InputError("input 'examples' is missing: at least one Examples artifact is needed.")
    train_args = _steps_and_splits(properties, "train_args", trainer_pb2.TrainArgs())
    eval_args = _steps_and_splits(properties, "eval_args", trainer_pb2.EvalArgs())
    return FnArgs(
        train_files=_patterns(examples, train_args.splits or ["train"]),
        eval_files=_patterns(examples, eval_args.splits or ["eval"]),
        train_steps=_steps(properties, "train_steps", train_args.num_steps),
        eval_steps=_steps(properties, "eval_steps", eval_args.num_steps),
        schema_path=_only_file(inputs, "schema"),
        transform_graph_path=_only(inputs, "transform_graph").uri if inputs.get("transform_graph") else None,
        base_model=base_model_path(_only(inputs, "base_model").uri) if inputs.get("base_model") else None,
        custom_config=parse_custom_config(properties.get("custom_config")),
        examples_format=_examples_format(examples),
    )


def parse_custom_config(value: Any) -> dict[str, object] | None:
    """Parses the execution property `custom_config`, which TFX passes as JSON ("null" for None).

    Its secrets are registered for redaction.

    Raises:
      InputError: If it is not a JSON object.
    """
    if value is None or value == "" or isinstance(value, dict):
        remember_secrets(value)
        return value or None
    shown = masked_text(repr(value))
    try:
        if "__tfx_object_type__" in value or "__class__" in value:
            from tfx.utils import json_utils  # for protos and other TFX objects in the config

            config = json_utils.loads(value)
        else:
            config = parsed_json(value, f"custom_config={shown}")
    except InputError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"custom_config={shown} is not JSON: {error}") from error
    except (ImportError, AttributeError) as error:
        raise InputError(f"custom_config={shown} contains an object whose class cannot be imported: {error}") from error
    if config is not None and not isinstance(config, dict):
        raise InputError(
            f"custom_config must be a JSON object; got {type(config).__name__}: {shown}. "
            'Pass a dict, as in custom_config={"learning_rate": 0.01}.'
        )
    remember_secrets(config)
    return config


def _steps_and_splits(properties: Mapping[str, Any], key: str, message: _Args) -> _Args:
    value = properties.get(key)
    try:
        return json_format.Parse(value, message) if value else message
    except (json_format.ParseError, TypeError) as error:  # protobuf before 4 raises TypeError for a bare number
        example = '{"splits": ["train"], "num_steps": 100}'
        raise InputError(f"{key}={value!r} is not a JSON object such as {example}: {error}") from error


def _steps(properties: Mapping[str, Any], key: str, default: int) -> int | None:
    """Returns the number of steps; None if the module decides."""
    value = properties.get(key)
    if value is None or value == "":
        return default or None
    try:
        steps = float(value)  # Kubeflow writes integers as "7.0"
        if not steps.is_integer() or not STEPS.includes(int(steps)):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{key}={value!r}: expected a whole number of steps; with 0 the module decides.") from None
    return int(steps) or None


def _patterns(examples: Sequence[Artifact], splits: Sequence[str]) -> list[str]:
    """Returns one glob pattern for each split and Examples artifact."""
    patterns = []
    for split in splits:
        artifacts_with_split = [artifact for artifact in examples if split in _splits(artifact)]
        if not artifacts_with_split:
            known = sorted({name for artifact in examples for name in _splits(artifact)})
            uris = ", ".join(artifact.uri for artifact in examples)
            raise InputError(
                f"split {split!r} does not exist in the examples at {uris}; "
                f"available: {', '.join(known) or 'none'}.{did_you_mean(split, known)}"
            )
        if len(artifacts_with_split) < len(examples):
            missing = ", ".join(artifact.uri for artifact in examples if artifact not in artifacts_with_split)
            raise InputError(f"split {split!r} does not exist in every Examples artifact; it is missing in {missing}.")
        patterns += [_pattern(artifact, split) for artifact in artifacts_with_split]
    return patterns


def _splits(artifact: Artifact) -> list[str]:
    custom = _custom_patterns(artifact)
    if custom:
        return list(custom)
    if artifact.split_names:
        return [str(name) for name in json.loads(artifact.split_names)]
    # The property may be missing in Kubeflow's metadata; the folder names are equivalent.
    names = file_io.listdir(artifact.uri) if file_io.isdir(artifact.uri) else []
    return [name.removeprefix("Split-") for name in names if name.startswith("Split-")]


def _pattern(artifact: Artifact, split: str) -> str:
    custom = _custom_patterns(artifact).get(split)
    if custom:
        return os.path.join(artifact.uri, custom)
    folder = os.path.join(artifact.uri, f"Split-{split}")
    if not file_io.exists(folder) and file_io.exists(os.path.join(artifact.uri, split)):
        folder = os.path.join(artifact.uri, split)  # layout of TFX before 0.29
    return os.path.join(folder, "*")


def _custom_patterns(artifact: Artifact) -> dict[str, str]:
    text = _custom_property(artifact, "custom_split_pattern")
    patterns: dict[str, str] = json.loads(text) if text else {}
    return patterns


def _examples_format(examples: Sequence[Artifact]) -> ExamplesFormat:
    payloads = {artifact.uri: _custom_property(artifact, "payload_format") or TF_EXAMPLE for artifact in examples}
    if len(set(payloads.values())) > 1:
        raise InputError(f"the Examples artifacts differ in payload_format: {payloads}.")
    payload = next(iter(payloads.values()))
    if payload != TF_EXAMPLE and payload not in (known := payload_formats()):
        raise InputError(f"payload_format={payload!r} of {examples[0].uri} is not one of {', '.join(known)}.")
    views = [
        (_data_view_time(artifact), uri) for artifact in examples if (uri := _custom_property(artifact, _DATA_VIEW))
    ]
    if payload != PROTO or not views:
        return ExamplesFormat(payload)
    if len(views) != len(examples):
        raise InputError(
            "Some Examples artifacts have a DataView and others have none. Attach one to all or none of them."
        )
    return ExamplesFormat(payload, max(views)[1])  # the newest DataView can read older data


def _custom_property(artifact: Artifact, name: str) -> str:
    return artifact.get_string_custom_property(name) if artifact.has_custom_property(name) else ""


def _data_view_time(artifact: Artifact) -> int:
    # TFX versions have stored it as a string or as an integer.
    return int(_custom_property(artifact, _DATA_VIEW_TIME) or artifact.get_int_custom_property(_DATA_VIEW_TIME))


def _only(artifacts: Artifacts, key: str) -> Artifact:
    found = artifacts.get(key) or ()
    if len(found) != 1:
        uris = ", ".join(artifact.uri for artifact in found) or "none"
        raise InputError(f"{key}: expected one artifact, got {len(found)} ({uris}).")
    return found[0]


def _only_file(artifacts: Artifacts, key: str) -> str | None:
    if not artifacts.get(key):
        return None
    return only_file_in(_only(artifacts, key).uri, key)


def _hyperparameters(inputs: Artifacts) -> dict[str, object] | None:
    """Reads the Tuner's artifact: a folder with one file, or the file itself if the artifact was imported."""
    if not inputs.get("hyperparameters"):
        return None
    uri = _only(inputs, "hyperparameters").uri
    is_file = file_io.exists(uri) and not file_io.isdir(uri)
    return read_json_object(uri if is_file else only_file_in(uri, "hyperparameters"), "hyperparameters")


def _num_examples(statistics: Artifact) -> dict[str, int]:
    """Returns the number of examples by split, from the output of StatisticsGen."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    counts = {}
    for split in _splits(statistics):
        folder = os.path.join(statistics.uri, f"Split-{split}")
        path = os.path.join(folder, "FeatureStats.pb")
        if not file_io.exists(path):
            logging.warning("No FeatureStats.pb in %s; num_examples has no count for this split.", folder)
            continue
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(file_io.read_bytes(path))
        counts[split] = int(found.datasets[0].num_examples)
    return counts
