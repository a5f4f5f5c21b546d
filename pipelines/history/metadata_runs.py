"""Lists the runs in an ML Metadata store: each execution of a pipeline's Trainer, with its evaluation and push.

A store may hold thousands of runs, so queries are batched: first the properties of all executions, then only for the
selected ones their outputs and the executions that used these.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ml_metadata.proto import metadata_store_pb2

from ...executors.monitoring import run_record
from ...executors.monitoring.run_record import RunRecord
from ...executors.runtime.files import file_io
from ...executors.runtime.files.artifact_layout import FAILED_DIR
from .metadata_store import open_store, translated_errors
from .past_runs import CACHED, FAILED, INTERRUPTED, RUNNING, SUCCEEDED, Run

if TYPE_CHECKING:
    import ml_metadata as mlmd

_State, _Event = metadata_store_pb2.Execution, metadata_store_pb2.Event
STATUS = {
    _State.COMPLETE: SUCCEEDED,
    _State.CACHED: CACHED,
    _State.FAILED: FAILED,
    _State.CANCELED: FAILED,
}
OUTPUTS = (_Event.OUTPUT, _Event.DECLARED_OUTPUT, _Event.PENDING_OUTPUT)
INPUTS = (_Event.INPUT, _Event.DECLARED_INPUT)
_BATCH_SIZE = 5000  # IDs per query

Result = TypeVar("Result")


def runs_in_store(
    url: str,
    is_selected: Callable[[Run], bool] = lambda run: True,
    *,
    pipeline: str = "",
    roots: Sequence[str] = (),
    order: Callable[[list[Run]], list[Run]] | None = None,
    limit: int = 0,
) -> list[Run]:
    """Returns the runs in an ML Metadata store, newest first unless `order` is given.

    Args:
      url: The store, as for `connection_config`.
      is_selected: Predicate that selects runs. It is called before the results are loaded, when only status, start and
        module are set.
      pipeline: Name of the pipeline whose runs are returned; "" for all.
      roots: Known pipeline roots, which are searched for the records of failed and interrupted runs.
      order: Sorts the runs after their metrics were loaded.
      limit: Maximum number of runs, taken from the front of the order; 0 for all.

    Raises:
      InputError: When the store cannot be read.
    """
    with translated_errors(url):
        store = open_store(url)
        trainings = _of_pipeline(store, pipeline) if pipeline else _trainings(store)
        executions = sorted(trainings, key=lambda one: (one.create_time_since_epoch, one.id), reverse=True)
        runs = [
            run for run in (_make_run(store, url, execution, roots) for execution in executions) if is_selected(run)
        ]
        if order is None:
            runs = _with_results(store, runs[: limit or None])
        else:
            runs = order(_with_results(store, runs))[: limit or None]
        return [_with_names(store, run, roots) for run in runs]


def _trainings(store: mlmd.MetadataStore) -> Iterator[metadata_store_pb2.Execution]:
    """Yields the executions of this project's and TFX's Trainers; not of Tuners, which have the same base type."""
    for kind in store.get_execution_types():
        name = kind.name.rpartition(".")[2]
        if name == "Trainer" or (kind.base_type == metadata_store_pb2.ExecutionType.TRAIN and name != "Tuner"):
            yield from store.get_executions_by_type(kind.name)


def _of_pipeline(store: mlmd.MetadataStore, pipeline: str) -> Iterator[metadata_store_pb2.Execution]:
    context = store.get_context_by_type_and_name("pipeline", pipeline)
    pipeline_ids = {one.id for one in store.get_executions_by_context(context.id)} if context is not None else set()
    return (one for one in _trainings(store) if one.id in pipeline_ids)


def _make_run(
    store: mlmd.MetadataStore, url: str, execution: metadata_store_pb2.Execution, roots: Sequence[str]
) -> Run:
    begin, end = execution.create_time_since_epoch, execution.last_update_time_since_epoch
    status = STATUS.get(execution.last_known_state, RUNNING)
    module = next((text for name in ("module_path", "module_file", "run_fn") if (text := text_of(execution, name))), "")
    run = Run(
        id=execution.name.replace("-", "") or str(execution.id),
        status=status,
        started=iso_time(begin),
        seconds=None if status == RUNNING else (end - begin) / 1000,
        module=module,
        fingerprint=text_of(execution, "module_fingerprint"),
        metadata=url,
        execution=execution.id,
    )
    return _completed_from_disk(store, run, _contexts_of(store, execution.id), roots) if status == RUNNING else run


def _contexts_of(store: mlmd.MetadataStore, execution: int) -> dict[str, str]:
    return {context.type: context.name for context in store.get_contexts_by_execution(execution)}


def _completed_from_disk(store: mlmd.MetadataStore, run: Run, contexts: Mapping[str, str], roots: Sequence[str]) -> Run:
    """Completes a running, killed or failed run, without outputs in ML Metadata, from its `run.json` on disk."""
    node = contexts.get("node", "").removeprefix(f"{contexts.get('pipeline', '')}.")
    below = [node, "model_run", *([FAILED_DIR] if run.status == FAILED else []), str(run.execution)]
    folders = (os.path.join(root, *below) for root in _roots(store, run, roots))
    recorded = ((folder, record) for folder in folders if (record := run_record.read(folder)).id)
    folder, record = next(recorded, ("", RunRecord.missing()))
    if not record.id:
        return run
    # This includes a process that finished training, but ended before the result was written to ML Metadata.
    killed = run.status == RUNNING and record.process.is_gone()
    interrupted = killed or record.status == INTERRUPTED
    return dataclasses.replace(
        run,
        id=record.id,
        status=INTERRUPTED if interrupted else run.status,
        model_run=folder,
        error=record.error,
    )


def _roots(store: mlmd.MetadataStore, run: Run, known: Sequence[str]) -> Iterator[str]:
    """Yields candidates for the pipeline's root: known roots, the store's folder, and roots of the run's inputs.

    ML Metadata does not store the root, but TFX writes artifacts to ROOT/STEP/OUTPUT/EXECUTION.
    """
    yield from known
    if not file_io.is_remote(run.metadata):
        yield file_io.parent(run.metadata)
    events = store.get_events_by_execution_ids([run.execution])
    inputs = store.get_artifacts_by_id(sorted({event.artifact_id for event in events if event.type in INPUTS}))
    roots = dict.fromkeys(file_io.parent(file_io.parent(file_io.parent(artifact.uri))) for artifact in inputs)
    yield from (root for root in roots if not file_io.is_remote(root))  # would import TensorFlow, which takes seconds


def _with_results(store: mlmd.MetadataStore, runs: Sequence[Run]) -> list[Run]:
    """Adds outputs, evaluation and push to runs."""
    made = _outputs_of(store, [run.execution for run in runs if run.execution is not None])
    uses = _uses_of(store, {outputs["Model"].id for outputs in made.values() if "Model" in outputs})
    user_outputs = _outputs_of(store, {user for users in uses.values() for _, user in users})
    return [_with_result(run, made.get(run.execution or 0, {}), uses, user_outputs) for run in runs]


def _outputs_of(
    store: mlmd.MetadataStore, executions: Iterable[int]
) -> dict[int, dict[str, metadata_store_pb2.Artifact]]:
    """Returns the output artifacts of executions: {execution: {artifact type: artifact}}."""
    events = [event for event in query_batches(store.get_events_by_execution_ids, executions) if event.type in OUTPUTS]
    artifacts = {
        one.id: one for one in query_batches(store.get_artifacts_by_id, {event.artifact_id for event in events})
    }
    found: dict[int, dict[str, metadata_store_pb2.Artifact]] = {}
    for event in events:
        artifact = artifacts[event.artifact_id]
        found.setdefault(event.execution_id, {})[artifact.type] = artifact
    return found


def _uses_of(store: mlmd.MetadataStore, models: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    """Returns {model: [(maker, user), …]} of the executions that read it as input `model`, not as baseline.

    A model's makers are the execution that trained it and each execution with a cache hit for it. A user is assigned
    to the last maker before it.
    """
    makers: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    for event in query_batches(store.get_events_by_artifact_ids, models):
        if "model" in roles_of(event):
            side = makers if event.type in OUTPUTS else users if event.type in INPUTS else {}
            side.setdefault(event.artifact_id, []).append(event.execution_id)
    return {
        model: [(max((one for one in makers.get(model, ()) if one < user), default=0), user) for user in sorted(ids)]
        for model, ids in users.items()
    }


def _with_names(store: mlmd.MetadataStore, run: Run, roots: Sequence[str]) -> Run:
    """Adds the names of pipeline and pipeline run, which ML Metadata returns for one execution per query only."""
    contexts = _contexts_of(store, run.execution or 0)
    run = dataclasses.replace(run, pipeline=contexts.get("pipeline", ""), pipeline_run=contexts.get("pipeline_run", ""))
    return _completed_from_disk(store, run, contexts, roots) if run.status == FAILED else run


def _with_result(
    run: Run,
    outputs: dict[str, metadata_store_pb2.Artifact],
    uses: dict[int, list[tuple[int, int]]],
    user_outputs: dict[int, dict[str, metadata_store_pb2.Artifact]],
) -> Run:
    model, model_run = outputs.get("Model"), outputs.get("ModelRun")
    if model_run is not None:
        own = run.status != CACHED and text_of(model_run, "run_id")
        run = dataclasses.replace(run, model_run=model_run.uri, id=own or run.id)
    if model is None:
        return run
    users = [user for maker, user in uses.get(model.id, ()) if maker == run.execution]
    results = {kind: one for user in users for kind, one in user_outputs.get(user, {}).items()}
    return dataclasses.replace(
        run,
        model=model.uri,
        model_artifact=model.id,
        metrics=metrics_of(model),
        fingerprint=run.fingerprint or text_of(model, "module_fingerprint"),
        dialect=text_of(model, "dialect"),
        pushed_model=push_destination(results["PushedModel"]) if "PushedModel" in results else None,
        blessed=is_blessed(results["ModelBlessing"]) if "ModelBlessing" in results else None,
        evaluation=results["ModelEvaluation"].uri if "ModelEvaluation" in results else None,
    )


def query_batches(query: Callable[[Sequence[int]], Iterable[Result]], ids: Iterable[int]) -> list[Result]:
    """Queries ML Metadata for many IDs, in batches that fit into an SQL statement (5000)."""
    unique = sorted(set(ids))
    return [
        result for start in range(0, len(unique), _BATCH_SIZE) for result in query(unique[start : start + _BATCH_SIZE])
    ]


def roles_of(event: metadata_store_pb2.Event) -> list[str]:
    """Returns an event's input or output keys; several if the artifact was passed as both model and baseline."""
    return [step.key for step in event.path.steps if step.HasField("key")]


def text_of(node: metadata_store_pb2.Artifact | metadata_store_pb2.Execution, name: str) -> str:
    """Returns a string property or custom property of an artifact or execution; "" if there is none."""
    for properties in (node.properties, node.custom_properties):
        if name in properties:
            return str(properties[name].string_value)
    return ""


def iso_time(milliseconds: int) -> str:
    """Converts a time of ML Metadata, in milliseconds since the epoch, to ISO 8601, UTC."""
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc).isoformat(
        timespec="milliseconds"
    )


def metrics_of(model: metadata_store_pb2.Artifact) -> dict[str, dict[str, float]]:
    """Returns the training metrics from a Model artifact's custom properties: {"train": {...}, "eval": {...}}."""
    metrics: dict[str, dict[str, float]] = {}
    for key, value in sorted(model.custom_properties.items()):
        split, separator, name = key.partition("/")
        if separator and split in ("train", "eval") and value.WhichOneof("value") == "double_value":
            metrics.setdefault(split, {})[name] = value.double_value
    return metrics


def push_destination(pushed: metadata_store_pb2.Artifact) -> str | None:
    """Returns a pushed model's folder, or None if the PushedModel artifact is marked as not pushed."""
    if not pushed.custom_properties["pushed"].int_value:
        return None
    return str(pushed.custom_properties["pushed_destination"].string_value) or str(pushed.uri)


def is_blessed(blessing: metadata_store_pb2.Artifact) -> bool:
    """Returns whether the Evaluator blessed the model."""
    return bool(blessing.custom_properties["blessed"].int_value)
