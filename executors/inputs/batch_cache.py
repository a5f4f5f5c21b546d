"""Parsed examples kept on local disk, so that later epochs and runs neither read nor gunzip nor parse them again.

Each tensor becomes a file of values in the order of the records, and one of offsets if rows differ in length; a batch
gathers its rows from there by memory maps. Shuffling, epochs and batches are tf.data's own, over the numbers of the
rows. An entry is written to a folder of its own and renamed when it is whole, so a run that was killed leaves nothing
that looks like an entry, and of two that write the same the second one's is dropped. The entries used longest ago go
when there is more than the limit; who still reads one keeps it, for it is mapped.

Usage:

    cache = BatchCache("/var/tmp/examples", limit_gb=10)
    rows = cache.rows(key_of(files, options, schema), lambda: parser(records, -1))   # written at the first call
    dataset = rows.batches(options, -1, spec)
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from absl import logging

from .cached_columns import Column, ColumnWriter, column_kind
from .record_dataset import ReadOptions, RecordFiles, number_of_readers

_INDEX = "index.json"
_UNFINISHED = "unfinished-"
_ABANDONED_AFTER_SECONDS = 24 * 3600
_VERSION = 1  # of the files' form
_BLOCK = 256  # rows that stay together until the shuffle's buffer takes them apart


def key_of(files: RecordFiles, options: ReadOptions, *spec: Any) -> str:
    """Returns the key of the examples in some files: another one as soon as a file or the spec changes.

    Args:
      files: Which files; their names, sizes and times of change count.
      options: How to read; how many files at the same time counts, for the order of the records depends on it.
      spec: What else the tensors depend on: protos, or what `repr` tells apart.
    """
    found = [tf.io.gfile.stat(path) for path in files.paths]
    parts = [
        repr((_VERSION, tf.__version__, number_of_readers(options.reader_num_threads or 0))),
        *(repr((path, stat.length, stat.mtime_nsec)) for path, stat in zip(files.paths, found, strict=True)),
        *(
            part.SerializeToString(deterministic=True) if hasattr(part, "SerializeToString") else repr(part)
            for part in spec
        ),
    ]
    digest = hashlib.sha256()
    for part in parts:
        text = part if isinstance(part, bytes) else part.encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()[:32]


class _TooLargeError(Exception):
    """The examples need more room than the cache may take."""


@dataclasses.dataclass(frozen=True)
class BatchCache:
    """A folder of parsed examples.

    Attributes:
      folder: Where, on a local disk; made when needed.
      limit_gb: How much may lie there, in 10^9 bytes.
    """

    folder: str
    limit_gb: float

    def rows(self, key: str, batches: Callable[[], tf.data.Dataset]) -> CachedRows | None:
        """Returns the examples that are kept under a key; keeps them if they aren't yet.

        Args:
          key: What the examples depend on: files, schema. Of characters for file names.
          batches: Makes the parsed batches, in the order of the records and once.

        Returns:
          None, with the reason in the log, when they can't be kept: tensors of a kind that no column is for, too
          many bytes, no room on the disk.
        """
        entry = pathlib.Path(self.folder, key)
        try:
            # A new thread is outside of an Estimator's graph, and of a strategy's scope.
            with concurrent.futures.ThreadPoolExecutor(1) as thread:
                return thread.submit(lambda: _opened(entry) or self._written(entry, batches)).result()
        except (OSError, _TooLargeError, TypeError) as error:
            logging.warning("input_cache %s: reading the examples as they are, for %s", self.folder, error)
            return None

    def _written(self, entry: pathlib.Path, batches: Callable[[], tf.data.Dataset]) -> CachedRows | None:
        if not tf.executing_eagerly():
            raise TypeError("tf.compat.v1.disable_eager_execution() was called, without which nothing is written.")
        os.makedirs(self.folder, exist_ok=True)
        unfinished = pathlib.Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder))
        try:
            _write(unfinished, batches(), self.limit_gb * 1e9)
            with contextlib.suppress(OSError):  # another run was first; what it wrote is the same
                os.rename(unfinished, entry)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        rows = _opened(entry)
        self._make_room(entry)
        return rows

    def _make_room(self, newest: pathlib.Path) -> None:
        """Removes the entries used longest ago, and what runs that were killed have left."""
        room = self.limit_gb * 1e9
        entries = sorted(_entries(self.folder), key=lambda entry: (entry.path == str(newest), entry.used), reverse=True)
        for entry in entries:
            if entry.unfinished:
                gone = time.time() - entry.used > _ABANDONED_AFTER_SECONDS
            else:
                room -= entry.size
                gone = room < 0
            if gone:
                shutil.rmtree(entry.path, ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class _Entry:
    path: str
    used: float
    size: int
    unfinished: bool


def _entries(folder: str) -> Iterator[_Entry]:
    for found in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # another run removes the same
            used, size = found.stat().st_mtime, 0
            for file in os.scandir(found.path):
                size += file.stat().st_size
                used = max(used, file.stat().st_mtime)
            yield _Entry(found.path, used, size, found.name.startswith(_UNFINISHED))


def _write(folder: pathlib.Path, batches: tf.data.Dataset, limit: float) -> None:
    specs = batches.element_spec
    for name, spec in specs.items():
        if column_kind(spec) is None:
            raise TypeError(f"the tensor {name!r} is of a kind that is not kept: {spec}.")
    with contextlib.ExitStack() as files:
        names = sorted(specs)
        writers = [files.enter_context(ColumnWriter(folder / f"{i}", specs[name])) for i, name in enumerate(names)]
        count = 0
        for batch in batches:
            written = [writer.add(batch[name]) for name, writer in zip(names, writers, strict=True)]
            count += written[0]
            if sum(writer.size for writer in writers) > limit:
                raise _TooLargeError(f"they need more than input_cache_gb, {limit / 1e9:g}.")
        columns = {name: writer.description() for name, writer in zip(names, writers, strict=True)}
    (folder / _INDEX).write_text(json.dumps({"rows": count, "columns": columns}), encoding="utf-8")


def _opened(entry: pathlib.Path) -> CachedRows | None:
    """Returns an entry, which counts as used now, or None if there is none."""
    try:
        index = json.loads((entry / _INDEX).read_text(encoding="utf-8"))
        os.utime(entry / _INDEX)
        columns = {
            name: Column.opened(entry / f"{number}", **description)
            for number, (name, description) in enumerate(index["columns"].items())
        }
    except FileNotFoundError:  # never there, or removed in this moment
        return None
    return CachedRows(index["rows"], columns)


@dataclasses.dataclass(frozen=True)
class CachedRows:
    """Examples that are kept.

    Attributes:
      count: How many.
      columns: The tensors' values.
    """

    count: int
    columns: dict[str, Column]

    def batches(self, options: ReadOptions, threads: int, spec: Any) -> tf.data.Dataset:
        """Returns batches of tensors, of the same shuffling, epochs and sizes as when they are read from their files.

        Args:
          options: How to read.
          threads: How many batches to gather at the same time; -1 for one a core.
          spec: The batches' element spec, when they are not read from here.
        """
        numbers = self._shuffled(options) if options.shuffle else tf.data.Dataset.range(self.count)
        if options.num_epochs != 1:
            numbers = numbers.repeat(options.num_epochs)
        drop_final_batch = options.drop_final_batch or options.num_epochs is None
        pipeline = tf.data.Options()
        pipeline.deterministic = not options.sloppy_ordering
        pipeline.autotune.enabled = False
        batches = numbers.batch(options.batch_size, drop_remainder=drop_final_batch).with_options(pipeline)
        return batches.map(lambda rows: self._gathered(rows, spec), threads, not options.sloppy_ordering)

    def _shuffled(self, options: ReadOptions) -> tf.data.Dataset:
        def block(start: tf.Tensor) -> tf.data.Dataset:
            return tf.data.Dataset.range(start, tf.minimum(start + _BLOCK, self.count))

        starts = tf.data.Dataset.range(0, max(self.count, 1), _BLOCK)
        starts = starts.shuffle(self.count // _BLOCK + 1, options.shuffle_seed)
        return starts.flat_map(block).shuffle(options.shuffle_buffer_size, options.shuffle_seed)

    def _gathered(self, rows: tf.Tensor, spec: Any) -> dict[str, Any]:
        columns = list(self.columns.values())
        types = [part for column in columns for part in column.part_types]

        def gather(numbers: Any) -> list[Any]:
            return [part for column in columns for part in column.gathered(numbers)]

        parts = iter(tf.numpy_function(gather, [rows], types, stateful=False))
        return {
            name: column.tensor([next(parts) for _ in column.part_types], spec[name])
            for name, column in self.columns.items()
        }
