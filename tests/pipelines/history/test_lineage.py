"""The origin and uses of a model, from a real ML Metadata store and from run records."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.pipelines.history.lineage import Lineage, Node, lineage_of_run
from generic_trainer.pipelines.history.runs import find_run, find_runs

Command = Callable[..., subprocess.CompletedProcess[str]]


def of(metadata: Any, pipeline_run: str) -> Lineage:
    return lineage_of_run(find_run(pipeline_run, [str(metadata.root)]))


def executions(lineage: Lineage) -> list[tuple[str, str]]:
    return [(one.properties["pipeline_run"], one.type) for one in lineage.nodes if one.kind == "execution"]


def test_the_first_models_graph(metadata: Any) -> None:
    lineage = of(metadata, "run-1")
    subject = lineage.node(lineage.subject)
    assert (subject.type, subject.uri) == ("Model", f"{metadata.root}/Trainer/model/2")
    assert subject.properties["eval/auc"] == 0.93
    [(role, trainer)] = lineage.predecessors(subject.id)
    assert (role, trainer.type, trainer.state) == ("model", "Trainer", "succeeded")
    assert trainer.properties["custom_config"] == {"api_key": "***"}
    [(role, examples)] = lineage.predecessors(trainer.id)
    assert (role, examples.type, examples.properties) == ("examples", "Examples", {"span": 7})
    assert [(role, maker.type, maker.state) for role, maker in lineage.predecessors(examples.id)] == [
        ("examples", "ExampleGen", "succeeded")  # executions that took them from the cache did not produce them
    ]
    # Evaluated and pushed; from the cache, and not blessed; a base model and a baseline. The Pusher of the model that
    # was compared with this one is not part of its lineage.
    users = {(user.properties["pipeline_run"], user.type, role) for role, user in lineage.successors(subject.id)}
    assert users == {
        *[("run-1", "Evaluator", "model"), ("run-1", "Pusher", "model")],
        *[("run-2", "Evaluator", "model"), ("run-2", "Pusher", "model")],
        *[("run-4", "Trainer", "base_model"), ("run-4", "Evaluator", "baseline_model")],
    }
    assert ("run-4", "Pusher") not in executions(lineage)
    pushed = [node.properties.get("pushed_destination") for node in lineage.nodes if node.type == "PushedModel"]
    assert pushed == [f"{metadata.root}/serving/run-1", None]
    assert [node.type for node in lineage.nodes].count("Model") == 2  # the other one is trained from it


def test_a_base_model_ends_the_path_upstream(metadata: Any) -> None:
    lineage = of(metadata, "run-4")
    [base] = [node for node in lineage.nodes if node.type == "Model" and node.id != lineage.subject]
    assert base.uri == f"{metadata.root}/Trainer/model/2"
    assert lineage.predecessors(base.id) == []
    assert {role for role, _ in lineage.successors(base.id)} == {"base_model", "baseline_model"}
    assert executions(lineage) == [
        *[("run-1", "ExampleGen"), ("run-4", "Trainer"), ("run-4", "Evaluator"), ("run-4", "Pusher")]
    ]


def test_nodes_and_edges_are_consistent_and_ordered(metadata: Any) -> None:
    lineage = of(metadata, "run-1")
    ids = [node.id for node in lineage.nodes]
    assert len(set(ids)) == len(ids)
    assert {identifier for edge in lineage.edges for identifier in (edge.source, edge.target)} <= set(ids)
    assert [node.time for node in lineage.nodes] == sorted(node.time for node in lineage.nodes)
    assert json.loads(json.dumps(lineage.to_json()))["subject"] == lineage.subject


def test_a_run_without_a_model_has_its_inputs(metadata: Any) -> None:
    lineage = of(metadata, "run-3")
    subject = lineage.node(lineage.subject)
    assert (subject.type, subject.state) == ("Trainer", "failed")
    assert [(role, node.type) for role, node in lineage.predecessors(subject.id)] == [("examples", "Examples")]
    assert executions(lineage) == [("run-1", "ExampleGen"), ("run-3", "Trainer")]


def test_each_output_of_a_step_has_its_maker(new_metadata: Any) -> None:
    made = new_metadata.step("run-1", "Prepare", {}, {"examples": ("Examples", {}), "notes": ("Schema", {})})
    schema = new_metadata.step("run-1", "Describe", {"notes": made["notes"]}, {"schema": ("Schema", {})})
    inputs = {"examples": made["examples"], **schema}
    new_metadata.step("run-1", "Trainer", inputs, {"model": ("Model", {})})
    lineage = of(new_metadata, "run-1")
    [prepare] = [node for node in lineage.nodes if node.type == "Prepare"]
    assert sorted(role for role, _ in lineage.successors(prepare.id)) == ["examples", "notes"]


@pytest.fixture
def trained(tmp_path: pathlib.Path) -> str:
    """The records of a run of train, and of one that started from its model."""
    for name, base in (("first", None), ("second", f"{tmp_path}/first/model/Format-Serving")):
        folder = tmp_path / name
        (folder / "model" / "Format-Serving").mkdir(parents=True)
        run = RunRecord()
        with run.written_to(str(folder / "model_run")):
            run.arguments = {"train_files": ["data/train*"], "base_model": base}
            run.parts["data"] = {"train_files": {"files": 3, "bytes": 1200}}
            run.metrics = {"eval": {"auc": 0.9}}
            run.check = {"signatures": {"serving_default": {}}, "checks": {"loads": "passed"}, "size_bytes": 5}
    return str(tmp_path)


def test_runs_of_train_have_a_lineage_too(trained: str) -> None:
    runs = find_runs([trained])
    lineage = lineage_of_run(find_run(f"{trained}/first/model"), runs)
    subject = lineage.node(lineage.subject)
    assert (subject.uri, subject.properties["eval/auc"], subject.properties["checks"]) == (
        *(f"{trained}/first/model", 0.9, "loads: passed"),
    )
    [(_, training)] = lineage.predecessors(subject.id)
    assert [(role, node.uri, node.properties) for role, node in lineage.predecessors(training.id)] == [
        ("examples", "data/train*", {"files": 3, "bytes": 1200})
    ]
    [(role, later)] = lineage.successors(subject.id)
    made = [node.uri for _, node in lineage.successors(later.id)]
    assert (role, made) == ("base_model", [f"{trained}/second/model"])
    base = lineage_of_run(find_run(f"{trained}/second"), runs)
    [training] = [node for node in base.nodes if node.kind == "execution"]
    assert ("base_model", "Model") in [(role, node.type) for role, node in base.predecessors(training.id)]


def test_the_command_prints_it_as_a_tree_and_as_json(command: Command, metadata: Any, trained: str) -> None:
    done = command("lineage", f"{metadata.root}/serving/run-1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"Model:        {metadata.root}/Trainer/model/2"
    made_of, used_by = lines.index("Made from:"), lines.index("Used by:")
    tree = [line.partition(" (")[0] for line in lines[made_of + 1 : used_by - 1]]
    assert tree == ["  Trainer", f"    examples: {metadata.root}/ExampleGen/examples/1", "      ExampleGen"]
    assert "(span 7)" in lines[made_of + 2]
    told = "\n".join(lines[used_by:])
    for text in ("blessing: blessed\n", "blessing: not blessed", f"pushed_model: {metadata.root}/serving/run-1"):
        assert text in told
    assert f"blessing: blessed, of {metadata.root}/Trainer/model/" in told
    graph = json.loads(command("lineage", "1111", "--in", metadata.root, "--json").stdout)
    assert {Node(**node).id for node in graph["nodes"]} == {node.id for node in of(metadata, "run-1").nodes}
    compared = command("lineage", "run-4", "--in", metadata.root)
    assert f"    compared with: {metadata.root}/Trainer/model/2\n" in compared.stdout
    # Without --in it finds the runs around it; some of them started from this model.
    done = command("lineage", f"{trained}/first/model")
    assert f"model: {trained}/second/model" in done.stdout[done.stdout.index("Used by:") :]
