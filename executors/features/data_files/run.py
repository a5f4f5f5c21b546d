"""Keeps a copy of the source, and describes the data files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from absl import logging

from ...checkpoints.data_fingerprint import PATTERNS
from ...modules.snapshot import keep_source
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run

_LISTED_CHANGES = 3  # in a warning; the record lists all


class SourceCopy(RunCallback):
    """Keeps a copy of the module's files in the model run."""

    @contextlib.contextmanager
    def training(self, run: Run) -> Iterator[None]:
        """Keeps it, in the chief of a cluster only."""
        if run.place.is_chief:
            keep_source(run.ready.source, run.fn_args.model_run_dir)
        yield


class DataFiles(RunCallback):
    """Records the data files, and those that change while they are trained on.

    Parts of the record:
      data: The files of `train_files` and of `eval_files` at the beginning, as `DataFiles.describe` returns them.
      changed_data: The input files that changed while they were trained on, and how: "a.csv (cut from 4 kB to 2 kB)".
    """

    parts: ClassVar[Mapping[str, object]] = {"data": {}, "changed_data": []}

    @contextlib.contextmanager
    def inputs(self, run: Run) -> Iterator[None]:
        """Describes the files, when they are known."""
        yield
        inputs = run.ready.inputs
        run.record.parts["data"] = {name: files.describe() for name, files in inputs.items() if name in PATTERNS}

    @contextlib.contextmanager
    def training(self, run: Run) -> Iterator[None]:
        """Warns of changes, also if the training raises; the chief keeps the files' digests for the next run."""
        if not run.place.is_chief:
            yield
            return
        run.ready.digests.save()
        try:
            yield
        finally:
            changes = sorted({change for files in run.ready.inputs.values() for change in files.changes()})
            run.record.parts["changed_data"] = changes
            if changes:
                from ...inputs.message_text import join_names

                logging.warning(
                    "Input files changed while the model was trained on them: %s. The model may be of a mixture of "
                    "both contents. Train again for the new one.",
                    join_names(changes, _LISTED_CHANGES),
                )

    def evaluator(self, run: Run) -> Context:
        """See `training`."""
        return self.training(run)
