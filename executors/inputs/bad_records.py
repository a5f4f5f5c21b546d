"""`on_bad_records`: a record that cannot be read is an error, or is left out, counted and listed, up to a bound.

Readers of ours ask `policy()` where they meet a bad record. It is one for the process, as they read in threads. A bad
record is told by its file and place, so that one that is met in every epoch counts once.

Usage:

    with skipping(options.bad_records_limit) as bad:     # None: every bad record is an error
        ...
    bad.to_json()                                        # {"limit": 10, "count": 1, "readers": […], "records": […]}

In a reader:

    if (bad := policy("CSV")) is None:
        raise InputError(…)
    bad.skip(path, "line 7", "it has 2 fields, and there are 3 columns")
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from absl import logging

from ..errors import InputError

LISTED = 100
_IN_A_MESSAGE = 20


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
        self.scanned: dict[Any, frozenset[int]] = {}
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
            if (file, place) not in self._found:
                record = self._found[file, place] = BadRecord(file, place, problem, count)
                logging.warning("Left out: %s", record)
            if self.count > self.limit:
                raise TooManyBadRecordsError(self._too_many())

    def to_json(self) -> dict[str, Any]:
        """Returns what there is to tell of them; the first hundred by file and place."""
        records = [dataclasses.asdict(record) for record in list(self._found.values())[:LISTED]]
        return {"limit": self.limit, "count": self.count, "readers": sorted(self.readers), "records": records}

    def _too_many(self) -> str:
        found = list(self._found.values())
        shown = "; ".join(map(str, found[:_IN_A_MESSAGE]))
        more = f"; and {len(found) - _IN_A_MESSAGE} more" if len(found) > _IN_A_MESSAGE else ""
        return (
            f"{self.count} records cannot be read, and on_bad_records=skip:{self.limit} leaves out {self.limit} at "
            f"most: {shown}{more}."
        )


_policy: BadRecords | None = None


def policy(reader: str) -> BadRecords | None:
    """Returns what takes the bad records of a reader; None where each is an error."""
    if _policy is not None:
        _policy.readers.add(reader)
    return _policy


@contextlib.contextmanager
def skipping(limit: int | None) -> Iterator[BadRecords | None]:
    """Has readers leave out up to so many bad records while a block runs; with None nothing is left out.

    Says so at the end when there was no reader of ours that could.
    """
    global _policy
    before, _policy = _policy, None if limit is None else BadRecords(limit)
    try:
        yield _policy
        if _policy is not None and not _policy.readers:
            logging.warning(
                "on_bad_records=skip:%d left nothing out: the module reads its data by itself. It acts on "
                "fn_args.data_accessor, and on the readers of ElasticDL's and DLRover's dialects.",
                limit,
            )
    finally:
        _policy = before
