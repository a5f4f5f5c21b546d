"""Makes standard input, output and error reliable: closed, broken or full streams do not end a run.

make_reliable()          # before anything is printed
…
error = output_error()   # why some output could not be written, or None
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NAMES = ("stdin", "stdout", "stderr")


class _Stream(io.FileIO):
    """A file that ignores write errors after recording the first one.

    Attributes:
      error: The first write error, or None.
    """

    error: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        if self.error is None:
            try:
                return super().write(data) or 0
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


def make_reliable() -> None:
    """Opens closed standard streams, so that no other file gets their descriptors, and ignores write errors."""
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for name in _NAMES[1:]:
        setattr(sys, name, reliable_stream(getattr(sys, name)))


def reliable_stream(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Returns a text stream to the same file that ignores write errors."""
    stream.flush()
    file = io.BufferedWriter(_Stream(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(
        file, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=stream.write_through
    )


@contextlib.contextmanager
def output() -> Iterator[BinaryIO]:
    """Yields standard output as a binary stream that raises write errors, for commands that only print."""
    sys.stdout.flush()
    if isinstance(getattr(sys.stdout.buffer, "raw", None), _Stream):
        with open(sys.stdout.fileno(), "wb", closefd=False) as stream:
            yield stream
    else:
        yield sys.stdout.buffer
        sys.stdout.flush()


def output_error() -> OSError | None:
    """Returns standard output's write error; None if all was written, or its reader closed the pipe, as `head` does."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    error = raw.error if isinstance(raw, _Stream) else None
    return None if isinstance(error, BrokenPipeError) else error
