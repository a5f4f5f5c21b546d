"""Where a SavedModel lies in a trainer's outputs, in this and in earlier releases of TFX."""

from __future__ import annotations

import os

from absl import logging

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import SERVING_DIRS

MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")


def base_model_path(uri: str) -> str:
    """Returns the SavedModel's folder in a Model artifact, in a layout of any TFX release.

    These are `Format-Serving` or `serving_model_dir`, holding the SavedModel itself or, as Estimators
    export, `export/NAME/TIMESTAMP`, of which the newest is taken; or the SavedModel right at the URI; or
    what `generic-trainer train` writes, which has them all below `model`.

    Raises:
      InputError: When there is no SavedModel in any of these places.
    """
    artifact = os.path.join(uri, "model") if file_io.isdir(os.path.join(uri, "model")) else uri
    for folder in [*(os.path.join(artifact, name) for name in SERVING_DIRS), uri]:
        if file_io.isdir(folder) and (found := find_saved_model(folder)):
            return found
    raise InputError(f"base_model {uri}: no SavedModel in {', '.join(SERVING_DIRS)}, or at the folder itself.")


def find_saved_model(folder: str) -> str | None:
    """Returns the folder with the SavedModel, or None when there is none.

    That is `folder`; or the newest in `folder/export/NAME/TIMESTAMP`, as an Estimator's exporters write; or the only
    one in `folder/TIMESTAMP`, as `Estimator.export_saved_model(folder)` writes.
    """
    if _holds_model(folder):
        return folder
    if found := _newest_export(os.path.join(folder, "export")):
        return found
    below = timestamped_models(folder) if file_io.isdir(folder) else []
    return below[0] if len(below) == 1 else None


def lift_timestamped_model(folder: str) -> None:
    """Moves the only SavedModel in `folder/TIMESTAMP` to the folder itself, where readers of a model look for it."""
    found = find_saved_model(folder)
    if found is None or file_io.parent(found) != folder.rstrip("/"):
        return
    path = os.path.relpath(found, file_io.parent(folder))
    logging.info("The module saved its model to %s. It is published without the timestamp.", path)
    for name in sorted(file_io.listdir(found), key=lambda name: (name in MODEL_FILES, name)):
        file_io.move(os.path.join(found, name), os.path.join(folder, name))
    file_io.rmtree(found)


def _holds_model(folder: str) -> bool:
    return any(file_io.exists(os.path.join(folder, name)) for name in MODEL_FILES)


def _newest_export(exports: str) -> str | None:
    if not file_io.isdir(exports):
        return None
    exporters = [os.path.join(exports, name) for name in file_io.listdir(exports)]
    found = [path for exporter in exporters if file_io.isdir(exporter) for path in timestamped_models(exporter)]
    return max(found, key=lambda path: (int(os.path.basename(path)), path), default=None)


def timestamped_models(folder: str) -> list[str]:
    """Returns the SavedModels in subfolders that are called by a number."""
    paths = [os.path.join(folder, name) for name in file_io.listdir(folder) if name.isdigit()]
    return [path for path in paths if _holds_model(path)]
