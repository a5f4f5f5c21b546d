"""Lines of text by index, as in DLRover's FileReader: the same lines as Python's split, for any ranges."""

from __future__ import annotations

import gzip

from generic_trainer.executors.dialects.dlrover.text.line_file import LineFile

from .target import answer, file_of

SEEDS = [
    b"",
    b"a,b\n1,2\r\n\r\n3,4",
    b"\xef\xbb\xbfa\n\n\nb\r",
    b"\n".join(b"%d" % n for n in range(40)),
    gzip.compress(b"a\nb\n"),
]


def check(data: bytes) -> None:
    """Reads all rows at once, as text, and one by one, and compares the results."""
    path = file_of(data, "lines.txt")
    file = answer(lambda: LineFile(path), path)
    if file is None:
        return
    count = len(file)
    rows = file.rows(0, count)
    assert [file.rows(n, n + 1)[0] for n in range(count)] == rows
    assert [row.encode("utf-8", "surrogateescape") for row in file.text_rows(0, count)] == rows
    assert [line for line in file.text(0, count).split(b"\n") if line] == rows
    if not data.startswith(b"\x1f\x8b\x08"):
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert rows == [line for line in (line.removesuffix(b"\r") for line in lines) if line]
