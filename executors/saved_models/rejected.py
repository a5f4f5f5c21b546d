"""Keeps what a module wrote when it is not published: a finished training is never deleted.

That is a model that fails its check or cannot be published, and a model that the module had saved before it raised.

    <model run>/rejected/20261123T153000Z-1f0c92ab/Format-Serving

The last `KEPT` of them are kept. TFX deletes the model run of a step that fails; there they are kept in
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
_DEPENDS = (
    "The model depends on the path that it was written to, which is gone after publishing. Save the files that it "
    "reads as its assets."
)


@contextlib.contextmanager
def kept_when_refused(staging: Staging, model_run_dir: str, record: RunRecord) -> Iterator[None]:
    """Moves the outputs of a run to `rejected/` when the block raises, and names the path in the error and the record.

    Args:
      staging: Where the outputs are.
      model_run_dir: The folder to keep them in.
      record: The run's record.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ModelCheckError) and staging.written in str(error):
            _add(error, _DEPENDS)
        path = _kept(staging, os.path.join(model_run_dir, FOLDER), record)
        if path:
            record.rejected = path
            _add(error, f"What the module wrote is kept in {path}.")
        raise


@contextlib.contextmanager
def kept_when_interrupted(
    staging: Staging, serving_model_dir: str, model_run_dir: str, record: RunRecord, check: Callable[[], object]
) -> Iterator[None]:
    """Keeps the SavedModel that a module had saved when the block, which runs the module, raises.

    A model that passes the check is called complete. On Ctrl-C or a signal there is no time for a check: the model is
    kept, and the message says that it was not checked. Anything else that the module wrote is left to the staging
    directory, which is deleted.

    Args:
      staging: Where the outputs are.
      serving_model_dir: The folder in the staging directory that the module saves its model to.
      model_run_dir: The folder to keep the outputs in.
      record: The run's record.
      check: Checks the model and records the result; raises when the model is not complete.
    """
    try:
        yield
    except BaseException as error:
        interrupted = is_interrupt(error)
        if not (interrupted or isinstance(error, Exception)) or not _is_saved(serving_model_dir):
            raise
        if not interrupted and (problem := _problem(check)):
            logging.warning("The module had saved a model before it failed; it is not kept. %s", problem)
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
    except OSError:  # it must not hide the first error
        return False


def _problem(check: Callable[[], object]) -> str:
    """Returns why a model is not complete; "" for one that is."""
    try:
        check()
    except Exception as error:  # it must not hide the first error
        return f"{type(error).__name__}: {error}"
    return ""


def _kept(staging: Staging, place: str, record: RunRecord) -> str:
    """Moves the outputs; returns their new path, "" when there are none or they cannot be moved."""
    started = datetime.datetime.fromisoformat(record.started).strftime("%Y%m%dT%H%M%SZ")
    path = os.path.join(place, f"{started}-{record.id[:8]}")
    try:
        outputs = staging.outputs
        if not _has_files(outputs):
            return ""
        _move(outputs, path)
        _delete_older(place, os.path.basename(path))
    except OSError as error:  # must not hide the first error
        logging.error("What the module wrote cannot be kept in %s: %s", path, error)
        return ""
    return path


def _has_files(outputs: str) -> bool:
    if file_io.is_remote(outputs):
        return file_io.isdir(outputs) and any(file_io.files_below(outputs))
    return any(files or any(map(os.path.islink, _in(base, names))) for base, names, files in os.walk(outputs))


def _in(base: str, names: list[str]) -> list[str]:
    return [os.path.join(base, name) for name in names]


def _move(outputs: str, path: str) -> None:
    """Moves a folder; on another disk the copy has the suffix `.part` until it is whole, and links stay links."""
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
    """Adds a sentence to an error: to its message if it is one of the trainer's, as a note otherwise."""
    if isinstance(error, StorageError) and error.advice:
        error.advice = f"{error.advice} {sentence}"
    elif isinstance(error, TrainerError) and not isinstance(error, OSError):
        error.args = (f"{error} {sentence}",)
    else:
        add_note(error, sentence)
