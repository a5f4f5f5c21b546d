"""`on_bad_records`: raises an error for a corrupt record, or skips, counts and lists corrupt records up to a limit.

The trainer's readers call `policy()` when they find a bad record. All reader threads of a process share one
`BadRecords` object. A bad record is identified by file and position, so one that is found again in every epoch counts
once.

In a run with several processes, each process writes its own list to a file in the model run, even if it fails:

    model_run/bad_records/3f0c….json                     {"limit": 10, "count": 1, "readers": […], "records": […]}

Usage:

    with skipping(limit_of("skip:10"), fn_args.model_run_dir):     # limit None: every bad record is an error
        ...
    merged_records(fn_args.model_run_dir, limit_of("skip:10")).to_json()

In a reader:

    if (bad := policy("CSV")) is None:
        raise InputError(…)
    bad.skip(path, "line 7", "it has 2 fields, and there are 3 columns")
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import uuid
from collections.abc import Iterator, Sequence

from absl import logging

from .. import run_context
from ..errors import InputError
from ..number_range import POSITIVE
from ..runtime.files import file_io
from ..runtime.files.content_digests import Stamp
from ..runtime.files.json_data import JsonData, read_json

ERROR = "error"  # default of on_bad_records
MAX_LISTED = 100
_MAX_IN_MESSAGE = 20
_FOLDER = "bad_records"


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A skipped record, or several records that can only be skipped together, such as a RecordIO chunk.

    Attributes:
      file: Path of the file.
      place: Position in the file, such as "byte 1024, record 3" or "line 7".
      problem: Why the record cannot be read.
      count: Number of records that are skipped.
    """

    file: str
    place: str
    problem: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.file}, {self.place}: {self.problem}"


@dataclasses.dataclass(frozen=True)
class SkippedRecords(JsonData):
    """The skipped records of a process or a run, for the record.

    Attributes:
      limit: Maximum number of records to skip.
      count: Number of skipped records.
      readers: Names of the readers that can skip records.
      records: The first hundred of them.
    """

    limit: int = 0
    count: int = 0
    readers: Sequence[str] = ()
    records: Sequence[BadRecord] = ()


class TooManyBadRecordsError(InputError):
    """The number of bad records exceeds the limit of `on_bad_records`."""


class _NoneSkipped:
    """The part of a run whose option makes every bad record an error; outside of runs, there is no such option."""


class BadRecords:
    """Collects skipped records and enforces their maximum number.

    Attributes:
      limit: Maximum number of records to skip.
      readers: Names of the readers that have called `policy()` and so skip bad records.
      scanned: Results of earlier scans, so that a file is not scanned again: {(path, key of the parser, stamp): numbers
        of its bad records}.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.readers: set[str] = set()
        self.scanned: dict[tuple[str, str | None, Stamp | None], frozenset[int]] = {}
        self._found: dict[tuple[str, str], BadRecord] = {}
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Number of records that were skipped."""
        return sum(record.count for record in self._found.values())

    def skip(self, file: str, place: str, problem: str, count: int = 1) -> None:
        """Records that a bad record is skipped. The arguments are the fields of `BadRecord`.

        Logs a warning the first time that a file and place are reported; further reports are ignored.

        Raises:
          TooManyBadRecordsError: If the count exceeds the limit; the message lists the records.
        """
        with self._lock:
            if (key := (file_io.absolute_path(file), place)) not in self._found:
                record = self._found[key] = BadRecord(file, place, problem, count)
                logging.warning("Skipped a bad record: %s", record)
            self.require_within_limit()

    def add(self, others: SkippedRecords) -> None:
        """Adds the records that another process skipped."""
        self.readers |= set(others.readers)
        for record in others.records:
            self._found.setdefault((file_io.absolute_path(record.file), record.place), record)

    def require_within_limit(self) -> None:
        """Checks that the count does not exceed the limit.

        Raises:
          TooManyBadRecordsError: If it does; the message lists the first 20 records.
        """
        if self.count > self.limit:
            raise TooManyBadRecordsError(self._too_many_message())

    def to_json(self, listed: int | None = MAX_LISTED) -> dict[str, object]:
        """Returns the `SkippedRecords` as JSON values; at most `listed` records, or all for None."""
        records = list(self._found.values())[:listed]
        return SkippedRecords(self.limit, self.count, sorted(self.readers), records).to_json()

    def _too_many_message(self) -> str:
        found = list(self._found.values())
        listing = "; ".join(map(str, found[:_MAX_IN_MESSAGE]))
        more = f"; and {len(found) - _MAX_IN_MESSAGE} more" if len(found) > _MAX_IN_MESSAGE else ""
        return (
            f"{self.count} records cannot be read, but on_bad_records=skip:{self.limit} skips at most {self.limit}: "
            f"{listing}{more}."
        )


def limit_of(on_bad_records: str) -> int | None:
    """Returns the maximum number of bad records to skip; None if every bad record is an error.

    Raises:
      InputError: If the option is neither "error" nor "skip:N".
    """
    if on_bad_records == ERROR:
        return None
    word, _, number = str(on_bad_records).partition(":")
    limit = POSITIVE.parse(number) if word == "skip" else None
    if limit is None:
        raise InputError(f"on_bad_records={on_bad_records!r}: give 'error', or a number as in skip:10.")
    return int(limit)


def policy(reader: str) -> BadRecords | None:
    """Returns the collector of skipped records for a reader, or None if a bad record must raise an error.

    Args:
      reader: Name of the reader, for reports.
    """
    bad = run_context.part(BadRecords)
    if bad is not None:
        bad.readers.add(reader)
    return bad


def is_skipping() -> bool:
    """Whether bad records are skipped."""
    return run_context.part(BadRecords) is not None


def remedy(records: str) -> str:
    """Returns the remedy for bad records; with the option only within `skipping`, as only runs have it."""
    if run_context.part(_NoneSkipped) is None:
        return "Write the file again."
    return f"Write the file again, or pass --on-bad-records=skip:N to skip up to N {records}."


@contextlib.contextmanager
def skipping(limit: int | None, model_run_dir: str | None = None) -> Iterator[BadRecords | None]:
    """Makes readers skip up to `limit` bad records for the duration of the block.

    Logs a warning at the end if none of the trainer's readers was used, so that nothing could be skipped. Writes the
    list of skipped records to the model run, also if the block raises.

    Args:
      limit: Maximum number of records to skip; None to make every bad record an error.
      model_run_dir: Directory of the model run; None to write no list.

    Yields:
      The collector of skipped records, or None if `limit` is None.
    """
    if limit is None:
        with run_context.extended(_NoneSkipped(), without=BadRecords):
            yield None
        return
    bad = BadRecords(limit)
    try:
        with run_context.extended(bad):
            yield bad
        if not bad.readers:
            logging.warning(
                "on_bad_records=skip:%d had no effect: the module reads its data itself. The option applies to "
                "fn_args.data_accessor, and to dialects with readers of their own.",
                limit,
            )
    finally:
        if bad.readers and model_run_dir:
            _write(bad, model_run_dir)


def forget(model_run_dir: str) -> None:
    """Deletes the lists of an earlier run; called when a run starts."""
    file_io.rmtree(os.path.join(model_run_dir, _FOLDER))


def merged_records(model_run_dir: str, limit: int) -> BadRecords:
    """Merges the lists of all processes of a run. A process that was killed has written none."""
    bad, folder = BadRecords(limit), os.path.join(model_run_dir, _FOLDER)
    with _log_storage_errors():
        for name in file_io.listdir(folder) if file_io.isdir(folder) else ():
            bad.add(read_json(os.path.join(folder, name), SkippedRecords, "The list of skipped records"))
    return bad


def _write(bad: BadRecords, model_run_dir: str) -> None:
    path = os.path.join(model_run_dir, _FOLDER, f"{uuid.uuid4().hex}.json")
    with _log_storage_errors():
        file_io.write_text(path, json.dumps(bad.to_json(listed=None)))


@contextlib.contextmanager
def _log_storage_errors() -> Iterator[None]:
    """Logs an OSError as a warning: it must neither mask an earlier exception nor fail a successful training."""
    try:
        yield
    except OSError as error:
        logging.warning("The list of skipped records is incomplete. %s", error)
