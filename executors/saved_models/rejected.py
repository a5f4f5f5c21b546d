"""Keeps a module's outputs that are not published, so that a finished training is never lost.

Keeps models that fail their check or cannot be published, and models that were saved before the module raised:

    <model run>/rejected/20261123T153000Z-1f0c92ab/Format-Serving

Keeps the last `KEPT` (3). TFX deletes the model run of a failed component; in pipelines they are kept in
`.failed/NUMBER` beside it, with the run's record and report (see `report.writing`).
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections.abc import Callable, Iterator

from absl import logging

from ..errors import ModelCheckError, StorageError, TrainerError
from ..monitoring.run_record import RunRecord, is_interrupt
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import REJECTED_DIR
from ..runtime.logs.exceptions import add_note
from .locations import find_saved_model
from .staging import Staging

FOLDER = REJECTED_DIR
KEPT = 3
_PART = ".part"
_PATH_DEPENDENCE = (
    "The model depends on the path that it was written to, which does not exist after publishing. Save the files that "
    "it reads as assets."
)


@contextlib.contextmanager
def keep_if_rejected(staging: Staging, model_run_dir: str, record: RunRecord) -> Iterator[None]:
    """Moves a run's outputs to `rejected/` if the block raises, and adds the path to the error and the run's record.

    Args:
      staging: The staging directory with the outputs.
      model_run_dir: The folder that contains `rejected/`.
      record: The run's record.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ModelCheckError) and staging.written in str(error):
            _add(error, _PATH_DEPENDENCE)
        path = _kept(staging, os.path.join(model_run_dir, FOLDER), record)
        if path:
            record.rejected = path
            _add(error, f"The module's outputs are kept in {path}.")
        raise


@contextlib.contextmanager
def keep_if_interrupted(
    staging: Staging, serving_model_dir: str, model_run_dir: str, record: RunRecord, check: Callable[[], object]
) -> Iterator[None]:
    """Moves a run's outputs to `rejected/` if the block, which runs the module, raises after a SavedModel was saved.

    After an error, the outputs are kept only if the model passes the check. After Ctrl-C or a signal there is no time
    for a check: they are kept, and the message notes that the model was not checked. Otherwise they are deleted with
    the staging directory.

    Args:
      staging: The staging directory with the outputs.
      serving_model_dir: The folder in the staging directory for the module's serving model.
      model_run_dir: The folder that contains `rejected/`.
      record: The run's record.
      check: Checks the model and records the result; raises if the model is incomplete.
    """
    try:
        yield
    except BaseException as error:
        interrupted = is_interrupt(error)
        if not (interrupted or isinstance(error, Exception)) or not _is_saved(serving_model_dir):
            raise
        if not interrupted and (problem := _problem(check)):
            logging.warning("The module had saved a model before it failed; the model is not kept: %s", problem)
            raise
        if path := _kept(staging, os.path.join(model_run_dir, FOLDER), record):
            record.rejected = path
            found = "a model, which was not checked" if interrupted else "a complete model, which passes the check"
            add_note(error, f"nothing was published; the module had saved {found}. It is kept in {path}.")
            logging.warning("Nothing was published; the module had saved %s. It is kept in %s.", found, path)
        raise


def _is_saved(serving_model_dir: str) -> bool:
    try:
        return find_saved_model(serving_model_dir) is not None
    except OSError:  # must not hide the original error
        return False


def _problem(check: Callable[[], object]) -> str:
    """Returns the error of a model's check; "" if it passes."""
    try:
        check()
    except Exception as error:  # must not hide the original error
        return f"{type(error).__name__}: {error}"
    return ""


def _kept(staging: Staging, place: str, record: RunRecord) -> str:
    """Moves the outputs to `place`; returns their new path, or "" if there are none or the move fails."""
    started = datetime.datetime.fromisoformat(record.started).strftime("%Y%m%dT%H%M%SZ")
    path = os.path.join(place, f"{started}-{record.id[:8]}")
    try:
        outputs = staging.outputs
        if not _has_files(outputs):
            return ""
        _move(outputs, path)
        _delete_older(place, os.path.basename(path))
    except OSError as error:  # must not hide the original error
        logging.error("Could not keep the module's outputs in %s: %s", path, error)
        return ""
    return path


def _has_files(outputs: str) -> bool:
    if file_io.is_remote(outputs):
        return file_io.isdir(outputs) and any(file_io.files_below(outputs))
    return any(files or any(map(os.path.islink, _in(base, names))) for base, names, files in os.walk(outputs))


def _in(base: str, names: list[str]) -> list[str]:
    return [os.path.join(base, name) for name in names]


def _move(outputs: str, path: str) -> None:
    """Moves a folder; a copy to another disk keeps symbolic links, and has the suffix `.part` until it is complete."""
    if file_io.is_remote(outputs) or file_io.is_remote(path):
        file_io.move(outputs, path)
        return
    file_io.makedirs(file_io.parent(path))
    try:
        os.rename(outputs, path)
    except OSError as error:
        if error.errno not in file_io.NO_RENAME:
            raise
        part = f"{path}{_PART}"
        shutil.copytree(outputs, part, symlinks=True)
        os.rename(part, path)


def _delete_older(place: str, newest: str) -> None:
    others = [name for name in file_io.listdir(place) if name != newest]
    whole = [name for name in others if not name.endswith(_PART)]
    for name in set(others) - set(whole[max(0, len(whole) - KEPT + 1) :]):
        file_io.rmtree(os.path.join(place, name))


def _add(error: Exception, sentence: str) -> None:
    """Adds a sentence to an error: to the message or advice of a `TrainerError`, as a note to other errors."""
    if isinstance(error, StorageError) and error.advice:
        error.advice = f"{error.advice} {sentence}"
    elif isinstance(error, TrainerError) and not isinstance(error, OSError):
        error.args = (f"{error} {sentence}",)
    else:
        add_note(error, sentence)
