"""Finds past runs: of `train`, by their `run.json`; of pipelines, in ML Metadata.

    for run in find_runs(["experiments/", "pipeline/"]):
        print(run.id[:8], run.status, run.metrics.get("eval"))
    find_run("last").record.arguments

A run of a pipeline is one execution of its Trainer, with its evaluation and push. Neither TensorFlow nor TFX is
imported.
"""

from __future__ import annotations

import datetime
import fnmatch
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from absl import logging

from ...executors.errors import InputError, did_you_mean
from ...executors.monitoring import run_record
from ...executors.runtime.files import file_io
from ...executors.training import metadata_pointer
from ...executors.training.metadata_pointer import PipelineStore
from .metadata_runs import runs_in_store
from .metadata_store import SQLITE
from .metadata_url import display_url
from .metric_comparison import is_higher_better
from .past_runs import CACHED, Run
from .recorded_runs import MODEL_RUN, FoundRuns, read_run, search_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Run", "find_run", "find_runs", "metric_of", "sorted_by"]

LAST = "last"
_MAX_LISTED = 5  # runs in the message about an ambiguous name


class _Selection(TypedDict, total=False):
    """Arguments of `runs_in_store`."""

    order: Callable[[list[Run]], list[Run]] | None
    limit: int


def find_runs(
    places: Sequence[str] = (),
    *,
    metadata: str = "",
    module: str = "",
    status: str = "",
    sort: str = "",
    limit: int = 0,
) -> list[Run]:
    """Returns the runs in folders and metadata stores, newest first.

    Args:
      places: Folders to search: pipeline roots, `--output` folders of `train`, or folders above them; or stores, in
        the form of `metadata` (default: the current folder, or only `metadata` if that is given).
      metadata: An additional store: a SQLite file or `mysql://user:password@host:port/database`.
      module: Select runs of this module: a part of its name, or a pattern such as "taxi_*".
      status: Select runs with this status; one of `past_runs.STATUSES`.
      sort: Name of a metric: sort best first instead, see `sorted_by`.
      limit: Maximum number of runs; 0 for all.

    Raises:
      InputError: When a place does not exist, a named store cannot be read, or no run has the metric.
    """

    def is_selected(run: Run) -> bool:
        return (not status or run.status == status) and (not module or _matches_module(run, module))

    order = functools.partial(_best_first, metric=sort) if sort else None
    found, requested = _search(places, metadata)
    runs = {run.id: run for run in _read_runs(found.model_runs) if is_selected(run)}
    for url in found.stores:
        try:
            roots = [store.root for store in found.recorded_stores if _is_same(store.metadata, url)]
            runs |= {run.id: run for run in runs_in_store(url, is_selected, roots=roots, order=order, limit=limit)}
        except InputError as error:
            if url in requested:
                raise
            logging.warning("%s", error)
    for store in found.recorded_stores:
        if not any(_is_same(store.metadata, url) for url in found.stores):
            runs |= {run.id: run for run in _runs_in_store(store, is_selected, order=order, limit=limit)}
    newest = _newest_first(runs.values())
    return (sorted_by(newest, sort) if sort else newest)[: limit or None]


def find_run(name: str, places: Sequence[str] = (), *, metadata: str = "") -> Run:
    """Returns one run by ID, name or folder.

    Args:
      name: "last"; a run's ID or a unique prefix of it; the name of a pipeline run; or a folder: the `--output` of
        `train`, a pipeline root (its newest run), a model run, a model or a pushed model.
      places: Folders and stores to search, as in `find_runs`.
      metadata: An additional store, as in `find_runs`.

    Raises:
      InputError: When no run or more than one run matches.
    """
    if name == LAST:
        runs = find_runs(places, metadata=metadata, limit=1)
    elif file_io.is_remote(name) or os.sep in name or file_io.exists(name):
        runs = _runs_at(name) or _run_of_folder(find_runs(places, metadata=metadata), name)
    else:
        known = find_runs(places, metadata=metadata)
        runs = [run for run in known if run.pipeline_run == name] or [run for run in known if run.id.startswith(name)]
    if not runs:
        raise InputError(_not_found_message(name, places, metadata))
    if len(runs) > 1:
        raise InputError(
            f"{name!r} matches {len(runs)} runs: {_list_runs(runs)}. Give more of the ID (see `generic-trainer runs`)."
        )
    return runs[0]


def sorted_by(runs: Sequence[Run], metric: str) -> list[Run]:
    """Sorts runs by a metric, best first; runs without the metric come last.

    Args:
      runs: The runs to sort.
      metric: "auc" (of the eval split, or else of the train split), "eval/auc" or "train/auc". Lower is better for
        losses and errors; higher is better for all other metrics.

    Raises:
      InputError: When no run has the metric.
    """
    if runs and all(metric_of(run, metric) is None for run in runs):
        names = {name for run in runs for split in run.metrics.values() for name in split}
        raise InputError(
            f"--sort {metric}: no run has this metric.{did_you_mean(metric, names)} Available metrics: "
            f"{', '.join(sorted(names)) or 'none'}."
        )
    return _best_first(runs, metric)


def _best_first(runs: Sequence[Run], metric: str) -> list[Run]:
    sign = 1 if is_higher_better(metric) is False else -1

    def rank(run: Run) -> tuple[bool, float]:
        value = metric_of(run, metric)
        return (True, 0.0) if value is None or math.isnan(value) else (False, sign * value)

    return sorted(runs, key=rank)


def metric_of(run: Run, metric: str) -> float | None:
    """Returns a run's metric by its name, with or without a split as prefix ("eval/auc"); None if it has none."""
    split, separator, name = metric.partition("/")
    if separator and split in run.metrics:
        return run.metrics[split].get(name)
    return next(
        (run.metrics[split][metric] for split in ("eval", "train") if metric in run.metrics.get(split, {})), None
    )


def _search(places: Sequence[str], metadata: str) -> tuple[FoundRuns, list[str]]:
    """Returns the runs and stores in the places, and the stores that were named: as files, URLs or pipeline roots."""
    found, requested = FoundRuns(), [metadata] if metadata else []
    for place in places or ([] if metadata else ["."]):
        if place.startswith("mysql:") or os.path.isfile(place):
            requested.append(place)
            continue
        found_here = search_folder(place)
        found.model_runs += found_here.model_runs
        found.stores += found_here.stores
        found.recorded_stores += found_here.recorded_stores
        if (own := os.path.join(file_io.absolute_path(place), SQLITE)) in found_here.stores:
            requested.append(own)
    found.stores = list(dict.fromkeys([*requested, *found.stores]))
    found.recorded_stores = list(dict.fromkeys(found.recorded_stores))
    return found, requested


def _is_same(first: str, second: str) -> bool:
    return first == second or _real_path(file_io.absolute_path(first)) == _real_path(file_io.absolute_path(second))


def _read_runs(folders: Iterable[str]) -> Iterator[Run]:
    """Yields the runs recorded in folders; logs a warning for each record that cannot be read and skips it."""
    for folder in dict.fromkeys(folders):
        try:
            yield read_run(folder)
        except (InputError, OSError) as error:
            logging.warning("Skipped a run: %s", error)


def _newest_first(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (_time(run.started), run.execution or 0), reverse=True)


def _time(started: str) -> float:
    try:
        return datetime.datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError, OSError):  # no time, or one that the platform cannot represent
        return 0.0


def _matches_module(run: Run, module: str) -> bool:
    return fnmatch.fnmatch(run.module, f"*{module}*")


def _runs_at(name: str) -> list[Run]:
    """Returns the run to which a folder belongs, searching only the folder, its children and its parents."""
    place = file_io.absolute_path(name).rstrip("/")
    folders = [place]
    while not file_io.is_remote(place) and (above := file_io.parent(folders[-1])) != folders[-1]:
        folders.append(above)
    for folder in folders:
        runs = _runs_in_root(folder)
        if made := runs[:1] if folder == place else _run_of_folder(runs, name):
            return made
    candidates = [place, os.path.join(place, MODEL_RUN)]
    if os.path.basename(place) != MODEL_RUN:  # a model, in `model` or in `model/Format-Serving`
        candidates += [os.path.join(folder, MODEL_RUN) for folder in folders[1:3]]
    for folder in candidates:
        if file_io.exists(os.path.join(folder, run_record.FILE_NAME)):
            run = read_run(folder)
            if folder in candidates[:2] or (run.model and _is_in(place, run.model)):
                return [run]
    return []


def _runs_in_root(folder: str) -> list[Run]:
    """Returns the runs of a pipeline root, newest first; [] if the folder is not a pipeline root."""
    if os.path.isfile(store := os.path.join(folder, SQLITE)):
        return runs_in_store(store)
    return _newest_first(run for store in metadata_pointer.read_stores(folder) for run in _runs_in_store(store))


def _runs_in_store(store: PipelineStore, *arguments: Callable[[Run], bool], **options: Unpack[_Selection]) -> list[Run]:
    """Returns a pipeline's runs in the store that is recorded in its root; logs a warning if it cannot be read."""
    try:
        return runs_in_store(store.metadata, *arguments, pipeline=store.pipeline, roots=[store.root], **options)
    except InputError as error:
        logging.warning("%s", error)
        return []


def _run_of_folder(runs: Sequence[Run], name: str) -> list[Run]:
    """Returns the run that wrote a folder; runs with a cache hit for it come second."""
    place = file_io.absolute_path(name).rstrip("/")
    for attribute in ("model_run", "pushed_model", "model"):
        made = [run for run in runs if (folder := getattr(run, attribute)) and _is_in(place, folder)]
        if made:
            return [next((run for run in made if run.status != CACHED), made[0])]
    return []


def _is_in(place: str, folder: str) -> bool:
    place, folder = _real_path(place), _real_path(folder)
    return place == folder or place.startswith(f"{folder}/")


def _real_path(path: str) -> str:
    """Returns a path with symbolic links resolved, so that different paths of one folder compare equal."""
    return path.rstrip("/") if file_io.is_remote(path) else os.path.realpath(path)


def _list_runs(runs: Sequence[Run]) -> str:
    named = [f"{run.id[:12]} ({run.started[:16]}, {run.status})" for run in runs[:_MAX_LISTED]]
    return ", ".join([*named, *(["…"] if len(runs) > _MAX_LISTED else [])])


def _not_found_message(name: str, places: Sequence[str], metadata: str) -> str:
    where = ", ".join([*places, *([display_url(metadata)] if metadata else [])]) or os.getcwd()
    known = find_runs(places, metadata=metadata)
    near = did_you_mean(
        name, [text for run in known for text in (run.id[: max(8, len(name))], run.pipeline_run) if text]
    )
    which = "There are no runs" if name == LAST else f"There is no run {name!r}"
    return f"{which} in {where}.{near} `generic-trainer runs PLACE` lists the runs in another place."
