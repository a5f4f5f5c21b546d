"""Finds past runs: of `train`, by their `run.json`; of pipelines, in ML Metadata.

    for run in find_runs(["experiments/", "pipeline/"]):
        print(run.id[:8], run.status, run.metrics.get("eval"))
    find_run("last").record.arguments

A run of a pipeline is one execution of its Trainer, with its evaluation and push. Neither TensorFlow nor TFX is
imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from absl import logging

from ...executors.errors import InputError, did_you_mean
from ...executors.monitoring import run_record
from ...executors.runtime.files import file_io
from ...executors.training import metadata_pointer
from ...executors.training.metadata_pointer import PipelineStore
from .metadata_runs import runs_in_store
from .metadata_store import SQLITE
from .metadata_url import display_url
from .run import CACHED, MODEL_RUN, Run, Selection, metric_of, read_run
from .search import FoundRuns, is_in, real_path, search

__all__ = ["Run", "find_run", "find_runs", "metric_of"]

LAST = "last"
_ALL = Selection()
_MAX_LISTED = 5  # runs in the message about an ambiguous name


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
      status: Select runs with this status; one of `run.STATUSES`.
      sort: Name of a metric: sort best first instead; runs without the metric come last. Lower is better for losses
        and errors; higher is better for all other metrics.
      limit: Maximum number of runs; 0 for all.

    Raises:
      InputError: When a place does not exist, a named store cannot be read, or no run has the metric.
    """
    found = search(places or ([] if metadata else ["."]))
    if metadata:
        found.add_store(metadata)
    selection = Selection(module, status, sort, limit)
    runs = {run.id: run for run in _load(found, selection)}  # a run may be in a folder as well as in a store
    if sort and runs and all(metric_of(run, sort) is None for run in runs.values()):
        names = {name for run in runs.values() for split in run.metrics.values() for name in split}
        raise InputError(
            f"--sort {sort}: no run has this metric.{did_you_mean(sort, names)} Available metrics: "
            f"{', '.join(sorted(names)) or 'none'}."
        )
    return selection.first(runs.values())


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
        place = file_io.absolute_path(name).rstrip("/")
        runs = _runs_at(place) or _runs_of_folder(place, find_runs(places, metadata=metadata))
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


def _load(found: FoundRuns, selection: Selection) -> Iterator[Run]:
    """Yields the selected runs; skips those that cannot be read, with a warning, unless their store was named."""
    for folder in dict.fromkeys(found.model_runs):
        try:
            run = read_run(folder)
        except (InputError, OSError) as error:
            logging.warning("Skipped a run: %s", error)
        else:
            yield from [run] if selection.includes(run) else []
    by_path: dict[str, list[PipelineStore]] = {}
    for store in found.stores:
        by_path.setdefault(real_path(store.metadata), []).append(store)
    for store in dict.fromkeys(found.stores):
        same = by_path[real_path(store.metadata)]
        if store.pipeline and not all(other.pipeline for other in same):
            continue  # all pipelines of the store are read
        roots = [other.root for other in same if other.root]
        try:
            yield from runs_in_store(store.metadata, selection, pipeline=store.pipeline, roots=roots)
        except InputError as error:
            if store.metadata in found.named:
                raise
            logging.warning("%s", error)


def _runs_at(place: str) -> list[Run]:
    """Returns the run to which a folder belongs, searching only the folder, its children and its parents."""
    folders = [place]
    while not file_io.is_remote(place) and (above := file_io.parent(folders[-1])) != folders[-1]:
        folders.append(above)
    for folder in folders:
        runs = _runs_in_root(folder)
        if made := runs[:1] if folder == place else _runs_of_folder(place, runs):
            return made
    for folder in (place, os.path.join(place, MODEL_RUN)):
        if _has_record(folder):
            return [read_run(folder)]
    beside = [os.path.join(above, MODEL_RUN) for above in folders[1:3]]  # of `model` or `model/Format-Serving`
    return _runs_of_folder(place, [read_run(folder) for folder in beside if _has_record(folder)])


def _runs_in_root(folder: str) -> list[Run]:
    """Returns the runs of a pipeline root, newest first; [] if the folder is not a pipeline root."""
    sqlite = os.path.join(folder, SQLITE)
    stores = metadata_pointer.read_stores(folder)
    if os.path.isfile(sqlite):  # no other store has the runs of this root
        stores = [store for store in stores if real_path(store.metadata) == real_path(sqlite)]
    found = FoundRuns(stores=stores)
    if os.path.isfile(sqlite):
        found.add_store(sqlite)
    return _ALL.first(_load(found, _ALL))


def _has_record(folder: str) -> bool:
    return file_io.exists(os.path.join(folder, run_record.FILE_NAME))


def _runs_of_folder(place: str, runs: Sequence[Run]) -> list[Run]:
    """Returns the run that wrote a folder; runs with a cache hit for it come second."""
    for attribute in ("model_run", "pushed_model", "model"):
        made = [run for run in runs if (folder := getattr(run, attribute)) and is_in(place, folder)]
        if made:
            return sorted(made, key=lambda run: run.status == CACHED)[:1]
    return []


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
