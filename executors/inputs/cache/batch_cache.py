"""Parsed examples kept on local disk, so that later epochs and runs neither read nor gunzip nor parse them again.

Each tensor becomes a file of values in the order of the records, and one of offsets if rows differ in length. Rows are
gathered from there by memory maps, many batches at a time, and become tensors as those of Parquet do: in
`tensor_blocks.py`. An entry is written to a folder of its own and renamed when it is whole, so a run that was killed
leaves nothing that looks like an entry, and of two that write the same the second one's is dropped. The entries used
longest ago go when there is more than the limit; who still reads one keeps it, for it is mapped.

Usage:

    cache = BatchCache("/var/tmp/examples", limit_gb=10)
    rows = cache.rows(key_of(files, options, schema), lambda: parser(records, -1))   # written at the first call
    dataset = rows.batches(options, specs)
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import tensorflow as tf
from absl import logging

from ..tfrecord.record_dataset import (
    ReadOptions,
    RecordFiles,
    number_of_readers,
    pipeline_options,
)
from .cached_columns import Column, ColumnWriter, column_kind
from .tensor_blocks import Block, TensorBlocks
from .whole_batches import BYTES_IN_TABLE, ROWS_IN_TABLE, whole_batches

_INDEX = "index.json"
_UNFINISHED = "unfinished-"
_ABANDONED_AFTER_SECONDS = 24 * 3600
_VERSION = 2  # of the files' form
_BLOCK = 256  # rows that lie one after another on the disk; more of them at a time would mix worse


def key_of(files: RecordFiles, options: ReadOptions, *spec: object) -> str:
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

    def batches(self, options: ReadOptions, specs: Mapping[str, tf.TypeSpec]) -> tf.data.Dataset:
        """Returns batches of tensors, of the same epochs and sizes as when they are read from their files.

        Shuffled, all blocks of `_BLOCK` rows are; then the rows, `shuffle_buffer_size` of them and as many new ones
        together. As with tf.data's shuffle, another run through the dataset has another order, and the same ones come
        again by a seed, be it of the options or TensorFlow's global one.

        Args:
          options: How to read.
          specs: The type specs of the batches' tensors, when they are not read from here.
        """
        tensors = TensorBlocks(specs)
        seeds = _seeds(options)
        runs = itertools.count()

        def blocks() -> Iterator[Block]:
            random = np.random.default_rng(None if seeds is None else [*seeds, next(runs)])

            def one_epoch() -> Iterator[pa.Table]:
                return (pa.table({"number": some}) for some in _row_numbers(self.count, options, random))

            for table in whole_batches(one_epoch, options):
                size = min(options.batch_size, table.num_rows)  # the last batch of all may be smaller
                for numbers in _parts(table.column("number").to_numpy(), self._rows_at_once(size)):
                    yield tensors.block({name: column.rows_of(numbers) for name, column in self.columns.items()}, size)

        return tensors.dataset(blocks).with_options(pipeline_options(options, files=1))

    def _rows_at_once(self, batch_size: int) -> int:
        bytes_in_batch = batch_size * sum(column.size for column in self.columns.values()) / self.count
        batches = min(ROWS_IN_TABLE // batch_size, int(BYTES_IN_TABLE / max(bytes_in_batch, 1)))
        return max(batches, 1) * batch_size


def _seeds(options: ReadOptions) -> list[int] | None:
    """Returns what tf.data's own shuffle would go by; None if nothing fixes the order."""
    if not options.shuffle:
        return None
    seeds = tf.compat.v1.random.get_seed(options.shuffle_seed)
    return None if seeds[0] is None else list(seeds)


def _row_numbers(count: int, options: ReadOptions, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Yields the numbers of all rows, some at a time."""

    def rows_of(blocks: np.ndarray) -> np.ndarray:
        numbers = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).reshape(-1)
        known: np.ndarray = numbers[numbers < count]
        return known

    blocks = np.arange(-(-count // _BLOCK))
    if not options.shuffle:
        yield from map(rows_of, _parts(blocks, ROWS_IN_TABLE // _BLOCK))
        return
    size = max(options.shuffle_buffer_size, 1)
    waiting: np.ndarray = np.empty(0, np.int64)
    for some in _parts(random.permutation(blocks), max(size // _BLOCK, 1)):
        waiting = random.permutation(np.concatenate([waiting, rows_of(some)]))
        yield waiting[size:]
        waiting = waiting[:size]
    yield waiting


def _parts(array: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (array[start : start + size] for start in range(0, len(array), size))
