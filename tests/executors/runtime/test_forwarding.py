"""A process's output is forwarded immediately: in whole lines, with bounded memory, and with known secrets masked."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable

import pytest

from generic_trainer.executors.runtime.logs import redaction
from generic_trainer.executors.runtime.process import forwarding

LONGEST = forwarding._LONGEST_LINE


class Pieces(io.TextIOBase):
    """A sink that records each write."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return len(text)

    @property
    def text(self) -> str:
        return "".join(self.written)


def forward(chunks: Iterable[bytes], prefix: str = "") -> Pieces:
    sink = Pieces()
    reader, writer = os.pipe()
    with forwarding.forwarded([os.fdopen(reader, "rb")], [sink], prefix), os.fdopen(writer, "wb", 0) as file:
        for chunk in chunks:
            file.write(chunk)
    return sink


@pytest.mark.parametrize("character", [b".", b"\0", "ü".encode()])
def test_output_without_a_line_end_is_forwarded_in_pieces_of_bounded_size(character: bytes) -> None:
    chunk, number = character * 50_001, 200
    sink = forward([chunk] * number)
    assert sink.text == (chunk * number).decode()
    assert max(map(len, sink.written)) <= LONGEST + (1 << 16)


def test_a_progress_bar_arrives_line_by_line() -> None:
    sink = Pieces()
    reader, writer = os.pipe()
    with forwarding.forwarded([os.fdopen(reader, "rb")], [sink]), os.fdopen(writer, "wb", 0) as file:
        for step in range(100):
            file.write(b"step %d\r" % step)
    assert sink.text.count("\r") == 100
    assert all(piece.endswith("\r") for piece in sink.written)


def test_lines_of_two_writers_are_not_mixed() -> None:
    sink = Pieces()
    pipes = [os.pipe() for _ in range(2)]

    def print_lines(end: int, letter: bytes) -> None:
        with os.fdopen(end, "wb", 0) as file:
            for _ in range(20):
                for part in (letter * 70_000, letter * 70_000, b"\n"):
                    file.write(part)

    with forwarding.forwarded([os.fdopen(reader, "rb") for reader, _ in pipes], [sink, sink]):
        writers = [
            threading.Thread(target=print_lines, args=(end, letter))
            for (_, end), letter in zip(pipes, (b"a", b"b"), strict=True)
        ]
        for thread in writers:
            thread.start()
        for thread in writers:
            thread.join()
    assert sorted(sink.text.splitlines()) == ["a" * 140_000] * 20 + ["b" * 140_000] * 20


def test_each_line_has_its_prefix_once_however_long_it_is() -> None:
    sink = forward([b"one\ntw", b"o\r\nthree ", b"." * LONGEST, b"." * LONGEST, b"\nfour"], "[worker] ")
    long = "three " + "." * 2 * LONGEST
    assert sink.text == f"[worker] one\n[worker] two\r\n[worker] {long}\n[worker] four"


@pytest.mark.parametrize("secret", ["correct-horse-battery-7", "-----BEGIN\nkey of 3 lines\nEND-----9"])
def test_a_secret_split_across_chunks_or_writes_is_masked(secret: str) -> None:
    redaction.remember_secrets({"password": secret})
    for length in range(len(secret) + 1):
        begin, end, filler = secret[:length], secret[length:], "." * (LONGEST - length)
        for chunks in ([filler, begin, end, filler], [f"x\n{begin}", f"{end}\nlast"]):
            lines = forwarding._Lines("")
            pieces = [lines.add(chunk.encode()) for chunk in chunks] + [lines.add(b"", is_last=True)]
            assert "".join(pieces) == "".join(chunks).replace(secret, "***")
    assert forward([secret[:9].encode()]).text == secret[:9]  # nothing is held back forever


def test_what_a_process_wrote_before_its_end_arrives_although_a_child_keeps_the_pipe(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "sys.stdout.write('x' * 60000 + ' ' + str(child.pid))"
    )
    sink = Pieces()
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with caplog.at_level("WARNING"), forwarding.forwarded([process.stdout], [sink], what="training"):
        process.wait()
    filler, child = sink.text.split()
    os.kill(int(child), 9)
    assert filler == "x" * 60000
    if sys.platform == "linux":
        assert re.search(rf"training process has ended.* process {child} \(sleep 1000\)", caplog.text)


def test_only_the_last_text_is_kept() -> None:
    last = forwarding.LastText(1000)
    for number in range(5001):
        last.write(f"line {number}\n")
    kept = last.getvalue()
    assert kept.endswith("line 4999\nline 5000\n")
    assert 1000 <= len(kept) < 1100


_WITHOUT_MEMORY = """
import contextlib, os, resource, signal, threading

from generic_trainer.executors.runtime.process import forwarding

first = threading.Thread(target=int)  # its stack is kept for the next thread
first.start()
first.join()
reader, writer = os.pipe()
os.close(writer)
forwarding._LATE_SECONDS = forwarding._JOIN_SECONDS = 0.1
signal.alarm(60)
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, size))
kept = []
for length in (1 << 20, 1 << 16, 1 << 12, 512, 256, 128, 64, 32):
    try:
        while True:
            kept.append(bytes(length))
    except MemoryError:
        pass
del kept[-1000:]
with contextlib.suppress(MemoryError, RuntimeError):  # this thread may have no memory either, or start none
    with forwarding.forwarded([os.fdopen(reader, "rb")], [None]):
        pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_thread_that_has_no_memory_to_begin_is_not_awaited_forever() -> None:
    ended = subprocess.run([sys.executable, "-c", _WITHOUT_MEMORY], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
