"""The state of one run, which its steps and its callbacks share."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..checkpoints.directory import CheckpointFolder, model_run_checkpoints, step_checkpoints
from ..dialects.needs import uses_estimators
from ..dialects.registry import installed
from ..engines.training_request import TrainingRequest, TrainingResult
from ..monitoring.run_record import SUCCEEDED, RunRecord
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import kept_folder
from ..saved_models.locations import find_saved_model
from ..saved_models.staging import STAGING, Staging

if TYPE_CHECKING:
    from ..engines.base import Engine, Place
    from ..fn_args import FnArgs
    from ..modules.keras_version import KerasChoice
    from ..monitoring.run_json import CheckReport
    from ..options import TrainingOptions
    from .preconditions import ReadyTraining


@dataclasses.dataclass
class Run:
    """A run.

    Attributes:
      module: The module's reference, as the user gave it.
      options: The options.
      fn_args: The arguments. A callback may replace them in SETUP, by local copies.
      shown: The arguments as the user gave them, for the record and messages.
      function: Name of the function to run; None for the dialect's choice.
      checkpoint_root: See `train`.
      raw_eval_files: See `train`.
      engine: What runs the worker; in EVALUATOR it may be another one.
      record: The record.
      ready: The module and its inputs, after INPUTS.
      keras: The settings of the run's processes, after INPUTS; a restart or a use of `tf.estimator` changes them.
      folders: The folders for checkpoints and logs, from TRAINING on.
      staging: The staging directory, from TRAINING on.
      staged_args: The arguments of `run_fn`, whose model folders are in the staging directory; from TRAINING on.
      result: The worker's result; empty before, and for a module that raised.
      variables: Environment variables for the next start of the worker, which callbacks add in ATTEMPT.
      on_start: Functions that callbacks add in ATTEMPT; they are called with the id of the worker's process.
      check_parts: {model check: JSON values for it}, which callbacks add in CHECK.
      reports: {folder of a model: report of its check}, at the end of CHECK.
      shown_phase: Returns the context that displays a phase to the user.
    """

    module: str
    options: TrainingOptions
    fn_args: FnArgs
    shown: FnArgs
    function: str | None
    checkpoint_root: str | None
    raw_eval_files: Sequence[str]
    engine: Engine
    record: RunRecord = dataclasses.field(default_factory=RunRecord)
    ready: ReadyTraining = dataclasses.field(init=False)
    keras: KerasChoice = dataclasses.field(init=False)
    folders: CheckpointFolder = dataclasses.field(init=False)
    staging: Staging = dataclasses.field(init=False)
    staged_args: FnArgs = dataclasses.field(init=False)
    result: TrainingResult = dataclasses.field(default_factory=TrainingResult)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    on_start: list[Callable[[int], object]] = dataclasses.field(default_factory=list)
    check_parts: dict[str, Any] = dataclasses.field(default_factory=dict)
    reports: dict[str, CheckReport] = dataclasses.field(default_factory=dict)
    shown_phase: Callable[[str], contextlib.AbstractContextManager[object]] = contextlib.nullcontext

    @property
    def place(self) -> Place:
        """What this process is in the run."""
        return self.engine.place

    @property
    def is_published(self) -> bool:
        """Whether the model is published."""
        return self.record.status == SUCCEEDED

    @functools.cached_property
    def uses_estimators(self) -> bool:
        """Whether the module trains an Estimator."""
        return uses_estimators(self.ready.source.files)

    @property
    def shared_staging(self) -> str:
        """The staging directory's name if all tasks of a cluster share one (Estimators only), else "".

        An Estimator's evaluator exports the model that the chief publishes. In all other cases each task has its own
        directory, so that workers that all save the model do not overwrite each other's files.
        """
        cluster = self.place.cluster_id
        return f"{STAGING}-{cluster}" if cluster and self.uses_estimators else ""

    @property
    def models_folder(self) -> str:
        """The folder that the model is published in."""
        return file_io.parent(self.fn_args.serving_model_dir)

    @property
    def unpublished_folder(self) -> str:
        """The folder for outputs that are not published: in a pipeline, one that is kept after a failure."""
        folder = self.fn_args.model_run_dir or ""
        return kept_folder(folder) if self.checkpoint_root else folder

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Displays a phase, and records its duration, also if it raises."""
        with self.shown_phase(phase), self.record.phase(phase):
            yield

    def succeed(self) -> None:
        """Marks the run as succeeded, and deletes the state from which an unpublished run would resume."""
        self.record.status = SUCCEEDED
        self.folders.delete_finished()

    def has_model(self) -> bool:
        """Whether the module has written a SavedModel."""
        return find_saved_model(self.staged_args.serving_model_dir) is not None

    def may_end_without_model(self) -> bool:
        """Whether the module has written no model, and its dialect needs none."""
        if file_io.exists(self.staged_args.serving_model_dir):
            return False
        return not installed()[self.result.dialect].needs_model(self.fn_args)

    def checkpoints(self) -> contextlib.AbstractContextManager[CheckpointFolder]:
        """Returns the context of the checkpoint folder; a `checkpoint_dir` set by the caller is not cleaned up."""
        folder, is_chief, identity = self.fn_args.model_run_dir, self.place.is_chief, self.ready.identity
        if self.fn_args.checkpoint_dir:
            return contextlib.nullcontext(CheckpointFolder(self.fn_args.checkpoint_dir, folder))
        if self.checkpoint_root is None:
            return model_run_checkpoints(identity, folder, is_chief)
        # The tasks of a cluster must all use the same model run folder.
        is_estimator = not self.place.name and self.uses_estimators
        return step_checkpoints(self.checkpoint_root, identity, folder, is_estimator, is_chief)

    def args_in(self, folder: str) -> FnArgs:
        """Returns the arguments of `run_fn` with the model folders in a folder of the staging directory."""
        given, place = self.fn_args, self.place
        args = copy.copy(given)
        args.custom_config = copy.deepcopy(given.custom_config)
        args.seed = self.options.seed if self.options.seed is not None else given.seed
        args.serving_model_dir = os.path.join(folder, os.path.basename(given.serving_model_dir.rstrip("/")))
        if given.eval_model_dir:
            args.eval_model_dir = os.path.join(folder, os.path.basename(given.eval_model_dir.rstrip("/")))
        args.checkpoint_dir, args.model_run_dir = self.folders.path, self.folders.model_run_dir
        if args.seed is None and place.shares_batches:
            args.seed = zlib.crc32(args.checkpoint_dir.encode())  # same for all workers and retries
        if place.name:
            args.is_chief, args.worker_index, args.num_workers = place.is_chief, place.worker_index, place.num_workers
        return args

    def request(self) -> TrainingRequest:
        """Returns the worker's request."""
        key = self.ready.identity.result_key if self.place.is_chief else ""
        ready = self.ready
        return TrainingRequest(ready.source, ready.function, self.staged_args, self.options, self.keras, key)
