"""Lists the runs in an ML Metadata store: each execution of a pipeline's Trainer, with its evaluation and push.

A store may hold thousands of runs, so queries are batched: first the properties of all executions, then only for the
selected ones their outputs and the executions that used these.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ml_metadata.proto import metadata_store_pb2

from ...executors.monitoring import run_record
from ...executors.monitoring.run_record import FAILED, INTERRUPTED, RUNNING, SUCCEEDED
from ...executors.runtime.files import file_io
from ...executors.runtime.files.artifact_layout import FAILED_DIR
from .metadata_store import opened_store
from .run import CACHED, Run, Selection

if TYPE_CHECKING:
    import ml_metadata as mlmd

Artifact, Event, Execution = metadata_store_pb2.Artifact, metadata_store_pb2.Event, metadata_store_pb2.Execution
STATUS = {
    Execution.COMPLETE: SUCCEEDED,
    Execution.CACHED: CACHED,
    Execution.FAILED: FAILED,
    Execution.CANCELED: FAILED,
}
OUTPUTS = (Event.OUTPUT, Event.DECLARED_OUTPUT, Event.PENDING_OUTPUT)
INPUTS = (Event.INPUT, Event.DECLARED_INPUT)
_ALL = Selection()
_BATCH_SIZE = 5000  # IDs per query

Result = TypeVar("Result")


def runs_in_store(url: str, selection: Selection = _ALL, *, pipeline: str = "", roots: Sequence[str] = ()) -> list[Run]:
    """Returns the runs in an ML Metadata store.

    Args:
      url: The store, as for `connection_config`.
      selection: Which runs to return, and in which order.
      pipeline: Name of the pipeline whose runs are returned; "" for all.
      roots: Known pipeline roots, which are searched for the records of failed and interrupted runs.

    Raises:
      InputError: When the store cannot be read.
    """
    with opened_store(url) as store:
        loader = _Loader(store, url, roots)
        runs = [run for run in map(loader.run_of, loader.trainings(pipeline)) if selection.includes(run)]
        if not selection.sort:  # results are loaded only for the first runs; for a metric, for all
            runs = selection.first(runs)
        return [loader.named(run) for run in selection.first(loader.with_results(runs))]


@dataclasses.dataclass(frozen=True)
class _Loader:
    """Reads the runs of a store step by step."""

    store: mlmd.MetadataStore
    url: str
    roots: Sequence[str]

    def trainings(self, pipeline: str) -> list[Execution]:
        """Returns the executions of this project's and TFX's Trainers."""
        kinds = [kind.name for kind in self.store.get_execution_types() if _is_trainer(kind)]
        if pipeline:
            return [
                execution for execution in executions_in(self.store, "pipeline", pipeline) if execution.type in kinds
            ]
        return [execution for kind in kinds for execution in self.store.get_executions_by_type(kind)]

    def run_of(self, execution: Execution) -> Run:
        """Returns a run with the properties of its execution; with the status of its record if it has not ended."""
        begin, end = execution.create_time_since_epoch, execution.last_update_time_since_epoch
        status = STATUS.get(execution.last_known_state, RUNNING)
        modules = (text_of(execution, name) for name in ("module_path", "module_file", "run_fn"))
        run = Run(
            id=execution.name.replace("-", "") or str(execution.id),
            status=status,
            started=iso_time(begin),
            seconds=None if status == RUNNING else (end - begin) / 1000,
            module=next(filter(None, modules), ""),
            fingerprint=text_of(execution, "module_fingerprint"),
            metadata=self.url,
            execution=execution.id,
        )
        return self.named(run) if status == RUNNING else run

    def named(self, run: Run) -> Run:
        """Adds the names of pipeline and pipeline run, which ML Metadata returns for one execution per query only.

        A failed or running execution has no outputs in ML Metadata; its `run.json` is searched on disk.
        """
        contexts = contexts_of(self.store, run.execution or 0)
        pipeline = contexts.get("pipeline", "")
        run = dataclasses.replace(run, pipeline=pipeline, pipeline_run=contexts.get("pipeline_run", ""))
        if run.status not in (FAILED, RUNNING):
            return run
        outputs = os.path.join(contexts.get("node", "").removeprefix(f"{pipeline}."), "model_run")
        folder = os.path.join(outputs, *([FAILED_DIR] if run.status == FAILED else []), str(run.execution))
        return next(filter(None, (_recorded(run, os.path.join(root, folder)) for root in self._roots_of(run))), run)

    def _roots_of(self, run: Run) -> Iterator[str]:
        """Yields candidates for the pipeline's root: known roots, the store's folder, and roots of the run's inputs.

        ML Metadata does not store the root, but TFX writes artifacts to ROOT/STEP/OUTPUT/EXECUTION.
        """
        yield from self.roots
        if not file_io.is_remote(self.url):
            yield file_io.parent(self.url)
        events = events_of(self.store.get_events_by_execution_ids, [run.execution or 0], INPUTS)
        inputs = query_batches(self.store.get_artifacts_by_id, (event.artifact_id for event in events))
        roots = dict.fromkeys(file_io.parent(file_io.parent(file_io.parent(artifact.uri))) for artifact in inputs)
        # A remote root would import TensorFlow, which takes seconds.
        yield from (root for root in roots if not file_io.is_remote(root))

    def with_results(self, runs: Sequence[Run]) -> list[Run]:
        """Adds outputs, evaluation and push to runs."""
        outputs = self._outputs_of(run.execution for run in runs if run.execution is not None)
        users = self._users_of({made["Model"].id for made in outputs.values() if "Model" in made})
        made_by = self._outputs_of(user for of_model in users.values() for user in of_model)
        results = {
            maker: {kind: artifact for user in of_model for kind, artifact in made_by.get(user, {}).items()}
            for maker, of_model in users.items()
        }
        return [
            _with_results(run, outputs.get(run.execution or 0, {}), results.get(run.execution or 0, {})) for run in runs
        ]

    def _outputs_of(self, executions: Iterable[int]) -> dict[int, dict[str, Artifact]]:
        """Returns the output artifacts of executions: {execution: {artifact type: artifact}}."""
        events = events_of(self.store.get_events_by_execution_ids, executions, OUTPUTS)
        made = query_batches(self.store.get_artifacts_by_id, (event.artifact_id for event in events))
        artifacts = {artifact.id: artifact for artifact in made}
        outputs: dict[int, dict[str, Artifact]] = {}
        for event in events:
            artifact = artifacts[event.artifact_id]
            outputs.setdefault(event.execution_id, {})[artifact.type] = artifact
        return outputs

    def _users_of(self, models: Iterable[int]) -> dict[int, list[int]]:
        """Returns the executions that read models as input `model`, not as baseline: {maker: users}.

        A model's makers are the execution that trained it and each execution with a cache hit for it. A user is
        assigned to the last maker before it.
        """
        events = query_batches(self.store.get_events_by_artifact_ids, models)
        makers: dict[int, int] = {}
        users: dict[int, list[int]] = {}
        for event in sorted(events, key=lambda event: event.execution_id):
            if "model" in roles_of(event) and event.type in OUTPUTS:
                makers[event.artifact_id] = event.execution_id
            elif "model" in roles_of(event) and event.type in INPUTS:
                users.setdefault(makers.get(event.artifact_id, 0), []).append(event.execution_id)
        return users


def _is_trainer(kind: metadata_store_pb2.ExecutionType) -> bool:
    name = kind.name.rpartition(".")[2]  # a Tuner has the same base type
    return name == "Trainer" or (kind.base_type == metadata_store_pb2.ExecutionType.TRAIN and name != "Tuner")


def _recorded(run: Run, folder: str) -> Run | None:
    """Completes a run from the `run.json` in a folder; None without one."""
    record = run_record.read(folder)
    if not record.id:
        return None
    # This includes a process that finished training, but ended before the result was written to ML Metadata.
    killed = run.status == RUNNING and record.process.is_gone()
    status = INTERRUPTED if killed or record.status == INTERRUPTED else run.status
    return dataclasses.replace(run, id=record.id, status=status, model_run=folder, error=record.error)


def _with_results(run: Run, outputs: dict[str, Artifact], results: dict[str, Artifact]) -> Run:
    """Adds the outputs of a Trainer, and those of the executions that used its model: {artifact type: artifact}."""
    if (model_run := outputs.get("ModelRun")) is not None:
        own = run.status != CACHED and text_of(model_run, "run_id")
        run = dataclasses.replace(run, model_run=model_run.uri, id=own or run.id)
    if (model := outputs.get("Model")) is None:
        return run
    pushed, blessing, evaluation = map(results.get, ("PushedModel", "ModelBlessing", "ModelEvaluation"))
    return dataclasses.replace(
        run,
        model=model.uri,
        model_artifact=model.id,
        metrics=metrics_of(model),
        fingerprint=run.fingerprint or text_of(model, "module_fingerprint"),
        dialect=text_of(model, "dialect"),
        pushed_model=None if pushed is None else push_destination(pushed),
        blessed=None if blessing is None else bool(blessing.custom_properties["blessed"].int_value),
        evaluation=None if evaluation is None else evaluation.uri,
    )


def query_batches(query: Callable[[Sequence[int]], Iterable[Result]], ids: Iterable[int]) -> list[Result]:
    """Queries ML Metadata for many IDs, in batches that fit into an SQL statement (5000)."""
    unique = sorted(set(ids))
    return [
        result for start in range(0, len(unique), _BATCH_SIZE) for result in query(unique[start : start + _BATCH_SIZE])
    ]


def events_of(
    query: Callable[[Sequence[int]], Iterable[Event]], ids: Iterable[int], kinds: Sequence[int]
) -> list[Event]:
    """Returns the events of executions or artifacts whose type is in `kinds`, which is OUTPUTS or INPUTS."""
    return [event for event in query_batches(query, ids) if event.type in kinds]


def executions_in(store: mlmd.MetadataStore, kind: str, name: str) -> list[Execution]:
    """Returns the executions of a pipeline or pipeline run."""
    context = store.get_context_by_type_and_name(kind, name)
    return list(store.get_executions_by_context(context.id)) if context is not None else []


def contexts_of(store: mlmd.MetadataStore, execution: int) -> dict[str, str]:
    """Returns the names of an execution's pipeline, pipeline run and node: {"pipeline": "taxi", ...}."""
    return {context.type: context.name for context in store.get_contexts_by_execution(execution)}


def roles_of(event: Event) -> list[str]:
    """Returns an event's input or output keys; several if the artifact was passed as both model and baseline."""
    return [step.key for step in event.path.steps if step.HasField("key")]


def text_of(node: Artifact | Execution, name: str) -> str:
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


def metrics_of(model: Artifact) -> dict[str, dict[str, float]]:
    """Returns the training metrics from a Model artifact's custom properties: {"train": {...}, "eval": {...}}."""
    metrics: dict[str, dict[str, float]] = {}
    for key, value in sorted(model.custom_properties.items()):
        split, separator, name = key.partition("/")
        if separator and split in ("train", "eval") and value.WhichOneof("value") == "double_value":
            metrics.setdefault(split, {})[name] = value.double_value
    return metrics


def push_destination(pushed: Artifact) -> str | None:
    """Returns a pushed model's folder, or None if the PushedModel artifact is marked as not pushed."""
    if not pushed.custom_properties["pushed"].int_value:
        return None
    return str(pushed.custom_properties["pushed_destination"].string_value) or str(pushed.uri)
