"""Lines by their numbers, out of real files."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import gzip
import os
import pathlib
import pickle
import random

import pytest

from generic_trainer import InputError
from generic_trainer.executors.dialects.dlrover.text import line_file
from generic_trainer.executors.dialects.dlrover.text.line_file import LineFile


@pytest.fixture
def written(tmp_path: pathlib.Path):
    """Writes bytes to a file; returns its path."""

    def write(content: bytes, name: str = "rows.csv") -> str:
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


def all_rows(path: str) -> list[bytes]:
    file = LineFile(path)
    return file.rows(0, len(file))


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", []),
        (b"\n", []),
        (b"\r\n\r\n", []),
        (b"\r", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\nb\r", [b"a", b"b"]),
        (b"\n\na\n\r\n\nb\n\n", [b"a", b"b"]),
        (b"a\n\r", [b"a"]),
        (b"1\t\t\n\t\t\n", [b"1\t\t", b"\t\t"]),
        (b" a \n  \n", [b" a ", b"  "]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\xef\xbb\xbfa\nb\n", [b"a", b"b"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\na\n", [b"a"]),
        (b"a\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"a\x0bb\x0cc\x1c\xc2\x85\n\xe2\x80\xa8\n", [b"a\x0bb\x0cc\x1c\xc2\x85", b"\xe2\x80\xa8"]),
    ],
)
def test_what_is_a_row(content: bytes, rows: list[bytes], written) -> None:
    path = written(content)
    assert all_rows(path) == rows
    assert len(LineFile(path)) == len(rows)
    assert LineFile(path).text_rows(0, len(rows)) == [row.decode() for row in rows]


def expected_rows(content: bytes) -> list[bytes]:
    """The same by the letter: a line ends with a line feed or with the file, and a carriage return before that goes."""
    lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    return [line for line in lines if line]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
def test_every_range_of_random_files_whatever_the_blocks(block: int, written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "_BLOCK_BYTES", block)
    chosen = random.Random(block)
    for _ in range(15):
        content = bytes(chosen.choices(b"ab\t\r\n\n", k=chosen.randrange(200)))
        content = chosen.choice([b"", b"\xef\xbb\xbf"]) + content
        file, rows = LineFile(written(content)), expected_rows(content.removeprefix(b"\xef\xbb\xbf"))
        assert len(file) == len(rows), content
        for start in range(len(rows) + 1):
            for end in range(start, len(rows) + 1):
                assert file.rows(start, end) == rows[start:end], (content, start, end)
                lines = file.text(start, end).split(b"\n")
                assert list(filter(None, lines)) == rows[start:end], (content, start, end)


def test_a_row_may_be_longer_than_a_block(written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "_BLOCK_BYTES", 10)
    assert all_rows(written(b"x" * 1000 + b"\n" + b"y" * 99)) == [b"x" * 1000, b"y" * 99]


def test_places_are_kept_of_one_row_in_sixteen(written) -> None:
    file = LineFile(written(b"1,2\n" * 100_000))
    assert file._places.nbytes == 100_000 // 16 * 8  # half a byte a row
    assert file.rows(99_998, 100_000) == [b"1,2", b"1,2"]


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (0, 4), (3, 2)])
def test_ranges_that_are_not_there(start: int, end: int, written) -> None:
    with pytest.raises(IndexError, match=rf"rows\.csv has 3 rows; the range from {start} to {end} is out of bounds"):
        LineFile(written(b"a\nb\nc\n")).rows(start, end)


def test_gzipped_by_its_bytes_and_damaged(written) -> None:
    packed = gzip.compress(b"\xef\xbb\xbfa\r\nb\n")
    assert all_rows(written(packed, "rows.csv")) == [b"a", b"b"]
    assert all_rows(written(b"plain\n", "rows.gz")) == [b"plain"]
    for broken in (packed[:-10], packed[:15] + b"xxxx" + packed[19:]):
        with pytest.raises(InputError, match=r"broken\.gz (cannot be read|is a truncated or damaged gzip file): "):
            LineFile(written(broken, "broken.gz"))


@pytest.mark.parametrize("packed", [False, True])
def test_a_path_with_a_scheme(packed: bool, written) -> None:
    content = b"a\nb\n"
    path = written(gzip.compress(content) if packed else content)
    assert all_rows(f"file://{path}") == [b"a", b"b"]  # through TensorFlow's file systems
    with pytest.raises(InputError, match="there is no such file"):
        LineFile(f"file://{path}x")


def test_a_missing_file_a_folder_and_a_forbidden_one(tmp_path: pathlib.Path, written) -> None:
    written(b"a\n", "train.csv")
    with pytest.raises(InputError, match=r"trian\.csv: there is no such file\. Did you mean 'train\.csv'\?"):
        LineFile(str(tmp_path / "trian.csv"))
    with pytest.raises(InputError, match="no/where/train"):
        LineFile("no/where/train.csv")
    with pytest.raises(InputError, match=r"cannot be read: .*directory"):
        LineFile(str(tmp_path))


def test_a_file_that_gets_shorter_is_reported(written) -> None:
    path = written(b"1,2\n" * 100)
    file = LineFile(path)
    os.truncate(path, 200)
    assert file.rows(0, 16) == [b"1,2"] * 16
    with pytest.raises(InputError, match="was changed while it was read: rows 40 to 60"):
        file.rows(40, 60)


def test_text_keeps_bytes_that_are_not_utf_8(written) -> None:
    rows = [b"\xe4,1", "ä,2".encode(), b"\xff\xfe"]
    text = LineFile(written(b"\n".join(rows))).text_rows(0, 3)
    assert text[1] == "ä,2"
    assert [row.encode("utf-8", "surrogateescape") for row in text] == rows


def test_threads_share_a_file(written) -> None:
    rows = [f"{number},{number * 2}".encode() for number in range(20_000)]
    file = LineFile(written(b"\r\n".join(rows)))
    starts = random.Random(1).sample(range(19_000), 200)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for start, read in zip(starts, threads.map(lambda start: file.rows(start, start + 700), starts), strict=True):
            assert read == rows[start : start + 700]


def test_copies_and_pickles_have_a_file_of_their_own(written) -> None:
    file = LineFile(written(b"a\nb\n"))
    twins = [copy.copy(file), copy.deepcopy(file), pickle.loads(pickle.dumps(file))]  # noqa: S301
    del file
    gc.collect()
    assert [twin.rows(1, 2) for twin in twins] == [[b"b"]] * 3


def test_no_descriptor_and_no_copy_stays(written, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    plain, packed = written(b"a\n"), written(gzip.compress(b"a\n"), "packed")
    before = set(os.listdir("/proc/self/fd"))
    for path in (plain, packed, str(tmp_path), written(gzip.compress(b"a\n")[:-9], "broken")):
        for _ in range(5):
            try:
                assert all_rows(path) == [b"a"]
            except InputError:
                assert path not in (plain, packed)
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) == before
    assert not list(temporary.iterdir())
