"""Private names of DLRover's readers: DLRover's trainer sets and reads them, and so do readers that users have written.

They hold for DLRover 0.1 to 0.3, and for the shim's `ElasticReader`, whose public setters a reader may lack.
"""

from __future__ import annotations

from typing import Any


def configure(reader: Any, batch_size: int, epochs: int) -> None:
    """Sets the batch size and the number of epochs that a reader may use."""
    reader._batch_size, reader._num_epochs = batch_size, epochs


def path_of(reader: object) -> object:
    """Returns where a reader's rows are, or None."""
    return getattr(reader, "path", None) or getattr(reader, "_path", None)


def row_count_of(reader: object) -> Any:
    """Returns what a reader's `count_data()` set as its number of rows; None where it set nothing."""
    return getattr(reader, "_data_nums", None)
