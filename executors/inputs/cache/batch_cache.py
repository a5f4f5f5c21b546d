"""Caches parsed examples on local disk, so that later epochs and runs need not read, decompress and parse them again.

Each tensor is stored as a file of values in the order of the records, and a file of offsets if row lengths differ. Rows
are gathered from memory-mapped files, many batches at a time, and converted to tensors by `tensor_blocks.py`, as for
Parquet. An entry is written to a staging directory and renamed when it is complete (an atomic rename), so a killed run
leaves no incomplete entry; if two runs write the same entry, the second one is discarded. When the cache exceeds its
limit, the least recently used entries are deleted. An entry whose files do not have the digests in its index is
discarded and written again. Processes that still read a deleted entry are not affected, since its files are
memory-mapped.

Usage:

    cache = BatchCache("/var/tmp/examples", limit_gb=10)
    key = cache_key(cache.digests_of(files), options, schema)
    rows = cache.rows(key, lambda: parser(records, -1))   # written on a cache miss
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
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypedDict

import numpy as np
import pyarrow as pa
import tensorflow as tf
from absl import logging

from ...errors import InputError
from ...runtime.files import durable
from ...runtime.files.content_digests import ContentDigests, digests_in
from ...runtime.files.typed_json import read_checked_json
from ..tfrecord.record_dataset import (
    ReadOptions,
    RecordFiles,
    number_of_readers,
    pipeline_options,
)
from .cached_columns import Column, ColumnDescription, ColumnWriter, column_kind
from .tensor_blocks import Block, TensorBlocks
from .whole_batches import BYTES_IN_TABLE, ROWS_IN_TABLE, whole_batches

_INDEX = "index.json"
_UNFINISHED = "unfinished-"
_ABANDONED_AFTER_SECONDS = 24 * 3600
_VERSION = 3  # of the file format
_BLOCK = 256  # consecutive rows that are shuffled as a unit; larger blocks would be shuffled less thoroughly


def cache_key(digests: Iterable[str], options: ReadOptions, *spec: object) -> str:
    """Returns the cache key of the examples in some files, which changes with their content, the spec and TensorFlow.

    Args:
      digests: The digests of the files' contents, in their order.
      options: The read options; the key depends on the number of parallel readers, which affects the record order.
      spec: Further inputs that the tensors depend on: protos, or objects with a distinctive `repr`.

    Returns:
      32 hexadecimal digits.
    """
    parts = [
        repr((_VERSION, tf.__version__, number_of_readers(options.reader_num_threads or 0))),
        *digests,
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
    """The examples are larger than the limit of the cache."""


class _DamagedError(Exception):
    """An entry is not as it was written."""


class _Index(TypedDict):
    """The index of an entry: the columns are stored in this order; `files` has digests by name."""

    rows: int
    columns: dict[str, ColumnDescription]
    files: dict[str, str]
    digest: str  # of the other fields


@dataclasses.dataclass(frozen=True)
class BatchCache:
    """A cache directory of parsed examples.

    Attributes:
      folder: The directory, on a local disk; created if missing.
      limit_gb: Maximum size of the cache, in units of 10^9 bytes.
    """

    folder: str
    limit_gb: float

    def digests_of(self, files: RecordFiles) -> list[str]:
        """Returns the digests of the files' contents, which are kept in the cache directory."""
        digests = digests_in(self.folder)
        try:
            return list(digests.of(files.paths).values())
        finally:
            digests.save()

    def rows(self, key: str, batches: Callable[[], tf.data.Dataset]) -> CachedRows | None:
        """Returns the cached examples of a key; on a cache miss, writes them first.

        Args:
          key: Cache key, from `cache_key`; used as a directory name.
          batches: Returns a dataset of one epoch of parsed batches, in the order of the records.

        Returns:
          The examples, or None if they cannot be cached: unsupported kinds of tensors, larger than the limit, disk
          full, or eager execution disabled. The reason is logged as a warning.
        """
        entry = pathlib.Path(self.folder, key)
        try:
            # A new thread is outside of an Estimator's graph and of a distribution strategy's scope.
            with concurrent.futures.ThreadPoolExecutor(1) as thread:
                return thread.submit(lambda: self._opened(entry) or self._write_entry(entry, batches)).result()
        except (OSError, _TooLargeError, TypeError) as error:
            logging.warning("input_cache %s: the examples are read without the cache, because %s", self.folder, error)
            return None

    def _opened(self, entry: pathlib.Path) -> CachedRows | None:
        """Opens an entry; returns None if it does not exist, or was discarded because it is damaged."""
        digests = digests_in(self.folder)
        try:
            return _open_entry(entry, digests) if entry.exists() else None
        except (_DamagedError, InputError, FileNotFoundError, IsADirectoryError) as error:
            if entry.exists():  # not deleted by another run at the same time
                logging.warning("input_cache: %s is damaged, and is written again. %s", entry, error)
                _discard(entry)
            return None
        finally:
            digests.save()

    def _write_entry(self, entry: pathlib.Path, batches: Callable[[], tf.data.Dataset]) -> CachedRows:
        if not tf.executing_eagerly():
            raise TypeError(
                "tf.compat.v1.disable_eager_execution() was called, and the cache is written in eager execution only."
            )
        os.makedirs(self.folder, exist_ok=True)
        unfinished = pathlib.Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder))
        try:
            index = _write(unfinished, batches(), self.limit_gb * 1e9)
            durable.sync_tree(str(unfinished))  # an entry that a power loss has emptied would be read as data
            rows = _opened_rows(unfinished, index)  # here, because another run may discard the entry
            with contextlib.suppress(OSError):  # another run has written the same entry
                os.rename(unfinished, entry)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        self._evict(entry)
        return rows

    def _evict(self, newest: pathlib.Path) -> None:
        """Deletes the least recently used entries beyond the limit, and staging directories of killed runs."""
        room = self.limit_gb * 1e9
        entries = sorted(_entries(self.folder), key=lambda entry: (entry.path == str(newest), entry.used), reverse=True)
        for entry in entries:
            if entry.unfinished:
                gone = time.time() - entry.used > _ABANDONED_AFTER_SECONDS
            else:
                room -= entry.size
                gone = room < 0
            if gone:
                _discard(pathlib.Path(entry.path))


@dataclasses.dataclass(frozen=True)
class _Entry:
    path: str
    used: float
    size: int
    unfinished: bool


def _entries(folder: str) -> Iterator[_Entry]:
    for found in os.scandir(folder):
        if not found.is_dir():  # the digests
            continue
        with contextlib.suppress(FileNotFoundError):  # deleted by another run at the same time
            used, size = found.stat().st_mtime, 0
            for file in os.scandir(found.path):
                size += file.stat().st_size
                used = max(used, file.stat().st_mtime)
            yield _Entry(found.path, used, size, found.name.startswith(_UNFINISHED))


def _discard(entry: pathlib.Path) -> None:
    """Deletes an entry, which no process can open from the first moment on."""
    gone = entry.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):  # discarded by another run
        entry.rename(gone)
        if gone.is_dir():
            shutil.rmtree(gone, ignore_errors=True)
        else:
            gone.unlink()


def _write(folder: pathlib.Path, batches: tf.data.Dataset, limit: float) -> _Index:
    specs = batches.element_spec
    for name, spec in specs.items():
        if column_kind(spec) is None:
            raise TypeError(f"the tensor {name!r} has a type that cannot be cached: {spec}.")
    with contextlib.ExitStack() as files:
        names = sorted(specs)
        writers = [files.enter_context(ColumnWriter(folder / f"{i}", specs[name])) for i, name in enumerate(names)]
        count = 0
        for batch in batches:
            written = [writer.add(batch[name]) for name, writer in zip(names, writers, strict=True)]
            count += written[0]
            if sum(writer.size for writer in writers) > limit:
                raise _TooLargeError(f"they need more than input_cache_gb={limit / 1e9:g}.")
        columns = {name: writer.description() for name, writer in zip(names, writers, strict=True)}
    paths = sorted(folder.iterdir())
    digests = ContentDigests(str(folder)).of(map(str, paths))
    index = _Index(rows=count, columns=columns, files={path.name: digests[str(path)] for path in paths}, digest="")
    index["digest"] = _digest_of(index)
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")
    return index


def _digest_of(index: _Index) -> str:
    return hashlib.sha256(json.dumps({**index, "digest": ""}).encode()).hexdigest()


def _open_entry(entry: pathlib.Path, digests: ContentDigests) -> CachedRows:
    """Opens an entry and updates its time of last use.

    Raises:
      InputError: When the index is damaged.
      _DamagedError: When it is missing, or another file was changed.
      OSError: When a file cannot be read.
    """
    if not (entry / _INDEX).is_file():
        raise _DamagedError(f"{_INDEX} is missing.")
    index = read_checked_json(str(entry / _INDEX), _Index, "The index")
    if index["digest"] != _digest_of(index):
        raise _DamagedError(f"{_INDEX} was changed.")
    known = digests.of(str(entry / name) for name in index["files"])
    if changed := [name for name, digest in index["files"].items() if known[str(entry / name)] != digest]:
        raise _DamagedError(f"{changed[0]} was changed.")
    os.utime(entry)
    return _opened_rows(entry, index)


def _opened_rows(entry: pathlib.Path, index: _Index) -> CachedRows:
    columns = {
        name: Column.opened(entry / f"{number}", **description)
        for number, (name, description) in enumerate(index["columns"].items())
    }
    return CachedRows(index["rows"], columns)


@dataclasses.dataclass(frozen=True)
class CachedRows:
    """Cached examples.

    Attributes:
      count: Number of examples.
      columns: {tensor: its column}.
    """

    count: int
    columns: dict[str, Column]

    def batches(self, options: ReadOptions, specs: Mapping[str, tf.TypeSpec]) -> tf.data.Dataset:
        """Returns a dataset of batches with the same batch sizes and number of epochs as without the cache.

        Shuffling permutes all blocks of `_BLOCK` rows, and then the rows: up to `shuffle_buffer_size` buffered rows
        together with as many new ones. As with tf.data's shuffle, each iteration over the dataset has a different
        order, which is reproducible with `options.shuffle_seed` or TensorFlow's global seed.

        Args:
          options: The read options.
          specs: {tensor: type spec of its batches}, as without the cache.
        """
        tensors = TensorBlocks(specs)
        seeds = _seeds(options)
        runs = itertools.count()

        def blocks() -> Iterator[Block]:
            random = np.random.default_rng(None if seeds is None else [*seeds, next(runs)])

            def one_epoch() -> Iterator[pa.Table]:
                return (pa.table({"number": some}) for some in _row_numbers(self.count, options, random))

            for table in whole_batches(one_epoch, options):
                size = min(options.batch_size, table.num_rows)  # the last batch may be smaller
                for numbers in _split(table.column("number").to_numpy(), self._rows_at_once(size)):
                    yield tensors.block({name: column.rows_of(numbers) for name, column in self.columns.items()}, size)

        return tensors.dataset(blocks).with_options(pipeline_options(options, files=1))

    def _rows_at_once(self, batch_size: int) -> int:
        bytes_in_batch = batch_size * sum(column.size for column in self.columns.values()) / self.count
        batches = min(ROWS_IN_TABLE // batch_size, int(BYTES_IN_TABLE / max(bytes_in_batch, 1)))
        return max(batches, 1) * batch_size


def _seeds(options: ReadOptions) -> list[int] | None:
    """Returns the seeds that tf.data's shuffle would use; None without shuffling or without a seed."""
    if not options.shuffle:
        return None
    seeds = tf.compat.v1.random.get_seed(options.shuffle_seed)
    return None if seeds[0] is None else list(seeds)


def _row_numbers(count: int, options: ReadOptions, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Yields the numbers of all rows in chunks, shuffled if requested."""

    def rows_of(blocks: np.ndarray) -> np.ndarray:
        numbers = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).reshape(-1)
        known: np.ndarray = numbers[numbers < count]
        return known

    blocks = np.arange(-(-count // _BLOCK))
    if not options.shuffle:
        yield from map(rows_of, _split(blocks, ROWS_IN_TABLE // _BLOCK))
        return
    size = max(options.shuffle_buffer_size, 1)
    waiting: np.ndarray = np.empty(0, np.int64)
    for some in _split(random.permutation(blocks), max(size // _BLOCK, 1)):
        waiting = random.permutation(np.concatenate([waiting, rows_of(some)]))
        yield waiting[size:]
        waiting = waiting[:size]
    yield waiting


def _split(array: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (array[start : start + size] for start in range(0, len(array), size))
