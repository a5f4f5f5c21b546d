"""Values that are located with NumPy are those of Python's csv module."""

from __future__ import annotations

import csv
import io
import itertools
import random

import pytest

from generic_trainer.executors.inputs.csv import rows
from generic_trainer.executors.inputs.csv.rows import RowError, row_values

# Quotes that enclose values, and such in the middle of values or after a closing quote.
PLAIN = ["", "a", " a ", "é", "1.5", "\ufeff", '"a"', '""', '"a""b"', '""""', '"line\nline"', '"\r\n"', '"{sep}"']
ODD = ['a"b', 'a""', '"a"b', '"a" "b"', '"a"b"c', '"""a"" b"', "'", '"a\n"b']


def some_text(rng: random.Random, sep: str, cells: list[str], width: int) -> str:
    """Returns a header and random rows, some with another number of values, some empty."""
    lines = [sep.join(f"c{place}" for place in range(width))]
    for _ in range(rng.randint(0, 30)):
        count = width if rng.random() < 0.9 else rng.randint(0, 4)
        lines.append(sep.join(rng.choice(cells) for _ in range(count)).replace("{sep}", sep))
    ends = rng.choice([["\n"], ["\r\n"], ["\n", "\r\n", "\r"]])
    return "".join(line + rng.choice(ends) for line in lines)


def read(text: str, sep: str, width: int) -> tuple[list[list[bytes]], list[tuple[int, int]]]:
    """Returns the rows with `width` values, and the number and count of values of each other row."""
    wrong: list[tuple[int, int]] = []
    good: list[list[bytes]] = []
    file = io.BytesIO(text.encode())
    for block in row_values(file, sep.encode(), width, range(width), lambda *row: wrong.append(row[::2])):
        content = io.BytesIO(block.content)
        good += [[content.read(length) for length in lengths] for lengths in block.lengths.tolist()]
        assert not content.read()
    return good, wrong


@pytest.mark.parametrize("cells", [PLAIN, PLAIN + ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_random_files_are_read_as_by_the_csv_module(
    sep: str, cells: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(sep)
    for size in itertools.islice(itertools.cycle([1, 7, 64, 1 << 20]), 150):
        monkeypatch.setattr(rows, "BLOCK_BYTES", size)
        width = rng.randint(1, 4)
        text = some_text(rng, sep, cells, width)
        expected = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=sep) if row]
        good, wrong = read(text, sep, width)
        assert good == [[cell.encode() for cell in row] for row in expected[1:] if len(row) == width], text
        assert wrong == [(n, len(row)) for n, row in enumerate(expected, 1) if n > 1 and len(row) != width], text


@pytest.mark.parametrize("text", ['a,b\n1,"2\n3,4\n', 'a,b\n1,2\n"3"x,"4""\n'])
def test_an_unclosed_quote_is_an_error(text: str) -> None:
    with pytest.raises(RowError, match="the file ends inside of it; a quote may be unclosed") as raised:
        read(text, ",", 2)
    assert raised.value.number == 2 + text.count("1,2\n")
