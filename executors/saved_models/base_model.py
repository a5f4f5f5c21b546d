"""Finds the SavedModel in a Model artifact of any TFX release."""

from __future__ import annotations

import os

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import SERVING_DIRS
from .locations import find_saved_model


def base_model_path(uri: str) -> str:
    """Returns the SavedModel's folder in a Model artifact.

    Searches `Format-Serving` and `serving_model_dir`, which may contain the SavedModel itself or, for Estimators,
    `export/NAME/TIMESTAMP` (the newest is returned); then the URI itself. In the output of `generic-trainer train`, the
    first two are below `model`. Without a model there, the same places are searched in the subfolders with numeric
    names, the highest first, as the Pusher and the Trainer component write them.

    Raises:
      InputError: If none of these contains a SavedModel.
    """
    for place in (uri, *file_io.numbered_in(uri)):
        artifact = os.path.join(place, "model") if file_io.isdir(os.path.join(place, "model")) else place
        for folder in [*(os.path.join(artifact, name) for name in SERVING_DIRS), place]:
            if file_io.isdir(folder) and (model := find_saved_model(folder)):
                return model
    raise InputError(f"base_model {uri}: no SavedModel in {', '.join(SERVING_DIRS)}, or the folder itself.")
