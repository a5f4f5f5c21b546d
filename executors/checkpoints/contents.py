"""What is in a checkpoint folder, `fn_args.checkpoint_dir`, besides the checkpoints of the module."""

from __future__ import annotations

from ..runtime.files import file_io

UNPUBLISHED = "unpublished"  # state that is valid until a run publishes its model
FINISHED_FITS = "fits"  # in UNPUBLISHED
FITS = "keras_fits"  # checkpoints of `callbacks(fn_args)`, a folder for each fit
EVALUATED = "evaluated.jsonl"  # see `evaluated_weights.py`
EPOCHS = "epochs.jsonl"  # see `step_count.py`
HEARTBEAT, IDENTITY, DAMAGED = "in_use.json", "checkpoint.json", "damaged"
_NOTES = (HEARTBEAT, IDENTITY, EVALUATED, EPOCHS, DAMAGED)


def has_checkpoints(folder: str) -> bool:
    """Whether a checkpoint folder contains more than the notes on it."""
    return file_io.isdir(folder) and any(name not in _NOTES for name in file_io.listdir(folder))


def numbered(path: str) -> str:
    """Returns the path with the first number that is free: `path.1`, `path.2`, …."""
    number = 1
    while file_io.exists(f"{path}.{number}"):
        number += 1
    return f"{path}.{number}"
