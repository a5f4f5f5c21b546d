"""CSV reader by columns: the same rows as Python's csv module, or an error that names the file."""

from __future__ import annotations

import csv
import gzip
import io

from generic_trainer.executors.dialects.elasticdl.readers.csv_records import column_names, csv_blocks, strings_of_block
from generic_trainer.executors.inputs.csv import rows as csv_rows

from .target import answer, file_of

SEEDS = [
    b'a,b\n1,2\n"x,1","y""z"\n',
    b"\xef\xbb\xbfa,b,c\r\n1,2,3\r\n\r\n4,,6",
    b'a,b\n"1\n2",3\n',
    b"a,b\n1\n1,2,3\n",
    gzip.compress(b"a,b\n1,2\n", mtime=0),
]

csv_rows.BLOCK_BYTES = 16  # so that rows span several blocks


def check(data: bytes) -> None:
    """Reads all columns of the file and compares them with the rows of Python's csv module."""
    path = file_of(data, "rows.csv")
    names = answer(lambda: column_names(path, ","), path)
    if names is None:
        return
    blocks = answer(lambda: list(csv_blocks([path], names, ",")), path)
    if blocks is None or data.startswith(b"\x1f\x8b\x08"):
        return
    rows = [row.tolist() for block in blocks for row in strings_of_block(*block).numpy()]
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    expected = [[_bytes(value) for value in row] for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
    assert rows == expected, (rows, expected)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
