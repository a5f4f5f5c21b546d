"""Opens Parquet files and reads their row groups; a corrupt row group raises an error or is skipped as a whole.

Page checksums are verified if the file has them (pyarrow: `write_page_checksum=True`) and pyarrow is 13 or later. In a
page without a checksum, a flipped bit may go undetected as a wrong value.

Usage:

    with ArrowFile(path, "rb") as file:
        for batch in row_batches(path, opened_parquet(path, file), 4096, ["age"]):
            ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import InputError
from ..bad_records import policy, remedy
from ..message_text import shorten
from ..readers.record_files import PARQUET

if TYPE_CHECKING:
    from .arrow_file import ArrowFile

_CHECKED = {"page_checksum_verification": True} if int(pa.__version__.split(".")[0]) >= 13 else {}


def opened_parquet(path: str, file: ArrowFile) -> pq.ParquetFile:
    """Opens a Parquet file and reads its footer.

    Args:
      path: The file's path, for messages.
      file: The open file.

    Raises:
      InputError: If it is not a Parquet file, or its footer is missing or damaged.
    """
    try:
        return pq.ParquetFile(file, **_CHECKED)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a Parquet file, or damaged: {str(error).strip()} Write the file again."
        ) from error


def row_batches(path: str, parquet: pq.ParquetFile, rows: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches; if bad records are skipped, batches end at row group boundaries.

    Args:
      path: The file's path, for messages.
      parquet: The file.
      rows: Maximum number of rows in a batch.
      columns: Names of the columns to read.

    Raises:
      InputError: If a row group does not decode. If bad records are skipped, all rows of the row group are skipped.
    """
    bad = policy(PARQUET)
    groups = range(parquet.num_row_groups)
    for some in [list(groups)] if bad is None else [[group] for group in groups]:
        batches = parquet.iter_batches(rows, row_groups=some, columns=list(columns))
        read = 0
        try:
            whole = batches if bad is None else list(batches)  # yield a row group only if all of it decodes
            for batch in whole:
                yield batch
                read += batch.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            what = shorten(str(error).strip().splitlines()[0])
            if bad is None:
                raise InputError(
                    f"{path}: the Parquet file is damaged: a row group after row {read} cannot be decoded: {what} "
                    f"{remedy('rows')}"
                ) from error
            lost = parquet.metadata.row_group(some[0]).num_rows
            bad.skip(path, f"row group {some[0]}, {lost} rows", f"it cannot be decoded: {what}", lost)
