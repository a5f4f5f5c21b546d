"""Lists the runs in an ML Metadata store: each execution of a pipeline's Trainer, with its evaluation and push.

A store may hold thousands of runs, so queries are batched: first the properties of all executions, then only for the
selected ones their outputs and the executions that used these.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterable, Iterator, Sequence

import ml_metadata as mlmd
from ml_metadata.proto.metadata_store_pb2 import Artifact, Execution, ExecutionType

from ...executors.monitoring import run_record
from ...executors.monitoring.run_record import FAILED, INTERRUPTED, RUNNING, SUCCEEDED
from ...executors.runtime.files import file_io
from ...executors.runtime.files.artifact_layout import FAILED_DIR
from .metadata_store import INPUTS, OUTPUTS, MetadataReader, opened_store, roles_of
from .run import CACHED, Run, Selection

STATUS = {
    Execution.COMPLETE: SUCCEEDED,
    Execution.CACHED: CACHED,
    Execution.FAILED: FAILED,
    Execution.CANCELED: FAILED,
}
_ALL = Selection()


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
    with opened_store(url) as reader:
        loader = _Loader(reader, url, roots)
        runs = [run for run in map(loader.run_of, loader.trainings(pipeline)) if selection.includes(run)]
        if not selection.sort:  # results are loaded only for the first runs; for a metric, for all
            runs = selection.first(runs)
        return [loader.with_names(run) for run in selection.first(loader.with_results(runs))]


@dataclasses.dataclass(frozen=True)
class _Loader:
    """Reads the runs of a store step by step."""

    reader: MetadataReader
    url: str
    roots: Sequence[str]

    def trainings(self, pipeline: str) -> list[Execution]:
        """Returns the executions of this project's and TFX's Trainers."""
        store = self.reader.store
        kinds = [kind for kind in store.get_execution_types() if _is_trainer(kind)]
        if not pipeline:
            return [execution for kind in kinds for execution in store.get_executions_by_type(kind.name)]
        context = store.get_context_by_type_and_name("pipeline", pipeline)
        if not kinds or context is None:
            return []
        query = f"type_id IN ({', '.join(str(kind.id) for kind in kinds)}) AND contexts_c.id = {context.id}"
        return list(store.get_executions(mlmd.ListOptions(filter_query=query)))

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
        return self.with_names(run) if status == RUNNING else run

    def with_names(self, run: Run) -> Run:
        """Adds the names of pipeline and pipeline run, which ML Metadata returns for one execution per query only.

        A failed or running execution has no outputs in ML Metadata; its `run.json` is searched on disk.
        """
        contexts = self.reader.contexts(run.execution or 0)
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
        events = self.reader.events(executions=[run.execution or 0], kinds=INPUTS)
        inputs = self.reader.artifacts(event.artifact_id for event in events)
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
        events = self.reader.events(executions=executions, kinds=OUTPUTS)
        artifacts = {artifact.id: artifact for artifact in self.reader.artifacts(event.artifact_id for event in events)}
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
        events = [event for event in self.reader.events(artifacts=models) if "model" in roles_of(event)]
        makers: dict[int, int] = {}
        users: dict[int, list[int]] = {}
        for event in sorted(events, key=lambda event: event.execution_id):
            if event.type in OUTPUTS:
                makers[event.artifact_id] = event.execution_id
            else:
                users.setdefault(makers.get(event.artifact_id, 0), []).append(event.execution_id)
        return users


def _is_trainer(kind: ExecutionType) -> bool:
    name = kind.name.rpartition(".")[2]  # a Tuner has the same base type
    return name == "Trainer" or (name != "Tuner" and bool(kind.base_type == ExecutionType.TRAIN))


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


def text_of(node: Artifact | Execution, name: str) -> str:
    """Returns a string property or custom property of an artifact or execution; "" if there is none."""
    for properties in (node.properties, node.custom_properties):
        if name in properties:
            return str(properties[name].string_value)
    return ""


def iso_time(milliseconds: int) -> str:
    """Converts a time of ML Metadata, in milliseconds since the epoch, to ISO 8601, UTC."""
    time = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc)
    return time.isoformat(timespec="milliseconds")


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
