"""A few real examples of a split, copied into files of the same form, for a training that is cut short.

Copying keeps what a module may rely on: the kind of file, its compression, the end of its name, a CSV's header. Small
data are taken whole. Of larger ones the first records of some files are taken, and the copies are there many times
over by links, so that large batches fill.

    sample = take(["data/train/*"], folder, columns_wanted=False)
    sample.pattern, sample.records, sample.facts
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import InputError
from ..inputs.readers.reader_params import CSV, PARQUET, RECORD_IO, TEXT, TF_RECORD
from ..inputs.readers.record_files import GZIP_ERRORS, check_text, is_gzipped, kind_of
from ..inputs.recordio import records as recordio
from ..runtime.files import file_io

RAW_EXAMPLES = "CsvExampleGen/examples/1"  # the folder of a pipeline's raw examples, below its root
_WHOLE_BYTES = 4 << 20  # data that are no larger are taken whole
_RECORDS = 512  # of each file, of larger data
_FILES = 4
_BYTES = 16 << 20  # of each file, whatever the records' size
_FILLED = 8192  # records; batches of more are rare


@dataclasses.dataclass(frozen=True)
class Sample:
    """Some records of a split.

    Attributes:
      pattern: What finds the copies.
      kind: One of reader_params.READER_TYPES.
      records: The first of them: bytes of TFRecords, rows of Parquet as dicts; [] for other kinds.
      count: How many there are in the copies, without the links; 0 where nobody counted.
      bytes_read: How many bytes of the data's files they take.
      bytes_total: How many bytes all files have.
      files: How many files there are.
      whole: Whether these are all records.
      misnamed: A file whose name says another compression than it has, or "".
    """

    pattern: str
    kind: str
    records: list[Any]
    count: int
    bytes_read: int
    bytes_total: int
    files: int
    whole: bool
    misnamed: str = ""

    @property
    def estimated_records(self) -> int:
        """How many records all files may have, by their size."""
        if self.whole or not self.bytes_read:
            return self.count
        return int(self.count * self.bytes_total / self.bytes_read)


def take(patterns: Sequence[str], folder: str, columns_wanted: bool = False) -> Sample:
    """Copies some records of the files that match.

    Args:
      patterns: Of the files; folders stand for the files in them.
      folder: Where the copies go; it is made.
      columns_wanted: Whether a .csv is read by columns, or as lines.

    Raises:
      InputError: When files are empty, damaged, or of different kinds.
    """
    named = [
        path for pattern in patterns for path in _files(pattern) if not os.path.basename(path).startswith((".", "_"))
    ]
    kind, files = kind_of(named, columns_wanted, otherwise=TEXT)
    total = sum(map(file_io.size_of, files))
    whole = total <= _WHOLE_BYTES or kind == RECORD_IO
    chosen = files if whole else _spread(files)
    os.makedirs(folder, exist_ok=True)
    records: list[Any] = []
    count = read = 0
    for number, path in enumerate(chosen):
        target = os.path.join(folder, f"{number:04d}-{os.path.basename(path)}")
        taken = _COPIES[kind](path, target, None if whole else _RECORDS)
        count += taken.count - (kind == CSV)  # the header
        records += taken.first
        read += file_io.size_of(path) if whole else os.path.getsize(target)
    if not count:
        raise InputError(f"{', '.join(patterns)}: there are no records in the files.")
    if not whole:
        _repeat(folder, count)
    misnamed = next((path for path in files if kind == TF_RECORD and is_gzipped(path) != path.endswith(".gz")), "")
    return Sample(os.path.join(folder, "*"), kind, records, count, read, total, len(files), whole, misnamed)


@dataclasses.dataclass(frozen=True)
class _Taken:
    count: int
    first: list[bytes] | list[dict[str, object]] = dataclasses.field(default_factory=list)


def _files(pattern: str) -> list[str]:
    if file_io.isdir(pattern):
        return [os.path.join(pattern, name) for name in file_io.listdir(pattern)]
    return [path for path in file_io.glob(pattern) if not file_io.isdir(path)]


def _spread(files: Sequence[str]) -> list[str]:
    """Returns some of the files, from the first to the last."""
    last = len(files) - 1
    return [files[index] for index in sorted({round(last * part / (_FILES - 1)) for part in range(_FILES)})]


def _repeat(folder: str, count: int) -> None:
    """Links the copies until there are enough records to fill a large batch."""
    originals = sorted(os.listdir(folder))
    for turn in range(1, _FILLED // max(count, 1) + 1):
        for name in originals:
            os.symlink(os.path.join(folder, name), os.path.join(folder, f"{turn:02d}-{name}"))


def _copy_tf_records(path: str, target: str, most: int | None) -> _Taken:
    import tensorflow as tf

    compression = "GZIP" if is_gzipped(path) else ""
    count = size = 0
    first: list[bytes] = []
    try:
        with tf.io.TFRecordWriter(target, compression) as writer:
            for record in _tf_records(path, compression):
                writer.write(record)
                first += [record] if len(first) < _RECORDS else []
                count, size = count + 1, size + len(record)
                if most is not None and (count >= most or size >= _BYTES):
                    break
    except tf.errors.OpError as error:
        raise InputError(
            f"{path}: the TFRecord file is damaged or cut off behind {count} records: {error.message}"
        ) from error
    return _Taken(count, first)


def _tf_records(path: str, compression: str) -> Iterator[bytes]:
    """Yields a file's records without tf.data, whose runtime the module may want to set up itself."""
    import tensorflow as tf

    v1 = tf.compat.v1.io
    kind = v1.TFRecordCompressionType.GZIP if compression else v1.TFRecordCompressionType.NONE
    yield from v1.tf_record_iterator(path, v1.TFRecordOptions(kind))


def _copy_lines(path: str, target: str, most: int | None) -> _Taken:
    check_text(path)
    zipped = is_gzipped(path)
    count = size = quotes = 0
    with file_io.file_system(path).open(path, mode="rb") as raw, open(target, "wb") as out:
        copy = gzip.GzipFile(fileobj=out, mode="wb") if zipped else out
        try:
            for line in gzip.GzipFile(fileobj=raw) if zipped else raw:
                copy.write(line)
                count, size, quotes = count + 1, size + len(line), quotes + line.count(b'"')
                # An odd number of quotes: the row goes on in the next line.
                if most is not None and (count >= most or size >= _BYTES) and quotes % 2 == 0:
                    break
        except GZIP_ERRORS as error:
            raise InputError(f"{path} is gzipped, and cut off or damaged: {error}") from error
        if zipped:
            copy.close()
    return _Taken(count)


def _copy_parquet(path: str, target: str, most: int | None) -> _Taken:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ..inputs.parquet.arrow_file import ArrowFile

    try:
        with ArrowFile(path, "rb") as file:
            parquet = pq.ParquetFile(file)
            batches = list(itertools.islice(parquet.iter_batches(_RECORDS), None if most is None else 1))
            pq.write_table(pa.Table.from_batches(batches, parquet.schema_arrow), target)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: the Parquet file is damaged or cut off: {error}") from error
    first = batches[0].to_pylist() if batches else []
    return _Taken(sum(batch.num_rows for batch in batches), first)


def _copy_whole(path: str, target: str, most: int | None) -> _Taken:
    del most
    with file_io.file_system(path).open(path, mode="rb") as source, open(target, "wb") as copy:
        shutil.copyfileobj(source, copy)
    if file_io.size_of(path) <= _WHOLE_BYTES:
        return _Taken(sum(map(len, recordio.read_chunks(path))))
    return _Taken(sum(chunk.records for chunk in recordio.read_index(path)))


_COPIES = {
    TF_RECORD: _copy_tf_records,
    CSV: _copy_lines,
    TEXT: _copy_lines,
    PARQUET: _copy_parquet,
    RECORD_IO: _copy_whole,
}
