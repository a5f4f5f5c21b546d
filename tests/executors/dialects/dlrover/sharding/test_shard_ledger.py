"""In the surviving weights every record counts exactly once per epoch, whatever fails."""

from __future__ import annotations

import collections
import json
import random
import threading

import pytest

from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import MAX_TRIES, Shard, ShardError, ShardLedger
from generic_trainer.executors.errors import InputError


def taken(ledger: ShardLedger, worker: str = "") -> list[tuple[int, int, int]]:
    """Takes all remaining shards."""
    return [(s.epoch, s.start, s.end) for s in iter(lambda: ledger.take(worker), None)]


def test_epochs_are_cut_into_shards_in_order() -> None:
    ledger = ShardLedger(10, 4, 2)

    assert taken(ledger) == [(1, 0, 4), (1, 4, 8), (1, 8, 10), (2, 0, 4), (2, 4, 8), (2, 8, 10)]
    assert ledger.epoch == 2
    assert (ledger.done, ledger.is_finished) == (0, False)
    ledger.trained(20)
    assert (ledger.done, ledger.is_finished) == (20, True)


def test_an_epoch_begins_while_shards_of_the_previous_one_are_in_progress() -> None:
    ledger = ShardLedger(4, 4, 2)

    assert (ledger.take("a"), ledger.take("b")) == (Shard(1, 0, 4), Shard(2, 0, 4))
    ledger.release("a")
    assert ledger.take("b") == Shard(1, 0, 4)


@pytest.mark.parametrize("epochs", [None, 0, -1])
def test_without_a_number_of_epochs_the_ledger_is_endless(epochs: int | None) -> None:
    ledger = ShardLedger(3, 5, epochs)

    for epoch in range(1, 50):
        assert ledger.take() == Shard(epoch, 0, 3)
        ledger.trained(3)
    assert not ledger.is_finished
    assert ShardLedger.from_json(ledger.to_json()).take() == Shard(50, 0, 3)


def test_trained_records_may_end_in_the_middle_of_a_shard_or_span_several() -> None:
    ledger = ShardLedger(10, 3, 1)
    taken(ledger)

    ledger.trained(1)
    assert ledger.taken() == [Shard(1, 1, 3), Shard(1, 3, 6), Shard(1, 6, 9), Shard(1, 9, 10)]
    ledger.trained(6)
    assert ledger.taken() == [Shard(1, 7, 9), Shard(1, 9, 10)]
    ledger.trained(0)
    assert ledger.done == 7


@pytest.mark.parametrize("count", [4, -1])
def test_trained_records_cannot_exceed_those_taken(count: int) -> None:
    ledger = ShardLedger(10, 3, 1)
    ledger.take("a")
    ledger.take("b")

    with pytest.raises(ValueError, match=f"worker 'a' reports {count} trained records, but has taken 3"):
        ledger.trained(count, "a")
    with pytest.raises(ValueError, match="worker 'c' reports 1 trained records, but has taken 0"):
        ledger.trained(1, "c")
    assert ledger.done == 0


def test_shards_of_a_dead_worker_come_first_in_their_old_order() -> None:
    ledger = ShardLedger(100, 10, 1)
    for worker in "abaa":
        ledger.take(worker)
    ledger.trained(4, "a")

    ledger.release("a")
    ledger.release("nobody")

    assert [ledger.take("b") for _ in range(4)] == [
        Shard(1, 4, 10),
        Shard(1, 20, 30),
        Shard(1, 30, 40),
        Shard(1, 40, 50),
    ]
    assert ledger.taken("a") == []


def test_the_third_failure_of_the_same_rows_is_an_error_and_nothing_is_dropped() -> None:
    ledger = ShardLedger(100, 10, 1, data="train.csv")
    ledger.take()
    cause = ConnectionError("gone")
    for worker in ("a", "b"):
        shard = ledger.take(worker)
        assert shard == Shard(1, 10, 20)
        ledger.failed(shard, cause, worker)
    ledger.take()

    with pytest.raises(ShardError, match=r"rows \[10, 20\) of train.csv failed 3 times") as raised:
        ledger.failed(Shard(1, 10, 20), cause)

    assert (raised.value.shard, raised.value.tries) == (Shard(1, 10, 20), MAX_TRIES)
    assert raised.value.__cause__ is cause
    assert isinstance(raised.value, InputError)
    assert ledger.take() == Shard(1, 10, 20)


def test_rows_read_after_retries_start_fresh_in_the_next_epoch() -> None:
    ledger = ShardLedger(10, 10, 5)
    for _ in range(5):
        for _ in range(MAX_TRIES - 1):
            shard = ledger.take()
            assert shard is not None
            ledger.failed(shard)
        ledger.take()
        ledger.trained(10)
    assert ledger.is_finished


def test_only_whole_shards_in_hand_can_fail_or_be_put_back() -> None:
    ledger = ShardLedger(100, 10, 1)
    first, second, third = (ledger.take() for _ in range(3))
    ledger.trained(1)
    assert first
    assert second
    assert third

    for shards, worker in (([first], ""), ([second], "other"), ([Shard(2, 0, 10)], ""), ([second, second], "")):
        with pytest.raises(ValueError, match="does not have all of the rows"):
            ledger.put_back(shards, worker)
    with pytest.raises(ValueError, match=r"does not have all of the rows \[0, 10\) of epoch 1"):
        ledger.failed(first)
    ledger.put_back([second, third])

    assert [ledger.take() for _ in range(3)] == [second, third, Shard(1, 30, 40)]


def test_a_saved_ledger_resumes_with_the_untrained_shards() -> None:
    ledger = ShardLedger(100, 10, 3, data="train.csv")
    for worker in "abab":
        ledger.take(worker)
    ledger.trained(13, "b")
    ledger.trained(10, "a")

    other = ShardLedger.from_json(ledger.to_json())

    assert [other.take() for _ in range(4)] == [Shard(1, 20, 30), Shard(1, 33, 40), Shard(1, 40, 50), Shard(1, 50, 60)]
    assert (other.done, other.size, other.shard_size, other.epochs, other.data) == (23, 100, 10, 3, "train.csv")
    assert ledger.taken("a") == [Shard(1, 20, 30)]  # saving changes nothing


def test_data_is_compared_by_name_and_size() -> None:
    ledger = ShardLedger.from_json(ShardLedger(100, 10, data="train.csv").to_json())

    assert ledger.matches("train.csv", 100)
    assert not ledger.matches("train.csv", 101)
    assert not ledger.matches("other.csv", 100)


def test_a_resumed_job_may_ask_for_more_epochs() -> None:
    ledger = ShardLedger(10, 10, 1)
    ledger.take()
    ledger.trained(10)

    more = ShardLedger.from_json(ledger.to_json()).with_epochs(3, shard_size=5)

    assert not more.is_finished
    assert taken(more) == [(2, 0, 5), (2, 5, 10), (3, 0, 5), (3, 5, 10)]


def test_a_resumed_job_may_ask_for_fewer_epochs_and_for_more_again() -> None:
    ledger = ShardLedger(10, 5, 3)
    for _ in range(3):
        ledger.take()
    ledger.trained(12)  # two records of the second epoch

    fewer = ledger.with_epochs(1)
    assert fewer.is_finished
    assert fewer.take() is None

    more = ShardLedger.from_json(fewer.to_json()).with_epochs(2)
    assert taken(more) == [(2, 2, 5), (2, 5, 10)]


@pytest.mark.parametrize(
    ("size", "shard_size", "message"),
    [(0, 5, "a.csv: there are 0 records"), (-1, 5, "there are -1 records"), (5, 0, "shard_size is 0")],
)
def test_empty_data_and_empty_shards_are_rejected(size: int, shard_size: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ShardLedger(size, shard_size, 1, data="a.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"done": 6}, "is inconsistent: of 1 epochs of 10 records, 6 are done and 5 left"),
        ({"todo": [[1, 5, 15]], "done": 0}, "is inconsistent"),
        ({"todo": [[2, 5, 10]]}, "is inconsistent"),
        ({"todo": [[1, 5]]}, "cannot be read"),
        ({"todo": None}, "cannot be read"),
        ({"size": "ten"}, "cannot be read"),
        ({"format": 7}, "the format 7; this version reads 1"),
    ],
)
def test_a_damaged_ledger_is_reported(change: dict[str, object], message: str) -> None:
    ledger = ShardLedger(10, 5, 1)
    ledger.take()
    ledger.trained(5)

    with pytest.raises(InputError, match=message):
        ShardLedger.from_json(json.dumps(json.loads(ledger.to_json()) | change))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"format": 1}'])
def test_an_invalid_ledger_is_reported(text: str) -> None:
    with pytest.raises(InputError, match="a saved shard ledger cannot be read"):
        ShardLedger.from_json(text)


class Job:
    """Workers that take, read, train, die and are restored at random, and the records that their weights have seen."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.size, self.epochs = random.randint(1, 60), random.randint(1, 4)
        self.ledger = ShardLedger(self.size, random.randint(1, 20), self.epochs)
        self.workers = [str(number) for number in range(random.randint(1, 4))]
        self.read: dict[str, list[tuple[int, int]]] = {}
        self.weights: collections.Counter[tuple[int, int]] = collections.Counter()
        self.saved = (self.ledger.to_json(), self.weights.copy())

    def take(self, worker: str) -> None:
        if shard := self.ledger.take(worker):
            assert shard.count <= self.ledger.shard_size
            self.read.setdefault(worker, []).extend((shard.epoch, i) for i in range(shard.start, shard.end))

    def train(self, worker: str) -> None:
        rows = self.read.get(worker, [])
        count = self.random.randint(0, min(len(rows), 30))
        self.ledger.trained(count, worker)
        self.weights.update(rows[:count])
        del rows[:count]

    def die(self, worker: str) -> None:
        self.ledger.release(worker)
        self.read.pop(worker, None)

    def fail(self, worker: str) -> None:
        shard = self.ledger.take(worker)
        if shard is None:
            return
        try:
            self.ledger.failed(shard, OSError(), worker)
        except ShardError:
            assert self.ledger.take(worker) == shard  # still held by the worker
            self.ledger.put_back([shard], worker)

    def save(self, _: str) -> None:
        self.saved = (self.ledger.to_json(), self.weights.copy())
        assert len(self.saved[0]) < 10_000  # does not grow with the history

    def restore(self, _: str) -> None:
        text, weights = self.saved
        self.ledger, self.weights, self.read = ShardLedger.from_json(text), weights.copy(), {}
        if self.random.random() < 0.5:
            self.ledger = self.ledger.with_epochs(self.epochs, self.random.randint(1, 20))

    def run(self) -> None:
        acts = [self.take] * 6 + [self.train] * 6 + [self.fail, self.save, self.die, self.restore]
        for _ in range(self.random.randint(0, 300)):
            self.random.choice(acts)(self.random.choice(self.workers))
        while not self.ledger.is_finished:
            for worker in self.workers:
                self.take(worker)
                self.train(worker)


@pytest.mark.parametrize("block", range(10))
def test_whatever_happens_every_record_counts_once_an_epoch(block: int) -> None:
    for seed in range(200 * block, 200 * (block + 1)):
        job = Job(random.Random(seed))

        job.run()

        every = {(epoch, i): 1 for epoch in range(1, job.epochs + 1) for i in range(job.size)}
        assert job.weights == every, f"seed {seed}"
        assert job.ledger.done == job.size * job.epochs
        assert not any(job.read.values())


def test_threads_may_take_and_report_at_the_same_time() -> None:
    """Eight readers and eight trainers, in pairs of one worker each: each record is trained once per epoch."""
    ledger = ShardLedger(2000, 7, 3)
    rows: dict[str, collections.deque[Shard]] = {str(number): collections.deque() for number in range(8)}
    trained: dict[str, list[Shard]] = {worker: [] for worker in rows}
    reading = set(rows)

    def take(worker: str) -> None:
        while shard := ledger.take(worker):
            rows[worker].append(shard)
        reading.remove(worker)

    def train(worker: str) -> None:
        while worker in reading or rows[worker]:
            if rows[worker]:
                shard = rows[worker].popleft()
                for count in (1, shard.count - 1):
                    ledger.trained(count, worker)
                trained[worker].append(shard)

    threads = [threading.Thread(target=act, args=[worker]) for worker in rows for act in (take, train)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ledger.is_finished
    assert ledger.done == 6000
    seen = collections.Counter(
        (s.epoch, i) for shards in trained.values() for s in shards for i in range(s.start, s.end)
    )
    assert set(seen.values()) == {1}
    assert len(seen) == 6000


def test_a_billion_records_take_no_more_memory_than_ten() -> None:
    ledger = ShardLedger(10**9, 1000, None)
    for _ in range(2000):
        ledger.take()
        ledger.trained(1000)

    assert len(ledger.to_json()) < 300
