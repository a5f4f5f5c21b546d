"""Lists the files of a pipeline's `--data` option without TensorFlow, so that mistakes are reported quickly."""

from __future__ import annotations

import os

from ...errors import InputError
from . import file_io
from .file_kinds import require_readable_kind

SPLITS = frozenset({"train", "eval"})


def raw_data_files(data: str) -> list[str]:
    """Returns the paths of the raw data's files or split folders.

    Args:
      data: A file; or a folder with CSV files, TFRecords, or the folders train/ and eval/.

    Raises:
      InputError: When it does not exist or contains no data.
    """
    if not file_io.exists(data):
        raise InputError(f"--data {data} does not exist.")
    is_folder = file_io.isdir(data)
    names = file_io.listdir(data) if is_folder else [os.path.basename(data)]
    base = data if is_folder else file_io.parent(data)
    files = [os.path.join(base, name) for name in names if not name.startswith((".", "_"))]
    for path in files:
        require_readable_kind(path, "--data")
    if not {os.path.basename(path) for path in files} >= SPLITS and all(map(file_io.isdir, files)):
        raise no_data_error(data)
    return files


def no_data_error(data: str) -> InputError:
    """Returns the error for a folder without files that a pipeline can read."""
    return InputError(
        f"--data {data} contains no CSV file, no TFRecord file, and no folders train/ and eval/. A module that reads "
        f"other files itself runs without a pipeline: generic-trainer train MODULE --train-files {data} --output DIR"
    )
