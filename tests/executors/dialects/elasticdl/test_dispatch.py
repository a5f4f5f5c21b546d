"""Batches of lost devices are trained by others; those of a real cluster are in `command/test_group.py`."""

from __future__ import annotations

import threading
import time

import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.dispatch import Dispatch, LostError, Reconnection, is_loss


class Cluster(Reconnection):
    """A cluster whose lost devices are connected again by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.trained: list[tuple[str, int]] = []
        self.lost: set[str] = set()
        self.has_lost = threading.Event()

    def is_lost(self, device: str) -> bool:
        return device in self.lost

    def begin(self, device: str, error: LostError) -> None:
        self.lost.add(device)
        self.has_lost.set()


def test_a_lost_devices_batch_is_trained_once_by_another_one() -> None:
    cluster = Cluster()

    def step(device: str, batch: int) -> None:
        if device == "b" and not cluster.has_lost.is_set():
            raise LostError
        assert cluster.has_lost.wait(10)
        cluster.trained.append((device, batch))
        if len(cluster.trained) == 50:
            cluster.lost.clear()
            time.sleep(1.0)

    assert Dispatch(step, iter(range(100)), cluster).run(["a", "b"]) == 100
    assert sorted(batch for _, batch in cluster.trained) == list(range(100))
    assert {device for device, _ in cluster.trained[:50]} == {"a"}
    assert "b" in {device for device, _ in cluster.trained[50:]}


def test_the_last_batch_of_a_lost_device_is_trained_after_the_others_have_ended() -> None:
    cluster, ended = Cluster(), threading.Event()

    def step(device: str, batch: int) -> None:
        if device == "b":
            assert ended.wait(10)
            raise LostError
        cluster.trained.append((device, batch))
        if len(cluster.trained) == 9:
            threading.Timer(0.2, ended.set).start()

    assert Dispatch(step, iter(range(10)), cluster).run(["b", "a"]) == 10
    assert sorted(batch for _, batch in cluster.trained) == list(range(10))


def test_an_error_of_a_step_ends_all_devices() -> None:
    def step(device: str, batch: int) -> None:
        if batch == 5:
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Dispatch(step, iter(range(10**9)), Reconnection()).run(["a", "b"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (tf.errors.UnavailableError(None, None, "Socket closed"), True),
        (tf.errors.AbortedError(None, None, "Unable to find a context_id"), True),
        (tf.errors.InvalidArgumentError(None, None, "Unable to find the relevant tensor remote_handle"), True),
        (tf.errors.InvalidArgumentError(None, None, "Matrix size-incompatible"), False),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), False),
    ],
)
def test_which_errors_are_losses(error: tf.errors.OpError, expected: bool) -> None:
    assert is_loss(error) is expected
