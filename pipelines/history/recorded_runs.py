"""Finds runs on disk: `run.json` files of `train`, and the ML Metadata stores of pipelines.

found = search_folder("experiments/")
[read_run(folder) for folder in found.model_runs]
"""

from __future__ import annotations

import dataclasses
import os

from absl import logging

from ...executors.errors import InputError
from ...executors.monitoring import run_record
from ...executors.monitoring.run_record import RunRecord
from ...executors.runtime.files import file_io
from ...executors.runtime.files.artifact_layout import FAILED_DIR
from ...executors.training import metadata_pointer
from ...executors.training.metadata_pointer import PipelineStore
from .metadata_store import SQLITE
from .past_runs import INTERRUPTED, RUNNING, SUCCEEDED, Run

_MAX_DEPTH = 5  # levels below the searched folder
_MAX_FOLDERS = 20_000  # folders to search; a home directory may have millions
_SKIPPED_FOLDERS = ("__pycache__", "node_modules", "site-packages", "checkpoints", "source")
MODEL_RUN, MODEL = "model_run", "model"  # folders in the --output of `train`


@dataclasses.dataclass
class FoundRuns:
    """Runs and metadata stores found in a folder.

    Attributes:
      model_runs: Folders with a `run.json`. In a pipeline root without a SQLite store this includes failed runs.
      stores: SQLite files of ML Metadata.
      recorded_stores: Stores recorded in pipeline roots by the Trainer's driver.
    """

    model_runs: list[str] = dataclasses.field(default_factory=list)
    stores: list[str] = dataclasses.field(default_factory=list)
    recorded_stores: list[PipelineStore] = dataclasses.field(default_factory=list)


def search_folder(folder: str) -> FoundRuns:
    """Searches a folder for runs, up to 5 levels deep; skips data, checkpoints and models.

    At most 20,000 folders are searched; a warning is logged if there are more.

    Raises:
      InputError: When there is no such folder.
    """
    if not file_io.isdir(folder):
        raise InputError(f"{folder}: there is no such folder.")
    found, pending, searched = FoundRuns(), [(file_io.absolute_path(folder), 0)], 0
    while pending:
        place, depth = pending.pop()
        searched += 1
        if searched > _MAX_FOLDERS:
            logging.warning("%s has more than %d folders; not all were searched.", folder, _MAX_FOLDERS)
            break
        files, folders = _entries(place)
        if SQLITE in files:
            found.stores.append(os.path.join(place, SQLITE))
            continue
        if metadata_pointer.FILE_NAME in files:
            found.recorded_stores += metadata_pointer.read_stores(place)
        if run_record.FILE_NAME in files:
            found.model_runs.append(place)
        elif "saved_model.pb" not in files and depth < _MAX_DEPTH:
            pending += [(os.path.join(place, name), depth + 1) for name in folders if _may_contain_runs(name)]
    return found


def _entries(folder: str) -> tuple[set[str], list[str]]:
    """Returns the names of the files and of the folders in a folder; empty if it cannot be read."""
    try:
        if file_io.is_remote(folder):
            names = file_io.listdir(folder)
            folders = [name for name in names if file_io.isdir(os.path.join(folder, name))]
            return set(names) - set(folders), folders
        with os.scandir(folder) as entries:
            is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return set(), []
    return {name for name, yes in is_folder.items() if not yes}, sorted(name for name, yes in is_folder.items() if yes)


def _may_contain_runs(name: str) -> bool:
    return name == FAILED_DIR or (not name.startswith((".", "Split-", "checkpoints.")) and name not in _SKIPPED_FOLDERS)


def read_run(folder: str) -> Run:
    """Returns the run that is recorded in a folder's `run.json`.

    Raises:
      InputError: When `run.json` is not a run record.
      OSError: When it cannot be read.
    """
    record = run_record.read_checked(folder)
    if missing := [name for name in ("id", "status", "started") if not getattr(record, name)]:
        raise InputError(f"{os.path.join(folder, run_record.FILE_NAME)} is not a run record: {missing[0]} is missing.")
    code, status = record.code, _status(record)
    return Run(
        id=record.id,
        status=status,
        started=record.started,
        seconds=None if record.status == RUNNING else seconds_of(record.phases),
        module=code.get("reference", ""),
        fingerprint=code.get("fingerprint", ""),
        dialect=record.dialect.get("name", ""),
        metrics=record.metrics,
        model_run=folder,
        model=_model_of(folder, record) if status == SUCCEEDED else None,
        error=record.error,
    )


def seconds_of(phases: dict[str, float]) -> float:
    """Returns a run's duration in seconds, the sum of its phases; skips sub-phases such as "training/load"."""
    return round(sum(took for name, took in phases.items() if "/" not in name), 3)


def _status(record: RunRecord) -> str:
    return INTERRUPTED if record.status == RUNNING and record.process.is_gone() else record.status


def _model_of(model_run: str, record: RunRecord) -> str | None:
    """Returns the folder of a run's model; None if a later run of `train` replaced it."""
    name = os.path.basename(model_run)
    beside = os.path.join(file_io.parent(model_run), MODEL)
    if name == MODEL_RUN and file_io.isdir(beside):
        return beside
    if name.startswith(f"{MODEL_RUN}."):
        return None
    serving = record.arguments.get("serving_model_dir")
    return file_io.parent(serving) if serving and file_io.isdir(serving) else None
