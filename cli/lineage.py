"""`generic-trainer lineage MODEL`: shows the upstream and downstream lineage of a model."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ..executors.runtime.files import file_io
from ..pipelines.history.lineage import EXECUTION, Lineage, Node, lineage_of_run
from ..pipelines.history.runs import Run, find_run, find_runs
from .history_flags import Locations, location_flags
from .tables import format_number, format_time, print_json, print_line, print_pairs

# Properties of an artifact to show after its location.
_SHOWN_PROPERTIES = ("span", "version", "input_fingerprint", "files", "bytes", "modified", "digest")
_BASELINE = "baseline_model"


@click.command()
@click.argument("model")
@location_flags
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the graph, with the fields of Lineage.")
def lineage(model: str, as_json: bool, locations: Locations) -> None:
    """Shows what a MODEL was made from and where it was used.

    MODEL is a model's directory, pushed or not, or a RUN as in `show`. The lineage of pipeline models is read from ML
    Metadata; that of `train` models from the run record and from the records of other runs in the same places.

    \b
    Example:
      generic-trainer lineage pipeline/serving/1795371723

    With --json: subject (a node's id), nodes (id, kind, type, uri, time, state, properties) and edges (source, target,
    role), in order of time.
    """  # noqa: D301 (click's mark of lines to keep)
    run = find_run(model, **locations)
    graph = lineage_of_run(run, _others(run, **locations) if run.execution is None else ())
    if as_json:
        print_json(graph.to_json())
        return
    print_pairs(_model_facts(run))
    click.echo("\nMade from:")
    for line in _upstream(graph):
        print_line(f"  {line}")
    uses = list(_downstream(graph))
    click.echo("\nUsed by:" if uses else "\nUsed by: no recorded run")
    for line in uses:
        print_line(f"  {line}")


def _others(run: Run, places: tuple[str, ...], metadata: str) -> list[Run]:
    """Returns runs of `train` that may have used the run's model as base model: in places, or by default beside it."""
    around = [file_io.parent(file_io.parent(run.model_run))] if run.model_run else []
    return find_runs(places or [*around, "."], metadata=metadata)


def _model_facts(run: Run) -> dict[str, str | None]:
    inside = f", {run.pipeline} {run.pipeline_run}" if run.pipeline else ""
    code = f"{run.module}, fingerprint {run.fingerprint[:12]}" if run.fingerprint else run.module
    checks = run.record.check.get("checks", {})
    return {
        "Model": run.model or f"none: the run is {run.status}",
        "Run": f"{run.id[:8]}, {format_time(run.started)} UTC{inside}",
        "Code": code,
        "Metrics": ", ".join(
            f"{split}/{name} {format_number(value)}"
            for split in ("eval", "train")
            for name, value in run.metrics.get(split, {}).items()
        ),
        "Checks": ", ".join(f"{name} {outcome}" for name, outcome in checks.items()),
    }


def _upstream(graph: Lineage) -> Iterator[str]:
    """Yields the lines of the subject's upstream tree; executions that were already shown are not expanded again."""
    listed: set[str] = set()

    def tree(execution: Node, depth: int) -> Iterator[str]:
        yield f"{'  ' * depth}{execution.type} ({format_time(execution.time)} UTC, {execution.state})"
        for role, artifact in graph.predecessors(execution.id):
            yield f"{'  ' * (depth + 1)}{role}: {artifact.uri}{'' if artifact.id in listed else _properties(artifact)}"
            listed.add(artifact.id)
            for _, maker in graph.predecessors(artifact.id):
                if maker.id in listed:
                    yield f"{'  ' * (depth + 2)}{maker.type}, as above"
                else:
                    listed.add(maker.id)
                    yield from tree(maker, depth + 2)

    subject = graph.node(graph.subject)
    for maker in [subject] if subject.kind == EXECUTION else [maker for _, maker in graph.predecessors(subject.id)]:
        yield from tree(maker, 0)


def _properties(artifact: Node) -> str:
    known = [
        f"{name} {artifact.properties[name]}"
        for name in _SHOWN_PROPERTIES
        if artifact.properties.get(name) not in (None, "")
    ]
    return f" ({', '.join(known)})" if known else ""


def _downstream(graph: Lineage) -> Iterator[str]:
    """Yields the lines of the executions that used the subject, and their outputs."""
    subject = graph.node(graph.subject)
    if subject.kind == EXECUTION:
        return
    uses: dict[str, tuple[Node, list[str]]] = {}
    for role, user in graph.successors(subject.id):
        uses.setdefault(user.id, (user, []))[1].append(role)
    for user, roles in uses.values():
        yield f"{format_time(user.time)} UTC  {user.type}, as its {' and '.join(roles)} ({user.state})"
        for role, other in graph.predecessors(user.id):
            if role == _BASELINE and other.id != subject.id:
                yield f"    compared with: {other.uri}"
        for role, made in graph.successors(user.id):
            yield f"    {role}: {_outcome(made)}{_evaluated_model(made, roles)}"


def _outcome(made: Node) -> str:
    known = made.properties
    if made.type == "ModelBlessing":
        return "blessed" if known.get("blessed") else "not blessed"
    if made.type == "PushedModel":
        return str(known.get("pushed_destination") or made.uri) if known.get("pushed") else "not pushed"
    return made.uri


def _evaluated_model(made: Node, roles: list[str]) -> str:
    """Returns the model's name for a verdict on another model, of which the subject was only the baseline; else ""."""
    if roles == [_BASELINE] and made.type == "ModelBlessing":
        return f", of {made.properties.get('current_model', 'another model')}"
    return ""
