"""CSV and JSON lines for `predict`: the same rows as Python's parsers, or an error that names the file."""

from __future__ import annotations

import csv
import gzip
import json

from generic_trainer.executors.inputs.example_files import find_example_files

from .target import answer, file_of

SEEDS = [
    b"c" + b'a,b\n1,2\n"x,1","y""z"\n',
    b"c" + b"\xef\xbb\xbfa\n\n1\n",
    b"c" + gzip.compress(b"a,b\n1,2\n"),
    b"j" + b'{"a": 1, "b": [1.5, null]}\n\n{"c": {"b64": "AA=="}}\n',
    b"j" + b'{"a": NaN}\n[1]\n',
]


def check(data: bytes) -> None:
    """Reads the data after the first byte in batches of two rows; the first byte selects CSV or JSON lines ("j")."""
    name, content = ("rows.csv", data[1:]) if data[:1] != b"j" else ("rows.jsonl", data[1:])
    path = file_of(content, name)
    found = answer(lambda: [batch for file in find_example_files([path]) for batch in file.batches(2)], path)
    if found is None or content.startswith(b"\x1f\x8b\x08"):
        return
    text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    rows = [{n: batch.columns[n][i] for n in batch.columns} for batch in found for i in range(batch.size)]
    if name == "rows.csv":
        lines = (line + "\n" for line in text.split("\n"))
        names, *expected = [row for n, row in enumerate(csv.reader(lines)) if row or not n] or [[]]
        assert rows == [{n: v or None for n, v in zip(names, row, strict=True)} for row in expected]
    else:
        expected = [json.loads(line) for line in text.split("\n") if line.strip()]
        assert repr(list(map(_present, rows))) == repr(list(map(_present, expected)))


def _present(row: dict[str, object]) -> dict[str, object]:
    return {name: row[name] for name in sorted(row) if row[name] is not None}
