"""Adds the file and record with bad data to the errors of a training, which TensorFlow's errors lack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..errors import TrainerError
from ..runtime.logs.exceptions import add_summary
from .parse_errors import locate_bad_records, reader_error_of, tracking_parsers
from .tfrecord.framing import describe_damage


@contextlib.contextmanager
def bad_data_described(patterns: Sequence[str]) -> Iterator[None]:
    """Adds a note to an exception that bad data have caused in the block.

    An exception of a reader that tf.data converted to a `tf.errors.OpError` is raised in its place.

    Args:
      patterns: Glob patterns of the files that are read.
    """
    with tracking_parsers():
        try:
            yield
        except TrainerError:
            raise
        except Exception as error:
            if (raised := reader_error_of(error)) is not None:
                raise raised from error
            with contextlib.suppress(Exception):  # the files may be gone; the module's exception matters more
                for description in _descriptions(error, patterns):
                    add_summary(error, description)
            raise


def _descriptions(error: Exception, patterns: Sequence[str]) -> Iterator[str]:
    yield from locate_bad_records(error)
    if type(error).__name__ == "DataLossError":
        yield from describe_damage(patterns)
