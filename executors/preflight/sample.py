"""Samples real examples of a split into files of the same format, for a shortened training.

The copies keep file format, compression, file name extension and a CSV's header row, as modules may depend on them.
Files stay files, a folder stays a folder, and anything else is a pattern. Data of up to 4 MiB are copied completely. Of
larger data, the first records of up to four files are copied, and symbolic links repeat the copies behind a folder or a
pattern, so that there are enough records for large batches.

    if holds_records(["data/train/*"]):
        sample = take(["data/train/*"], folder)
        sample.patterns, sample.records
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..inputs.gzipped_files import is_gzipped
from ..inputs.input_format import recognized
from ..inputs.readers.record_files import TEXT, common_format
from ..inputs.text_format import TextFormat, binary_format
from ..runtime.files import file_io

RAW_EXAMPLES = "CsvExampleGen/examples/1"  # the folder of a pipeline's raw examples, below its root
_WHOLE_BYTES = 4 << 20  # data up to this size are copied completely
_RECORDS = 512  # copied of each file of larger data
_FILES = 4  # copied of larger data
_TARGET_RECORDS = 8192  # records to provide; larger batches are rare


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample of a split's records.

    Attributes:
      patterns: The copied files, in the form of the patterns that name the data.
      kind: Name of the format; "Text" for lines of text.
      records: The first records: serialized, or as {column: value}; [] for lines of text.
      count: Number of records in the copies, without links.
      estimated_records: Number of records in all files, extrapolated by size unless the sample is complete.
      whole: Whether the sample contains all records.
      misnamed: A file of another format than text whose ".gz" extension contradicts its compression, or "".
      originals: The original of each copied file; the given patterns for their folder.
    """

    patterns: list[str]
    kind: str
    records: list[Any]
    count: int
    estimated_records: int
    whole: bool
    misnamed: str = ""
    originals: Mapping[str, str] = dataclasses.field(default_factory=dict)


def holds_records(patterns: Sequence[str]) -> bool:
    """Returns whether the matching files may hold records, one after the other.

    Folders with folders do not (images by class), nor do binary files of another format (.npz, .png).
    """
    if any(file_io.isdir(os.path.join(pattern, name)) for pattern in patterns for name in _names_in(pattern)):
        return False
    files = [path for pattern in patterns for path in _files(pattern)]
    return not any(map(_is_foreign, files))


def _is_foreign(path: str) -> bool:
    if path.removesuffix(".gz").endswith(".txt"):
        return False
    form = recognized(path)
    return (form is None or (form.is_text and not form.header)) and bool(binary_format(path))


def take(patterns: Sequence[str], folder: str) -> Sample:
    """Copies a sample of the records in the matching files.

    Args:
      patterns: Patterns of files; a folder matches all files in it. Names that start with "." or "_" are skipped.
      folder: Folder for the copies; created.

    Raises:
      InputError: If files are empty, damaged, or of different kinds.
    """
    named = [
        path for pattern in patterns for path in _files(pattern) if not os.path.basename(path).startswith((".", "_"))
    ]
    kind, _, files = common_format(named, columns_wanted=False)
    total = sum(map(file_io.size_of, files))
    whole = total <= _WHOLE_BYTES
    chosen = files if whole else _evenly_spaced(files)
    are_files = all(file_io.exists(pattern) and not file_io.isdir(pattern) for pattern in patterns)
    limit = _TARGET_RECORDS // len(chosen) if are_files else _RECORDS
    os.makedirs(folder, exist_ok=True)
    records: list[Any] = []
    count = read = 0
    originals = dict.fromkeys((folder, os.path.join(folder, "*")), ", ".join(patterns))
    for number, path in enumerate(chosen):
        target = os.path.join(folder, f"{number:04d}-{os.path.basename(path)}")
        form = recognized(path) or TextFormat()
        copied, first = form.copy(path, target, None if whole else limit)
        originals[target] = path
        count += copied - (form.header and copied > 1)  # a module may read the only line as a record
        records += first
        read += os.path.getsize(target)
    if not count:
        raise InputError(f"{', '.join(patterns)}: the files contain no records.")
    if are_files:
        copies = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    else:
        copies = [folder if all(map(file_io.isdir, patterns)) else os.path.join(folder, "*")]
        if not whole:
            repeat_files(folder, count)
    misnamed = next((path for path in files if kind != TEXT and is_gzipped(path) != path.endswith(".gz")), "")
    estimated = count if whole else count * total // read
    return Sample(copies, kind, records, count, estimated, whole, misnamed, originals)


def _files(pattern: str) -> list[str]:
    paths = [os.path.join(pattern, name) for name in _names_in(pattern)] or file_io.glob(pattern)
    return [path for path in paths if not file_io.isdir(path)]


def _names_in(folder: str) -> list[str]:
    return file_io.listdir(folder) if file_io.isdir(folder) else []


def _evenly_spaced(files: Sequence[str]) -> list[str]:
    """Returns up to four files, evenly spaced from the first to the last."""
    last = len(files) - 1
    return [files[index] for index in sorted({round(last * part / (_FILES - 1)) for part in range(_FILES)})]


def repeat_files(folder: str, count: int, wanted: int = _TARGET_RECORDS) -> None:
    """Repeats the files of a folder by symbolic links until there are enough records for a large batch.

    Args:
      folder: The folder.
      count: Number of records in its files.
      wanted: Number of records that suffice, if less than 8192.
    """
    originals = sorted(os.listdir(folder))
    for turn in range(1, -(-min(wanted, _TARGET_RECORDS) // max(count, 1))):
        for name in originals:
            os.symlink(os.path.join(folder, name), os.path.join(folder, f"{turn:02d}-{name}"))
