"""Row sources that read index ranges, which a ledger assigns; several workers can share them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging

from ...errors import InputError
from ...inputs.bad_records import policy
from ...inputs.readers.reader_errors import ReaderErrors
from .columns import Columns, FeaturesAndLabel
from .conf import DataSet
from .examples import READER
from .sharding.range_reader import THREADS, batches, count_rows, read_range, read_ranges, row_count_of
from .sharding.shard_ledger import Ledger, ShardLedger
from .sharding.skipping_ledger import SkippingLedger
from .sharding.tfrecord_ranges import DAMAGED, TfRecordRanges
from .source import Feed, Source
from .text.row_checks import looks_like_data

if TYPE_CHECKING:
    from .sharding.shared_ledger import Part
    from .text.delimited_blocks import BlockDecoder

_BATCHES_IN_SHARD = 10  # DLRover's documented default
_THREADS_WHEN_SHARED = 2  # per worker when workers share rows; few, so that no worker prefetches all of the last ranges
_MIN_BLOCK_ROWS = 2048  # minimum; for fewer rows, Arrow's startup time exceeds the time of decode_csv


class RangeSource(Source):
    """Rows of a reader with `read_data_by_index_range`, in ranges that a ledger assigns.

    Args:
      data: The data set.
      columns: Its columns.
      reader: The reader.
      where: The conf and the data set, for messages.
      part: This task's part in a cluster whose workers share the rows; None to read all rows.
    """

    def __init__(self, data: DataSet, columns: Columns, reader: Any, where: str, part: Part | None = None) -> None:
        path = getattr(reader, "path", None) or getattr(reader, "_path", None)
        super().__init__(data, columns, str(path or type(reader).__qualname__), where)
        self._reader = reader
        # Like DLRover's trainer, this doesn't call the setters, which a reader may lack.
        reader._batch_size, reader._num_epochs = data.batch_size, data.epoch  # noqa: SLF001 (also the shim's names)
        self._size = self._count_rows()
        self._warn_of_skipped_data()
        self._part = part
        self._threads = THREADS if part is None else _THREADS_WHEN_SHARED
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
        """Implements `Source`."""
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
        """Implements `Source`."""
        return self.columns.select(self._decoder.decode(*rows)) if self._decoder else super().decode(*rows)

    def examine(self) -> None:
        """Implements `Source`."""
        left = ShardLedger.from_json(self.position())
        shards = self._ledger.taken() or iter(left.take, None)
        blocks = ((shard.start, read_range(self._reader, shard.start, shard.end)) for shard in shards)
        self.check_rows(blocks, lambda row: f"{self._name}, {self._row(row)}")

    def restart(self, position: str | None) -> None:
        """Implements `Source`."""
        if position is not None:
            ledger = self._restore_ledger(position)
            if ledger is not None and ledger.matches(self._name, self._size):
                self._own_ledger = ledger.with_epochs(self._data.epoch)
                self._ledger = self._skipping_bad_rows(self._own_ledger)
                logging.info("%s: resuming after %d rows that are already trained.", self._where, ledger.done)
                if self._own_ledger.is_finished:
                    logging.warning("%s: all rows are already trained, %d times.", self._where, self._data.epoch)
                return
            self.warn_of_different_data()
        self._own_ledger = ShardLedger(self._size, self._shard_size(), self._data.epoch, self._name)
        self._ledger = self._skipping_bad_rows(self._own_ledger)

    def _start_training(self, position: str | None) -> None:
        self.restart(position)
        if self._part is not None:
            self._ledger = self._skipping_bad_rows(self._part.join(self._own_ledger))

    def trained(self, count: int) -> None:
        """Implements `Source`."""
        self._ledger.trained(count)

    def position(self) -> str:
        """Implements `Source`. If workers share the rows, only the chief's position is current."""
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
        return self.good_rows(rows, range(start, end), lambda number: (self._name, self._row(number)))

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
        from .text.delimited_blocks import BlockDecoder  # imports Arrow

        columns = self.columns
        return BlockDecoder(columns.row_fields, columns.field_delim, columns.value_delim)

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

    def __init__(
        self, data: DataSet, columns: Columns, files: Sequence[str], where: str, part: Part | None = None
    ) -> None:
        super().__init__(data, columns, TfRecordRanges(files, policy(READER)), where, part)

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
        intact = [number for number, row in enumerate(rows, start) if row is not DAMAGED]
        self._bad |= {*range(start, end)} - {*intact}
        return self.good_rows(np.array([rows[number - start] for number in intact], object), intact, reader.place_of)


def _without_empty(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    return (block for block in blocks if len(block))


def _skips_header(reader: object) -> bool:
    return bool(getattr(reader, "skip_header", False)) and callable(getattr(reader, "header", None))
