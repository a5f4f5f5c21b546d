"""TF_CONFIG is read by TensorFlow's rules."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.executors.distributed.tf_config import ClusterTask, parse, task_from_environment

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
