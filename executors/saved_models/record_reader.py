"""How a CSV file is read for a model that takes raw records: as rows of certain columns, or as lines.

A signature that takes the records of an ElasticDL reader does not show how they are read. The parameters of the reader
are stored beside the graph, in `assets.extra/`, which TensorFlow Serving reserves for files of other programs.

Usage:

    write_record_reader(folder, records, sep=";")      # after the export
    read_record_reader(folder)      # {"reader_type": "CSV", "columns": ["age", "label"], "sep": ";"}
"""

from __future__ import annotations

import json
import os

from ..inputs.readers.reader_params import CSV, TEXT
from ..inputs.readers.records import Records
from ..runtime.files import file_io

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


def read_record_reader(folder: str) -> dict[str, object] | None:
    """Returns the parameters for `open_records`; None if the model does not take rows or lines of CSV files."""
    path = os.path.join(folder, _FILE)
    params: dict[str, object] | None = json.loads(file_io.read_text(path)) if file_io.exists(path) else None
    return params
