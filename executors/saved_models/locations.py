"""Finds the SavedModel in a trainer's outputs, in the layouts of all TFX releases."""

from __future__ import annotations

import os

from absl import logging

from ..runtime.files import file_io
from ..runtime.files.file_kinds import special_kind

OTHER_MODELS = "other_models"  # beside the serving model: further SavedModels of a script
MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")


def find_saved_model(folder: str) -> str | None:
    """Returns the folder of the SavedModel in a serving model directory, or None.

    Searches `folder` itself; then `folder/export/NAME/TIMESTAMP`, written by an Estimator's exporters (the newest is
    returned); then `folder/TIMESTAMP`, written by `Estimator.export_saved_model(folder)`, if there is only one.
    """
    if holds_model(folder):
        return folder
    if export := _newest_export(os.path.join(folder, "export")):
        return export
    below = timestamped_models(folder)
    return below[0] if len(below) == 1 else None


def lift_timestamped_model(folder: str) -> None:
    """Moves the only SavedModel in `folder/TIMESTAMP` to the folder itself, where TFX and Serving look for it."""
    model = find_saved_model(folder)
    if model is None or file_io.parent(model) != folder.rstrip("/"):
        return
    path = os.path.relpath(model, file_io.parent(folder))
    logging.info("The module saved its model to %s. It is published without the timestamp.", path)
    for name in sorted(file_io.listdir(model), key=lambda name: (name in MODEL_FILES, name)):
        file_io.move(os.path.join(model, name), os.path.join(folder, name))
    file_io.rmtree(model)


def holds_model(folder: str) -> bool:
    """Returns whether a folder itself is a SavedModel; something other than a regular file is no `saved_model.pb`."""
    paths = [os.path.join(folder, name) for name in MODEL_FILES]
    return any(file_io.exists(path) and not special_kind(path) for path in paths)


def _newest_export(exports: str) -> str | None:
    exporters = file_io.listdir(exports) if file_io.isdir(exports) else []
    models = [path for exporter in exporters for path in timestamped_models(os.path.join(exports, exporter))]
    return max(models, key=lambda path: (int(os.path.basename(path)), path), default=None)


def timestamped_models(folder: str) -> list[str]:
    """Returns the subfolders with numeric names that contain a SavedModel, the newest first."""
    return [path for path in file_io.numbered_in(folder) if holds_model(path)]
