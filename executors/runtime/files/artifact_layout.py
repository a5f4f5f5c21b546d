"""Folder and file names in TFX artifacts, of current and earlier releases of TFX."""

from __future__ import annotations

import os
from typing import Any

from ...errors import InputError
from . import file_io
from .json_text import parsed_json
from .plain_values import require_plain
from .user_text import read_user_file

# From TFX's path_constants, and from releases before 0.29.
SERVING_DIRS = ("Format-Serving", "serving_model_dir")
REJECTED_DIR = "rejected"  # in a model run folder: models that were not published
FAILED_DIR = ".failed"  # beside the numbered model runs of a pipeline step: what is kept of failed executions
EVAL_DIR = "Format-TFMA"
LATEST = "latest"


def root_of_artifact(uri: str) -> str:
    """Returns the pipeline root for an artifact's folder, such as `ROOT/Trainer/model_run/7`."""
    return file_io.parent(file_io.parent(file_io.parent(uri)))


def is_numbered(folder: str) -> bool:
    """Returns whether a folder is numbered by TFX, which deletes it when the step fails."""
    return os.path.basename(folder.rstrip("/")).isdigit()


def kept_folder(folder: str) -> str:
    """Returns the folder that keeps the files of a failed run: the model run, or `.failed` if TFX deletes that."""
    if not is_numbered(folder):
        return folder
    return os.path.join(file_io.parent(folder), FAILED_DIR, os.path.basename(folder.rstrip("/")))


def latest(path: str) -> str:
    """Replaces a path component `latest` by the folder with the highest number beside it.

    TFX numbers the outputs of a pipeline's step, and each run of a step writes a new one:

        latest("pipeline/Transform/transform_graph/latest")   "pipeline/Transform/transform_graph/6"

    Returns the path unchanged without that component, if `latest` itself exists, or without numbered folders.
    """
    before, name, after = path.partition(f"/{LATEST}")
    if not name or (after and not after.startswith("/")) or file_io.exists(before + name) or not file_io.isdir(before):
        return path
    numbers = [int(number) for number in file_io.listdir(before) if number.isdigit()]
    return f"{before}/{max(numbers)}{after}" if numbers else path


def read_json_object(path: str, what: str) -> dict[str, Any]:
    """Reads a file that contains one JSON object.

    Raises:
      InputError: When it is missing, too large, not JSON, or not a JSON object.
    """
    if not file_io.exists(path):
        raise InputError(f"{what} {path} does not exist.")
    value = parsed_json(read_user_file(path, what), f"{what} {path}")
    require_plain(value, f"{what} {path}")
    if not isinstance(value, dict):
        raise InputError(f"{what} {path} must hold a JSON object, not a {type(value).__name__}.")
    return value


def read_hyperparameters(place: str, what: str) -> dict[str, Any]:
    """Reads KerasTuner's hyperparameters from a JSON file, or from an artifact folder with a single file.

    Raises:
      InputError: When there is no such file, or it does not contain a JSON object.
    """
    return read_json_object(only_file_in(place, what) if file_io.isdir(place) else place, what)


def only_file_in(folder: str, what: str) -> str:
    """Returns the path of the only file in an artifact's folder.

    Raises:
      InputError: When there are no files or several.
    """
    names = file_io.listdir(folder) if file_io.isdir(folder) else []
    if len(names) != 1:
        raise InputError(f"{what} artifact {folder}: expected one file in it, found {', '.join(names) or 'none'}.")
    return os.path.join(folder, names[0])
