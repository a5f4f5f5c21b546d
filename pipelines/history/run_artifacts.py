"""Finds the artifacts of a pipeline run in ML Metadata, and the files of a run's examples."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ml_metadata.proto.metadata_store_pb2 import Artifact, Execution

from ...executors.examples_format import TF_EXAMPLE
from ...executors.runtime.files import file_io
from .lineage import lineage_of_run
from .metadata_store import OUTPUTS, MetadataReader, opened_store
from .run import Run

_SPLIT = "Split-"
_EXAMPLES = "Examples"


def artifacts_of(run: Run) -> dict[str, list[Artifact]]:
    """Returns a pipeline run's output artifacts (new or cached) by type, newest last.

    Raises:
      InputError: When the store cannot be read.
    """
    with opened_store(run.metadata) as store:
        return outputs_of(store, store.executions_in("pipeline_run", run.pipeline_run))


def outputs_of(store: MetadataReader, executions: Iterable[Execution]) -> dict[str, list[Artifact]]:
    """Returns the output artifacts (new or cached) of executions by type, newest last."""
    events = store.events(executions=(execution.id for execution in executions), kinds=OUTPUTS)
    outputs: dict[str, list[Artifact]] = {}
    for artifact in store.artifacts(event.artifact_id for event in events):
        outputs.setdefault(artifact.type, []).append(artifact)
    return outputs


def has_splits(uri: str) -> bool:
    """Whether an artifact has splits, as those of StatisticsGen do; Transform's of the same type do not."""
    return file_io.isdir(uri) and any(name.startswith(_SPLIT) for name in file_io.listdir(uri))


def raw_patterns(run: Run, split: str) -> list[str]:
    """Returns patterns of a run's examples before Transform; those of its record if there is no Transform.

    Args:
      run: The run.
      split: "train" or "eval".

    Raises:
      InputError: When the run's store cannot be read.
    """
    arguments = run.record.arguments
    patterns = (arguments.get("train_files") if split == "train" else arguments.get("eval_files")) or []
    if run.execution is None or not arguments.get("transform_graph_path"):
        return patterns
    below = dict.fromkeys(os.path.join(*pattern.split("/")[-2:]) for pattern in patterns)  # Split-eval/*
    return [os.path.join(uri, name) for uri in _raw_examples(run) for name in below]


def example_files(run: Run, split: str) -> list[str]:
    """Returns the existing files of `raw_patterns`.

    Raises:
      InputError: When the run's store cannot be read.
    """
    found = (path for pattern in raw_patterns(run, split) for path in file_io.glob(pattern))
    return sorted(path for path in found if not file_io.isdir(path))


def payload_of(run: Run) -> str:
    """Returns the format of a run's examples, such as "FORMAT_TF_EXAMPLE"."""
    return run.record.arguments.get("examples_format", {}).get("payload") or TF_EXAMPLE


def _raw_examples(run: Run) -> list[str]:
    """Returns the URIs of the Examples that are not computed from other Examples, upstream of a run's model."""
    graph = lineage_of_run(run)
    return [
        node.uri
        for node in graph.nodes
        if node.type == _EXAMPLES
        and not any(
            source.type == _EXAMPLES
            for _, step in graph.predecessors(node.id)
            for _, source in graph.predecessors(step.id)
        )
    ]
