"""Forwards the output of a process line by line, with known secrets redacted.

    with forwarded((process.stdout, process.stderr), (sys.stdout, sys.stderr), what="training"):
        process.wait()

Memory is bounded: a line longer than `_LONGEST_LINE` is forwarded in pieces. At the end of the block, everything that
the process has written is forwarded. If a child of the process keeps a pipe open for longer, its output is dropped
after `_LATE_SECONDS`, and a warning names that child.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import fcntl
import io
import os
import re
import struct
import termios
import threading
import time
from _thread import start_new_thread
from collections.abc import Iterator, Sequence
from typing import IO, TypeAlias

from absl import logging

from ..logs.redaction import mask_known, masked_text, unfinished_secret
from .readable import readable

Sink: TypeAlias = "IO[str] | io.TextIOBase"

_LONGEST_LINE = 1 << 20  # characters; lines up to this length are never mixed with those of another writer
_CHUNK_BYTES = 1 << 16  # capacity of a Linux pipe
_LATE_SECONDS = 3.0  # for the last lines of children that outlive the process, such as a logging process
_JOIN_SECONDS = 10.0  # for a blocked terminal or a slow reader
_COMMAND_CHARACTERS = 100
_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+")


@contextlib.contextmanager
def forwarded(
    pipes: Sequence[IO[bytes] | None], targets: Sequence[Sink], prefix: str = "", what: str = "process"
) -> Iterator[None]:
    """Forwards pipes to text files during the block, and drains them when it ends.

    Args:
      pipes: The pipes to read; None entries are skipped. They are closed at the end.
      targets: The text file for each pipe.
      prefix: Prepended to every line.
      what: Name of the process in messages.
    """
    over = _Event()
    streams = [_Stream(pipe, target, prefix, over) for pipe, target in zip(pipes, targets, strict=True) if pipe]
    for stream in streams:
        stream.start()
    try:
        yield
    finally:
        over.set()
        for stream in streams:
            stream.join(_LATE_SECONDS + _JOIN_SECONDS)
        if holders := sorted({holder for stream in streams for holder in stream.holders}):
            logging.warning("The %s process has ended; further output of %s is not shown.", what, ", ".join(holders))


class LastText(io.TextIOBase):
    """A text file that keeps only the end of the text written to it.

    Args:
      characters: How many of the last characters are kept at least.
    """

    def __init__(self, characters: int = 1 << 20) -> None:
        self._parts: collections.deque[str] = collections.deque()
        self._size, self._limit = 0, characters

    def write(self, text: str, /) -> int:
        """Appends a text and drops the oldest parts beyond the limit; returns the number of characters."""
        self._parts.append(text)
        self._size += len(text)
        while self._size - len(self._parts[0]) >= self._limit:
            self._size -= len(self._parts.popleft())
        return len(text)

    def getvalue(self) -> str:
        """Returns the text that is kept."""
        return "".join(self._parts)


class _Event:
    """An event that can be polled together with files: once set, a byte remains in its pipe."""

    def __init__(self) -> None:
        self._reader, self._writer = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))

    def set(self) -> None:
        with self._writer:
            self._writer.write(b"x")

    def fileno(self) -> int:
        return self._reader.fileno()


class _Stream:
    """Forwards one pipe, in a thread.

    Attributes:
      holders: The processes that still had the pipe open at the end.
    """

    def __init__(self, pipe: IO[bytes], target: Sink, prefix: str, over: _Event) -> None:
        self.holders: list[str] = []
        self._running = threading.Lock()
        self._pipe, self._target, self._over = pipe, target, over
        self._lines = _Lines(prefix)

    def start(self) -> None:
        """Starts the thread; `threading.Thread.start` never returns if memory is short (python/cpython#140746)."""
        self._running.acquire()
        start_new_thread(self._run, ())

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, up to a number of seconds."""
        self._running.acquire(timeout=seconds)

    def _run(self) -> None:
        try:
            with self._pipe:
                for data in self._chunks():
                    self._write(self._lines.add(data))
                self._write(self._lines.add(b"", is_last=True))
        finally:
            self._running.release()

    def _chunks(self) -> Iterator[bytes]:
        pipe, over, end = self._pipe.fileno(), self._over.fileno(), None
        while end is None or time.monotonic() < end:
            ready = readable([pipe, over], None) if end is None else readable([pipe], end - time.monotonic())
            if pipe in ready:
                data = os.read(pipe, _CHUNK_BYTES)
                if not data:
                    return
                yield data
            if over in ready:
                end = time.monotonic() + _LATE_SECONDS
        left = _unread(pipe)  # unread data remains if the target was slow
        while left > 0 and (data := os.read(pipe, min(left, _CHUNK_BYTES))):
            left -= len(data)
            yield data
        self.holders = list(_holders(pipe))

    def _write(self, text: str) -> None:
        if text:
            write(self._target, text)


class _Lines:
    """Cuts a byte stream into pieces of text that are each written in one call, in linear time."""

    def __init__(self, prefix: str) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._prefix = prefix
        self._held: list[str] = []
        self._size = 0
        self._is_in_line = False

    def add(self, data: bytes, is_last: bool = False) -> str:
        """Adds bytes; returns the text that is complete, or ""."""
        text = self._decoder.decode(data, is_last)
        self._held.append(text)
        self._size += len(text)
        rest = len(text) - max(text.rfind("\n"), text.rfind("\r")) - 1  # progress bars end lines with \r
        if rest == len(text) and self._size < _LONGEST_LINE and not is_last:
            return ""
        whole = "".join(self._held)
        if is_last or rest == len(text):
            rest = 0
        if not is_last:
            rest += unfinished_secret(whole[: len(whole) - rest])
        self._held, self._size = [whole[len(whole) - rest :]], rest
        return self._prefixed(mask_known(whole[: len(whole) - rest]))

    def _prefixed(self, text: str) -> str:
        if not self._prefix or not text:
            return text
        first = "" if self._is_in_line else self._prefix
        self._is_in_line = not text.endswith(("\n", "\r"))
        return first + self._prefix.join(_LINE.findall(text))


def write(target: Sink, text: str) -> None:
    """Writes to a file and ignores its errors: a closed terminal must not stop the training."""
    with contextlib.suppress(OSError, ValueError):
        target.write(text)
        target.flush()


def _unread(pipe: int) -> int:
    number = struct.Struct("i")
    size: int = number.unpack(fcntl.ioctl(pipe, termios.FIONREAD, bytes(number.size)))[0]
    return size


def _holders(pipe: int) -> Iterator[str]:
    """Yields the other processes that have a pipe open and are visible to this user; none except on Linux."""
    for process in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if (
            process.isdecimal()
            and int(process) != os.getpid()
            and _has_open(process, f"pipe:[{os.fstat(pipe).st_ino}]")
        ):
            with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
                command = file.read(_COMMAND_CHARACTERS).replace(b"\0", b" ").decode("utf-8", "replace").strip()
                yield f"process {process} ({masked_text(command)})"


def _has_open(process: str, file: str) -> bool:
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{process}/fd/{number}") == file:
                    return True
    return False
