"""Rows of CSV files by Python's csv module, and the errors about them."""

from __future__ import annotations

import gzip
import pathlib

import pytest

from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.csv.plain_copy import plain_data
from generic_trainer.executors.inputs.csv.row_reader import csv_rows

TEXT = 'a,b\n1,"two\nlines"\n\n3,"x,""y"""\n'


@pytest.mark.parametrize("scheme", ["", "file://"])  # the latter through TensorFlow's file systems
@pytest.mark.parametrize("zipped", [False, True])
def test_rows_of_local_and_remote_files_gzipped_or_not(scheme: str, zipped: bool, tmp_path: pathlib.Path) -> None:
    content = b"\xef\xbb\xbf" + TEXT.encode()
    (tmp_path / "a.csv").write_bytes(gzip.compress(content) if zipped else content)
    with csv_rows(f"{scheme}{tmp_path}/a.csv") as rows:
        assert rows.names == ["a", "b"]
        assert [(rows.number, rows.line, row) for row in rows] == [
            (1, 2, ["1", "two\nlines"]),
            (2, 5, ["3", 'x,"y"']),
        ]
        assert rows.position == (tmp_path / "a.csv").stat().st_size


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n1,"2\n3"\n\n4\n', r"row 2 \(line 5\): it has 1 value, but the header has 2 columns. Correct the row"),
        (b"a,b\n1,2\n3,gr\xfcn\n", "line 3: not valid CSV: the byte 0xfc is not UTF-8. Convert the file to UTF-8"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "line 3: not valid CSV: unexpected end of data. .* a quote may be unclosed"),
    ],
)
def test_errors_have_file_row_line_and_remedy(content: bytes, message: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=f"{tmp_path}/a.csv, {message}"), csv_rows(f"{tmp_path}/a.csv") as rows:
        list(rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n1,2\n", "its first line must contain the column names; it is empty"),
        (",,\n1,2,3\n", "its first line must contain the column names, each once; it is , , "),
        ("a,b,a\n1,2,3\n", "its first line must contain the column names, each once; it is a, b, a"),
    ],
)
def test_a_header_without_names_or_with_one_twice(content: str, message: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=message), csv_rows(str(tmp_path / "a.csv")) as rows:
        rows.required_names(are_unique=True)


def test_bytes_of_other_encodings_can_be_kept(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\ngr\xfcn\n")
    with csv_rows(str(tmp_path / "a.csv"), keeps_bytes=True) as rows:
        assert [row[0].encode("utf-8", "surrogateescape") for row in rows] == [b"gr\xfcn"]


def test_a_remote_file_is_converted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("sep=;\n\na;b\n1;2,5\n")
    place, _ = plain_data(f"file://{tmp_path}/a.csv", str(tmp_path / "copy"))
    assert pathlib.Path(place).read_text() == "a,b\n1,2.5\n"
