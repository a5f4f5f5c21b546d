"""Row sources that read in sequence; a position is the number of rows that have been trained on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging

from ...errors import InputError
from ...inputs.bad_records import policy
from ...inputs.readers.reader_errors import ReaderErrors
from ...inputs.tfrecord.framing import check_tf_records
from ...inputs.tfrecord.record_dataset import tf_record_dataset
from .columns import Columns
from .conf import DataSet
from .examples import READER
from .sharding.range_reader import batches, iterate_rows
from .sharding.skipping_ledger import place_after
from .source import Feed, Source


class _SequentialSource(Source):
    _trained = 0

    def restart(self, position: str | None) -> None:
        """Implements `Source`."""
        saved = json.loads(position) if position else {}
        self._trained = saved.get("rows", 0) if saved.get("of") == self._name else 0
        if self._trained:
            logging.info("%s: skipping %d rows that are already trained.", self._where, self._trained)
        elif saved:
            self.warn_of_different_data()

    def trained(self, count: int) -> None:
        """Implements `Source`."""
        self._trained = place_after(self._trained, count, self._bad)

    def position(self) -> str:
        """Implements `Source`."""
        return json.dumps({"of": self._name, "rows": self._trained})


class StreamSource(_SequentialSource):
    """Rows of an iterator without random access; resuming re-reads and drops the rows before the position."""

    def __init__(self, data: DataSet, columns: Columns, reader: Any, where: str) -> None:
        super().__init__(data, columns, str(getattr(reader, "__qualname__", type(reader).__qualname__)), where)
        self._reader = reader

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """Implements `Source`."""
        return batches(self._good_blocks if policy(READER) else self._blocks, errors, size), {}

    def examine(self) -> None:
        """Implements `Source`."""
        blocks = ((first, block) for first, _, block in self._numbered_blocks())
        self.check_rows(blocks, lambda row: f"{self._where}: the reader's row {row + 1}")

    def _blocks(self) -> Iterator[np.ndarray]:
        return (block for _, _, block in self._numbered_blocks())

    def _good_blocks(self) -> Iterator[np.ndarray]:
        for first, before, block in self._numbered_blocks():

            def place(number: int, before: int = before) -> tuple[str, str]:
                return self._where, f"the reader's row {number - before + 1}"

            good = self.good_rows(block, range(first, first + len(block)), place)
            if len(good):
                yield good

    def _numbered_blocks(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yields the number of a block's first row over all epochs, the number of rows of earlier epochs, the block."""
        skip, read = self._trained, 0
        for _ in range(self._data.epoch):
            before = read
            for block in iterate_rows(self._reader):
                first = max(skip, read)
                rest = block[first - read :]
                read += len(block)
                if len(rest):
                    yield first, before, rest
            if read == before:
                break  # the reader supports only one iteration
        if not read:
            raise InputError(f"{self._where}: the reader yields no rows.")


class ExampleSource(_SequentialSource):
    """tf.Examples in TFRecord files, parsed by column name, in sequence."""

    takes_examples = True

    def __init__(self, data: DataSet, columns: Columns, files: Sequence[str], where: str) -> None:
        super().__init__(data, columns, ",".join(files), where)
        self._files = files

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """Implements `Source`."""
        skip = tf.placeholder_with_default(tf.constant(0, tf.int64), [])
        records = tf_record_dataset(self._files).repeat(self._data.epoch).skip(skip)
        return records.batch(size), {skip: lambda: self._trained}

    def examine(self) -> None:
        """Implements `Source`."""
        check_tf_records(self._files)
