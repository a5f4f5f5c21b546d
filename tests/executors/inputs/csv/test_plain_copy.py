"""Real-world CSV is copied to the form that CsvExampleGen reads, or rejected with the reason."""

from __future__ import annotations

import csv
import gzip
import io
import os
import pathlib
from collections.abc import Callable

import pytest

from generic_trainer import InputError
from generic_trainer.executors.inputs.csv import file_format, plain_copy
from generic_trainer.executors.inputs.csv.plain_copy import plain_data

PLAIN = "id,price,city,y\n1,0.5,Köln,0\n2,1234.25,Ulm,1\n3,,Bonn,0\n"
GERMAN = "id;price;city;y\n1;0,5;Köln;0\n2;1.234,25;Ulm;1\n3;;Bonn;0\n"
ENGLISH = 'id,price,city,y\n1,0.5,Köln,0\n2,"1,234.25",Ulm,1\n3,,Bonn,0\n'
INDEXED = ",id,price,city,y\n0,1,0.5,Köln,0\n1,2,1234.25,Ulm,1\n2,3,,Bonn,0\n"
POINTS = "decimal commas in price were replaced by points"
SEMICOLONS = "fields were separated by semicolons"
WINDOWS = "it was not UTF-8 and was read as Latin-1 (Windows-1252)"

# {case: (name, content, message)}; each is converted to PLAIN.
COPIED: dict[str, tuple[str, bytes, list[str]]] = {
    "byte_order_mark": ("a.csv", f"\ufeff{PLAIN}".encode(), ["it had a byte-order mark"]),
    "utf_16": (
        "a.csv",
        GERMAN.replace(";", "\t").encode("utf-16"),
        ["it had a byte-order mark", "it was UTF-16", "fields were separated by tabs", POINTS],
    ),
    "latin_1": ("a.csv", PLAIN.encode("latin-1"), [WINDOWS]),
    "gzip": ("a.csv.gz", gzip.compress(PLAIN.encode()), ["it was gzipped", "its name did not end in .csv"]),
    "gzip_by_its_bytes": ("a.csv", gzip.compress(PLAIN.encode()), ["it was gzipped"]),
    "text": ("a.txt", PLAIN.encode(), ["its name did not end in .csv"]),
    "no_ending": ("a", PLAIN.encode(), ["its name did not end in .csv"]),
    "tabs": (
        "a.tsv",
        PLAIN.replace(",", "\t").encode(),
        ["fields were separated by tabs", "its name did not end in .csv"],
    ),
    "bars": ("a.csv", PLAIN.replace(",", "|").encode(), ["fields were separated by bars"]),
    "semicolons": ("a.csv", PLAIN.replace(",", ";").encode(), [SEMICOLONS]),
    "german": ("a.csv", GERMAN.encode(), [SEMICOLONS, POINTS]),
    "german_excel": (
        "a.csv",
        f"sep=;\n{GERMAN}".replace("\n", "\r\n").encode("cp1252"),
        [WINDOWS, SEMICOLONS, "the lines before the header were removed", POINTS],
    ),
    "trailing_semicolons": (
        "a.csv",
        GERMAN.replace("\n", ";\n").encode(),
        [SEMICOLONS, POINTS, "column 5, which has no name and is empty, was removed"],
    ),
    "thousands": ("a.csv", ENGLISH.encode(), ["thousands separators in price were removed"]),
    "quoted_names": (
        "a.csv",
        PLAIN.replace("id,price,city,y", '"id","price","city","y"').encode(),
        ["names in the first line were quoted"],
    ),
    "old_mac": ("a.csv", PLAIN.replace("\n", "\r").encode(), ["lines ended with a carriage return only"]),
    "empty_lines_above": ("a.csv", f"\n\n{PLAIN}".encode(), ["the lines before the header were removed"]),
    "index": ("a.csv", INDEXED.encode(), ["column 1, which has no name and numbers the rows, was removed"]),
}


@pytest.mark.parametrize("case", COPIED)
def test_the_copy_has_the_standard_dialect_and_changes_are_listed(case: str, tmp_path: pathlib.Path) -> None:
    name, content, said = COPIED[case]
    (tmp_path / name).write_bytes(content)
    place, changes = plain_data(str(tmp_path / name), str(tmp_path / "copy"))
    assert changes == [f"{name}: {'; '.join(said)}"]
    assert place == str(tmp_path / "copy" / "a.csv")
    assert pathlib.Path(place).read_bytes().decode() == PLAIN


@pytest.mark.parametrize(
    ("content", "copied", "said"),
    [
        ('a,t\n1,"two\r\nlines"\n', "a,t\n1,two lines\n", "line breaks in 1 values were replaced by spaces"),
        (",a\n7,1\n3,2\n", "column_1,a\n7,1\n3,2\n", "columns were renamed to column_1"),
        ('"a, in m",b\n1,2\n', "a in m,b\n1,2\n", "columns were renamed to a in m"),
        # Values that only look like numbers with a decimal comma are unchanged.
        ("a;t\n1,5;1,5\n2;x\n", 'a,t\n1.5,"1,5"\n2,x\n', "decimal commas in a were replaced by points"),
        ("a;t\n1,5;1.5\n2;2,5\n", 'a,t\n1.5,1.5\n2,"2,5"\n', "decimal commas in a were replaced by points"),
        ("Preis, netto;t\n1,5;3\n", "Preis netto,t\n1.5,3\n", "decimal commas in Preis netto were replaced by points"),
        ('a;t\n1;"x;y"\n2;"say ""so"""\n', 'a,t\n1,x;y\n2,"say ""so"""\n', SEMICOLONS),
    ],
)
def test_values_and_names_with_special_characters(content: str, copied: str, said: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text(content, newline="")
    place, [change] = plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy"))
    assert said in change
    assert pathlib.Path(place).read_text() == copied


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        b'a,t\n1,"x, y"\n2,"12 345"\n3,"1,5"\n',  # ambiguous: a list or a number
        b'a,t\n1,"not closed\n',  # reported by the component that reads it
        b"a,b\n1,2,3\n",
        b"",
        b"a\n1\n2\n",
        b'{"a": 1, "b": 2}\n',
        b"\x10\0\0\0\0\0\0\0\x93\x1f",  # a TFRecord
    ],
    ids=["plain", "windows", "list", "not_closed", "ragged", "empty", "one_column", "json", "tfrecord"],
)
def test_readable_and_non_tabular_files_are_not_copied(content: bytes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy")) == (str(tmp_path / "a.csv"), [])
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,слово\n1,привет\n2,мир\n".encode("cp1251"), "is neither UTF-8 nor Latin-1. Convert it to UTF-8"),
        ("a,t\n1,grün\n2,süß\n".encode() + b"3,gr\xfcn\n", "1 bytes are not UTF-8, but 3 characters are"),
        ("a;b\n" + "1;2\n" * 30 + "1;2;3\n", r"row 31 \(line 32\): it has 3 values, but the header has 2 columns"),
        ("1;2,5\n3;4,5\n", "its first line must contain the column names; it is 1, 2,5"),
        ('a;b\n1;"not closed\n', "line 2: not valid CSV: unexpected end of data"),
        (gzip.compress(GERMAN.encode())[:-9], "is a truncated or damaged gzip file"),
    ],
    ids=["windows_1251", "damaged", "ragged", "no_names", "not_closed", "cut_off"],
)
def test_a_file_that_cannot_be_copied_is_rejected_and_nothing_is_left(
    content: str | bytes, message: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy"))
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_folder_is_copied_whole_and_not_again_until_it_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    data.mkdir()
    (data / "one.csv").write_text(PLAIN)
    (data / "two.csv").write_text(GERMAN)
    (data / "README.md").write_text("Ours.")
    place, changes = plain_data(str(data), str(copy))
    assert (place, len(changes)) == (str(copy), 1)
    assert {path.name: path.read_text() for path in copy.glob("*.csv")} == {"one.csv": PLAIN, "two.csv": PLAIN}
    assert plain_data(place, str(copy)) == (place, [])  # a copy is not copied again

    with monkeypatch.context() as patch:
        patch.setattr(plain_copy, "detect_format", _must_not_be_called)
        assert plain_data(str(data), str(copy)) == (place, changes)
    (data / "two.csv").write_text(GERMAN + "4;7;Ulm;1\n")
    plain_data(str(data), str(copy))
    assert (copy / "two.csv").read_text() == PLAIN + "4,7,Ulm,1\n"


def _must_not_be_called(path: str) -> None:
    raise AssertionError(path)


def test_a_deleted_copy_is_recreated_and_folders_and_gzipped_twins_are_skipped(tmp_path: pathlib.Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    (data / "parts.csv").mkdir(parents=True)
    (data / "a.csv").write_text(GERMAN)
    (data / "a.csv.gz").write_bytes(gzip.compress(GERMAN.encode()))  # CsvExampleGen reads *.csv
    for _ in range(2):
        plain_data(str(data), str(copy))
        assert [path.name for path in copy.glob("[!.]*")] == ["a.csv"]
        (copy / "a.csv").unlink()


@pytest.mark.parametrize("content", ["sep=;", "sep=;\n", 'sep="\n1"2\n', "\n\n\n", "sep=;\na;b\n"])
def test_a_file_that_ends_early_raises_tensorflows_error(content: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy"))


def test_a_large_file_is_copied_like_a_small_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters and quotes cross block borders; a column's type appears only late in the file."""
    monkeypatch.setattr(file_format, "_HEAD_BYTES", 64)
    monkeypatch.setattr(file_format, "_BLOCK_BYTES", 7)
    (tmp_path / "a.csv").write_text("a;t\n" + "1;süß\n" * 3000 + '2,5;"two\nlines"\n')
    place, [change] = plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy"))
    assert "decimal commas in a were replaced by points; line breaks in 1 values" in change
    assert pathlib.Path(place).read_text() == "a,t\n" + "1,süß\n" * 3000 + "2.5,two lines\n"


def test_windows_line_ends_do_not_require_a_copy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a block ends between the two characters."""
    monkeypatch.setattr(file_format, "_BLOCK_BYTES", 1)
    (tmp_path / "a.csv").write_bytes(b"a,b\r\n" + b"1,2\r\n" * 20_000)
    assert plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy")) == (str(tmp_path / "a.csv"), [])


def test_an_index_may_continue_in_the_next_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.csv").write_text(",a\n0,7\n1,8\n")
    (tmp_path / "data" / "two.csv").write_text(",a\n2,9\n3,7\n")
    plain_data(str(tmp_path / "data"), str(tmp_path / "copy"))
    assert (tmp_path / "copy" / "two.csv").read_text() == "a\n9\n7\n"


def test_thousands_of_columns(tmp_path: pathlib.Path) -> None:
    def line(cell: Callable[[int], object]) -> str:
        return ";".join(str(cell(place)) for place in range(5000)) + "\n"

    (tmp_path / "a.csv").write_text(line("c{}".format) + line(lambda place: f"{place},5") * 3)
    place, [change] = plain_data(str(tmp_path / "a.csv"), str(tmp_path / "copy"))
    assert "decimal commas in c0, c1" in change
    assert len(change) < 1000
    assert pathlib.Path(place).read_text().count(".5") == 15_000


def test_parquet_is_copied(tmp_path: pathlib.Path) -> None:
    import datetime
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": [1, 2, None],
            "price": [0.5, None, 1e-7],
            "city": pa.array(["Köln", 'a "b", c', None]).dictionary_encode(),
            "text": ["two\nlines", "", "x"],
            "paid": [True, None, False],
            "at": pa.array([datetime.datetime(2013, 3, 1, 12, 15), None, datetime.datetime(1960, 1, 1)]),
            "day": pa.array([datetime.date(2013, 3, 1), None, None]),
            "cost": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.00")]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    place, changes = plain_data(str(tmp_path / "a.parquet"), str(tmp_path / "copy"))
    assert changes == ["a.parquet: it was a Parquet file"]
    assert place == str(tmp_path / "copy" / "a.csv")
    header, *rows = csv.reader(io.StringIO(pathlib.Path(place).read_text(encoding="utf-8")))
    assert header == table.column_names
    assert pathlib.Path(place).read_text().startswith("id,price,city,")  # CsvExampleGen reads no quoted names
    assert rows[0] == ["1", "0.5", "Köln", "two lines", "1", "2013-03-01 12:15:00", "2013-03-01", "1.50"]
    assert rows[1] == ["2", "", 'a "b", c', "", "", "", "", ""]
    assert rows[2] == ["", "1e-7", "", "x", "0", "1960-01-01 00:00:00", "", "2.00"]
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("part-0", "part-1"):
        pq.write_table(table, folder / f"{name}.parquet")
    place, changes = plain_data(str(folder), str(tmp_path / "copies"))
    assert sorted(path.name for path in pathlib.Path(place).glob("*.csv")) == ["part-0.csv", "part-1.csv"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": [1], "b": [[1, 2]]}, "column b has lists, structs or binary data, which CSV cannot represent"),
        ({"a": [1], "b": [b"\xff"]}, "column b has lists, structs or binary data"),
        ({"a": [1], "b,c": [1]}, "CSV cannot have a column named 'b,c'"),
    ],
)
def test_parquet_that_csv_cannot_hold_is_refused(tmp_path: pathlib.Path, columns: dict[str, object], said: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=said):
        plain_data(str(tmp_path / "a.parquet"), str(tmp_path / "copy"))
    (tmp_path / "b.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"b\.parquet: not a Parquet file, or damaged"):
        plain_data(str(tmp_path / "b.parquet"), str(tmp_path / "copy"))
    assert not list(tmp_path.glob("copy*"))
