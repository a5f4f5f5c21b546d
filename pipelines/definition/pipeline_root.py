"""A pipeline's root: how it is known, and the copies in it of CSV files that CsvExampleGen cannot read."""

from __future__ import annotations

import os

from ...executors.inputs.csv.plain_copy import plain_data
from ...executors.preflight import stamp
from ...executors.runtime.files import file_io

ROOT_MARKER = "generic_trainer_pipeline.json"  # in a root that a pipeline has
PLAIN_DATA = "plain_csv"


def plain_in_root(data: str, root: str) -> tuple[str, list[str]]:
    """Returns where a pipeline reads its data, where they lie or a copy in its root, and what was done to them.

    Args:
      data: A file or a folder; see `plain_data`. What is remote is read as it is.
      root: The pipeline's root. In one that is somebody else's, or remote, nothing is written.

    Raises:
      InputError: When a file that would have to be copied is no CSV or is damaged, or when there is no room.
    """
    if file_io.is_remote(data) or file_io.is_remote(root) or _is_others(root):
        return data, []
    place, changes = plain_data(data, os.path.join(os.path.abspath(root), PLAIN_DATA))
    return place, [f"{change}. A copy is read: {place}" for change in changes]


def _is_others(root: str) -> bool:
    names = set(os.listdir(root)) if os.path.isdir(root) else set()
    return ROOT_MARKER not in names and bool(names - {stamp.FILE, PLAIN_DATA})
