"""TF_CONFIG is read by TensorFlow's rules, and tasks read each other's status from records."""

from __future__ import annotations

import json
import os
import pathlib
import socket
from typing import Any

import pytest

from generic_trainer import InputError, TrainingProcessError
from generic_trainer.executors.distributed.tf_config import ClusterTask, parse, task_from_environment
from generic_trainer.executors.engines import cluster_records
from generic_trainer.executors.monitoring import run_record
from generic_trainer.executors.monitoring.run_record import FAILED, RUNNING, SUCCEEDED
from generic_trainer.executors.training.local_cluster import parse_counts

JOBS = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


INDEXES = (-1, "-1", "+1", "1_0", " 1", "", "one", "\u0661", 1.0, True, None, [0], 2**70)
ADDRESSES = (
    *(
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:-1",
        "a:+1",
        "a:1_0",
        "a: 1",
        "a:1 ",
        " a:1",
        "a b:1",
        "a:http",
        "a:\u0661",
    ),
    *("grpc://a:1", "a:1:1", "a,b:1", "::1:2222", "[::1]", "[::g]:1", "[a]:1", "999.1.1.1:1", "1.2.3:1", "\u00e4:1"),
    *(1, None, ["a:1"]),
)


def config(task_type: str, index: Any = 0, **cluster: Any) -> str:
    return json.dumps({"cluster": cluster or JOBS, "task": {"type": task_type, "index": index}})


@pytest.mark.parametrize(
    ("text", "is_chief", "worker_index", "num_workers"),
    [
        (config("chief"), True, 0, 3),
        (config("worker", 0), False, 1, 3),
        (config("worker", "1"), False, 2, 3),  # some platforms write numbers as strings
        (config("ps"), False, 0, 3),
        (config("evaluator"), False, 0, 3),  # not part of the training cluster
        (config("worker", 0, worker=["a:1", "b:1"]), True, 0, 2),  # TFX's rule finds no chief here
        (config("worker", 1, worker=["a:1", "b:1"]), False, 1, 2),
        (config("master", 0, master=["a:1"], worker=["b:1"]), True, 0, 2),
        (config("worker", 1, worker={"1": "[::1]:1", "0": "[fe80::1%eth0]:1"}, ps=[]), False, 1, 2),
        (config("chief", 0, chief=["127.0.0.1:65535"], worker=["my_job-worker-0.my-job.ns.svc.:1"]), True, 0, 2),
        (config("chief", 0, chief=["482910348291:1"]), True, 0, 1),  # a container's name
    ],
)
def test_chief_and_indexes_equal_those_of_tensorflow(
    text: str, is_chief: bool, worker_index: int, num_workers: int
) -> None:
    task = parse(text)
    assert task is not None
    assert (task.is_chief, task.worker_index, task.num_workers) == (is_chief, worker_index, num_workers)
    assert parse(task.to_tf_config()) == task


def test_training_tasks_follow_tensorflows_rule() -> None:
    from tensorflow.python.distribute import multi_worker_util

    for cluster in (JOBS, {"worker": ["a:1", "b:1"]}, {"chief": ["a:1"]}, {"worker": ["a:1"], "ps": ["b:1"]}):
        for job in cluster:
            for index in range(len(cluster[job])):
                task = parse(config(job, index, **cluster))
                assert task is not None
                assert task.is_chief == multi_worker_util.is_chief(cluster, job, index)
                assert not task.is_chief or task.chief_address == cluster[job][index]


def test_without_a_cluster_there_is_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "{}", '{"cluster": {}, "task": {"type": "worker", "index": 0}}', '{"environment": "cloud"}'):
        monkeypatch.setenv("TF_CONFIG", text)
        assert task_from_environment() is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{'cluster'", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"cluster": {"worker": ["a:1"], "worker": ["b:1"]}}', "the key 'worker' occurs twice"),
        ('{"cluster": ["a:1"]}', "has a cluster that is not an object of lists: ['a:1']"),
        ('{"cluster": []}', "has a cluster that is not an object of lists: []"),
        ('{"cluster": false}', "has a cluster that is not an object of lists: False"),
        ('{"cluster": {"chief": ["a:1"]}}', "needs a task with type and index, not None"),
        ('{"cluster": {"chief": ["a:1"]}, "task": {"type": 1}}', "needs a task with type and index, not {'type': 1}"),
        (config("chief", chief="a:1"), "needs a list of addresses for 'chief', not 'a:1'"),
        (config("chief", chief=None), "needs a list of addresses for 'chief', not None"),
        (config("worker", worker={"x": "a:1"}), "has the task index 'x'"),
        (config("worker", worker={"0": "a:1", "2": "b:1"}), "needs the indexes 0 to 1 for 'worker', not ['0', '2']"),
        (config("worker", worker={"0": "a:1", "00": "b:1"}), "needs the indexes 0 to 1 for 'worker', not ['0', '00']"),
        (config("worker", 2), "has the task worker 2, but its cluster has only 2 of them"),
        *(
            (config("worker", index), f"has the task index {index!r}, which is not an integer from 0")
            for index in INDEXES
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker"}}',
            "has no task index, but its cluster has 2",
        ),
        (config("worker", 0, chief=["a:1"]), "has the task type 'worker', which is not in its cluster of chief"),
        (
            config("worker", 0, chief=["a:1"], worker=[]),
            "has the task type 'worker', which is not in its cluster of chief",
        ),
        (config("chef", 0, chef=["a:1"]), "has the unknown role 'chef'"),
        (config("chef", 0), "has the task type 'chef', which is not in its cluster"),
        (config("chief", 0, chief=["a:1", "b:1"]), "has 2 chiefs, a:1 and b:1; a cluster has only one"),
        (config("chief", 0, chief=["a:1"], master=["b:1"]), "has 2 chiefs, a:1 and b:1; a cluster has only one"),
        (config("evaluator", 0, chief=["a:1"], evaluator=["b:1", "c:1"]), "has 2 evaluators, b:1 and c:1"),
        (config("evaluator", 1), "has the task evaluator 1, but its cluster has only 1 of them"),
        (config("ps", 0, ps=["a:1"], evaluator=["b:1"]), "has no chief and no worker, only ps, evaluator"),
        (config("worker", 0, worker=[]), "has no chief and no worker, only empty lists"),
        (config("worker", 0, worker=["a:1", "a:1"]), "has the address 'a:1' twice, for worker 0 and worker 1"),
        (config("chief", 0, chief=["A:01"], ps=["a:1"]), "has the address 'a:1' twice, for chief 0 and ps 0"),
        *((config("chief", 0, chief=[address]), f"has the address {address!r} for 'chief'") for address in ADDRESSES),
    ],
)
def test_a_malformed_value_is_reported(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert what in str(caught.value)
    assert str(caught.value).startswith("TF_CONFIG=")


def test_a_port_in_use_is_found_before_tensorflow_shares_it() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as TensorFlow's servers do
        other.bind(("localhost", 0))
        other.listen()
        address = f"localhost:{other.getsockname()[1]}"
        task = ClusterTask("worker", 0, {"chief": ("localhost:1",), "worker": (address,)})
        with pytest.raises(InputError, match=f"worker 0 cannot listen on {address}: Address already in use"):
            task.require_free_port()
    task.require_free_port()
    ClusterTask("evaluator", 0, {"chief": (address,)}).require_free_port()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("chief=1,workers=2", "'workers' is not one of chief, worker, ps, evaluator, master. Did you mean 'worker'?"),
        ("chief", "give the number of chief tasks"),
        ("worker=1,worker=2", "set each role once"),
        (f"worker={2**70}", "give the number of worker tasks, an integer from 0 to 1,000,000"),
        ("chief=2", "there can be only one chief"),
        ("ps=1,evaluator=1", "the cluster needs a chief or a worker"),
        ("chief=0", "the cluster needs a chief or a worker"),
    ],
)
def test_invalid_clusters(text: str, what: str) -> None:
    with pytest.raises(InputError, match="--cluster") as caught:
        parse_counts(text)
    assert what in str(caught.value)


def test_counts_by_role() -> None:
    assert parse_counts("chief=1, worker=2,ps=0") == {"chief": 1, "worker": 2}
    assert parse_counts("worker=2,ps=1") == {"worker": 2, "ps": 1}


# Records: how tasks read each other's status


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
