"""What a model came from and who has used it: a graph of artifacts and executions.

    lineage = lineage_of_run(find_run("out/model"))
    [node.uri for node in lineage.sources("Examples")]

ML Metadata tells it for pipelines, `run.json` for `train`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .history import Run

ARTIFACT, EXECUTION = "artifact", "execution"


@dataclasses.dataclass(frozen=True)
class Node:
    """An artifact or an execution.

    Attributes:
      id: Unique in the graph: "artifact/14", "execution/7".
      kind: "artifact" or "execution".
      type: The artifact's type, such as "Model"; the execution's node, such as "Trainer" or "Evaluator".
      uri: Where an artifact lies; "" of an execution.
      time: When it was made or began, as ISO 8601, UTC.
      state: Of an execution "succeeded", "failed", "running" or "cached"; "" of an artifact.
      properties: What ML Metadata knows of it besides: metrics, fingerprints, spans, arguments. Secrets are masked.
    """

    id: str
    kind: str
    type: str
    uri: str = ""
    time: str = ""
    state: str = ""
    properties: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Edge:
    """What went into an execution, or came out of it.

    Attributes:
      source: The id of an artifact that was read, or of the execution that wrote one.
      target: The id of the execution, or of the artifact that was written.
      role: Under which key: "examples", "model", "base_model", "baseline_model".
    """

    source: str
    target: str
    role: str


@dataclasses.dataclass(frozen=True)
class Lineage:
    """A graph around one artifact.

    Attributes:
      subject: The id of the artifact's node (of a run without a model: of the training's).
      nodes: Artifacts and executions, those that were first in front.
      edges: From source to target in the direction of time.
    """

    subject: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the graph as JSON values."""
        return dataclasses.asdict(self)


def lineage_of(store: Any, artifact: int) -> Lineage:
    """Returns the graph around an artifact in ML Metadata.

    Upstream all that it was made of, where models end a path: what they were made of is theirs to tell. Downstream the
    executions that used it or what they made of it, and their outputs.

    Args:
      store: An `ml_metadata.MetadataStore`.
      artifact: The artifact's id.

    Raises:
      InputError: When the store has no such artifact.
    """
    raise NotImplementedError


def lineage_of_run(run: Run) -> Lineage:
    """Returns the graph around a run's model: from ML Metadata, or from `run.json` where there is no pipeline.

    Raises:
      InputError: When the run's store cannot be read.
    """
    raise NotImplementedError
