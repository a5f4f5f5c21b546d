"""Keeps a copy of the source, and describes the data files."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from absl import logging

from ...checkpoints import data_fingerprint
from ...modules.snapshot import keep_source
from ...runtime.files import file_io
from ...runtime.files.content_digests import Stamp, stamp_of
from ...runtime.quantities import size_text
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
      data: The files of `train_files` and of `eval_files` at the beginning, as `description_of` returns them.
      changed_data: The input files that changed while they were trained on, and how: "a.csv (cut from 4 kB to 2 kB)".
    """

    parts: ClassVar[Mapping[str, object]] = {"data": {}, "changed_data": []}

    @contextlib.contextmanager
    def inputs(self, run: Run) -> Iterator[None]:
        """Describes the files, when they are known."""
        yield
        inputs = run.ready.inputs
        run.record.parts["data"] = {
            name: description_of(files) for name, files in inputs.items() if name in data_fingerprint.PATTERNS
        }

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
            changes = sorted({change for files in run.ready.inputs.values() for change in changes_of(files)})
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


def description_of(files: data_fingerprint.DataFiles) -> dict[str, int | str]:
    """Describes data files for the run record.

    Returns:
      A dict with the number of `files` and the `digest`: 16 hexadecimal digits of a hash of the contents. If all files
      are on local disks, also their total size in `bytes`, and the latest modification time in UTC (`modified`).
    """
    described: dict[str, int | str] = {"files": len(files.stamps)}
    stamps = [stamp for stamp in files.stamps.values() if stamp]
    if stamps and not any(map(file_io.is_remote, files.stamps)):
        newest = max(int(modified) for _, _, modified, _ in stamps) / 1e9
        modified = datetime.datetime.fromtimestamp(newest, datetime.timezone.utc)
        described["bytes"] = sum(int(stamp[0]) for stamp in stamps)
        described["modified"] = modified.isoformat(timespec="seconds")
    return described | ({"digest": files.digest} if stamps else {})


def changes_of(files: data_fingerprint.DataFiles) -> list[str]:
    """Returns the files whose content has changed since they were read, and how: "a.csv (cut from 4 kB to 2 kB)"."""
    stamps = {path: stamp_of(path) for path in files.stamps}
    touched = [path for path, stamp in stamps.items() if stamp != files.stamps[path]]
    now = files.source.of(path for path in touched if stamps[path] is not None)
    return [
        f"{path} ({_change(files.stamps[path], stamps[path])})"
        for path in touched
        if now.get(path) != files.digests[path]
    ]


def _change(before: Stamp | None, now: Stamp | None) -> str:
    if before is None or now is None:
        return "deleted"
    old, new = int(before[0]), int(now[0])
    if old == new:
        return "replaced"
    return f"{'grown' if new > old else 'cut'} from {size_text(old)} to {size_text(new)}"
