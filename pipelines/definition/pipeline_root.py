"""A pipeline's root folder: its marker file, and converted copies of CSV files that CsvExampleGen cannot read."""

from __future__ import annotations

import os

from ...executors.inputs.csv.plain_copy import plain_data
from ...executors.preflight import stamp
from ...executors.runtime.files import file_io

ROOT_MARKER = "generic_trainer_pipeline.json"  # marks a folder as the root of a pipeline
PLAIN_DATA = "plain_csv"


def plain_in_root(data: str, root: str) -> tuple[str, list[str]]:
    """Returns the path from which a pipeline reads its data, and a description of each conversion.

    The path is `data`, or a converted copy in the root if CsvExampleGen cannot read the files.

    Args:
      data: A file or a folder; see `plain_data`. Remote data are not converted.
      root: The pipeline's root. Nothing is written if it is remote, or not empty and without the marker file.

    Raises:
      InputError: When a file that needs conversion is not a CSV file or is damaged, or when the disk is full.
    """
    if file_io.is_remote(data) or file_io.is_remote(root) or _is_others(root):
        return data, []
    place, changes = plain_data(data, os.path.join(os.path.abspath(root), PLAIN_DATA))
    return place, [f"{change}. A copy is read: {place}" for change in changes]


def _is_others(root: str) -> bool:
    names = set(os.listdir(root)) if os.path.isdir(root) else set()
    return ROOT_MARKER not in names and bool(names - {stamp.FILE, PLAIN_DATA})
