"""Reads files of TFX artifacts that contain one JSON object."""

from __future__ import annotations

import os
from typing import Any

from ...errors import InputError
from . import file_io
from .plain_values import parsed_json, require_plain
from .user_text import read_user_file


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
