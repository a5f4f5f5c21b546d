"""Batch-wise reading of example files: TFRecord, CSV and JSON Lines, each optionally gzipped, and Parquet.

The format is detected from the file name extension, or from the first bytes if the extension is unknown. Gzip is
detected from the first bytes.

Usage:

    files = find_example_files(["eval/*", "more.csv"])
    for batch in batches(files[0], 512):
        batch.records     # for TFRecord: [b"…", …]
        batch.columns     # for the others: {"age": ["31", None, …], …}, values as in the file
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.file_kinds import require_readable_kind
from ..runtime.files.plain_values import parsed_json
from .csv.row_reader import csv_rows
from .gzipped_files import is_gzipped, opened, position, unzipped_head
from .readers.record_files import check_text
from .tfrecord.framing import FRAME_BYTES, HEADER_BYTES, find_damage

if TYPE_CHECKING:
    import pyarrow as pa

Row = TypeVar("Row")

TF_RECORD, CSV, JSON_LINES, PARQUET = "TFRecord", "CSV", "JSON lines", "Parquet"

_ENDINGS = {
    ".csv": CSV,
    ".json": JSON_LINES,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".parquet": PARQUET,
    ".tfrecord": TF_RECORD,
    ".tfrecords": TF_RECORD,
}
_SAMPLE_BYTES = 1 << 20  # to estimate the compression ratio of a file


@dataclasses.dataclass(frozen=True)
class ExampleFile:
    """A file of examples.

    Attributes:
      path: Path of the file.
      kind: TF_RECORD, CSV, JSON_LINES or PARQUET.
      gzipped: Whether the content is gzipped, regardless of the file name.
    """

    path: str
    kind: str
    gzipped: bool


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of consecutive examples of one file.

    Attributes:
      file: The file that the examples come from.
      first: Row number of the first example in the file, counted from 1.
      size: Number of examples.
      records: Serialized records of a TFRecord file, or a CSV file's lines or rows for a model that takes these; else
        empty.
      columns: {feature: one value per example}, with None for a missing value. Values are as in the file: str for CSV,
        any JSON value for JSON Lines, and for Parquet the same or bytes. Empty for TFRecord.
      position: Bytes of the file that have been read, for progress; an estimate for gzipped TFRecord and for Parquet.
    """

    file: ExampleFile
    first: int
    size: int
    records: list[bytes] = dataclasses.field(default_factory=list)
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    position: float = 0

    def where(self, index: int) -> str:
        """Returns the location of an example for messages, such as "data.csv, row 7", by its index in the batch."""
        return f"{self.file.path}, row {self.first + index}"


def find_example_files(patterns: Sequence[str]) -> list[ExampleFile]:
    """Returns the files that match glob patterns: sorted within each pattern, without duplicates.

    Raises:
      InputError: If a pattern matches no file, or a match is a dangling link, FIFO, socket or device.
    """
    paths: dict[str, None] = {}
    for pattern in patterns:
        exact = file_io.exists(pattern) and not file_io.isdir(pattern)  # a file name may contain brackets
        found = [pattern] if exact else [path for path in file_io.glob(pattern) if not file_io.isdir(path)]
        if not found:
            hint = f" It is a folder; use '{pattern.rstrip('/')}/*'." if file_io.isdir(pattern) else ""
            raise InputError(f"--examples: no file matches {pattern!r}.{hint}")
        for path in found:
            require_readable_kind(path, "--examples")
        paths.update(dict.fromkeys(found))
    return [_recognized(path) for path in paths]


def batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    """Yields a file's examples in batches of `size`; the last batch may be smaller.

    Raises:
      InputError: If the file is damaged or is not of the detected format; the message names the row or line.
    """
    if file.kind == TF_RECORD:
        yield from _record_batches(file, size)
        return
    if file.kind == PARQUET:
        yield from _parquet_batches(file, size)
        return
    check_text(file.path)
    yield from _csv_batches(file, size) if file.kind == CSV else _json_batches(file, size)


def _recognized(path: str) -> ExampleFile:
    gzipped = is_gzipped(path)
    name = path.lower().removesuffix(".gz")
    kind = next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), None)
    if kind is None:
        kind = _kind_of_content(unzipped_head(path, HEADER_BYTES))
    return ExampleFile(path, kind, gzipped)


def _kind_of_content(head: bytes) -> str:
    if not head or b"\0" in head:
        return TF_RECORD
    return JSON_LINES if head.lstrip().startswith(b"{") else CSV


def _record_batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    import tensorflow as tf

    done, position, ratio = 0, 0.0, 1.0
    try:
        for records in tf.data.TFRecordDataset(file.path, "GZIP" if file.gzipped else "").batch(size):
            array = records.numpy().tolist()
            if file.gzipped and not done:
                sample = b"".join(array)[:_SAMPLE_BYTES]
                ratio = len(zlib.compress(sample)) / max(len(sample), 1)
            position += ratio * sum(len(record) + FRAME_BYTES for record in array)
            yield Batch(file, done + 1, len(array), records=array, position=position)
            done += len(array)
    except tf.errors.DataLossError as error:
        what = find_damage([file.path]) or f"{file.path} is damaged after record {done}: {error.message}."
        raise InputError(
            f"{what} (Files of other formats must have names that end in {', '.join(_ENDINGS)}.)"
        ) from error


def _csv_batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    with csv_rows(file.path, keeps_bytes=True) as rows:
        names = rows.required_names(are_unique=True)
        for first, chunk in _chunks(iter(rows), size):
            columns = zip(names, zip(*chunk, strict=True), strict=True)
            values = {name: [cell or None for cell in cells] for name, cells in columns}
            yield Batch(file, first, len(chunk), columns=values, position=rows.position)


def _parquet_batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    import pyarrow as pa

    from .parquet.arrow_file import ArrowFile
    from .parquet.files import opened_parquet, require_columns

    done, bytes_of_file = 0, file_io.size_of(file.path)
    with ArrowFile(file.path, "rb") as opened:
        parquet = opened_parquet(file.path, opened)
        names = parquet.schema_arrow.names
        require_columns(file.path, names, names)
        try:
            for rows in filter(len, parquet.iter_batches(size)):
                columns = dict(zip(names, map(_plain_values, rows.columns), strict=True))
                position = bytes_of_file * (done + len(rows)) / parquet.metadata.num_rows
                yield Batch(file, done + 1, len(rows), columns=columns, position=position)
                done += len(rows)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{file.path} is damaged after row {done}: {error}. Write the file again.") from error


def _plain_values(column: pa.Array) -> list[object]:
    """Returns the values; dates, times and decimals as text, as in CSV and JSON."""
    import pyarrow as pa

    is_text = pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type)
    values: list[object] = (column.cast(pa.string()) if is_text else column).to_pylist()
    return values


def _json_batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    with opened(file.path) as binary:
        lines = io.TextIOWrapper(binary, "utf-8-sig", "surrogateescape", "\n")
        rows = (_json_object(file, number, line) for number, line in enumerate(lines, 1) if line.strip())
        for first, chunk in _chunks(rows, size):
            names = dict.fromkeys(name for row in chunk for name in row)
            columns = {name: [row.get(name) for row in chunk] for name in names}
            yield Batch(file, first, len(chunk), columns=columns, position=position(binary))


def _json_object(file: ExampleFile, number: int, line: str) -> dict[str, object]:
    problem = "it is something else"
    try:
        row = parsed_json(line, "its text")
        if isinstance(row, dict):
            return row
    except InputError as error:
        problem = str(error).rstrip(".")
    raise InputError(
        f"{file.path}, line {number}: each line must be a JSON object, as in "
        f'{{"age": 31, "scores": [0.5, 1.0]}}; {problem}.'
    )


def _chunks(rows: Iterator[Row], size: int) -> Iterator[tuple[int, list[Row]]]:
    first = 1
    while chunk := list(itertools.islice(rows, size)):
        yield first, chunk
        first += len(chunk)
