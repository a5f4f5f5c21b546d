"""The row sources of a data set, in a fixed order, with a position for resuming.

In order of precedence, the rows come from:

* the run's example files: tf.Examples by the columns' names, or delimited text;
* a reader that reads index ranges (DLRover's ElasticReader and FileReader), which a ledger assigns;
* a reader with only `iterator()`, or a `reader_fn`: a stream, which is re-read up to the position on resuming;
* a path, `file://…` or `fake://…`.

Each is a `Source`. As in DLRover, rows are not shuffled.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging

from ...compat.dlrover import configure, path_of, row_count_of
from ...errors import InputError
from ...inputs.bad_records import policy
from ...inputs.csv.row_checks import check_rows, describe_problem, looks_like_data, split_row
from ...inputs.message_text import short_repr
from ...inputs.readers.range_reader import (
    THREADS,
    batches,
    count_rows,
    iterate_rows,
    read_range,
    read_ranges,
)
from ...inputs.readers.reader_errors import ReaderErrors
from ...inputs.readers.reader_params import CSV, TEXT, TF_RECORD
from ...inputs.readers.record_files import find_record_files, kind_of
from ...inputs.readers.shard_ledger import Ledger, Shard, ShardLedger
from ...inputs.readers.skipping_ledger import SkippingLedger, place_after
from ...inputs.tfrecord.native_records import check_tf_records, tf_record_dataset
from ...inputs.tfrecord.ranges import DAMAGED, TfRecordRanges
from ...inputs.tfrecord.scan import ParseTrial, refused
from .columns import Columns, FeaturesAndLabel
from .conf import DataSet
from .examples import READER, infer_kinds
from .shim.file_reader import FileReader
from .shim.joined_reader import JoinedReader
from .shim.path_util import reader_for

if TYPE_CHECKING:
    from ...estimator.shared_ledger import Part
    from ...inputs.csv.delimited_blocks import BlockDecoder

Feed: TypeAlias = "dict[tf.Tensor, Callable[[], int]]"  # functions that are called when an iterator is initialized

_BATCHES_IN_SHARD = 10  # DLRover's documented default
_MAX_EXAMINED_ROWS = 1_000_000
_THREADS_WHEN_SHARED = 2  # per worker when workers share rows; few, so that no worker prefetches all of the last ranges
_MIN_BLOCK_ROWS = 2048  # minimum; for fewer rows, Arrow's startup time exceeds the time of decode_csv


class Source(Protocol):
    """The interface of row sources: rows in a fixed order, and the position up to which they have been trained on.

    Attributes:
      columns: The columns of the rows.
      takes_examples: Whether rows are serialized tf.Examples.
    """

    columns: Columns
    takes_examples: bool

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """Returns a dataset of batches for `decode`, and the feeds for initializing its iterator.

        Args:
          size: Rows per batch.
          errors: Collects the exceptions of the reader.
        """

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """Returns the features and labels of a batch.

        Args:
          *rows: An element of the dataset from `batches`: one tensor or several.
        """

    def examine(self) -> None:
        """Raises an error for the first invalid row from the position on, if one is found."""

    def restart(self, position: str | None) -> None:
        """Moves to a position that `position` returned; to the first row if it is None."""

    def share(self, part: Part) -> None:
        """Shares the rows from the position on among the workers of a cluster."""

    def trained(self, count: int) -> None:
        """Advances the position by `count` rows, which have been trained on."""

    def position(self) -> str:
        """Returns the position up to which rows have been trained on, as JSON."""


def open_source(
    data: DataSet, columns: Columns, files: Sequence[str], where: str, *, is_shared: bool = False
) -> Source:
    """Returns the row source of a data set.

    Args:
      data: The data set.
      columns: Its columns.
      files: Patterns of the run's example files, which take precedence over the conf's reader and path.
      where: The conf, for error messages.
      is_shared: Whether several workers share the rows.

    Raises:
      InputError: When there is no source, when the files or the reader are not usable, or when the rows cannot be
        shared.
    """
    where = f"{where}: {data.name}"
    if files:
        return _open_files(data, columns, files, where, is_shared)
    reader = data.reader
    if reader is None:
        if not data.path:
            raise InputError(f"{where} has no reader and no path, and the run has no example files.")
        reader = reader_for(data.path)
    if inspect.isclass(reader):
        reader = reader()
    if hasattr(reader, "read_data_by_index_range"):
        return RangeSource(data, columns, reader, where)
    if callable(getattr(reader, "iterator", None)) or callable(reader):
        if is_shared:
            raise InputError(
                f"{where}: the reader {type(reader).__name__} yields its rows sequentially, so several workers cannot "
                "share them. Define read_data_by_index_range(start, end) and count_data(), or train on one worker."
            )
        return StreamSource(data, columns, reader, where)
    raise InputError(
        f"{where}: the reader {reader!r} has neither read_data_by_index_range(start, end) with count_data(), nor "
        "iterator()."
    )


def _open_files(data: DataSet, columns: Columns, patterns: Sequence[str], where: str, is_shared: bool) -> Source:
    if data.reader is not None or data.path:
        logging.info("%s: reading the run's files %s instead of the conf's data.", where, ", ".join(patterns))
    kind, files = kind_of(find_record_files(patterns), columns_wanted=True, default=TEXT)
    if kind == TF_RECORD:
        columns = dataclasses.replace(columns, kinds=infer_kinds(files, columns.fields, where))
        source = ExampleRangeSource if is_shared or policy(READER) else ExampleSource
        return source(data, columns, files, where)
    if kind not in (CSV, TEXT):
        raise InputError(
            f"{where}: {files[0]} is {kind}. Only TFRecords of tf.Examples and delimited text can replace the "
            "conf's reader."
        )
    readers = [FileReader(file) for file in files]
    headers = [reader.header() or "" for reader in readers]
    # Header detection: a header has the names of all columns, or text in numeric columns.
    try:
        named = columns.with_header(_header_names(headers[0], columns.field_delim))
    except InputError as error:
        raise InputError(f"{where}: {files[0]}: {error}") from error
    has_header = named is not columns or not looks_like_data(headers[0], columns.fields, columns.field_delim)
    if has_header and named is columns:
        message = "%s: the first row of %s does not match the columns, and is skipped as a header: %s."
        logging.warning(message, where, files[0], short_repr(headers[0]))
    for file, header in zip(files, headers, strict=True):
        if has_header and header != headers[0]:
            raise InputError(f"{where}: {files[0]} begins with the header {headers[0]!r}, and {file} with {header!r}.")
    for reader in readers:
        reader.skip_header = has_header
    return RangeSource(data, named, JoinedReader(readers), where)


class RangeSource:
    """Rows of a reader with `read_data_by_index_range`, in ranges that a ledger assigns."""

    takes_examples = False

    def __init__(self, data: DataSet, columns: Columns, reader: Any, where: str) -> None:
        self._data = data
        self.columns = columns
        self._reader = reader
        self._where = where
        self._name = str(path_of(reader) or type(reader).__qualname__)
        configure(reader, data.batch_size, data.epoch)
        self._bad: set[int] = set()  # numbers of skipped rows
        self._size = self._count_rows()
        self._warn_of_skipped_data()
        self._threads = THREADS
        self._own_ledger: ShardLedger
        self._ledger: Ledger
        self.restart(None)
        self._decoder = self._block_decoder()

    def _count_rows(self) -> int:
        try:
            return count_rows(self._reader)
        except InputError as error:
            if _skips_header(self._reader) and row_count_of(self._reader) == 0:
                raise InputError(f"{self._where}: {self._name} has no rows below the header.") from error
            raise

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """See Source."""
        decoder = self._decoder
        if policy(READER) is not None:
            good = functools.partial(read_ranges, threads=self._threads, read=self._read_good)
            return batches(lambda: _without_empty(good(self._reader, self._ledger)), errors, size), {}
        if decoder is None:
            return batches(lambda: read_ranges(self._reader, self._ledger, threads=self._threads), errors, size), {}

        def blocks() -> Iterator[Any]:
            threads = min(self._threads, decoder.threads)
            return read_ranges(self._reader, self._ledger, threads=threads, read=decoder.read)

        return decoder.batches(blocks, errors, size), {}

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """See Source."""
        return self.columns.select(self._decoder.decode(*rows)) if self._decoder else self.columns.decode(*rows)

    def examine(self) -> None:
        """See Source."""
        left, examined = ShardLedger.from_json(self.position()), 0
        for shard in self._ledger.taken() or iter(left.take, None):
            self._examine(shard)
            examined += shard.count
            if examined >= _MAX_EXAMINED_ROWS:
                return

    def restart(self, position: str | None) -> None:
        """See Source."""
        if position is not None:
            ledger = self._restore_ledger(position)
            if ledger is not None and ledger.matches(self._name, self._size):
                self._own_ledger = ledger.with_epochs(self._data.epoch)
                self._ledger = self._skipping_bad_rows(self._own_ledger)
                logging.info("%s: resuming after %d rows that are already trained.", self._where, ledger.done)
                if self._own_ledger.is_finished:
                    logging.warning("%s: all rows are already trained, %d times.", self._where, self._data.epoch)
                return
            _warn_of_different_data(self._where)
        self._own_ledger = ShardLedger(self._size, self._shard_size(), self._data.epoch, self._name)
        self._ledger = self._skipping_bad_rows(self._own_ledger)

    def share(self, part: Part) -> None:
        """See Source."""
        self._threads = _THREADS_WHEN_SHARED
        self._ledger = self._skipping_bad_rows(part.join(self._own_ledger))

    def trained(self, count: int) -> None:
        """See Source."""
        self._ledger.trained(count)

    def position(self) -> str:
        """See Source. If workers share the rows, only the chief's position is current."""
        return self._own_ledger.to_json()

    def _shard_size(self) -> int:
        return self._data.batch_size * int(getattr(self._reader, "num_minibatches_per_shard", _BATCHES_IN_SHARD) or 1)

    def _skipping_bad_rows(self, ledger: Ledger) -> Ledger:
        return SkippingLedger(ledger, self._bad) if policy(READER) else ledger

    def _restore_ledger(self, position: str) -> ShardLedger | None:
        return ShardLedger.from_json(position) if "of" not in json.loads(position) else None

    def _read_good(self, reader: Any, start: int, end: int, is_stopped: Callable[[], bool]) -> np.ndarray:
        """Returns the valid rows of a range; adds the numbers of the others to `_bad`."""
        rows = read_range(reader, start, end, is_stopped)
        return self._drop_bad_rows(rows, lambda index: (self._name, self._row(start + index)), start)

    def _drop_bad_rows(self, rows: np.ndarray, place: Callable[[int], tuple[str, str]], start: int) -> np.ndarray:
        return _drop_bad(rows, self.columns, self._trial, place, self._bad, start)

    @functools.cached_property
    def _trial(self) -> ParseTrial:
        return ParseTrial(self.columns.parse if self.takes_examples else self.columns.decode)

    def _examine(self, shard: Shard) -> None:
        columns, rows = self.columns, list(read_range(self._reader, shard.start, shard.end))
        check_rows(rows, columns.row_fields, columns.field_delim, columns.value_delim, shard.start, self._place)

    def _block_decoder(self) -> BlockDecoder | None:
        """Returns a decoder of whole ranges.

        None if bad rows are to be skipped, if the reader has no `read_text`, or if ranges are too small to gain by it.
        """
        if (
            policy(READER)
            or min(self._own_ledger.shard_size, self._size) < _MIN_BLOCK_ROWS
            or not hasattr(self._reader, "read_text")
        ):
            return None
        from ...inputs.csv.delimited_blocks import BlockDecoder  # imports Arrow

        columns = self.columns
        return BlockDecoder(columns.row_fields, columns.field_delim, columns.value_delim)

    def _place(self, row: int) -> str:
        return f"{self._name}, {self._row(row)}"

    def _row(self, row: int) -> str:
        return f"row {row + 1}" + (" after the header" if _skips_header(self._reader) else "")

    def _warn_of_skipped_data(self) -> None:
        """Warns if the skipped header row looks like data; DLRover silently dropped the first row of such files."""
        header = self._reader.header() if _skips_header(self._reader) else None
        if header and looks_like_data(header, self.columns.fields, self.columns.field_delim):
            logging.warning(
                "%s: the first row of %s is skipped as a header, but looks like data: %r. If it is, use "
                "FileReader(path, skip_header=False).",
                self._where,
                self._name,
                header,
            )


class ExampleRangeSource(RangeSource):
    """tf.Examples in TFRecord files, parsed by column name, in ranges that several workers can share."""

    takes_examples = True

    def __init__(self, data: DataSet, columns: Columns, files: Sequence[str], where: str) -> None:
        super().__init__(data, columns, TfRecordRanges(files, policy(READER)), where)

    def _restore_ledger(self, position: str) -> ShardLedger | None:
        """Also restores positions of an `ExampleSource`, which reads the same records in the same order."""
        saved = json.loads(position)
        if saved.get("of") != self._name:
            return super()._restore_ledger(position)
        ledger, left = ShardLedger(self._size, self._size, self._data.epoch, self._name), saved["rows"]
        while left and (shard := ledger.take()):
            ledger.trained(min(left, shard.count))
            left -= min(left, shard.count)
        return ledger.with_epochs(self._data.epoch, self._shard_size())

    def _read_good(self, reader: Any, start: int, end: int, is_stopped: Callable[[], bool]) -> np.ndarray:
        del is_stopped
        rows = reader.read_range(start, end)
        intact = [index for index, row in enumerate(rows) if row is not DAMAGED]
        self._bad |= {*range(start, end)} - {start + index for index in intact}
        records = np.array([rows[index] for index in intact], object)
        trial = refused(records, self._trial)
        for index, problem in trial:
            number = start + intact[index]
            file, place = reader.place_of(number)
            _skip(file, place, problem)
            self._bad.add(number)
        return np.delete(records, [index for index, _ in trial])

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """See Source."""
        return self.columns.parse(*rows)

    def _examine(self, shard: Shard) -> None:
        """Reads the rows, which verifies their checksums."""
        read_range(self._reader, shard.start, shard.end)


class _CountedSource:
    """Base class of sequential sources, whose position is the number of rows that have been trained on."""

    takes_examples = False

    def __init__(self, columns: Columns, name: str, where: str) -> None:
        self.columns = columns
        self._name = name
        self._where = where
        self._trained = 0
        self._bad: set[int] = set()  # numbers of skipped rows, counted over all epochs

    def restart(self, position: str | None) -> None:
        """See Source."""
        saved = json.loads(position) if position else {}
        self._trained = saved.get("rows", 0) if saved.get("of") == self._name else 0
        if self._trained:
            logging.info("%s: skipping %d rows that are already trained.", self._where, self._trained)
        elif saved:
            _warn_of_different_data(self._where)

    def share(self, part: Part) -> None:
        """Raises NotImplementedError; `open_source` does not return sequential sources for shared rows."""
        raise NotImplementedError

    def trained(self, count: int) -> None:
        """See Source."""
        self._trained = place_after(self._trained, count, self._bad)

    def position(self) -> str:
        """See Source."""
        return json.dumps({"of": self._name, "rows": self._trained})


class StreamSource(_CountedSource):
    """Rows of an iterator without random access; resuming re-reads and drops the rows before the position."""

    def __init__(self, data: DataSet, columns: Columns, reader: Any, where: str) -> None:
        super().__init__(columns, str(getattr(reader, "__qualname__", type(reader).__qualname__)), where)
        self._epochs = data.epoch
        self._reader = reader

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """See Source."""
        return batches(self._good_blocks if policy(READER) else self._blocks, errors, size), {}

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """See Source."""
        return self.columns.decode(*rows)

    def examine(self) -> None:
        """See Source."""
        _examine(self._blocks(), self.columns, self._trained, lambda row: f"{self._where}: the reader's row {row + 1}")

    def _good_blocks(self) -> Iterator[np.ndarray]:
        trial = ParseTrial(self.columns.decode)
        for number, row, block in self._numbered_blocks():
            good = _drop_bad(block, self.columns, trial, self._place_from(row), self._bad, number)
            if len(good):
                yield good

    def _place_from(self, first: int) -> Callable[[int], tuple[str, str]]:
        return lambda index: (self._where, f"the reader's row {first + index + 1}")

    def _blocks(self) -> Iterator[np.ndarray]:
        return (block for _, _, block in self._numbered_blocks())

    def _numbered_blocks(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yields (number of the block's first row over all epochs, its number within the epoch, block)."""
        skip, read = self._trained, 0
        for _ in range(self._epochs):
            before = read
            for block in iterate_rows(self._reader):
                first = max(skip, read)
                rest = block[first - read :]
                read += len(block)
                if len(rest):
                    yield first, first - before, rest
            if read == before:
                break  # the reader supports only one iteration
        if not read:
            raise InputError(f"{self._where}: the reader yields no rows.")


class ExampleSource(_CountedSource):
    """tf.Examples in TFRecord files, parsed by column name, in sequence."""

    takes_examples = True

    def __init__(self, data: DataSet, columns: Columns, files: Sequence[str], where: str) -> None:
        super().__init__(columns, ",".join(files), where)
        self._epochs = data.epoch
        self._files = files

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """See Source."""
        skip = tf.placeholder_with_default(tf.constant(0, tf.int64), [])
        records = tf_record_dataset(self._files).repeat(self._epochs).skip(skip)
        return records.batch(size), {skip: lambda: self._trained}

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """See Source."""
        return self.columns.parse(*rows)

    def examine(self) -> None:
        """See Source."""
        check_tf_records(self._files)


def _drop_bad(
    rows: Any,
    columns: Columns,
    trial: ParseTrial,
    place: Callable[[int], tuple[str, str]],
    bad: set[int],
    start: int,
) -> np.ndarray:
    """Returns the rows that can be decoded; adds the numbers of the others to `bad` and skips them.

    Args:
      rows: The rows.
      columns: Their columns.
      trial: Tries to parse rows.
      place: Returns the file and the place of a row by its index in `rows`.
      bad: The numbers of skipped rows, which is updated.
      start: The number of the first row.
    """
    found = refused(rows, trial)
    for index, problem in found:
        wrong = describe_problem(rows[index], columns.row_fields, columns.field_delim, columns.value_delim)
        _skip(*place(index), wrong or problem)
        bad.add(start + index)
    return np.delete(rows, [index for index, _ in found])


def _skip(file: str, place: str, problem: str) -> None:
    if (bad := policy(READER)) is not None:
        bad.skip(file, place, problem)


def _without_empty(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    return (block for block in blocks if len(block))


def _header_names(header: str, delim: str) -> list[str]:
    try:
        fields = split_row(header.encode("utf-8", "surrogateescape"), delim)
    except ValueError:
        return []  # not a valid row, so not a header
    return [field.decode("utf-8", "replace").strip() for field in fields]


def _warn_of_different_data(where: str) -> None:
    logging.warning(
        "%s: the position in the checkpoint belongs to different data; reading starts at the first row.", where
    )


def _skips_header(reader: object) -> bool:
    return bool(getattr(reader, "skip_header", False)) and callable(getattr(reader, "header", None))


def _examine(blocks: Iterator[np.ndarray], columns: Columns, first: int, place: Callable[[int], str]) -> None:
    """Raises an error for the first row that cannot be decoded, checking 1,000,000 rows at most."""
    examined = 0
    for block in blocks:
        check_rows(list(block), columns.row_fields, columns.field_delim, columns.value_delim, first + examined, place)
        examined += len(block)
        if examined >= _MAX_EXAMINED_ROWS:
            return
