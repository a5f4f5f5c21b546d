"""JSON Lines files: one JSON object a line."""

from __future__ import annotations

import io
from collections.abc import Iterator

from ...errors import InputError
from ...runtime.files.plain_values import parsed_json
from ..gzipped_files import opened, position
from ..input_format import Batch, chunks
from ..text_format import TextFormat, check_text


class JsonLines(TextFormat):
    """Files with one JSON object a line."""

    name = "JSON lines"
    endings = (".json", ".jsonl", ".ndjson")

    def matches(self, head: bytes) -> bool:
        """Whether the bytes are text that begins with an object."""
        return b"\0" not in head and head.lstrip().startswith(b"{")

    def batches(self, path: str, size: int) -> Iterator[Batch]:
        """See `InputFormat`."""
        check_text(path)
        with opened(path) as binary:
            lines = io.TextIOWrapper(binary, "utf-8-sig", "surrogateescape", "\n")
            rows = (_object(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
            for first, chunk in chunks(rows, size):
                names = dict.fromkeys(name for row in chunk for name in row)
                columns = {name: [row.get(name) for row in chunk] for name in names}
                yield Batch(path, first, len(chunk), columns=columns, position=position(binary))


def _object(path: str, number: int, line: str) -> dict[str, object]:
    problem = "it is something else"
    try:
        row = parsed_json(line, "its text")
        if isinstance(row, dict):
            return row
    except InputError as error:
        problem = str(error).rstrip(".")
    raise InputError(
        f'{path}, line {number}: each line must be a JSON object, as in {{"age": 31, "scores": [0.5, 1.0]}}; {problem}.'
    )
