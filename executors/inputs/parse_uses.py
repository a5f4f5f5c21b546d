"""How a run's TFRecord files are parsed, kept in mind to say afterwards which record it was that could not be.

TensorFlow raises its errors in the module's own code, and says what is wrong with a record, not where it is.

Usage:

    with noted_uses():
        note_use(files.paths, parser.parse)          # where a dataset is made
        ...
        for said in refusals(error): add_note(error, said)     # where the module's exception arrives
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .. import run_context
from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.logs.exceptions import tensorflows_text

if TYPE_CHECKING:
    import tensorflow as tf

# What TensorFlow says of a record that cannot be parsed.
_WORDS = ("could not be found", "Number of", "Data types don't match", "Could not parse example", "parse serialized")


class _Uses(dict[tuple[str, ...], "Callable[[tf.Tensor], object]"]):
    """How files are parsed, by their paths."""


@contextlib.contextmanager
def noted_uses() -> Iterator[None]:
    """Keeps the uses of a run in mind, and no longer."""
    with run_context.extended(_Uses()):
        yield


def note_use(paths: Sequence[str], parse: Callable[[tf.Tensor], object]) -> None:
    """Keeps in mind how some files are parsed, for `refusals`; outside of `noted_uses` there is nobody to ask."""
    uses = run_context.part(_Uses)
    if uses is not None:
        uses[tuple(paths)] = parse


def refusals(error: BaseException) -> Iterator[str]:
    """Yields which records TensorFlow's error may be about: the first of each set of files that cannot be parsed.

    Args:
      error: Of the training.
    """
    text = tensorflows_text(error) or (str(error) if type(error).__name__ == "InvalidArgumentError" else "")
    if not any(word in text for word in _WORDS):
        return
    from .tfrecord.refused_records import first_refused  # with TensorFlow, which raised the error
    from .tfrecord.scan import ParseTrial

    for paths, parse in list((run_context.part(_Uses) or {}).items()):
        there = [path for path in paths if file_io.exists(path)]
        try:
            found = first_refused(there, ParseTrial(parse))
        except InputError as damaged:
            found = damaged
        if found is not None:
            yield str(found)
