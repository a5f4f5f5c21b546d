"""CSV files with a header row."""

from __future__ import annotations

from collections.abc import Iterator

from ..input_format import Batch, chunks
from ..text_format import TextFormat, check_text


class Csv(TextFormat):
    """CSV files with a header row, separated by commas."""

    name = "CSV"
    endings = (".csv",)
    header = 1

    def batches(self, path: str, size: int) -> Iterator[Batch]:
        """See `InputFormat`; an empty cell is a missing value."""
        from .row_reader import csv_rows

        check_text(path)
        with csv_rows(path, keeps_bytes=True) as rows:
            names = rows.required_names(are_unique=True)
            for first, chunk in chunks(iter(rows), size):
                columns = zip(names, zip(*chunk, strict=True), strict=True)
                values = {name: [cell or None for cell in cells] for name, cells in columns}
                yield Batch(path, first, len(chunk), columns=values, position=rows.position, is_text=True)
