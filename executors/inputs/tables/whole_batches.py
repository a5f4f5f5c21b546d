"""Regroups tables of rows into tables of a whole number of batches, across epochs.

Usage:

    for table in whole_batches(lambda: read_once(files), options, pa.concat_tables):
        table     # has k * options.batch_size rows, except for the last table
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

# A table is yielded as soon as it reaches one of these sizes and has at least one batch.
_ROWS_IN_TABLE, _BYTES_IN_TABLE = 32768, 32 << 20


def whole_batches(
    one_epoch: Callable[[], Iterable[pa.Table]],
    options: RecordBatchesOptions | TensorFlowDatasetOptions,
    join: Callable[[Sequence[pa.Table]], pa.Table],
) -> Iterator[pa.Table]:
    """Yields the rows of all epochs; batches may span epochs. Stops after an epoch without rows.

    Args:
      one_epoch: Returns the tables of one epoch; called for each epoch.
      options: tfx_bsl options, of which batch_size, drop_final_batch and num_epochs (None: infinite) are used.
      join: Concatenates tables.
    """
    epochs = itertools.count() if options.num_epochs is None else range(options.num_epochs)
    waiting: list[pa.Table] = []
    for _ in epochs:
        is_empty = True
        for table in one_epoch():
            if table.num_rows:
                is_empty = False
                waiting.append(table)
            if _is_full(waiting):
                yield from _take_whole_batches(waiting, options.batch_size, join)
        if is_empty:  # later epochs would be empty too
            break
        # For small data, don't wait until many epochs fill a table.
        yield from _take_whole_batches(waiting, options.batch_size, join)
    if waiting and not options.drop_final_batch:
        yield join(waiting)


def _is_full(tables: Sequence[pa.Table]) -> bool:
    rows = sum(table.num_rows for table in tables)
    size = sum(table.nbytes for table in tables)
    return bool(rows >= _ROWS_IN_TABLE or size >= _BYTES_IN_TABLE)


def _take_whole_batches(waiting: list[pa.Table], batch_size: int, join: Callable[..., pa.Table]) -> Iterator[pa.Table]:
    """Yields all complete batches as one table, if there are any; keeps the rest in `waiting`."""
    rows = sum(table.num_rows for table in waiting)
    whole = rows - rows % batch_size
    if not whole:
        return
    table = join(waiting)
    waiting[:] = [table.slice(whole)] if whole < rows else []
    yield table.slice(0, whole)
