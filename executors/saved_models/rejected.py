"""Keeps a module's outputs that are not published, so that a finished training is never lost.

Keeps models that fail their check or cannot be published, models that were saved before the module raised, and models
that were not checked because a signal ended the run. The next run of the same training checks and publishes the latter:

    <model run>/rejected/20261123T153000Z-1f0c92ab/Format-Serving

Keeps the last `KEPT` (3). TFX deletes the model run of a failed component; in pipelines they are kept in
`.failed/NUMBER` beside it, with the run's record and report (see `report.writing`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator

from absl import logging

from ..errors import ModelCheckError, StorageError, TrainerError
from ..monitoring.run_record import SUCCEEDED, RunRecord, is_interrupt, is_trained
from ..runtime.files import durable, file_io
from ..runtime.files.artifact_layout import FAILED_DIR, REJECTED_DIR
from ..runtime.logs.exceptions import add_note
from ..runtime.process.preemption import deferred_signals
from .finished import FinishedTraining, delete_marker
from .locations import find_saved_model
from .readable_files import replace_links
from .staging import Staging

FOLDER = REJECTED_DIR
KEPT = 3
_PART = ".part"
_PROGRAM, _MODULE = "generic-trainer", "generic_trainer.cli.main"
_PATH_DEPENDENCE = (
    "The model depends on the path that it was written to, which does not exist after publishing. Save the files that "
    "it reads as assets."
)


@dataclasses.dataclass(frozen=True)
class Unpublished:
    """The outputs of a run that are not published yet.

    Attributes:
      staging: The staging directory that contains them.
      model: Name of the serving model's folder.
      model_run_dir: The folder that contains `rejected/`.
      record: The run's record.
    """

    staging: Staging
    model: str
    model_run_dir: str
    record: RunRecord

    def is_trained(self) -> bool:
        """Whether the module has returned."""
        return is_trained(self.record.phases)

    def has_saved_model(self) -> bool:
        """Whether the module has saved a SavedModel, complete or not."""
        try:
            return find_saved_model(os.path.join(self.staging.outputs, self.model)) is not None
        except OSError:  # must not hide the original error
            return False

    def discard_incomplete(self, error: Exception, check: Callable[[], object]) -> None:
        """Deletes what a module saved before it raised if it does not pass the check."""
        if is_interrupt(error) or self.is_trained() or not self.has_saved_model():
            return
        try:
            check()
        except Exception as problem:  # must not hide the original error
            reason = f"{type(problem).__name__}: {problem}"
            logging.warning("The module had saved a model before it failed; the model is not kept: %s", reason)
            with contextlib.suppress(OSError):
                file_io.rmtree(self.staging.outputs)

    def keep(self, error: BaseException) -> None:
        """Moves the outputs to `rejected/`, and adds the path to the error and the run's record."""
        if self.record.status == SUCCEEDED or not (self.is_trained() or self.has_saved_model()):
            return
        if isinstance(error, ModelCheckError) and self.staging.written in str(error):
            _add(error, _PATH_DEPENDENCE)
        started = datetime.datetime.fromisoformat(self.record.started)
        path = _kept(self.staging, self.model_run_dir, started, self.record.id[:8])
        if not path:
            return
        self.record.rejected = path
        if isinstance(error, ModelCheckError):
            delete_marker(path)  # the next run must not check it again
        self.record.unchecked = not (self.record.check or isinstance(error, ModelCheckError))
        self._describe(error, path)

    def _describe(self, error: BaseException, path: str) -> None:
        advice = ""
        if FinishedTraining.read(path) is not None:
            advice = " Run the same command again: it checks and publishes the model without training again."
        if self.is_trained() and isinstance(error, Exception):
            _add(error, f"The module's outputs are kept in {path}.{advice}")
        else:
            state = "complete model, which passes the check" if self.record.check else "model, which was not checked"
            add_note(error, f"nothing was published; the module had saved a {state}. It is kept in {path}.{advice}")
            logging.warning("Nothing was published; the module had saved a %s. It is kept in %s.", state, path)
        if advice and (command := _own_command()):
            logging.warning("To check and publish the model in %s, run: %s", path, command)


@contextlib.contextmanager
def keep_unpublished(outputs: Unpublished, check: Callable[[], object]) -> Iterator[None]:
    """Moves a run's outputs to `rejected/` if the block, which trains, checks and publishes, raises before publishing.

    After an error of the module, its outputs are kept only if they are a model that passes the check. After Ctrl-C or a
    signal there is no time for a check: they are kept as soon as they contain a SavedModel. After the module has
    returned, all outputs are kept, whatever the exception; signals do not interrupt this.

    Args:
      outputs: The outputs of the run.
      check: Checks the model and records the result; raises if the model is incomplete.
    """
    try:
        try:
            yield
        except Exception as error:
            outputs.discard_incomplete(error, check)
            raise
    except BaseException as error:  # also one that ended this check
        with deferred_signals(repeated=True):
            outputs.keep(error)
        raise


def keep_abandoned(staging: Staging, model_run_dir: str) -> None:
    """Moves the finished model of a killed run from its staging directory to `rejected/`."""
    name = os.path.basename(staging.path).rpartition("-")[2]
    path = _kept(staging, model_run_dir, datetime.datetime.now(datetime.timezone.utc), name)
    if path:
        logging.warning("A run was killed before it checked its model, which is kept in %s.", path)


def resume_unchecked(staging: Staging, model_run_dir: str, key: str) -> tuple[str, FinishedTraining] | None:
    """Moves the model of `find_unchecked` to a staging directory; returns what that returns."""
    unchecked = find_unchecked(model_run_dir, key)
    if unchecked is not None:
        file_io.rmtree(staging.written)
        _move(unchecked[0], staging.written)
    return unchecked


def find_unchecked(model_run_dir: str, key: str) -> tuple[str, FinishedTraining] | None:
    """Finds the newest finished model of the same training in `rejected/`.

    Args:
      model_run_dir: The folder that contains `rejected/`. Those of all failed attempts of a pipeline step are searched.
      key: `Identity.result_key` of the training.

    Returns:
      The folder of the model, and the training that wrote it; None without a model.
    """
    runs = file_io.parent(model_run_dir)
    is_step = os.path.basename(runs) == FAILED_DIR
    places = [os.path.join(runs, name) for name in _names_in(runs)] if is_step else [model_run_dir]
    kept = [os.path.join(place, FOLDER, name) for place in places for name in _names_in(os.path.join(place, FOLDER))]
    for path in sorted(kept, key=os.path.basename, reverse=True):
        finished = FinishedTraining.read(path)
        if finished is not None and finished.key == key and not path.endswith(_PART):
            return path, finished
    return None


def _names_in(folder: str) -> list[str]:
    return file_io.listdir(folder) if file_io.isdir(folder) else []


def _kept(staging: Staging, model_run_dir: str, started: datetime.datetime, name: str) -> str:
    """Moves the outputs to `rejected/`; returns their new path, or "" if there are none or the move fails."""
    place = os.path.join(model_run_dir, FOLDER)
    path = os.path.join(place, f"{started:%Y%m%dT%H%M%SZ}-{name}")
    try:
        outputs = staging.outputs
        if not _has_files(outputs):
            return ""
        if staging.holds_finished_model():
            with contextlib.suppress(ModelCheckError, OSError):
                replace_links(outputs)  # the targets of absolute links in the outputs move, too
        _move(outputs, path)
    except OSError as error:  # must not hide the original error
        logging.error("Could not keep the module's outputs in %s: %s", path, error)
        return ""
    _sync(path)
    with contextlib.suppress(OSError):  # the next run deletes them
        _delete_older(place, os.path.basename(path))
    return path


def _has_files(outputs: str) -> bool:
    if file_io.is_remote(outputs):
        return file_io.isdir(outputs) and any(file_io.files_below(outputs))
    return any(
        files or any(os.path.islink(os.path.join(base, name)) for name in names)
        for base, names, files in os.walk(outputs)
    )


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
        durable.sync_tree(part)
        os.rename(part, path)
        _sync(path)
        delete_marker(outputs)
        shutil.rmtree(outputs, ignore_errors=True)


def _sync(path: str) -> None:
    try:
        durable.sync_tree(path)
        durable.sync_parents(path)
    except OSError as error:  # the outputs are in place, and must not count as lost
        logging.warning("%s may not survive a power loss. %s", path, error)


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


def _own_command() -> str:
    """Returns the command to run this process again if it is the command `generic-trainer`; otherwise ""."""
    words = sys.orig_argv
    for index, word in enumerate(words):
        if os.path.basename(word) == _PROGRAM:
            return shlex.join(words[index:])
    return shlex.join(words) if _MODULE in words else ""
