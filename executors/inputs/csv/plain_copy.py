r"""Converts CSV files of common dialects, and tables such as Parquet, to copies that TFX's CsvExampleGen can read.

    data, changes = plain_data("kunden.csv", "project/data")
    data       # "project/data/kunden.csv"; "kunden.csv" if CsvExampleGen can read the original
    changes    # ["kunden.csv: it was separated by semicolons; decimal commas in preis are points"]

CsvExampleGen requires UTF-8 without a byte order mark, comma-separated values, a header row without quotes, decimal
points, and no line breaks in values. The dialect is detected from the content (see `file_format.py`), not from the file
name. A file is read twice, row by row, because whether a column is numeric is only known at the end of the file.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence

from ...errors import InputError
from ...runtime.files import durable, file_io
from ...runtime.files.content_digests import ContentDigests, digests_in
from ..input_format import named_format
from ..message_text import join_names
from ..table_format import TableFormat
from .file_format import WITH_COMMAS, WITH_POINTS, CsvFormat, Progress, detect_format
from .row_reader import CsvRows, csv_rows, header_error
from .separators import SEPARATORS

_ENDINGS = (".csv.gz", ".tsv", ".tsv.gz", ".tab")
_MANIFEST = ".sources.json"
_ROWS_PER_CHECK = 1000  # of the progress, and of the columns that need no more values

_SHORT_COUNT = re.compile(r"\d{1,18}")
_LINE_BREAKS = re.compile(r"\s*[\r\n]+\s*")
_IN_NAMES = re.compile(r'[",\r\n]+\s*')


def plain_data(
    data: str, folder: str, lock: contextlib.AbstractContextManager[None] | None = None
) -> tuple[str, list[str]]:
    """Copies the data to `folder` in CsvExampleGen's dialect, if CsvExampleGen cannot read one of the files.

    If one file needs a conversion, all CSV files of the folder are copied, converted or not. The copy is written to a
    temporary directory and renamed.

    Args:
      data: A file or a folder of CSV files, the input of a pipeline. Only the .csv files of a folder are used, as by
        CsvExampleGen, or, if there are none, its .csv.gz, .tsv, .tsv.gz and .tab files, and tables such as Parquet.
      folder: Directory of the copies; an existing one is replaced. A copy made by an earlier call is reused if the
        contents of the original files and of the copies are unchanged.
      lock: Held while a copy is written, because another run might be reading an existing one.

    Returns:
      The path to read, which is `data`, `folder`, or a file in `folder`; and one line per converted file that describes
      the changes.

    Raises:
      InputError: If a file that needs a conversion is not valid CSV or is damaged, if two files would have the same
        name, or if the copy cannot be written.
    """
    files = _csv_files(data) if file_io.exists(data) else []
    copies = _copies(files, folder)
    place = folder if file_io.isdir(data) else next(iter(copies.values()), data)
    digests = digests_in(file_io.parent(folder))
    if files and (done := _changes_of_existing_copy(folder, copies, digests)) is not None:
        return place, done
    tables = {path: table for path in files if isinstance(table := named_format(path), TableFormat)}
    forms = {path: form for path in files if path not in tables and (form := detect_format(path)) is not None}
    changes = {path: found for path, form in forms.items() if (found := _find_changes(path, form))}
    if not changes and not tables:
        return data, []
    descriptions = [f"{os.path.basename(path)}: {'; '.join(what.describe())}" for path, what in changes.items()]
    descriptions += [f"{os.path.basename(path)}: it was a {table.name} file" for path, table in tables.items()]
    part = f"{folder}.part-{os.getpid()}"
    try:
        with lock or contextlib.nullcontext():
            os.makedirs(part)
            for path in files:
                copy = os.path.join(part, os.path.basename(copies[path]))
                if path in tables:
                    from ..tables.csv_copy import write_csv  # imports pyarrow

                    write_csv(tables[path], path, copy)
                elif path in changes:
                    _write(path, forms[path], changes[path], copy)
                else:
                    file_io.copy(path, copy)
            written = [os.path.join(part, os.path.basename(copy)) for copy in copies.values()]
            manifest = {**_contents(files, written, digests), "changes": descriptions}
            file_io.write_text(os.path.join(part, _MANIFEST), json.dumps(manifest))
            durable.sync_tree(part)
            if os.path.exists(folder):
                shutil.rmtree(folder)
            os.rename(part, folder)
    except OSError as error:
        raise InputError(f"{folder}: a copy of {data} cannot be written ({error.strerror or error}).") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place, descriptions


def _csv_files(data: str) -> list[str]:
    """Returns the files in a folder that have CSV extensions, or `data` itself if it is a file of any name."""
    if not file_io.isdir(data):
        return [data]
    names = sorted(name for name in file_io.listdir(data) if not name.startswith((".", "_")))
    found = [name for name in names if name.endswith(".csv")] or [
        name for name in names if name.endswith(_ENDINGS) or isinstance(named_format(name), TableFormat)
    ]
    return [path for path in (os.path.join(data, name) for name in found) if not file_io.isdir(path)]


def _copies(files: Sequence[str], folder: str) -> dict[str, str]:
    copies: dict[str, str] = {}
    for path in files:
        name = os.path.basename(path).removesuffix(".gz")
        stem = os.path.splitext(name)[0]
        copy = os.path.join(folder, f"{stem}.csv")
        if copy in copies.values():
            raise InputError(f"{path}: another file has the same name. Remove or rename one of them.")
        copies[path] = copy
    return copies


def _contents(files: Sequence[str], copies: Sequence[str], digests: ContentDigests) -> dict[str, dict[str, str]]:
    """Returns the digests of the originals and of the copies by file name."""
    parts = {"sources": digests.of(files), "copies": digests.of(copies)}
    return {part: {os.path.basename(path): digest for path, digest in of.items()} for part, of in parts.items()}


def _changes_of_existing_copy(folder: str, copies: Mapping[str, str], digests: ContentDigests) -> list[str] | None:
    """Returns the descriptions of an existing copy's changes; None if a file is missing or has other content."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        manifest = json.loads(file_io.read_text(os.path.join(folder, _MANIFEST)))
        changes = [*map(str, manifest.pop("changes"))]
        if manifest == _contents([*copies], [*copies.values()], digests):
            return changes
    return None


@dataclasses.dataclass(frozen=True)
class _Changes:
    """The conversion of a file.

    Attributes:
      form: The dialect of the original.
      names: Column names of the copy, by position in the original; "" for dropped columns.
      renamed: New names of the renamed columns.
      points: Positions of columns with decimal commas, and points as thousands separators.
      commas: Positions of columns with commas as thousands separators.
      left_out: Messages about dropped columns.
      lines: Number of values with line breaks.
    """

    form: CsvFormat
    names: tuple[str, ...]
    renamed: tuple[str, ...]
    points: tuple[int, ...]
    commas: tuple[int, ...]
    left_out: tuple[str, ...]
    lines: int

    def __bool__(self) -> bool:
        is_plain = self.form.is_plain and not self.form.has_quoted_names
        return not is_plain or bool(self.renamed or self.points or self.commas or self.left_out or self.lines)

    def describe(self) -> list[str]:
        """Returns one short message per change."""
        form = self.form
        names = [self.names[place] for place in self.points]
        grouped = [self.names[place] for place in self.commas]
        some = {
            "it was gzipped": form.gzipped,
            "it had a byte-order mark": form.encoding in ("utf-8-sig", "utf-16"),
            "it was UTF-16": form.encoding == "utf-16",
            "it was not UTF-8 and was read as Latin-1 (Windows-1252)": form.encoding in ("cp1252", "latin-1"),
            "lines ended with a carriage return only": form.has_old_line_ends,
            f"fields were separated by {SEPARATORS.get(form.separator, repr(form.separator))}": form.separator != ",",
            "the lines before the header were removed": form.first,
            "its name did not end in .csv": not form.is_named,
            "names in the first line were quoted": form.has_quoted_names,
            f"columns were renamed to {join_names(self.renamed)}": self.renamed,
            f"decimal commas in {join_names(names)} were replaced by points": names,
            f"thousands separators in {join_names(grouped)} were removed": grouped,
            f"line breaks in {self.lines:,} values were replaced by spaces": self.lines,
        }
        return [*(what for what, is_so in some.items() if is_so), *self.left_out]


class _Column:
    """Statistics of a column's values, updated value by value.

    Attributes:
      is_empty: Whether all values are empty.
      with_points: Whether all non-empty values are numbers with decimal commas or points as thousands separators.
      with_commas: Whether all non-empty values are numbers with decimal points or commas as thousands separators.
      counts: Whether the values are consecutive integers, such as row numbers.
      has_comma: Whether a value contains a comma.
    """

    def __init__(self) -> None:
        self.is_empty = self.with_points = self.with_commas = self.counts = True
        self.has_comma = False
        self._next: int | None = None

    def see(self, cell: str) -> None:
        value = cell.strip()
        self.is_empty = self.is_empty and not value
        if self.counts:
            self._count(value)
        if not value:
            return
        self.has_comma = self.has_comma or "," in value
        self.with_points = self.with_points and WITH_POINTS.fullmatch(value) is not None
        self.with_commas = self.with_commas and WITH_COMMAS.fullmatch(value) is not None

    @property
    def is_settled(self) -> bool:
        """Whether no further value can change the statistics that matter."""
        return not (self.is_empty or self.with_points or self.with_commas or self.counts)

    def _count(self, value: str) -> None:
        if self._next is None and _SHORT_COUNT.fullmatch(value):
            self._next = int(value)
        self.counts = self._next is not None and value == str(self._next)
        self._next = (self._next or 0) + 1


def _find_changes(path: str, form: CsvFormat) -> _Changes | None:
    """Returns the conversion that a file needs.

    Returns None if the file is empty, or is plain and needs no conversion, or is plain but not valid CSV.
    """
    try:
        with _rows_in(path, form) as rows:
            header = rows.names
            if not header:
                return None
            is_named = all(name.strip() for name in header)
            if form.is_plain and is_named and not (form.has_quoted_names or form.may_be_changed):
                return None
            columns, lines = _scan_columns(rows)
    except InputError:
        if form.is_plain:  # the reader of the file will report or skip the bad rows
            return None
        raise
    if all(WITH_POINTS.fullmatch(name) or WITH_COMMAS.fullmatch(name) for name in header):
        raise header_error(path, header)
    return _make_changes(form, header, columns, lines)


def _rows_in(path: str, form: CsvFormat) -> contextlib.AbstractContextManager[CsvRows]:
    return csv_rows(path, form.separator, form.encoding, skipped=form.first, newline="")


def _logged(rows: CsvRows, verb: str) -> Iterator[list[str]]:
    """Yields the rows, and logs the progress."""
    progress = Progress(rows.path, verb)
    for row in rows:
        if rows.number % _ROWS_PER_CHECK == 0:
            progress.log(rows.position)
        yield row


def _scan_columns(rows: CsvRows) -> tuple[list[_Column], int]:
    """Reads all rows; returns the statistics of each column, and the number of values with line breaks."""
    columns = [_Column() for _ in rows.names]
    open_to = list(enumerate(columns))
    lines = 0
    for row in _logged(rows, "read"):
        for place, column in open_to:
            column.see(row[place])
        if rows.number % _ROWS_PER_CHECK == 1:
            open_to = [(place, column) for place, column in open_to if not column.is_settled]
        lines += sum("\n" in cell or "\r" in cell for cell in row)
    return columns, lines


def _make_changes(form: CsvFormat, header: Sequence[str], columns: Sequence[_Column], lines: int) -> _Changes:
    names: list[str] = []
    left_out: list[str] = []
    for place, (name, column) in enumerate(zip(header, columns, strict=True)):
        plain = _IN_NAMES.sub(" ", name).strip() if _IN_NAMES.search(name) else name
        if not plain.strip() and (column.is_empty or column.counts):
            what = "is empty" if column.is_empty else "numbers the rows"
            left_out.append(f"column {place + 1}, which has no name and {what}, was removed")
            names.append("")
        else:
            names.append(plain if plain.strip() else f"column_{place + 1}")
    with_comma = [place for place, column in enumerate(columns) if names[place] and column.has_comma]
    with_points = {place for place in with_comma if columns[place].with_points and form.separator != ","}
    with_commas = {place for place in with_comma if columns[place].with_commas} - with_points
    renamed = [name for name, before in zip(names, header, strict=True) if name and name != before]
    return _Changes(
        form, tuple(names), tuple(renamed), tuple(sorted(with_points)), tuple(sorted(with_commas)),
        tuple(left_out), lines,
    )  # fmt: skip


def _write(path: str, form: CsvFormat, changes: _Changes, copy: str) -> None:
    kept = [place for place, name in enumerate(changes.names) if name]
    points = [kept.index(place) for place in changes.points]
    commas = [kept.index(place) for place in changes.commas]
    with _rows_in(path, form) as rows, open(copy, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([changes.names[place] for place in kept])
        for row in _logged(rows, "copied"):
            cells = [row[place] for place in kept]
            for place in points:
                cells[place] = cells[place].replace(".", "").replace(",", ".")
            for place in commas:
                cells[place] = cells[place].replace(",", "")
            if changes.lines:
                cells = [_LINE_BREAKS.sub(" ", cell) for cell in cells]
            writer.writerow(cells)
