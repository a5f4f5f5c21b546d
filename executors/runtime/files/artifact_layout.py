"""Names of folders and files in TFX artifacts, in this and in earlier releases of TFX."""

from __future__ import annotations

import os
from typing import Any

from ...errors import InputError
from . import file_io
from .json_text import parsed_json

# TFX's path_constants, and what releases before 0.29 used.
SERVING_DIRS = ("Format-Serving", "serving_model_dir")
REJECTED_DIR = "rejected"  # in a model run: models that were not published
EVAL_DIR = "Format-TFMA"
LATEST = "latest"


def latest(path: str) -> str:
    """Returns a path in which a folder called `latest` is the one with the highest number beside it.

    TFX numbers the outputs of a pipeline's step, and a step that runs again writes a new one:

        latest("pipeline/Transform/transform_graph/latest")   "pipeline/Transform/transform_graph/6"

    A path without that name, or where there are no numbers, is returned as it is.
    """
    before, name, after = path.partition(f"/{LATEST}")
    if not name or (after and not after.startswith("/")) or file_io.exists(before + name) or not file_io.isdir(before):
        return path
    numbers = [int(number) for number in file_io.listdir(before) if number.isdigit()]
    return f"{before}/{max(numbers)}{after}" if numbers else path


def read_json_object(path: str, what: str) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Raises:
      InputError: When it is missing, not JSON, or something else than an object.
    """
    if not file_io.exists(path):
        raise InputError(f"{what} {path} does not exist.")
    value = parsed_json(file_io.read_bytes(path), f"{what} {path}")
    if not isinstance(value, dict):
        raise InputError(f"{what} {path} must hold a JSON object, not a {type(value).__name__}.")
    return value


def read_hyperparameters(place: str, what: str) -> dict[str, Any]:
    """Reads KerasTuner's configuration of hyper-parameters: a JSON file, or an artifact's folder with it alone.

    Raises:
      InputError: When there is no such file, or it does not hold a JSON object.
    """
    return read_json_object(only_file_in(place, what) if file_io.isdir(place) else place, what)


def only_file_in(folder: str, what: str) -> str:
    """Returns the one file of an artifact's folder.

    Raises:
      InputError: When there is none, or more than one.
    """
    names = file_io.listdir(folder) if file_io.isdir(folder) else []
    if len(names) != 1:
        raise InputError(f"{what} artifact {folder}: expected one file in it, found {', '.join(names) or 'none'}.")
    return os.path.join(folder, names[0])
