"""Lineage of a model: a graph of the artifacts and executions upstream and downstream of it.

    lineage = lineage_of_run(find_run("out/model"))
    [node.uri for node in lineage.nodes if node.type == "Examples"]

It is read from ML Metadata for pipelines, and from `run.json` for runs of `train`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ml_metadata.proto import metadata_store_pb2

from ...executors.errors import InputError
from ...executors.runtime.files import file_io
from ...executors.runtime.logs.redaction import masked
from .metadata_runs import INPUTS, OUTPUTS, STATUS, iso_time, query_batches, roles_of
from .metadata_store import open_store, translated_errors
from .past_runs import RUNNING, Run

if TYPE_CHECKING:
    import ml_metadata as mlmd

ARTIFACT, EXECUTION = "artifact", "execution"
_Execution = metadata_store_pb2.Execution
_TERMINAL_TYPES = ("Model", "ModelRun")  # downstream traversal stops here: their uses are part of that model's lineage
_OTHER_MODEL_ROLES = {"base_model", "baseline_model"}  # roles for which the outputs belong to another model
# Inputs in `run.json`: role, artifact type, name of the argument.
_INPUTS = (
    ("examples", "Examples", "train_files"),
    ("eval_examples", "Examples", "eval_files"),
    ("schema", "Schema", "schema_path"),
    ("transform_graph", "TransformGraph", "transform_graph_path"),
    ("base_model", "Model", "base_model"),
)


@dataclasses.dataclass(frozen=True)
class Node:
    """An artifact or an execution in a lineage graph.

    Attributes:
      id: Unique in the graph: "artifact/14", "execution/7".
      kind: "artifact" or "execution".
      type: The artifact's type, such as "Model"; the execution's node ID, such as "Trainer" or "Evaluator".
      uri: An artifact's location; "" for an execution.
      time: Creation time of the artifact or start of the execution, ISO 8601, UTC.
      state: An execution's state: "succeeded", "failed", "running", "interrupted" or "cached"; "" for an artifact.
      properties: Further properties, such as metrics, fingerprints, spans and arguments. Secrets are redacted.
    """

    id: str
    kind: str
    type: str
    uri: str = ""
    time: str = ""
    state: str = ""
    properties: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Edge:
    """An input or output of an execution.

    Attributes:
      source: ID of the artifact that was read, or of the execution that wrote the target.
      target: ID of the execution that read the source, or of the artifact that was written.
      role: Input or output key: "examples", "model", "base_model", "baseline_model".
    """

    source: str
    target: str
    role: str


@dataclasses.dataclass(frozen=True)
class Lineage:
    """The lineage graph of one artifact.

    Attributes:
      subject: ID of the artifact's node; for a run without a model, of the training's node.
      nodes: Artifacts and executions; from ML Metadata in the order of creation.
      edges: Inputs and outputs of the executions, from source to target.
    """

    subject: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def node(self, identifier: str) -> Node:
        """Returns the node with an ID."""
        return next(node for node in self.nodes if node.id == identifier)

    def predecessors(self, identifier: str) -> list[tuple[str, Node]]:
        """Returns the (role, node) pairs with an edge to a node: an execution's inputs, or an artifact's producers."""
        return [(edge.role, self.node(edge.source)) for edge in self.edges if edge.target == identifier]

    def successors(self, identifier: str) -> list[tuple[str, Node]]:
        """Returns the (role, node) pairs with an edge from a node: an execution's outputs, or an artifact's readers."""
        return [(edge.role, self.node(edge.target)) for edge in self.edges if edge.source == identifier]

    def to_json(self) -> dict[str, object]:
        """Returns the graph as JSON values."""
        return dataclasses.asdict(self)


def lineage_of(store: mlmd.MetadataStore, artifact: int) -> Lineage:
    """Returns the lineage graph of an artifact in ML Metadata.

    Upstream it contains all direct and indirect inputs; a path ends at another model. Downstream it contains the
    executions that directly or indirectly used the artifact, and their outputs; a path ends at a model trained from it.

    Args:
      store: An `ml_metadata.MetadataStore`.
      artifact: The artifact's ID in the store.

    Raises:
      InputError: When the store has no such artifact.
    """
    if not store.get_artifacts_by_id([artifact]):
        raise InputError(f"ML Metadata has no artifact with the id {artifact}.")
    graph = _Graph(store)
    graph.add_upstream(artifact)
    graph.add_downstream(artifact)
    return graph.to_lineage(_id(ARTIFACT, artifact))


def lineage_of_run(run: Run, others: Sequence[Run] = ()) -> Lineage:
    """Returns the lineage graph of a run's model: from ML Metadata, or without a pipeline from `run.json`.

    Args:
      run: The run.
      others: Further runs of `train`; those with this run's model as base model are added to the graph.

    Raises:
      InputError: When the run's store cannot be read.
    """
    if run.execution is None:
        return _lineage_from_record(run, others)
    with translated_errors(run.metadata):
        store = open_store(run.metadata)
        if run.model_artifact is not None:
            return lineage_of(store, run.model_artifact)
        graph = _Graph(store)
        graph.add_upstream_of_execution(run.execution)
        return graph.to_lineage(_id(EXECUTION, run.execution))


def _id(kind: str, number: int) -> str:
    return f"{kind}/{number}"


class _Graph:
    """Collects nodes and edges around an artifact, with one batch of queries per generation."""

    def __init__(self, store: mlmd.MetadataStore) -> None:
        self._store = store
        self._artifacts: set[int] = set()
        self._executions: set[int] = set()
        self._edges: set[Edge] = set()

    def add_upstream(self, artifact: int) -> None:
        """Adds the artifact and everything upstream of it."""
        self._artifacts.add(artifact)
        producers = self._add_producers([artifact])
        while producers:
            producers = self._add_producers(self._add_inputs(producers))

    def add_upstream_of_execution(self, execution: int) -> None:
        """Adds an execution without outputs and everything upstream of it."""
        producers = [execution]
        while producers:
            self._executions |= set(producers)
            producers = self._add_producers(self._add_inputs(producers))

    def add_downstream(self, artifact: int) -> None:
        """Adds everything downstream of an artifact: executions that used it, their outputs, and further users."""
        made = [artifact]
        while made:
            users: list[int] = []
            others: list[int] = []
            for event in query_batches(self._store.get_events_by_artifact_ids, made):
                if event.type in INPUTS:
                    side = others if set(roles_of(event)) <= _OTHER_MODEL_ROLES else users
                    side.append(event.execution_id)
                    self._add_edge(event)
            self._add_outputs(others)
            made = [one.id for one in self._add_outputs(users) if one.type not in _TERMINAL_TYPES]

    def to_lineage(self, subject: str) -> Lineage:
        """Returns the graph, with nodes in the order of creation."""
        artifacts = query_batches(self._store.get_artifacts_by_id, self._artifacts)
        executions = query_batches(self._store.get_executions_by_id, self._executions)
        timed = [(one.create_time_since_epoch, one.id, _artifact(one)) for one in artifacts]
        timed += [(one.create_time_since_epoch, one.id, self._execution(one)) for one in executions]
        nodes = tuple(node for _, _, node in sorted(timed, key=lambda item: (item[0], item[2].kind, item[1])))
        order = {node.id: number for number, node in enumerate(nodes)}
        edges = sorted(self._edges, key=lambda edge: (order[edge.source], order[edge.target], edge.role))
        return Lineage(subject, nodes, tuple(edges))

    def _add_producers(self, artifacts: Iterable[int]) -> list[int]:
        """Adds the executions that wrote artifacts, except cached ones, and returns the IDs of those that are new."""
        events = [
            one for one in query_batches(self._store.get_events_by_artifact_ids, artifacts) if one.type in OUTPUTS
        ]
        ids = [event.execution_id for event in events]
        cached = {
            one.id
            for one in query_batches(self._store.get_executions_by_id, ids)
            if one.last_known_state == _Execution.CACHED
        }
        producers = []
        for event in events:
            if event.execution_id not in self._executions | cached:
                producers.append(event.execution_id)
                self._add_edge(event)
        self._executions |= set(producers)
        return producers

    def _add_inputs(self, executions: Iterable[int]) -> list[int]:
        """Adds the inputs of executions; returns the IDs of new ones other than models, to continue upstream."""
        events = [
            one for one in query_batches(self._store.get_events_by_execution_ids, executions) if one.type in INPUTS
        ]
        new = {event.artifact_id for event in events} - self._artifacts
        for event in events:
            self._add_edge(event)
        return [one.id for one in query_batches(self._store.get_artifacts_by_id, new) if one.type != "Model"]

    def _add_outputs(self, executions: Iterable[int]) -> list[metadata_store_pb2.Artifact]:
        """Adds the outputs of executions, and their base and baseline models; returns the outputs that are new."""
        new = set(executions) - self._executions
        self._executions |= new
        outputs = set()
        for event in query_batches(self._store.get_events_by_execution_ids, new):
            if event.type in OUTPUTS:
                outputs |= {event.artifact_id} - self._artifacts
                self._add_edge(event)
            elif set(roles_of(event)) & _OTHER_MODEL_ROLES:
                self._add_edge(event)
        return query_batches(self._store.get_artifacts_by_id, outputs)

    def _add_edge(self, event: metadata_store_pb2.Event) -> None:
        artifact, execution = _id(ARTIFACT, event.artifact_id), _id(EXECUTION, event.execution_id)
        self._artifacts.add(event.artifact_id)
        source, target = (execution, artifact) if event.type in OUTPUTS else (artifact, execution)
        self._edges |= {Edge(source, target, role) for role in roles_of(event) or [""]}

    def _execution(self, execution: metadata_store_pb2.Execution) -> Node:
        contexts = {one.type: one.name for one in self._store.get_contexts_by_execution(execution.id)}
        pipeline, node = contexts.get("pipeline", ""), contexts.get("node", "")
        name = node.removeprefix(f"{pipeline}.") or str(execution.type).rpartition(".")[2]
        properties = {"pipeline": pipeline, "pipeline_run": contexts.get("pipeline_run", ""), **_values(execution)}
        state = STATUS.get(execution.last_known_state, RUNNING)
        return Node(
            _id(EXECUTION, execution.id),
            EXECUTION,
            name,
            "",
            iso_time(execution.create_time_since_epoch),
            state,
            properties,
        )


def _artifact(artifact: metadata_store_pb2.Artifact) -> Node:
    time = iso_time(artifact.create_time_since_epoch)
    return Node(_id(ARTIFACT, artifact.id), ARTIFACT, artifact.type, artifact.uri, time, "", _values(artifact))


def _values(node: metadata_store_pb2.Artifact | metadata_store_pb2.Execution) -> dict[str, object]:
    """Returns the properties with a plain value; secrets are redacted, also inside of JSON values."""
    values: dict[str, object] = {}
    for properties in (node.properties, node.custom_properties):
        for name, value in sorted(properties.items()):
            kind = value.WhichOneof("value")
            if kind in ("int_value", "double_value", "string_value", "bool_value"):
                values[name] = _parse_json(getattr(value, kind))
    plain: dict[str, object] = masked(values)
    return plain


def _parse_json(value: object) -> object:
    """Parses a property that TFX wrote as JSON, such as custom_config; returns other values unchanged."""
    if isinstance(value, str) and value.startswith(("{", "[", "null")):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


def _lineage_from_record(run: Run, others: Sequence[Run]) -> Lineage:
    """Builds the graph from `run.json`: the run's inputs, and the other runs that started from its model."""
    training = Node(f"{EXECUTION}/{run.id}", EXECUTION, "train", "", run.started, run.status, _properties_of(run))
    nodes, edges = [training], []
    for role, (kind, place, known) in _inputs_of(run).items():
        nodes.insert(-1, node := Node(f"{ARTIFACT}/{role}/{run.id}", ARTIFACT, kind, place, "", "", known))
        edges.append(Edge(node.id, training.id, role))
    if not run.model:
        return Lineage(training.id, tuple(nodes), tuple(edges))
    model = Node(f"{ARTIFACT}/model/{run.id}", ARTIFACT, "Model", run.model, run.started, "", _model_properties(run))
    nodes.append(model)
    edges.append(Edge(training.id, model.id, "model"))
    for other in others:
        base = other.record.arguments.get("base_model") if other.execution is None else None
        if base and other.id != run.id and _is_in(base, run.model) and other.started > run.started:
            later = Node(f"{EXECUTION}/{other.id}", EXECUTION, "train", "", other.started, other.status, {})
            nodes.append(later)
            edges.append(Edge(model.id, later.id, "base_model"))
            if other.model:
                nodes.append(Node(f"{ARTIFACT}/model/{other.id}", ARTIFACT, "Model", other.model, other.started))
                edges.append(Edge(later.id, f"{ARTIFACT}/model/{other.id}", "model"))
    return Lineage(model.id, tuple(nodes), tuple(edges))


def _inputs_of(run: Run) -> dict[str, tuple[str, str, Mapping[str, object]]]:
    """Returns a run's inputs: {role: (artifact type, location, recorded properties)}."""
    arguments, data = run.record.arguments, run.record.part("data", dict[str, dict[str, object]])
    inputs: dict[str, tuple[str, str, Mapping[str, object]]] = {}
    for role, kind, name in _INPUTS:
        if place := arguments.get(name):
            shown = ", ".join(place) if isinstance(place, list) else str(place)
            inputs[role] = (kind, shown, data.get(name, {}))
    return inputs


def _properties_of(run: Run) -> dict[str, object]:
    return {"module": run.module, "module_fingerprint": run.fingerprint, "dialect": run.dialect}


def _model_properties(run: Run) -> dict[str, object]:
    """Returns a model's properties under the names that the Trainer uses on the Model artifact in ML Metadata."""
    check = run.record.check
    metrics = {f"{split}/{name}": value for split, values in run.metrics.items() for name, value in values.items()}
    return metrics | {
        "signatures": ", ".join(check.get("signatures", {})),
        "checks": "; ".join(f"{name}: {outcome}" for name, outcome in check.get("checks", {}).items()),
        "size_bytes": check.get("size_bytes"),
        **_properties_of(run),
    }


def _is_in(place: str, folder: str) -> bool:
    place, folder = file_io.absolute_path(place), file_io.absolute_path(folder)
    return place == folder or place.startswith(f"{folder}/")
