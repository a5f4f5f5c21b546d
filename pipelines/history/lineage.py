"""Lineage of a model: a graph of the artifacts and executions upstream and downstream of it.

    lineage = lineage_of_run(find_run("out/model"))
    [node.uri for node in lineage.nodes if node.type == "Examples"]

It is read from ML Metadata for pipelines, and from `run.json` for runs of `train`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

from ml_metadata.proto.metadata_store_pb2 import Artifact, Event, Execution

from ...executors.monitoring.run_record import RUNNING
from ...executors.runtime.logs.redaction import masked
from .metadata_runs import STATUS, iso_time
from .metadata_store import INPUTS, OUTPUTS, MetadataReader, opened_store, roles_of
from .run import Run
from .search import is_in

ARTIFACT, EXECUTION = "artifact", "execution"
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


def lineage_of_run(run: Run, others: Sequence[Run] = ()) -> Lineage:
    """Returns the lineage graph of a run's model: from ML Metadata, or without a pipeline from `run.json`.

    In ML Metadata, it contains all direct and indirect inputs; a path upstream ends at another model. Downstream it
    contains the executions that directly or indirectly used the model, and their outputs; a path ends at a model
    trained from it.

    Args:
      run: The run.
      others: Further runs of `train`; those with this run's model as base model are added to the graph.

    Raises:
      InputError: When the run's store cannot be read.
    """
    if run.execution is None:
        return _lineage_from_record(run, others)
    with opened_store(run.metadata) as store:
        if run.model_artifact is None:
            return _lineage_from_store(store, EXECUTION, run.execution)
        return _lineage_from_store(store, ARTIFACT, run.model_artifact)


def _id(kind: str, number: int) -> str:
    return f"{kind}/{number}"


def _upstream(store: MetadataReader, artifacts: set[int], executions: set[int]) -> Iterator[Event]:
    """Yields the events on the paths to artifacts and executions, with one batch of queries per generation."""
    known: set[int] = set()
    visited: set[int] = set()
    while artifacts or executions:
        made = store.events(artifacts=artifacts, kinds=OUTPUTS)
        makers = store.executions(event.execution_id for event in made)
        cached = {maker.id for maker in makers if maker.last_known_state == Execution.CACHED}  # took it from its maker
        made = [event for event in made if event.execution_id not in cached]
        executions = (executions | {event.execution_id for event in made}) - visited
        used = store.events(executions=executions, kinds=INPUTS)
        yield from (*made, *used)
        known |= artifacts
        visited |= executions
        inputs = store.artifacts(event.artifact_id for event in used)
        artifacts, executions = {node.id for node in inputs if node.type != "Model"} - known, set()


def _downstream(store: MetadataReader, artifacts: set[int]) -> Iterator[Event]:
    """Yields the events of the executions that directly or indirectly used artifacts, except their other inputs.

    The base and baseline models of these executions are included. What was made from an execution that used an artifact
    only as such a model is part of another model's lineage, so a path ends there.
    """
    known, visited = set(artifacts), set[int]()
    while artifacts:
        used = store.events(artifacts=artifacts, kinds=INPUTS)
        users = {event.execution_id for event in used}
        events = store.events(executions=users - visited)
        made = [event for event in events if event.type in OUTPUTS]
        yield from (*used, *made, *(event for event in events if _OTHER_MODEL_ROLES & set(roles_of(event))))
        visited |= users
        own = {event.execution_id for event in used if set(roles_of(event)) - _OTHER_MODEL_ROLES}
        outputs = store.artifacts(event.artifact_id for event in made if event.execution_id in own)
        artifacts = {output.id for output in outputs if output.type not in _TERMINAL_TYPES} - known
        known |= artifacts


def _lineage_from_store(store: MetadataReader, kind: str, subject: int) -> Lineage:
    """Returns the graph of an artifact, or of an execution without outputs, with nodes in the order of creation."""
    artifacts, executions = ({subject}, set[int]()) if kind == ARTIFACT else (set[int](), {subject})
    events = [*_upstream(store, artifacts, executions), *_downstream(store, artifacts)]
    artifacts |= {event.artifact_id for event in events}
    executions |= {event.execution_id for event in events}
    steps = [_execution(store, execution) for execution in store.executions(executions)]
    nodes = [*map(_artifact, store.artifacts(artifacts)), *steps]
    nodes.sort(key=lambda node: node.time)
    order = {node.id: number for number, node in enumerate(nodes)}
    edges = {edge for event in events for edge in _edges(event)}
    ordered = sorted(edges, key=lambda edge: (order[edge.source], order[edge.target], edge.role))
    return Lineage(_id(kind, subject), tuple(nodes), tuple(ordered))


def _edges(event: Event) -> Iterator[Edge]:
    artifact, execution = _id(ARTIFACT, event.artifact_id), _id(EXECUTION, event.execution_id)
    source, target = (execution, artifact) if event.type in OUTPUTS else (artifact, execution)
    return (Edge(source, target, role) for role in roles_of(event) or [""])


def _execution(store: MetadataReader, execution: Execution) -> Node:
    contexts = store.contexts(execution.id)
    pipeline, node = contexts.get("pipeline", ""), contexts.get("node", "")
    return Node(
        _id(EXECUTION, execution.id),
        EXECUTION,
        node.removeprefix(f"{pipeline}.") or str(execution.type).rpartition(".")[2],
        time=iso_time(execution.create_time_since_epoch),
        state=STATUS.get(execution.last_known_state, RUNNING),
        properties={"pipeline": pipeline, "pipeline_run": contexts.get("pipeline_run", ""), **_values(execution)},
    )


def _artifact(artifact: Artifact) -> Node:
    time = iso_time(artifact.create_time_since_epoch)
    return Node(_id(ARTIFACT, artifact.id), ARTIFACT, artifact.type, artifact.uri, time, properties=_values(artifact))


def _values(node: Artifact | Execution) -> dict[str, object]:
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
    data = run.record.part("data", dict[str, dict[str, object]])
    nodes, edges = [], []
    for role, kind, argument in _INPUTS:
        if place := run.record.arguments.get(argument):
            shown = ", ".join(place) if isinstance(place, list) else str(place)
            known = data.get(argument, {})
            nodes.append(Node(f"{ARTIFACT}/{role}/{run.id}", ARTIFACT, kind, shown, properties=known))
            edges.append(Edge(nodes[-1].id, training.id, role))
    nodes.append(training)
    if not run.model:
        return Lineage(training.id, tuple(nodes), tuple(edges))
    model = Node(f"{ARTIFACT}/model/{run.id}", ARTIFACT, "Model", run.model, run.started, "", _model_properties(run))
    nodes.append(model)
    edges.append(Edge(training.id, model.id, "model"))
    for other in others:
        base = other.record.arguments.get("base_model") if other.execution is None else None
        if base and other.id != run.id and is_in(base, run.model) and other.started > run.started:
            later = Node(f"{EXECUTION}/{other.id}", EXECUTION, "train", "", other.started, other.status, {})
            nodes.append(later)
            edges.append(Edge(model.id, later.id, "base_model"))
            if other.model:
                nodes.append(Node(f"{ARTIFACT}/model/{other.id}", ARTIFACT, "Model", other.model, other.started))
                edges.append(Edge(later.id, f"{ARTIFACT}/model/{other.id}", "model"))
    return Lineage(model.id, tuple(nodes), tuple(edges))


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
