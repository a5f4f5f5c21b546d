"""A pipeline's root folder: its marker file, and converted copies of CSV files that CsvExampleGen cannot read."""

from __future__ import annotations

import os

from ...executors.inputs.csv.plain_copy import plain_data
from ...executors.preflight import stamp
from ...executors.runtime.files import file_io
from ...executors.runtime.files.content_digests import FILE_NAME
from ...executors.training.run_lock import hold_run_lock

ROOT_MARKER = "generic_trainer_pipeline.json"  # marks a folder as the root of a pipeline
PLAIN_DATA = "plain_csv"
ROOT, OTHER_ROOT = "pipeline", "pipeline_root"


def default_root() -> str:
    """Returns the root of a pipeline that sets none: in many TFX projects, the folder `pipeline` has their code."""
    return OTHER_ROOT if _is_foreign(ROOT) else ROOT


def convert_data_in_root(data: str, root: str) -> tuple[str, list[str]]:
    """Returns the path from which a pipeline reads its data, and a description of each conversion.

    The path is `data`, or a converted copy in the root if CsvExampleGen cannot read the files.

    Args:
      data: A file or a folder; see `plain_data`. Remote data are not converted.
      root: The pipeline's root. Nothing is written if it is remote, or not empty and without the marker file.

    Raises:
      InputError: When a file that needs conversion is not a CSV file or is damaged, or when the disk is full.
    """
    if file_io.is_remote(data) or file_io.is_remote(root) or _is_foreign(root):
        return data, []
    place, changes = plain_data(
        data, os.path.join(os.path.abspath(root), PLAIN_DATA), hold_run_lock(os.path.abspath(root))
    )
    return place, [f"{change}. The pipeline reads a converted copy: {place}" for change in changes]


def foreign_entries(root: str) -> set[str]:
    """Returns the entries of a root that neither `check` nor copying the data, even if interrupted, has created."""
    names = file_io.listdir(root) if file_io.exists(root) else []
    return {name for name in names if name not in (stamp.FILE, FILE_NAME) and not name.startswith(PLAIN_DATA)}


def _is_foreign(root: str) -> bool:
    return not os.path.exists(os.path.join(root, ROOT_MARKER)) and bool(foreign_entries(root))
