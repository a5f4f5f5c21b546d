"""Files of examples in the forms that people have them in, read batch by batch: TFRecords, CSV and JSON lines.

The form is told by the file's name, and by its first bytes where the name says nothing. Each of them may be gzipped.

Usage:

    files = find_example_files(["eval/*", "more.csv"])
    for batch in batches(files[0], 512):
        batch.records     # of TFRecords: [b"…", …]
        batch.columns     # of the others: {"age": ["31", None, …], …}, as written in the file
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.user_paths import require_readable_kind
from .readers.record_files import GZIP_ERRORS, check_text, is_gzipped
from .tfrecord.framing import damage

if TYPE_CHECKING:
    from .readers.record_files import BinaryFile

Row = TypeVar("Row")

TF_RECORD, CSV, JSON_LINES = "TFRecord", "CSV", "JSON lines"

_ENDINGS = {
    ".csv": CSV,
    ".json": JSON_LINES,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".tfrecord": TF_RECORD,
    ".tfrecords": TF_RECORD,
}
_TF_RECORD_HEADER_BYTES = 12  # a length of 8 bytes, the upper ones zero, and its checksum


@dataclasses.dataclass(frozen=True)
class ExampleFile:
    """A file of examples.

    Attributes:
      path: Where it lies.
      kind: TF_RECORD, CSV or JSON_LINES.
      gzipped: Whether its bytes are gzipped, whatever its name says.
    """

    path: str
    kind: str
    gzipped: bool


@dataclasses.dataclass(frozen=True)
class Batch:
    """Some consecutive examples of one file.

    Attributes:
      file: The file.
      first: The number of its first example in the file, counted from 1.
      size: How many examples these are.
      records: A TFRecord file's records; empty for the other kinds.
      columns: {feature: one value an example}; None where it is missing. Values are as in the file: text for CSV,
        what JSON has for JSON lines. Empty for TFRecords.
    """

    file: ExampleFile
    first: int
    size: int
    records: list[bytes] = dataclasses.field(default_factory=list)
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)

    def where(self, index: int) -> str:
        """Returns "data.csv, row 7" for one of the batch's examples, by its index."""
        return f"{self.file.path}, row {self.first + index}"


def find_example_files(patterns: Sequence[str]) -> list[ExampleFile]:
    """Returns the files that match, those of each pattern sorted, none twice.

    Raises:
      InputError: When a pattern matches no file.
    """
    paths: dict[str, None] = {}
    for pattern in patterns:
        exact = file_io.exists(pattern) and not file_io.isdir(pattern)  # a name may have brackets in it
        found = [pattern] if exact else [path for path in file_io.glob(pattern) if not file_io.isdir(path)]
        if not found:
            hint = f" It is a folder; write '{pattern.rstrip('/')}/*'." if file_io.isdir(pattern) else ""
            raise InputError(f"--examples: no file matches {pattern!r}.{hint}")
        for path in found:
            require_readable_kind(path, "--examples")
        paths.update(dict.fromkeys(found))
    return [_recognized(path) for path in paths]


def batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    """Reads a file in batches of `size` examples; the last one may be smaller.

    Raises:
      InputError: When the file is damaged, or not what it seems to be; it names the row.
    """
    if file.kind == TF_RECORD:
        yield from _record_batches(file, size)
        return
    check_text(file.path)
    read = _csv_batches if file.kind == CSV else _json_batches
    with _opened(file) as binary:
        yield from read(file, _lines(binary), size)


def _recognized(path: str) -> ExampleFile:
    gzipped = is_gzipped(path)
    name = path.lower().removesuffix(".gz")
    kind = next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), None)
    if kind is None:
        with _opened(ExampleFile(path, TF_RECORD, gzipped)) as binary:
            kind = _kind_of_content(binary.read(_TF_RECORD_HEADER_BYTES))
    return ExampleFile(path, kind, gzipped)


def _kind_of_content(head: bytes) -> str:
    if not head or b"\0" in head:
        return TF_RECORD
    return JSON_LINES if head.lstrip().startswith(b"{") else CSV


@contextlib.contextmanager
def _opened(file: ExampleFile) -> Iterator[BinaryFile]:
    with file_io.file_system(file.path).open(file.path, mode="rb") as raw:
        try:
            yield gzip.GzipFile(fileobj=raw) if file.gzipped else raw
        except GZIP_ERRORS as error:
            raise InputError(f"{file.path} is gzipped, and cut off or damaged: {error}") from error


def _lines(binary: Iterable[bytes]) -> Iterator[str]:
    """Decodes line by line; bytes that are not UTF-8 come through and are the same when encoded again."""
    lines = (line.decode("utf-8", "surrogateescape") for line in binary)
    for first in itertools.islice(lines, 1):
        yield first.removeprefix("\ufeff")
    yield from lines


def _record_batches(file: ExampleFile, size: int) -> Iterator[Batch]:
    import tensorflow as tf

    done = 0
    try:
        for records in tf.data.TFRecordDataset(file.path, "GZIP" if file.gzipped else "").batch(size):
            array = records.numpy()
            yield Batch(file, done + 1, len(array), records=array.tolist())
            done += len(array)
    except tf.errors.DataLossError as error:
        what = damage(file.path) or f"{file.path} is damaged after record {done}: {error.message}."
        raise InputError(f"{what} (Files in other forms have names that end in {', '.join(_ENDINGS)}.)") from error


def _csv_batches(file: ExampleFile, lines: Iterator[str], size: int) -> Iterator[Batch]:
    reader = csv.reader(lines, strict=True)
    try:
        names = next(reader, [])
        if not any(names) or len(set(names)) < len(names):
            raise InputError(f"{file.path}: its first line must name the columns, each once; it is {names}.")
        rows = (row for row in reader if row)
        for first, chunk in _chunks(rows, size):
            for index, row in enumerate(chunk):
                if len(row) != len(names):
                    what = f"it has {len(row)} values, and the header names {len(names)} columns"
                    raise InputError(f"{file.path}, row {first + index}: {what}.")
            columns = zip(names, zip(*chunk, strict=True), strict=True)
            yield Batch(
                file, first, len(chunk), columns={name: [cell or None for cell in cells] for name, cells in columns}
            )
    except csv.Error as error:
        raise InputError(f"{file.path}, line {reader.line_num}: this is not CSV: {error}.") from error


def _json_batches(file: ExampleFile, lines: Iterator[str], size: int) -> Iterator[Batch]:
    rows = (_json_object(file, number, line) for number, line in enumerate(lines, 1) if line.strip())
    for first, chunk in _chunks(rows, size):
        names = dict.fromkeys(name for row in chunk for name in row)
        yield Batch(file, first, len(chunk), columns={name: [row.get(name) for row in chunk] for name in names})


def _json_object(file: ExampleFile, number: int, line: str) -> dict[str, object]:
    problem = "it is something else"
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            return row
    except ValueError as error:
        problem = str(error)
    raise InputError(
        f"{file.path}, line {number}: each line must be a JSON object, as in "
        f'{{"age": 31, "scores": [0.5, 1.0]}}; {problem}.'
    )


def _chunks(rows: Iterator[Row], size: int) -> Iterator[tuple[int, list[Row]]]:
    first = 1
    while chunk := list(itertools.islice(rows, size)):
        yield first, chunk
        first += len(chunk)
