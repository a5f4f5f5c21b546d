"""Marks the outputs of a finished training, so that its model survives whatever ends the run before publishing.

    mark_finished(serving_model_dir, key, result)    # in the training process, after the module has returned
    FinishedTraining.read(folder)                    # in a later run: check and publish the model

The marker is beside the model and moves along with it: from the staging directory to `rejected/` and back. A
half-written model has none. When publishing exchanges two models, the replaced one takes the new one's place in the
staging directory; it is told apart by the number of its inode.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

from absl import logging

from ..runtime.files import durable, file_io
from .locations import MODEL_FILES, find_saved_model

FILE_NAME = ".finished.json"


@dataclasses.dataclass(frozen=True)
class FinishedTraining:
    """A training whose module has returned.

    Attributes:
      key: `Identity.result_key` of the training.
      model: Name of the folder with the serving model, beside the marker.
      inode: Inode number of the SavedModel's file; 0 on an object store.
      result: The training process's result as JSON values, `training_request.TrainingResult`.
    """

    key: str
    model: str
    inode: int
    result: Mapping[str, object]

    @classmethod
    def read(cls, folder: str) -> FinishedTraining | None:
        """Returns the training whose outputs are in a folder; None if there is no marker, or of another release."""
        path = os.path.join(folder, FILE_NAME)
        try:
            return cls(**json.loads(file_io.read_text(path))) if file_io.exists(path) else None
        except (OSError, TypeError, ValueError):
            return None

    def has_model_in(self, folder: str) -> bool:
        """Whether the model that the training has written is still in a folder of its staging directory."""
        path = os.path.join(folder, self.model)
        return find_saved_model(path) is not None and _inode_of(path) == self.inode


def mark_finished(serving_model_dir: str, key: str, result: Mapping[str, object]) -> None:
    """Writes the marker beside a model; a no-op if the folder contains no SavedModel."""
    if find_saved_model(serving_model_dir) is None:
        return
    name = os.path.basename(serving_model_dir.rstrip("/"))
    finished = FinishedTraining(key, name, _inode_of(serving_model_dir), result)
    path = os.path.join(file_io.parent(serving_model_dir), FILE_NAME)
    try:
        durable.sync_tree(serving_model_dir)  # after a power loss, the marker must not stand beside empty files
        file_io.write_text(path, json.dumps(dataclasses.asdict(finished)))
    except OSError as error:  # a full disk, which may suffice for the rest of the run
        logging.warning("If this run is killed before it publishes its model, the model is lost. %s", error)


def delete_marker(folder: str) -> None:
    """Deletes the marker: the outputs are written again, or the model has failed its check."""
    path = os.path.join(folder, FILE_NAME)
    if file_io.exists(path):
        file_io.file_system(path).remove(path)


def _inode_of(serving_model_dir: str) -> int:
    model = find_saved_model(serving_model_dir)
    if model is None or file_io.is_remote(model):
        return 0
    paths = (os.path.join(model, name) for name in MODEL_FILES)
    return next((os.stat(path).st_ino for path in paths if os.path.exists(path)), 0)
