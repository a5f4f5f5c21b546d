"""Private names of DLRover's readers, which DLRover's trainer and users' own readers set and read.

They are those of DLRover 0.1 to 0.3 and of the shim's `ElasticReader`. A reader may lack its public setters.
"""

from __future__ import annotations

from typing import Any


def configure(reader: Any, batch_size: int, epochs: int) -> None:
    """Sets a reader's batch size and number of epochs."""
    reader._batch_size, reader._num_epochs = batch_size, epochs


def path_of(reader: object) -> object:
    """Returns the path of a reader's data, or None."""
    return getattr(reader, "path", None) or getattr(reader, "_path", None)


def row_count_of(reader: object) -> Any:
    """Returns the number of rows that a reader's `count_data()` has set, or None."""
    return getattr(reader, "_data_nums", None)
