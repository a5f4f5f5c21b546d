"""Searches places for runs: folders with the `run.json` of a run, and ML Metadata stores of pipelines.

found = search(["experiments/", "mysql://me@host/store"])
[read_run(folder) for folder in found.model_runs]
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from absl import logging

from ...executors.errors import InputError
from ...executors.monitoring import run_record
from ...executors.runtime.files import file_io
from ...executors.runtime.files.artifact_layout import FAILED_DIR
from ...executors.training import metadata_pointer
from ...executors.training.metadata_pointer import PipelineStore
from .metadata_store import SQLITE

_MAX_DEPTH = 5  # levels below the searched folder
_MAX_FOLDERS = 20_000  # folders to search; a home directory may have millions
_SKIPPED_FOLDERS = ("__pycache__", "node_modules", "site-packages", "checkpoints", "source")


@dataclasses.dataclass
class FoundRuns:
    """Runs and metadata stores in places.

    Attributes:
      model_runs: Folders with a `run.json`. In a pipeline root without a SQLite store this includes failed runs.
      stores: Stores, each of one pipeline as recorded in its root by the Trainer's driver, or with "" of all pipelines.
      named: Locations of the stores that must be readable, because they or their folders are places.
    """

    model_runs: list[str] = dataclasses.field(default_factory=list)
    stores: list[PipelineStore] = dataclasses.field(default_factory=list)
    named: list[str] = dataclasses.field(default_factory=list)

    def add_store(self, url: str) -> None:
        """Adds a store that must be readable."""
        self.stores.append(PipelineStore(url, ""))
        self.named.append(url)


def search(places: Sequence[str]) -> FoundRuns:
    """Searches places for runs.

    Args:
      places: SQLite files of ML Metadata, `mysql://user@host:port/database`, and folders. Folders are searched up to 5
        levels deep, except data, checkpoints and models, and at most 20,000 of them; a warning is logged if there are
        more.

    Raises:
      InputError: When a folder does not exist.
    """
    found = FoundRuns()
    for place in places:
        if place.startswith("mysql:") or os.path.isfile(place):
            found.add_store(place)
        elif file_io.isdir(place):
            found.named.append(os.path.join(file_io.absolute_path(place), SQLITE))
            _search_folder(place, found)
        else:
            raise InputError(f"{place}: there is no such folder.")
    return found


def _search_folder(folder: str, found: FoundRuns) -> None:
    pending, searched = [(file_io.absolute_path(folder), 0)], 0
    while pending:
        place, depth = pending.pop()
        searched += 1
        if searched > _MAX_FOLDERS:
            logging.warning("%s has more than %d folders; not all were searched.", folder, _MAX_FOLDERS)
            break
        files, folders = _entries(place)
        if SQLITE in files:
            found.stores.append(PipelineStore(os.path.join(place, SQLITE), ""))
            continue
        if metadata_pointer.FILE_NAME in files:
            found.stores += metadata_pointer.read_stores(place)
        if run_record.FILE_NAME in files:
            found.model_runs.append(place)
        elif "saved_model.pb" not in files and depth < _MAX_DEPTH:
            pending += [(os.path.join(place, name), depth + 1) for name in folders if _may_contain_runs(name)]


def _entries(folder: str) -> tuple[set[str], list[str]]:
    """Returns the names of the files and of the folders in a folder; empty if it cannot be read."""
    try:
        if file_io.is_remote(folder):
            names = set(file_io.listdir(folder))
            folders = {name for name in names if file_io.isdir(os.path.join(folder, name))}
        else:
            with os.scandir(folder) as entries:
                kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            names, folders = set(kinds), {name for name, is_folder in kinds.items() if is_folder}
    except OSError:
        return set(), []
    return names - folders, sorted(folders)


def _may_contain_runs(name: str) -> bool:
    return name == FAILED_DIR or (not name.startswith((".", "Split-", "checkpoints.")) and name not in _SKIPPED_FOLDERS)


def is_in(place: str, folder: str) -> bool:
    """Whether a path is a folder or below it; symbolic links are resolved."""
    place, folder = real_path(place), real_path(folder)
    return place == folder or place.startswith(f"{folder}/")


def real_path(path: str) -> str:
    """Returns the path of a file or folder without links; a remote one without a slash at its end."""
    return path.rstrip("/") if file_io.is_remote(path) else os.path.realpath(path)
