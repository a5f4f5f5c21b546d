"""The note in a model's folder of the packages whose custom ops it needs.

note_packages(model, {"tensorflow_text": []})    # after the check of a trained model
noted_packages(model)                            # in `predict` and the Evaluator; see `op_package_imports.py`
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.json_data import read_json
from .locations import find_saved_model

_NOTE = "assets.extra/op_packages.json"  # SavedModels keep other people's files in assets.extra


def note_packages(folder: str, packages: Mapping[str, Sequence[str]]) -> None:
    """Writes beside a SavedModel's graph which packages it needs; a no-op for a model that needs none.

    Args:
      folder: A folder for `find_saved_model`.
      packages: The packages, with their known libraries.
    """
    model = find_saved_model(folder)
    if model and packages:
        file_io.makedirs(os.path.join(model, os.path.dirname(_NOTE)))
        file_io.write_text(os.path.join(model, _NOTE), json.dumps(packages))


def noted_packages(model: str) -> dict[str, list[str]]:
    """Returns the packages that a SavedModel's note names, with their libraries; {} without a note.

    Raises:
      InputError: If the note is damaged.
    """
    path = os.path.join(model, _NOTE)
    if not file_io.exists(path):
        return {}
    what = "The list of the packages that the model needs"
    remedy = "Copy it again from the trained model, or delete it: then the installed packages are searched."
    try:
        return read_json(path, dict[str, list[str]], what)
    except InputError as error:
        raise InputError(f"{error} {remedy}") from error
