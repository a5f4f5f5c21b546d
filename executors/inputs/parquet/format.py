"""Parquet files, as TFX's ExampleGen writes them with the payload format FORMAT_PARQUET.

Page checksums are verified if the file has them (pyarrow: `write_page_checksum=True`) and pyarrow is 13 or later. In a
page without a checksum, a flipped bit may go undetected as a wrong value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...errors import InputError
from ...runtime.files import file_io
from ..bad_records import policy, remedy
from ..gzipped_files import opened_as_is
from ..message_text import shorten
from ..table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

PARQUET = "FORMAT_PARQUET"
_NARROW = 1024  # average bytes per row in the file, up to which rows are narrow
_WIDE_ROWS = 4096  # maximum number of wide rows in a table


class Parquet(TableFormat):
    """Parquet files; a row group that cannot be decoded is skipped as a whole."""

    name = "Parquet"
    endings = (".parquet",)
    payloads = (PARQUET,)

    def matches(self, head: bytes) -> bool:
        """Whether the bytes begin with Parquet's magic number."""
        return head.startswith(b"PAR1")

    def tables(self, path: str, columns: Sequence[str] | None, rows: int) -> Iterator[pa.Table]:
        """See `TableFormat`."""
        from ..tables.columns import require_columns

        with opened_parquet(path) as parquet:
            there = parquet.schema_arrow.names
            names = there if columns is None else list(columns)
            require_columns(path, names, there)
            if file_io.size_of(path) > _NARROW * parquet.metadata.num_rows:
                rows = min(rows, _WIDE_ROWS)
            yield from self._decoded(path, parquet, rows, names)

    def _decoded(self, path: str, parquet: pq.ParquetFile, rows: int, names: list[str]) -> Iterator[pa.Table]:
        """Yields the rows; if bad records are skipped, only of whole row groups, so that tables end with them."""
        import pyarrow as pa

        bad = policy(self.name)
        groups = list(range(parquet.num_row_groups))
        for some in [groups] if bad is None else [[group] for group in groups]:
            batches, read = parquet.iter_batches(rows, row_groups=some, columns=names), 0
            try:
                for batch in batches if bad is None else list(batches):
                    yield pa.Table.from_batches([batch])
                    read += batch.num_rows
            except (pa.ArrowException, OSError, ValueError) as error:
                what = f"cannot be decoded: {shorten(str(error).strip().splitlines()[0])}"
                if bad is None:
                    where = f"{path}: the Parquet file is damaged: a row group after row {read}"
                    raise InputError(f"{where} {what} {remedy('rows')}") from error
                lost = parquet.metadata.row_group(some[0]).num_rows
                bad.skip(path, f"row group {some[0]}, {lost} rows", f"it {what}", lost)

    def write(self, path: str, table: pa.Table) -> None:
        """See `TableFormat`."""
        import pyarrow.parquet as pq

        pq.write_table(table, path)

    def shape(self, path: str) -> tuple[Sequence[str], int]:
        """Returns the names of the columns and the number of rows in the footer."""
        with opened_parquet(path) as parquet:
            return parquet.schema_arrow.names, parquet.metadata.num_rows


@contextlib.contextmanager
def opened_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Opens a file and reads its footer; raises an InputError if that is missing or damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    checked = {"page_checksum_verification": True} if int(pa.__version__.split(".")[0]) >= 13 else {}
    with opened_as_is(path) as file:
        try:
            parquet = pq.ParquetFile(file, **checked)
        except (pa.ArrowException, OSError, ValueError) as error:
            what = f"not a Parquet file, or damaged: {str(error).strip()} Write the file again."
            raise InputError(f"{path}: {what}") from error
        yield parquet
