"""Adds a pipeline's sections to a run report: data, evaluation, verdict and lineage.

run = find_run("pipeline/")
write_report(run.model_run, pipeline=make_pipeline_parts(run))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import logging

from ...executors.evaluation.error_analysis import read_error_analysis
from ...executors.reporting.build import PipelineParts
from ...executors.reporting.document import GOOD, WARN, Cell, Graph, Node, Section, Table, Value
from ...executors.reporting.values import code
from ...executors.reporting.writing import write_report
from ...executors.runtime.files import file_io
from ..history import lineage
from ..history.evaluation_results import Evaluation, read_evaluation
from ..history.lineage import Lineage, lineage_of_run
from ..history.metadata_runs import runs_in_store
from ..history.metadata_url import display_url
from ..history.run import CACHED, Run, Selection
from ..history.run_artifacts import artifacts_of, has_splits
from .evaluation import evaluation_sections, prediction_sections
from .statistics import data_sections
from .trials import trials_section

if TYPE_CHECKING:
    from ml_metadata.proto import metadata_store_pb2


def write_newest_report(metadata: str, pipeline: str) -> str | None:
    """Writes the report of a pipeline's newest run into its ModelRun folder; returns its path, or None.

    Errors are logged as warnings: the model exists, and a report without the pipeline was written after training.
    """
    try:
        for run in runs_in_store(metadata, Selection(limit=1), pipeline=pipeline):
            if run.model_run is not None and run.record.id:
                return write_report(run.model_run, run.record, make_pipeline_parts(run))
    except Exception as error:
        logging.warning("The report has no sections on the pipeline: %s: %s", type(error).__name__, error)
    return None


def make_pipeline_parts(run: Run) -> PipelineParts:
    """Returns a run's report parts from ML Metadata and the pipeline's artifacts; without a pipeline only lineage.

    Raises:
      InputError: When the store cannot be read.
    """
    graph = _lineage_section(lineage_of_run(run))
    if run.execution is None:
        return PipelineParts(lineage=[graph])
    artifacts = artifacts_of(run)
    has_results = bool(run.evaluation) and file_io.isdir(str(run.evaluation))
    evaluation = read_evaluation(str(run.evaluation)) if has_results else Evaluation({})
    statistics = [one.uri for one in artifacts.get("ExampleStatistics", ()) if has_splits(one.uri)]
    anomalies = [one.uri for one in artifacts.get("ExampleAnomalies", ()) if has_splits(one.uri)]
    return PipelineParts(
        facts=list(_facts(run)),
        metrics=evaluation.metrics,
        evaluation=[*evaluation_sections(evaluation, run.blessed), *prediction_sections(evaluation)],
        errors=read_error_analysis(str(run.evaluation)) if has_results else None,
        data=data_sections(statistics[-1] if statistics else None, anomalies[-1] if anomalies else None),
        search=[_search_section(artifact) for artifact in artifacts.get("TunerResults", ())[-1:]],
        lineage=[graph],
    )


def _facts(run: Run) -> Iterator[tuple[str, Value]]:
    if run.pushed_model:
        yield "Pushed model", code(run.pushed_model)
    if run.blessed is not None:
        yield "Verdict", Cell("blessed", tone=GOOD) if run.blessed else Cell("not blessed", tone=WARN)
    if run.status == CACHED:
        yield "Training", "taken from the cache"
    yield "Pipeline", run.pipeline
    yield "Pipeline run", run.pipeline_run
    yield "Metadata", code(display_url(run.metadata))


def _search_section(results: metadata_store_pb2.Artifact) -> Section:
    return trials_section(results.uri, results.custom_properties["objective"].string_value)


def _lineage_section(graph: Lineage) -> Section:
    numbers = {node.id: number for number, node in enumerate(graph.nodes)}
    depths = _depths(graph)
    nodes = [
        Node(node.type, _lines(node), "step" if node.kind == lineage.EXECUTION else "artifact", depths[node.id])
        for node in graph.nodes
    ]
    edges = [(numbers[edge.source], numbers[edge.target]) for edge in graph.edges]
    rows: list[Sequence[Value]] = [
        (
            node.type,
            "step" if node.kind == lineage.EXECUTION else "artifact",
            ", ".join(f"{other.type} ({role})" for role, other in graph.predecessors(node.id)),
            code(node.uri),
            node.time[:19].replace("T", " "),
        )
        for node in graph.nodes
    ]
    return Section(
        "lineage",
        "Lineage",
        (
            Graph("Inputs and uses of the model", nodes, edges),
            Table("As a table", ("type", "kind", "from", "location", "time (UTC)"), rows, folded=True),
        ),
    )


def _lines(node: lineage.Node) -> list[str]:
    """Returns a node's lines of text: the last two parts of an artifact's URI, or a step's state."""
    if node.kind == lineage.EXECUTION:
        return [node.state] if node.state else []
    parts = node.uri.rstrip("/").split("/")
    return ["/".join(parts[-2:])] if node.uri else []


def _depths(graph: Lineage) -> dict[str, int]:
    """Returns the length of the longest path from a node without inputs to each node."""
    depths: dict[str, int] = {node.id: 0 for node in graph.nodes}
    for _ in graph.nodes:  # the longest path has fewer edges than there are nodes
        for edge in graph.edges:
            depths[edge.target] = max(depths[edge.target], depths[edge.source] + 1)
    return depths
