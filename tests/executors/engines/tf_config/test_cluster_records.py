"""The tasks of a cluster read each other's status from records."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from generic_trainer import TrainingProcessError
from generic_trainer.executors.distributed.tf_config import ClusterTask
from generic_trainer.executors.engines.tf_config import cluster_records
from generic_trainer.executors.monitoring import run_record
from generic_trainer.executors.monitoring.run_record import FAILED, RUNNING, SUCCEEDED

JOBS = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def write(folder: pathlib.Path, name: str, **fields: Any) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(fields))


def task(kind: str, index: int = 0) -> ClusterTask:
    return ClusterTask(kind, index, {job: tuple(addresses) for job, addresses in JOBS.items()})


def test_a_parameter_server_stays_until_chief_and_workers_have_ended(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "run.json", status=SUCCEEDED, started="before")  # an earlier run's
    over = cluster_records.StopCondition(task("ps"), str(tmp_path))
    assert not over()
    write(tmp_path, "run.json", status=RUNNING)
    write(tmp_path, "tasks/worker-0.json", status=RUNNING)
    write(tmp_path, "tasks/worker-1.json", status=SUCCEEDED)
    assert not over()
    write(tmp_path, "run.json", status=SUCCEEDED)
    assert not over()
    write(tmp_path, "tasks/worker-0.json", status=SUCCEEDED)
    assert over()


def test_workers_do_not_outlive_their_parameter_servers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = ClusterTask("worker", 0, {"chief": ("a:1",), "worker": ("b:1",)})
    served, mirrored = [cluster_records.StopCondition(worker, str(tmp_path)) for worker in (task("worker"), alone)]
    write(tmp_path, "run.json", status=SUCCEEDED)
    assert not served()
    monkeypatch.setattr(cluster_records, "_WORKERS_TIMEOUT", 0.0)
    assert served()
    assert not mirrored()


def test_every_task_ends_with_the_reason_when_the_chief_fails(tmp_path: pathlib.Path) -> None:
    overs = [cluster_records.StopCondition(task(kind), str(tmp_path)) for kind in ("worker", "ps", "evaluator")]
    assert not any(over() for over in overs)
    for over in overs:
        over.require_success()
    write(tmp_path, "run.json", status=FAILED, error={"type": "ValueError", "message": "no such column"})
    assert all(over() for over in overs)
    write(tmp_path, "run.json", status=RUNNING)  # the platform has started the chief again
    for over in overs:
        with pytest.raises(TrainingProcessError, match="The chief at a:1 failed: ValueError: no such column"):
            over.require_success()


def test_the_chief_waits_for_an_evaluator_with_heartbeats(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_records, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(cluster_records, "EVALUATOR_TIMEOUT", 0.05)
    with pytest.raises(TrainingProcessError, match=r"The evaluator wrote nothing for 0\.05 s"):
        cluster_records.await_evaluator(str(tmp_path))
    write(tmp_path, "tasks/evaluator-0.json", status=SUCCEEDED, metrics={"eval": {"auc": 0.9}})
    assert cluster_records.await_evaluator(str(tmp_path)) == {"eval": {"auc": 0.9}}
    write(tmp_path, "tasks/evaluator-0.json", status=FAILED, error={"type": "KeyError", "message": "'tips'"})
    with pytest.raises(TrainingProcessError, match="The evaluator failed: KeyError: 'tips'"):
        cluster_records.await_evaluator(str(tmp_path))


def test_task_records_of_an_earlier_run_are_ignored(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "tasks/evaluator-0.json", status=SUCCEEDED)
    write(tmp_path, "tasks/worker-0.json", status=RUNNING)
    cluster_records.delete_finished_tasks(str(tmp_path))
    assert os.listdir(tmp_path / "tasks") == ["worker-0.json"]
    assert not cluster_records.has_evaluator(task("chief"), str(tmp_path))
    write(tmp_path, "tasks/evaluator-0.json", status=RUNNING)
    assert cluster_records.has_evaluator(task("chief"), str(tmp_path))


def test_the_record_of_each_task_has_its_own_name() -> None:
    assert cluster_records.record_name(None) == cluster_records.record_name(task("chief")) == run_record.FILE_NAME
    assert cluster_records.record_name(ClusterTask("worker", 0, {"worker": ("a:1", "b:1")})) == run_record.FILE_NAME
    assert cluster_records.record_name(task("worker", 1)) == os.path.join("tasks", "worker-1.json")
