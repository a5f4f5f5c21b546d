"""`on_bad_records`: a record that cannot be read is an error, or is left out, counted and listed, up to a bound.

Readers of ours ask `policy()` where they meet a bad record. It is one for the process, as they read in threads. A bad
record is told by its file and place, so that one that is met in every epoch counts once.

Of a run in several processes each keeps its own list, in a file of the model run, also when it fails:

    model_run/bad_records/3f0c….json                     {"limit": 10, "count": 1, "readers": […], "records": […]}

Usage:

    with skipping(options.bad_records_limit, fn_args.model_run_dir):     # None: every bad record is an error
        ...
    together(fn_args.model_run_dir, options.bad_records_limit).to_json()

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
from collections.abc import Iterator
from typing import TypedDict

from absl import logging

from .. import run_context
from ..errors import InputError
from ..runtime.files import file_io

LISTED = 100
_IN_A_MESSAGE = 20
_FOLDER = "bad_records"


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A record that was left out, or several that only come together.

    Attributes:
      file: Where it is.
      place: In the file: "byte 1024, record 3", "line 7".
      problem: What is wrong with it.
      count: How many records are lost with it.
    """

    file: str
    place: str
    problem: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.file}, {self.place}: {self.problem}"


class BadRecordJson(TypedDict):
    """A `BadRecord` as JSON."""

    file: str
    place: str
    problem: str
    count: int


class BadRecordsJson(TypedDict):
    """What another process left out, as `BadRecords.to_json` writes it."""

    limit: int
    count: int
    readers: list[str]
    records: list[BadRecordJson]


class TooManyBadRecordsError(InputError):
    """More records cannot be read than may be left out."""


class BadRecords:
    """The records that were left out.

    Attributes:
      limit: How many may be.
      readers: The readers that would leave some out.
      scanned: {file, its state and reader: numbers of its bad records}, of files that need not be scanned again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.readers: set[str] = set()
        self.scanned: dict[tuple[str, str | None, tuple[int, int] | None], frozenset[int]] = {}
        self._found: dict[tuple[str, str], BadRecord] = {}
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many records were left out."""
        return sum(record.count for record in self._found.values())

    def skip(self, file: str, place: str, problem: str, count: int = 1) -> None:
        """Leaves a record out; the arguments are `BadRecord`'s.

        Raises:
          TooManyBadRecordsError: When there are more than may be; it lists them.
        """
        with self._lock:
            if (key := (file_io.whole(file), place)) not in self._found:
                record = self._found[key] = BadRecord(file, place, problem, count)
                logging.warning("Left out: %s", record)
            self.require_bound()

    def add(self, others: BadRecordsJson) -> None:
        """Adds what another process left out, of which `to_json` told."""
        self.readers |= set(others["readers"])
        for record in others["records"]:
            self._found.setdefault((file_io.whole(record["file"]), record["place"]), BadRecord(**record))

    def require_bound(self) -> None:
        """Makes sure that there are no more than may be.

        Raises:
          TooManyBadRecordsError: When there are; it lists them.
        """
        if self.count > self.limit:
            raise TooManyBadRecordsError(self._too_many())

    def to_json(self, listed: int | None = LISTED) -> dict[str, object]:
        """Returns what there is to tell of them; the first so many by file and place, None for all."""
        records = [dataclasses.asdict(record) for record in list(self._found.values())[:listed]]
        return {"limit": self.limit, "count": self.count, "readers": sorted(self.readers), "records": records}

    def _too_many(self) -> str:
        found = list(self._found.values())
        shown = "; ".join(map(str, found[:_IN_A_MESSAGE]))
        more = f"; and {len(found) - _IN_A_MESSAGE} more" if len(found) > _IN_A_MESSAGE else ""
        return (
            f"{self.count} records cannot be read, and on_bad_records=skip:{self.limit} leaves out {self.limit} at "
            f"most: {shown}{more}."
        )


def policy(reader: str) -> BadRecords | None:
    """Returns what takes the bad records of a reader; None where each is an error."""
    bad = run_context.part(BadRecords)
    if bad is not None:
        bad.readers.add(reader)
    return bad


@contextlib.contextmanager
def skipping(limit: int | None, model_run_dir: str | None = None) -> Iterator[BadRecords | None]:
    """Has readers leave out up to so many bad records while a block runs; with None nothing is left out.

    Says so at the end when there was no reader of ours that could. What was left out is listed in the model run.
    """
    if limit is None:
        with run_context.extended(without=BadRecords):
            yield None
        return
    bad = BadRecords(limit)
    try:
        with run_context.extended(bad):
            yield bad
        if not bad.readers:
            logging.warning(
                "on_bad_records=skip:%d left nothing out: the module reads its data by itself. It acts on "
                "fn_args.data_accessor, and on the readers of ElasticDL's and DLRover's dialects.",
                limit,
            )
    finally:
        if bad.readers and model_run_dir:
            _write(bad, model_run_dir)


def forget(model_run_dir: str) -> None:
    """Removes the lists that an earlier run left; called by the one that begins."""
    file_io.rmtree(os.path.join(model_run_dir, _FOLDER))


def together(model_run_dir: str, limit: int) -> BadRecords:
    """Returns what all processes of a run left out; one that was killed has not told."""
    bad, folder = BadRecords(limit), os.path.join(model_run_dir, _FOLDER)
    with _unless_the_disk_refuses():
        for name in file_io.listdir(folder) if file_io.isdir(folder) else ():
            bad.add(json.loads(file_io.read_text(os.path.join(folder, name))))
    return bad


def _write(bad: BadRecords, model_run_dir: str) -> None:
    path = os.path.join(model_run_dir, _FOLDER, f"{uuid.uuid4().hex}.json")
    with _unless_the_disk_refuses():
        file_io.write_text(path, json.dumps(bad.to_json(listed=None)))


@contextlib.contextmanager
def _unless_the_disk_refuses() -> Iterator[None]:
    """Warns, since a list must neither hide what went wrong before nor take away what was trained."""
    try:
        yield
    except OSError as error:
        logging.warning("The list of the records that were left out is not complete. %s", error)
