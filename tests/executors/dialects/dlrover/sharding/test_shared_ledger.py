"""One ledger for several workers: TensorFlow's own servers, all in this process, carry what they say to each other."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import Shard, ShardError, ShardLedger
from generic_trainer.executors.dialects.dlrover.sharding.shared_ledger import ChiefPart, WorkerPart, part_of
from generic_trainer.executors.distributed.tf_config import ClusterTask
from generic_trainer.executors.errors import InputError, ProcessDiedError


@dataclasses.dataclass
class Cluster:
    """Servers of a chief, two workers and a parameter server."""

    jobs: dict[str, tuple[str, ...]]
    targets: dict[str, str]

    def part(self, role: str, index: int = 0) -> Any:
        part = part_of(ClusterTask(role, index, self.jobs))
        assert part is not None
        part.begin(self.targets[f"{role} {index}"])
        return part


@pytest.fixture
def cluster() -> Cluster:
    with contextlib.ExitStack() as held:
        counts = {"chief": 1, "worker": 2, "ps": 1}
        jobs = {role: tuple(_address(held) for _ in range(count)) for role, count in counts.items()}
    servers = {
        f"{role} {index}": tf.distribute.Server(tf.train.ClusterSpec(jobs), role, index)
        for role, count in counts.items()
        for index in range(count)
    }
    return Cluster(jobs, {name: server.target for name, server in servers.items()})


def _address(held: contextlib.ExitStack) -> str:
    listener = held.enter_context(socket.socket())
    listener.bind(("localhost", 0))
    return f"localhost:{listener.getsockname()[1]}"


def beside(function: Callable[[], Any]) -> Callable[[], Any]:
    """Calls a function in a thread; what is returned waits for its result, or raises what it raised."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((function(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(60)
        assert found, "it did not come to its end"
        value, error = found[0]
        if error is not None:
            raise error
        return value

    return result


def test_every_record_is_handed_out_once_and_what_is_trained_is_known_at_rest(cluster: Cluster) -> None:
    chief = cluster.part("chief")
    waiting = beside(lambda: cluster.part("worker"))
    own = chief.join(ShardLedger(10, 4, 1, "rows"))
    worker = waiting()
    theirs = worker.join(ShardLedger(10, 4, 1, "rows"))

    assert (own.take(), theirs.take(), own.take(), theirs.take()) == (
        Shard(1, 0, 4),
        Shard(1, 4, 8),
        Shard(1, 8, 10),
        None,
    )
    own.trained(3)
    theirs.trained(2)
    assert theirs.taken() == [Shard(1, 6, 8)]
    is_over = threading.Event()
    steps: list[bool] = []

    def step() -> None:
        while not is_over.wait(0.01):
            steps.append(worker.can_step())

    stepping = beside(step)
    with chief.workers_paused():
        before = len(steps)
        left = ShardLedger.from_json(own.to_json())
        assert left.done == 5
        assert [left.take(), left.take(), left.take(), left.take()] == [
            Shard(1, 3, 4),
            Shard(1, 6, 8),
            Shard(1, 8, 10),
            None,
        ]
        assert not is_over.wait(0.2)
        assert len(steps) == before
    while len(steps) == before:
        assert not is_over.wait(0.01)
    is_over.set()
    stepping()
    assert all(steps)

    own.trained(3)
    ending = beside(chief.end)
    theirs.trained(2)
    worker.end()
    ending()
    assert own.is_finished


def test_a_chief_that_stops_early_stops_the_others_also_those_who_come_late(cluster: Cluster) -> None:
    chief = cluster.part("chief")
    waiting = beside(lambda: cluster.part("worker"))
    own = chief.join(ShardLedger(100, 4, None, "rows"))
    worker = waiting()
    theirs = worker.join(ShardLedger(100, 4, None, "rows"))
    theirs.take()
    own.take()
    ending = beside(chief.end)

    while worker.can_step():
        pass
    worker.end()
    ending()
    late = cluster.part("worker", 1)
    late.join(ShardLedger(100, 4, None, "rows"))
    assert not late.can_step()
    # What they had and did not train is to do.
    left = ShardLedger.from_json(own.to_json())
    assert {left.take(), left.take()} == {Shard(1, 0, 4), Shard(1, 4, 8)}


def test_a_worker_that_is_started_again_ends_the_run(cluster: Cluster) -> None:
    chief = cluster.part("chief")
    waiting = beside(lambda: cluster.part("worker"))
    chief.join(ShardLedger(100, 4, 1, "rows"))
    first = waiting()
    first.join(ShardLedger(100, 4, 1, "rows"))
    first._mail.close()  # as when its process dies
    assert "gone" in first._answers.get()  # it no longer receives the next message to this task
    again = cluster.part("worker")
    beside(lambda: again.join(ShardLedger(100, 4, 1, "rows")))

    with pytest.raises(ProcessDiedError, match="worker 0 was restarted during the training"), chief.workers_paused():
        pass
    with pytest.raises(ProcessDiedError, match="Restart all tasks from the last checkpoint"):
        chief.can_step()


def test_what_a_worker_cannot_read_is_given_back_and_the_third_time_is_the_last(cluster: Cluster) -> None:
    chief = cluster.part("chief")
    waiting = beside(lambda: cluster.part("worker"))
    own = chief.join(ShardLedger(8, 4, 1, "rows"))
    worker = waiting()
    theirs = worker.join(ShardLedger(8, 4, 1, "rows"))

    for _ in range(2):
        shard = theirs.take()
        assert shard == Shard(1, 0, 4)
        theirs.failed(shard, ValueError("a bad sector"))
    shard = theirs.take()
    with pytest.raises(ShardError, match="failed 3 times"):
        theirs.failed(shard, ValueError("a bad sector"))
    theirs.put_back([theirs.take()])
    assert theirs.taken() == []
    assert own.take() == Shard(1, 0, 4)


def test_workers_that_see_other_data(cluster: Cluster) -> None:
    chief = cluster.part("chief")
    waiting = beside(lambda: cluster.part("worker"))
    chief.join(ShardLedger(8, 4, 1, "rows"))

    with pytest.raises(InputError, match="worker 0 found 7 rows in rows, but the chief 8"):
        waiting().join(ShardLedger(7, 4, 1, "rows"))


def test_who_shares() -> None:
    whole = {"chief": ("a:1",), "worker": ("b:1",), "ps": ("c:1",)}

    assert part_of(None) is None
    assert part_of(ClusterTask("chief", 0, {"chief": ("a:1",), "ps": ("c:1",)})) is None
    assert part_of(ClusterTask("evaluator", 0, whole)) is None
    assert isinstance(part_of(ClusterTask("chief", 0, whole)), ChiefPart)
    assert isinstance(part_of(ClusterTask("worker", 0, whole)), WorkerPart)
    with pytest.raises(
        InputError, match=r"2 workers need a chief and a parameter server to share the data.* \(--ps 1\)"
    ):
        part_of(ClusterTask("worker", 0, {"worker": ("a:1", "b:1")}))
