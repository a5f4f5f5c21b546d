"""What TensorBoard finds in a folder."""

from __future__ import annotations

import pathlib

from tensorflow.compat.v1.train import summary_iterator


def tags(folder: str) -> set[str]:
    """Returns the names of all summaries in a folder's event files."""
    files = map(str, pathlib.Path(folder).glob("events.out.tfevents.*"))
    return {value.tag for file in files for event in summary_iterator(file) for value in event.summary.value}
