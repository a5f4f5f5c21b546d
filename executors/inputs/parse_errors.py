"""Locates the record behind a TensorFlow error of the input, by remembering how the records were read and parsed.

TensorFlow's parse errors surface in the user's module. They describe what is wrong with a record, but not its file or
position.

Usage:

    with tracking_parsers():
        track_parser(files.paths, parser.parse)          # where a dataset is made
        track_feed("a.csv", lambda: describe(…))         # the same, for records of any kind
        ...
        for text in locate_bad_records(error): add_note(error, text)     # where the module's exception arrives
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from .. import run_context
from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.logs.exceptions import tensorflow_message

if TYPE_CHECKING:
    import tensorflow as tf

T = TypeVar("T")

# Parts of TensorFlow's messages for records that cannot be parsed.
_PARSE_ERRORS = (
    "could not be found",
    "Number of",
    "Data types don't match",
    "Could not parse example",
    "parse serialized",
)


_INPUT_ERRORS = ("Iterator", "user-defined function")  # parts of messages of errors inside of a dataset


@dataclasses.dataclass(frozen=True)
class _Tracked:
    """What is known of the datasets.

    Attributes:
      parsers: {paths of the files of a dataset: the parse function of its records}.
      feeds: {name of a dataset: a function that describes the first record on which it fails, or returns ""}.
      raised: Exceptions of the datasets' generators.
    """

    parsers: dict[tuple[str, ...], Callable[[tf.Tensor], object]] = dataclasses.field(default_factory=dict)
    feeds: dict[str, Callable[[], str]] = dataclasses.field(default_factory=dict)
    raised: list[Exception] = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def tracking_parsers() -> Iterator[None]:
    """Enables `track_parser` and `locate_bad_records` for the duration of the block."""
    with run_context.extended(_Tracked()):
        yield


def track_parser(paths: Sequence[str], parse: Callable[[tf.Tensor], object]) -> None:
    """Remembers the parse function of some files for `locate_bad_records`; a no-op outside of `tracking_parsers`.

    Args:
      paths: TFRecord files.
      parse: Parses a string vector of serialized records.
    """
    _tracked().parsers[tuple(paths)] = parse


def track_feed(name: str, describe: Callable[[], str]) -> None:
    """Remembers how to find the failing record of a dataset; a no-op outside of `tracking_parsers`.

    Args:
      name: Name of the dataset; a later call with the same name replaces the earlier one.
      describe: Returns a message about the first record on which the dataset fails, or "".
    """
    _tracked().feeds[name] = describe


def keeping_errors(blocks: Iterator[T]) -> Iterator[T]:
    """Yields the blocks of a dataset's generator, and keeps its exception, of which tf.data only keeps the text."""
    try:
        yield from blocks
    except Exception as error:
        _tracked().raised.append(error)
        raise


def reader_error_of(error: BaseException) -> Exception | None:
    """Returns the exception of a dataset's generator that a TensorFlow error quotes, if there is one."""
    is_tensorflow = type(error).__module__.startswith("tensorflow.")
    text = tensorflow_message(error) or (str(error) if is_tensorflow else "")
    return next((raised for raised in _tracked().raised if text and str(raised) in text), None)


def locate_bad_records(error: BaseException) -> Iterator[str]:
    """Yields messages that locate the records that may have caused a TensorFlow parse error.

    Parses the files of each dataset again and reports the first record that fails, or that a file is damaged. Yields
    nothing for other errors.

    Args:
      error: The exception that the training raised.
    """
    text = tensorflow_message(error) or (str(error) if type(error).__name__ == "InvalidArgumentError" else "")
    if any(word in text for word in _INPUT_ERRORS):
        for describe in list(_tracked().feeds.values()):
            if found := describe():
                yield found
                return
    if not any(word in text for word in _PARSE_ERRORS):
        return
    from .tfrecord.refused_records import first_refused  # imports TensorFlow, which is loaded since it raised the error
    from .tfrecord.scan import ParseTrial

    for paths, parse in list(_tracked().parsers.items()):
        there = [path for path in paths if file_io.exists(path)]
        try:
            refused = first_refused(there, ParseTrial(parse))
        except InputError as damaged:
            refused = damaged
        if refused is not None:
            yield str(refused)


def _tracked() -> _Tracked:
    return run_context.part(_Tracked) or _Tracked()
