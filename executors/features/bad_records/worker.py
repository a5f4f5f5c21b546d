"""Skips bad records, and names the files of those that end a training."""

from __future__ import annotations

from ...inputs import bad_records
from ...inputs.bad_data_notes import bad_data_described
from ...training.worker_callbacks import Context, WorkerCallback


class BadRecords(WorkerCallback):
    """Skips records, up to the limit of `on_bad_records`."""

    order = 10

    def loading(self) -> Context:
        """Adds file and record to the error of a bad one."""
        args = self.request.fn_args
        return bad_data_described([*(args.train_files or ()), *(args.eval_files or ())])

    def around(self) -> Context:
        """Skips records."""
        limit = bad_records.limit_of(self.request.options.on_bad_records)
        return bad_records.skipping(limit, self.request.fn_args.model_run_dir)
