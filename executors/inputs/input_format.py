"""Interface of file formats of examples, which packages register in the group `generic_trainer.input_formats`.

A format whose files can be read as Arrow tables is a subclass of `TableFormat`, which needs two methods.

Usage:

    form = format_of("eval/data.parquet")
    for batch in form.batches("eval/data.parquet", 512):
        batch.columns     # {"age": [31, None, …], …}, values as in the file
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

from .. import plugins
from ..errors import InputError
from ..examples_format import INPUT_FORMATS, TF_EXAMPLE, ExamplesFormat
from .bad_records import policy, remedy
from .gzipped_files import unzipped_head

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf

Row = TypeVar("Row")
Copied: TypeAlias = "tuple[int, Sequence[bytes] | Sequence[dict[str, object]]]"
Factories: TypeAlias = "tuple[Callable[..., tf.data.Dataset], Callable[..., Iterator[pa.RecordBatch]]]"

HEAD_BYTES = 1024  # of a file, from which its format is recognized
_DECISIVE = (".csv", ".txt", ".parquet")  # endings of names that precede a file's first bytes
FIRST_RECORDS = 512  # records of a file that `InputFormat.copy` returns
COPIED_BYTES = 16 << 20  # of a file, after which `InputFormat.copy` may stop if it has a limit


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of consecutive examples of one file.

    Attributes:
      path: The file that the examples come from.
      first: Row number of the first example in the file, counted from 1.
      size: Number of examples.
      records: Serialized records, or a CSV file's lines or rows for a model that takes these; else empty.
      columns: {feature: one value per example}, with None for a missing value. Values are as in the file: str for CSV,
        any JSON value for JSON Lines, and for tables the same or bytes. Empty for serialized records.
      position: Bytes of the file that have been read, for progress; an estimate for some formats.
      is_text: Whether all values are text, as the file has no types.
    """

    path: str
    first: int
    size: int
    records: list[bytes] = dataclasses.field(default_factory=list)
    columns: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    position: float = 0
    is_text: bool = False

    @property
    def is_serialized(self) -> bool:
        """Whether the batch has records, which should be tf.Examples, and no columns."""
        return bool(self.records) and not self.columns

    def where(self, index: int) -> str:
        """Returns the location of an example for messages, such as "data.csv, row 7", by its index in the batch."""
        return f"{self.path}, row {self.first + index}"


class InputFormat:
    """A file format of examples.

    Modules that define a subclass are imported when formats are listed, so they import large libraries in methods only.

    Attributes:
      name: The format's name, for messages and records.
      endings: Lower-case ends of the names of files of this format, without ".gz".
      payloads: Values of `--payload-format` for which `fn_args.data_accessor` reads this format; the first one is the
        default for files whose names have one of the endings.
      is_text: Whether the files are lines of text.
      header: Number of lines before the first record.
    """

    name: ClassVar[str] = ""
    endings: ClassVar[tuple[str, ...]] = ()
    payloads: ClassVar[tuple[str, ...]] = ()
    is_text: ClassVar[bool] = False
    header: ClassVar[int] = 0

    def matches(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes, decompressed if it is gzipped, is of this format.

        Asked before the endings of names, but for formats of text only if no format has the ending of the file's name.
        """
        return False

    def batches(self, path: str, size: int) -> Iterator[Batch]:
        """Yields a file's examples in batches of `size`, as `predict` reads them; a batch may be smaller.

        Raises:
          InputError: If the file is damaged or is not of this format; the message names the row, line or byte.
        """
        raise InputError(f"{path}: {self.name} files cannot be read row by row.")

    def examples(self, path: str, size: int) -> Iterator[Batch]:
        """Yields a file's examples as serialized records, as model check and evaluation read them.

        Raises:
          InputError: See `batches`; also if the format has none.
        """
        raise InputError(f"{path}: {self.name} files cannot be read as tf.Examples.")

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """Copies the first records to a file of the same format and compression, as the sample of `check`.

        Args:
          path: The file.
          target: Path of the copy.
          limit: Number of records to copy, at least; None for all.

        Returns:
          The number of records in the copy, and up to FIRST_RECORDS of them: serialized, or as {column: value}; none of
          lines of text.

        Raises:
          InputError: If the file is damaged or is not of this format.
        """
        raise InputError(f"{path}: {self.name} files cannot be sampled.")

    def factories(self, examples: ExamplesFormat) -> Factories:
        """Returns TFX's `tf_dataset_factory` and `record_batch_factory` for one of the `payloads`."""
        raise NotImplementedError(f"{self.name} files cannot be read by data_accessor.")

    def skip(self, path: str, place: str, problem: str, count: int = 1) -> None:
        """Skips a bad record, if `on_bad_records` allows it.

        Args:
          path: The file.
          place: Position in the file, such as "row 7".
          problem: Why the record cannot be read.
          count: Number of records, if several can only be skipped together.

        Raises:
          InputError: If bad records are not skipped, or too many were.
        """
        if (bad := policy(self.name)) is None:
            raise InputError(f"{path}, {place}: {problem}. {remedy('bad records')}")
        bad.skip(path, place, problem, count)


@dataclasses.dataclass(frozen=True)
class ExampleFile:
    """A file of examples, and its format."""

    path: str
    form: InputFormat

    def batches(self, size: int) -> Iterator[Batch]:
        """See `InputFormat.batches`."""
        return self.form.batches(self.path, size)


def formats() -> dict[str, InputFormat]:
    """Returns the installed formats by the names of their entry points."""
    return {name: cast("type[InputFormat]", form)() for name, form in plugins.load(INPUT_FORMATS).items()}


def named_format(path: str) -> InputFormat | None:
    """Returns the format that the ending of a file's name stands for, if there is one."""
    name = _uncompressed_name(path)
    return next((form for form in formats().values() if form.endings and name.endswith(form.endings)), None)


def recognized(path: str) -> InputFormat | None:
    """Returns the format of a file by the first bytes of binary formats, else by its name, else by the bytes of text.

    Returns None if the format is unknown. Names that end in .csv, .txt and .parquet precede the bytes.

    Raises:
      InputError: If a gzipped file is damaged.
    """
    named, is_decided = named_format(path), _uncompressed_name(path).endswith(_DECISIVE)
    if named is not None and is_decided:
        return named
    head, installed = unzipped_head(path, HEAD_BYTES), formats().values()
    binary = None if is_decided else next((form for form in installed if not form.is_text and form.matches(head)), None)
    return binary or named or next((form for form in installed if form.is_text and form.matches(head)), None)


def format_of(path: str) -> InputFormat:
    """Returns the format of a file; for an unknown one CSV if it is text, else TFRecord, whose readers raise an error.

    Raises:
      InputError: If a gzipped file is damaged.
    """
    if (form := recognized(path)) is not None:
        return form
    head = unzipped_head(path, HEAD_BYTES)
    return formats()["tfrecord" if not head or b"\0" in head else "csv"]


def format_of_payload(payload: str) -> InputFormat:
    """Returns the format that reads a payload format.

    Raises:
      InputError: If no installed package does.
    """
    for form in formats().values():
        if payload in form.payloads:
            return form
    raise InputError(f"No installed package reads the payload format {payload}. Install the package that has it.")


def payload_format_of(patterns: Sequence[str]) -> str:
    """Returns the payload format that the endings of the training files' names stand for."""
    payloads = {form.payloads[0] if form and form.payloads else TF_EXAMPLE for form in map(named_format, patterns)}
    return payloads.pop() if len(payloads) == 1 else TF_EXAMPLE


def chunks(rows: Iterator[Row], size: int) -> Iterator[tuple[int, list[Row]]]:
    """Yields rows in lists of `size`, each with the number of its first row, from 1."""
    first = 1
    while chunk := list(itertools.islice(rows, size)):
        yield first, chunk
        first += len(chunk)


def _uncompressed_name(path: str) -> str:
    return path.lower().removesuffix(".gz")
