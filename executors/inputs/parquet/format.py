"""Parquet files, as TFX's ExampleGen writes them with the payload format FORMAT_PARQUET."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..file_signatures import PARQUET_MAGIC
from ..table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

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
        return head.startswith(PARQUET_MAGIC)

    def tables(self, path: str, columns: Sequence[str] | None, rows: int) -> Iterator[pa.Table]:
        """See `TableFormat`."""
        import pyarrow as pa

        from ..tables.columns import require_columns
        from .arrow_file import ArrowFile
        from .files import opened_parquet, row_batches

        with ArrowFile(path, "rb") as file:
            parquet = opened_parquet(path, file)
            there = parquet.schema_arrow.names
            names = there if columns is None else columns
            require_columns(path, names, there)
            if file.size() > _NARROW * parquet.metadata.num_rows:
                rows = min(rows, _WIDE_ROWS)
            for batch in row_batches(path, parquet, rows, names):
                yield pa.Table.from_batches([batch])

    def write(self, path: str, table: pa.Table) -> None:
        """See `TableFormat`."""
        import pyarrow.parquet as pq

        pq.write_table(table, path)

    def shape(self, path: str) -> tuple[Sequence[str], int]:
        """Returns the names of the columns and the number of rows in the footer."""
        from .arrow_file import ArrowFile
        from .files import opened_parquet

        with ArrowFile(path, "rb") as file:
            parquet = opened_parquet(path, file)
        return parquet.schema_arrow.names, parquet.metadata.num_rows
