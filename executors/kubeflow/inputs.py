"""Converts the artifacts and parameters of a Kubeflow component's step to `FnArgs`.

The data does not need to have TFX's layout. Examples may be a folder of splits, several files, or one file. A schema or
hyperparameters may be a file, or the only file in a folder. A base model may be in any layout that trainers or
importers write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from absl import logging

from ..errors import InputError, did_you_mean
from ..examples_format import PROTO, ExamplesFormat, payload_formats
from ..fn_args import FnArgs
from ..inputs.input_format import payload_format_of
from ..runtime.files import file_io
from ..runtime.files.artifact_files import read_json_object
from ..runtime.files.artifact_layout import EVAL_DIR
from ..saved_models.base_model import base_model_path
from .parameters import StepParameters
from .step import StepArtifact
from .storage import require_readable_pattern, resolve_input

Inputs: TypeAlias = "Mapping[str, Sequence[StepArtifact]]"


def fn_args_for_step(inputs: Inputs, parameters: StepParameters, model: str, logs: str) -> FnArgs:
    """Returns the arguments for the module.

    Args:
      inputs: Artifacts by key: examples, eval_examples, schema, transform_graph, base_model, hyperparameters; all
        optional.
      parameters: Parameters of the step.
      model: Folder for the model; the SavedModel is written to it, or to a subfolder named after its version.
      logs: Folder of the model run.

    Raises:
      InputError: If an input cannot be read or lacks required content.
    """
    train_files, eval_files = _files(inputs, parameters)
    for name, patterns in (("Training", train_files), ("Evaluation", eval_files)):
        logging.info("%s examples: %s", name, ", ".join(patterns) or "none")
    base, hyperparameters = _resolve(inputs, "base_model"), _resolve_file(inputs, "hyperparameters")
    version = parameters.serving_version
    serving = model.rstrip("/") if version is None else os.path.join(model, str(version))
    return FnArgs(
        train_files=train_files,
        eval_files=eval_files,
        train_steps=parameters.train_steps or None,
        eval_steps=parameters.eval_steps or None,
        schema_path=_resolve_file(inputs, "schema"),
        transform_graph_path=_resolve(inputs, "transform_graph"),
        serving_model_dir=serving,
        eval_model_dir=os.path.join(file_io.parent(serving), EVAL_DIR),
        model_run_dir=logs,
        base_model=base_model_path(base) if base else None,
        hyperparameters=read_json_object(hyperparameters, "hyperparameters") if hyperparameters else None,
        custom_config=dict(parameters.custom_config) if parameters.custom_config else None,
        examples_format=_examples_format(inputs, parameters, train_files),
    )


def _files(inputs: Inputs, parameters: StepParameters) -> tuple[list[str], list[str]]:
    """Returns the patterns of the training and evaluation examples."""
    examples, eval_examples = (inputs.get(key) for key in ("examples", "eval_examples"))
    if bool(examples) == bool(parameters.train_files):
        got = "both" if examples else "neither"
        raise InputError(f"Pass the training data either as the artifact 'examples' or as train_files; got {got}.")
    if not examples:
        for name in ("train_files", "eval_files"):
            for pattern in getattr(parameters, name):
                require_readable_pattern(pattern, name)
        evaluation = _patterns(inputs, "eval_examples", parameters.eval_splits) if eval_examples else []
        return list(parameters.train_files), [*parameters.eval_files, *evaluation]
    training = _patterns(inputs, "examples", parameters.train_splits)
    key = "eval_examples" if eval_examples else "examples"
    evaluation = _patterns(inputs, key, parameters.eval_splits, empty_without_splits=not eval_examples)
    if (
        not eval_examples
        and training[0].endswith("/*")
        and file_io.parent(training[0]) in map(file_io.parent, evaluation)
    ):
        raise InputError(f"input examples: {training[0]} includes {evaluation[0]}. Set train_splits.")
    return training, evaluation


def _patterns(inputs: Inputs, key: str, splits: Sequence[str], *, empty_without_splits: bool = False) -> list[str]:
    """Returns the file patterns of an artifact's splits.

    Splits are folders `Split-NAME` or `NAME`, files `NAME*`, or defined by TFX's property `custom_split_pattern`. An
    artifact without any of these, such as a single file, is treated as one split.

    Args:
      inputs: Artifacts by key.
      key: Key of the artifact.
      splits: Names of the splits.
      empty_without_splits: Whether the result is empty for an artifact without splits, because it is used for training.
    """
    artifact, folder = single_artifact(inputs, key), _resolve(inputs, key) or ""
    if not file_io.isdir(folder):
        return [] if empty_without_splits else [folder]
    names = file_io.listdir(folder)
    custom = json.loads(artifact.get_string_custom_property("custom_split_pattern") or "{}")
    found = {
        split: os.path.join(folder, pattern)
        for split in splits
        if (pattern := custom.get(split) or _split_pattern(folder, names, split))
    }
    if len(found) == len(splits):
        return list(found.values())
    folders = [name for name in names if file_io.isdir(os.path.join(folder, name))]
    known = sorted({*custom, *(name.removeprefix("Split-") for name in folders)})
    if found or known:
        missing = next(split for split in splits if split not in found)
        raise InputError(
            f"input {key} {folder}: there is no split {missing!r}. Available: {', '.join(known) or ', '.join(found)}."
            f"{did_you_mean(missing, known)} Set train_splits and eval_splits."
        )
    if not names:
        raise InputError(f"input {key} {folder}: the folder is empty.")
    return [] if empty_without_splits else [os.path.join(folder, "*")]


def _split_pattern(folder: str, names: Sequence[str], split: str) -> str | None:
    """Returns the pattern of a split's files, relative to the folder; None if there are none."""
    for name in (f"Split-{split}", split):
        if name in names and file_io.isdir(os.path.join(folder, name)):
            return os.path.join(name, "*")
    matching = [name for name in names if name.startswith(split)]
    return f"{split}*" if matching and not any(file_io.isdir(os.path.join(folder, name)) for name in matching) else None


def _examples_format(inputs: Inputs, parameters: StepParameters, train_files: Sequence[str]) -> ExamplesFormat:
    [artifact] = inputs.get("examples") or [StepArtifact({})]
    payload = parameters.payload_format or artifact.get_string_custom_property("payload_format")
    if not payload:
        payload = payload_format_of([file for pattern in train_files for file in file_io.glob(pattern)])
    if payload not in (known := payload_formats()):
        raise InputError(f"payload_format={payload!r} of {artifact.uri} is not one of {', '.join(known)}.")
    view = artifact.get_string_custom_property("data_view_uri") if payload == PROTO else ""
    return ExamplesFormat(payload, resolve_input(view, "the examples' DataView") if view else None)


def single_artifact(artifacts: Inputs, key: str) -> StepArtifact:
    """Returns the only artifact of a key.

    Raises:
      InputError: If there is no artifact or more than one.
    """
    found = artifacts.get(key) or ()
    if len(found) != 1:
        raise InputError(f"{key}: expected one artifact, got {len(found)}. Use the component of this image's release.")
    return found[0]


def _resolve(inputs: Inputs, key: str) -> str | None:
    if not inputs.get(key):
        return None
    artifact = single_artifact(inputs, key)
    return resolve_input(artifact.uri, f"input {key}", artifact.metadata)


def _resolve_file(inputs: Inputs, key: str) -> str | None:
    """Returns the path of an artifact that is a file, or of the only file in its folder."""
    place = _resolve(inputs, key)
    if place is None or not file_io.isdir(place):
        return place
    names = file_io.listdir(place)
    if len(names) != 1:
        raise InputError(f"input {key} {place}: expected one file in it, found {', '.join(names) or 'none'}.")
    return os.path.join(place, names[0])
