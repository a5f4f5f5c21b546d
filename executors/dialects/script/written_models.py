"""Records the SavedModels that code writes, wherever it writes them.

    with written_models() as models:
        run_code()
    models.existing()         # ["/models/export/1", "/models/final"]: in the order of the writes

A folder that was written and then moved or deleted, such as the temporary one of an Estimator's export, is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ...compat.tensorflow import exports_reported, graph_builders_reported
from ...estimator.interception import EstimatorCall, EstimatorObserver
from ...runtime.files import file_io
from ...runtime.observers import observed_by
from ...saved_models.locations import holds_model


@contextlib.contextmanager
def written_models() -> Iterator[WrittenModels]:
    """Records the SavedModels that are written in the block by TensorFlow, Keras or an Estimator."""
    models = WrittenModels()
    with exports_reported(models.add), graph_builders_reported(models.add), observed_by(models):
        yield models


class WrittenModels(EstimatorObserver):
    """The SavedModels written so far."""

    def __init__(self) -> None:
        self._folders: list[str] = []

    def add(self, folder: str) -> None:
        """Records a folder; one that is written again moves to the end."""
        path = file_io.absolute_path(folder)
        self._folders = [*(written for written in self._folders if written != path), path]

    def export(self, call: EstimatorCall, proceed: Callable[[], object]) -> object:
        """Records the folder of an Estimator's export, which returns it."""
        folder = proceed()
        self.add(folder.decode() if isinstance(folder, bytes) else str(folder))
        return folder

    def existing(self) -> list[str]:
        """Returns the folders that contain a SavedModel now, in the order of the writes."""
        return [folder for folder in self._folders if holds_model(folder)]
