"""Dispatches batches to the devices of a cluster, and to the rest of them while a worker is lost.

    reconnection = Reconnection()                             # one for the whole training
    count = Dispatch(step, batches, reconnection).run(devices)

The step raises `LostError` if its device was lost before the step has changed anything. Its batch is then dispatched
again, and the device gets batches again as soon as it is connected again.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import tensorflow as tf
from absl import logging

from ...compat.tensorflow import reconnect_cluster
from .shim.tensor_values import Tensors

Batch: TypeAlias = "tuple[Tensors, Tensors]"  # features and labels
Step: TypeAlias = Callable[[str, Batch], None]  # of a batch on a device

_POLL_SECONDS = 0.1
_RETRY_SECONDS = 1.0
# In InvalidArgumentErrors about a worker that was started again since the last operation on it.
_RESTARTED = ("unknown device", "Primary device is not remote", "Unable to find the relevant tensor remote_handle")


class LostError(Exception):
    """Raised by a step whose device was lost; the cause is TensorFlow's error."""


def is_loss(error: tf.errors.OpError) -> bool:
    """Whether an operation failed because its task was lost, or was started again; as in `ClusterCoordinator`."""
    if isinstance(error, tf.errors.InvalidArgumentError):
        return any(text in str(error) for text in _RESTARTED)
    return isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError))


class Dispatch:
    """Batches that the devices of a cluster are trained on, each by the next idle device.

    Args:
      step: Runs the step for a batch on a device.
      batches: The batches; only one thread at a time takes one.
      reconnection: The cluster's connection to lost devices.
    """

    def __init__(self, step: Step, batches: Iterator[Batch], reconnection: Reconnection) -> None:
        self._step, self._batches, self._reconnection = step, batches, reconnection
        self._returned: list[Batch] = []  # by lost devices
        self._lock = threading.Lock()
        self._over = threading.Event()  # no batch is left, or a step has failed
        self._count = 0

    def run(self, devices: Sequence[str]) -> int:
        """Runs the step for all batches; returns their number.

        Raises:
          Exception: The exception of the first failed step.
        """
        while True:
            with concurrent.futures.ThreadPoolExecutor(len(devices)) as pool:
                futures = [pool.submit(self._work, device) for device in devices]
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            if not self._returned:
                return self._count
            self._over.clear()  # the last batch of a device was returned when the others had ended

    def _work(self, device: str) -> None:
        try:
            while not self._over.is_set():
                if self._reconnection.is_lost(device):
                    self._over.wait(_POLL_SECONDS)
                elif (batch := self._take()) is not None:
                    self._train(device, batch)
                else:
                    self._over.set()
        except BaseException:
            self._over.set()
            raise

    def _take(self) -> Batch | None:
        with self._lock:
            return self._returned.pop() if self._returned else next(self._batches, None)

    def _train(self, device: str, batch: Batch) -> None:
        try:
            self._step(device, batch)
        except LostError as error:
            with self._lock:
                self._returned.append(batch)
            self._reconnection.begin(device, error)
        else:
            with self._lock:
                self._count += 1


class Reconnection:
    """Connects to lost devices whose tasks are started again, in a background thread."""

    def __init__(self) -> None:
        self._lost: set[str] = set()
        self._lock = threading.Lock()

    def is_lost(self, device: str) -> bool:
        """Whether a device was lost and is not connected again."""
        return device in self._lost

    def begin(self, device: str, error: LostError) -> None:
        """Starts to connect to a lost device."""
        logging.warning("%s was lost; its batch is trained by another task. %s", device, error.__cause__)
        with self._lock:
            is_running = bool(self._lost)
            self._lost.add(device)
        if not is_running:
            threading.Thread(target=self._reconnect, name="reconnection", daemon=True).start()

    def _reconnect(self) -> None:
        while True:
            with self._lock:
                lost = set(self._lost)
            names = ", ".join(sorted(lost))
            try:
                reconnect_cluster()
            except tf.errors.OpError as error:
                logging.info("Connecting to %s failed; retrying: %s", names, error.message)
                time.sleep(_RETRY_SECONDS)
                continue
            logging.info("%s trains again.", names)
            with self._lock:
                self._lost -= lost
                if not self._lost:
                    return
