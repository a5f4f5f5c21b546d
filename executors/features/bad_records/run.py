"""Records the skipped records of all processes of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ...inputs import bad_records
from ...inputs.bad_records import ERROR, limit_of
from ...option import DATA, option
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class BadRecordsOptions:
    """What happens to bad records."""

    on_bad_records: str = option(
        ERROR,
        "Handling of unreadable records: 'error', or skip:N to skip and list at most N of them.",
        group=DATA,
        order=70,
        check=limit_of,
        tuner=True,
    )


class SkippedRecords(RunCallback):
    """Records the skipped records of all known cluster tasks, also if the training raises.

    The part of the record is a `bad_records.SkippedRecords`, of all workers.
    """

    parts: ClassVar[Mapping[str, object]] = {"bad_records": {}}

    @contextlib.contextmanager
    def training(self, run: Run) -> Iterator[None]:
        """Forgets those of an earlier training."""
        if run.place.is_chief and not run.record.resumed_model:
            bad_records.forget(run.folders.model_run_dir)
        with self.evaluator(run):
            yield

    @contextlib.contextmanager
    def evaluator(self, run: Run) -> Iterator[None]:
        """Records them.

        Raises:
          InputError: If they are more than allowed; each process only checks the limit for its own records.
        """
        limit = limit_of(run.options.on_bad_records)
        if limit is None:
            yield
            return
        try:
            yield
        finally:
            skipped = bad_records.merged_records(run.folders.model_run_dir, limit)
            run.record.parts["bad_records"] = skipped.to_json()
        skipped.require_within_limit()
