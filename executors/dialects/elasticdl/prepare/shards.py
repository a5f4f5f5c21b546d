"""Writes the records that a model file's `prepare_data_for_a_single_file` creates from files to shards.

Usage:

    prepare = find_prepare_function(module)
    result = write_group(prepare, group, job, allowed_bad=10)
"""

from __future__ import annotations

import inspect
import posixpath
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from ....errors import ModuleError
from ....runtime.files import file_io
from ....runtime.files.file_io import atomic_write
from ....runtime.logs.exceptions import traceback_of
from .command import FUNCTION, RECORD_IO, PreparationJob
from .manifest import Group, GroupResult

if TYPE_CHECKING:
    import tensorflow as tf

    from ..recordio.records import RecordWriter

Prepare = Callable[[str], list[bytes]]


def find_prepare_function(module: ModuleType) -> Prepare:
    """Returns a function from a file's path to its records, for both signatures of the module's function.

    `prepare_data_for_a_single_file` takes `(filename)`, or `(file_object, filename)` with the file opened in mode "rb".
    It returns one serialized record, or an iterable of them.

    Raises:
      ModuleError: When the module has no such function.
    """
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise ModuleError(
            f"The model file {module.__file__} has no {FUNCTION}: write def {FUNCTION}(filename), which returns "
            "the bytes of a serialized tf.train.Example."
        )
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    def prepare(path: str) -> list[bytes]:
        if len(needed) < 2:
            return list(_records(function(path)))
        with file_io.file_system(path).open(path, mode="rb") as file:
            return list(_records(function(file, path)))

    return prepare


def write_group(prepare: Prepare, group: Group, job: PreparationJob, allowed_bad: int) -> GroupResult:
    """Writes a group's records to its shards: `data-00003.tfrecord`, then `data-00003_001.tfrecord` when one is full.

    Existing shards of the group are removed first.

    Args:
      prepare: The result of `find_prepare_function`.
      group: The files.
      job: The job, with directories, shard size and format.
      allowed_bad: If more files than this fail, the group's shards are removed and its result is not `finished`.

    Returns:
      The group's result.
    """
    _remove_leftovers(job.output, group.number)
    bad: list[dict[str, str]] = []
    records = _good_records(prepare, group, job.input, bad, allowed_bad)
    shards: list[str] = []
    count = 0
    while (first := next(records, None)) is not None:
        suffix = f"_{len(shards):03d}" if shards else ""  # "_" sorts after ".", which keeps the order for readers
        shards.append(f"data-{group.number:05d}{suffix}.{job.format}")
        count += _write_shard(posixpath.join(job.output, shards[-1]), first, records, job)
    if len(bad) > allowed_bad:
        _remove_leftovers(job.output, group.number)
        return GroupResult(bad=tuple(bad), finished=False)
    return GroupResult(count, tuple(shards), tuple(bad))


def _good_records(
    prepare: Prepare, group: Group, folder: str, bad: list[dict[str, str]], allowed_bad: int
) -> Iterator[bytes]:
    for file in group.files:
        try:
            records = prepare(posixpath.join(folder, file))
        except (Exception, SystemExit) as error:
            message = f"{type(error).__qualname__}: {error}"
            bad.append({"file": file, "error": message, "traceback": traceback_of(error)})
            if len(bad) > allowed_bad:
                return
        else:
            yield from records


def _write_shard(path: str, first: bytes, records: Iterator[bytes], job: PreparationJob) -> int:
    """Writes one shard atomically; returns its number of records."""
    with atomic_write(path) as part, _writer(part, job.format) as writer:
        writer.write(first)
        count = 1
        while count < job.records_per_shard and (record := next(records, None)) is not None:
            writer.write(record)
            count += 1
    return count


def _writer(path: str, kind: str) -> RecordWriter | tf.io.TFRecordWriter:
    if kind == RECORD_IO:
        from ..recordio.records import RecordWriter

        return RecordWriter(path)
    import tensorflow as tf

    return tf.io.TFRecordWriter(path)


def _records(returned: object) -> Iterator[bytes]:
    if isinstance(returned, bytes):
        yield returned
        return
    several = returned if isinstance(returned, Iterable) and not isinstance(returned, str) else [returned]
    for record in several:
        if not isinstance(record, bytes):
            raise ModuleError(f"{FUNCTION} must return bytes, or an iterable of bytes; it returned {_short(record)}.")
        yield record


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _remove_leftovers(output: str, number: int) -> None:
    for pattern in (f"data-{number:05d}.*", f"data-{number:05d}_*"):  # left by a killed worker
        for path in file_io.glob(posixpath.join(output, pattern)):
            file_io.file_system(path).remove(path)
