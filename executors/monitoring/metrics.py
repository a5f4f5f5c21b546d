"""Metrics that a module logged or returned. `metrics_of_record.py` selects those that are recorded for a run.

Metrics are a mapping of "train" and "eval" to {name: value}. A metric whose last value is NaN or infinite is left out:
JSON cannot represent it, and an earlier value would be mistaken for the outcome. Keras' TensorBoard callback and
`tf.summary` write metrics to event files below the model run folder; all event files there are read. The split of a
metric is in its name, as in `eval/loss` and `val_loss`, or in the name of a sub-folder.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime.files import file_io
from ..runtime.files.artifact_layout import REJECTED_DIR

if TYPE_CHECKING:
    from typing import TypeGuard

SPLITS = ("train", "eval")
_EVAL_FOLDERS = ("eval", "validation", "val", "test")
_NAMES = ("train", "eval", "evaluation", "val", "validation", "test")  # of splits, in the names of metrics
_EVAL_NAMES = "|".join(_NAMES[1:])
# `eval/loss` and `metrics/val_loss` begin a part with it, and `Loss/validation` ends with it.
_SPLIT = re.compile(rf"(?:^|(?<=/))(?:(train)/|({_EVAL_NAMES})[/_])(?=.)|/(?:(train)|({_EVAL_NAMES}))$", re.IGNORECASE)
_MAX_ELEMENTS = 100  # of a metric's array, such as a matrix of 10 classes: more do not fit into a table

Metrics = dict[str, dict[str, float]]


def sizes_of_event_files(folder: str) -> dict[str, int]:
    """Returns {relative path: bytes} of the event files below a folder, which may not exist."""
    return {name: file_io.size_of(os.path.join(folder, name)) for name in event_files_below(folder)}


def event_files_below(folder: str) -> Iterator[str]:
    """Yields the relative paths of the TensorBoard event files below a folder, which may not exist.

    Files in the folder of rejected models are skipped: they are copies of this run's files, or of an earlier run.
    """
    for name in file_io.files_below(folder) if folder and file_io.isdir(folder) else ():
        if "tfevents" in os.path.basename(name) and name.split(os.sep)[0] != REJECTED_DIR:
            yield name


def split_of(folder: str) -> str:
    """Returns "eval" for a folder named, or below one named, eval…, validation…, val… or test…; else "train"."""
    return "eval" if any(part.startswith(_EVAL_FOLDERS) for part in folder.split(os.sep)) else "train"


def split_name(name: str) -> tuple[str | None, str]:
    """Returns the split in a metric's name, and the rest of it: ("eval", "loss") for `eval/loss` and `loss/eval`.

    The split is None if the name has none.
    """
    split = _SPLIT.search(name)
    if split is None:
        return None, name
    return "train" if split[1] or split[3] else "eval", name[: split.start()] + name[split.end() :]


def from_return_value(returned: object) -> Metrics:
    """Extracts metrics from the return value of `run_fn`: a dict of numbers, or a Keras `History`.

    Names such as `val_loss`, `eval_loss` and `eval/loss` are eval metrics, and so are the numbers in a dict of that
    name: {"eval": {"loss": 0.3}}. For a list, the last value is used. Any other return value gives {}.
    """
    return _numbers((name, value[-1] if _is_list(value) else value) for name, value in _named(returned))


def numbers_returned(returned: object) -> Metrics:
    """Returns the scalar metrics in the return value of `run_fn`, which are its final metrics."""
    return _numbers((name, value) for name, value in _named(returned) if not _is_list(value))


def lists_returned(returned: object) -> Metrics:
    """Returns the last values of the lists in the return value of `run_fn`, one value per epoch as in a `History`."""
    return _numbers((name, value[-1]) for name, value in _named(returned) if _is_list(value))


def _named(returned: object) -> Iterator[tuple[str, Any]]:
    history = getattr(returned, "history", returned)
    for name, value in history.items() if isinstance(history, Mapping) else ():
        if name in _NAMES and isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", number) for inner, number in value.items())
        else:
            yield str(name), value


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple)) and bool(value)


def _numbers(values: Iterable[tuple[str, Any]]) -> Metrics:
    numbers = []
    for name, value in by_element(values):
        with contextlib.suppress(TypeError, ValueError):
            numbers.append(("train", name, math.nan if isinstance(value, (str, bytes)) else float(value)))
    return by_split(numbers)


def by_split(values: Iterable[tuple[str, str, float]]) -> Metrics:
    """Groups finite values, given as (split, name, value), by the split in their names, or else by their own."""
    metrics: Metrics = {}
    # Where a validation and a test have a metric of the same name, that of the validation gets the plain one.
    for split, name, value in sorted(values, key=lambda entry: (entry[1].startswith("test"), entry)):
        own, plain = split_name(name)
        group = metrics.setdefault(own or split, {}) if math.isfinite(value) else {}
        group[name if plain in group else plain] = value
    return metrics


def numbers_in(logs: object) -> dict[str, float]:
    """Returns the numbers in the logs of a batch or epoch, arrays by element; see `by_element`.

    Skips a `ClusterCoordinator`'s pending values.
    """
    if not isinstance(logs, Mapping):
        return {}
    return {name: float(value) for name, value in by_element(logs.items()) if getattr(value, "shape", ()) == ()}


def by_element(values: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields (name, value), and for an array (`name[index]`, element): `f1_score[0]` is the F1 score of class 0.

    The only element of an array keeps the name. Arrays with more than 100 elements are left out.
    """
    for name, value in values:
        if getattr(value, "shape", ()) == () or not hasattr(value, "__array__"):
            yield str(name), value
        elif (size := math.prod(value.shape)) <= _MAX_ELEMENTS:
            array = value.__array__()
            for index in itertools.product(*map(range, array.shape)):
                yield f"{name}[{','.join(map(str, index))}]" if size > 1 else str(name), array[index]


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Returns the values that are neither NaN nor infinite."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def merge_metrics(*sources: Metrics) -> Metrics:
    """Merges the metrics of several sources; later sources take precedence."""
    return {
        split: {name: value for source in sources for name, value in source.get(split, {}).items()}
        for split in SPLITS
        if any(split in source for source in sources)
    }
