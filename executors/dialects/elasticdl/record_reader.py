"""How a CSV file is read for a model that takes raw records: as rows of certain columns, or as lines.

A signature that takes the records of an ElasticDL reader does not show how they are read. The parameters of the reader
are stored beside the graph, in `assets.extra/`, which TensorFlow Serving reserves for files of other programs, and
`predict` reads CSV files by them.

Usage:

    write_record_reader(folder, records, sep=";")      # after the export
    read = row_reader(folder, ["records"])
    read("new.csv", 512)     # batches of rows of the same columns
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...inputs.readers.record_files import CSV, TEXT
from ...runtime.files import file_io
from .readers.open_records import open_records
from .readers.records import Records

RECORDS = "records"  # the input of a signature that takes raw records

_FILE = os.path.join("assets.extra", "record_reader.json")


def write_record_reader(folder: str, records: Records, sep: str) -> None:
    """Stores how the records were read, if a CSV file can be read in the same way.

    Args:
      folder: The SavedModel.
      records: The records that the model was trained on: lines, or vectors of one string for each named column.
      sep: The separator of a CSV file.
    """
    columns = records.metadata.column_names
    if records.kind == TEXT:
        params: dict[str, object] = {"reader_type": TEXT}
    elif columns and records.dataset().element_spec.shape.as_list() == [len(columns)]:
        params = {"reader_type": CSV, "columns": list(columns), "sep": sep}
    else:
        return
    file_io.write_text(os.path.join(folder, _FILE), json.dumps(params))


def row_reader(folder: str, inputs: Sequence[str]) -> Callable[[str, int], Iterator[list[Any]]] | None:
    """Returns a function (path, size) that yields batches of a CSV file's rows or lines, as the model was trained on.

    Args:
      folder: The SavedModel.
      inputs: Names of the signature's inputs.

    Returns:
      The function; None if the signature does not take rows or lines of CSV files.
    """
    path = os.path.join(folder, _FILE)
    if list(inputs) != [RECORDS] or not file_io.exists(path):
        return None
    return functools.partial(_batches, json.loads(file_io.read_text(path)))


def _batches(params: Mapping[str, object], path: str, size: int) -> Iterator[list[Any]]:
    records = open_records(path, params)
    with records.reraising():
        for part in records.dataset().batch(size).as_numpy_iterator():
            yield part.tolist()
