"""Asynchronous training with parameter servers, which hold the variables.

The chief reads the data and dispatches batches to the workers and to itself; each one gets its next batch as soon as it
is idle, so a slow worker processes fewer batches. A worker computes gradients with the current values of the variables.
As in ElasticDL's own servers, gradients are applied one at a time: Keras's optimizers and metrics update a variable in
several operations, so concurrent updates would be lost or counted twice. (Measured with SGD without momentum,
TensorFlow 2.21 and Keras 2: after 10,000 updates by three workers, the weights contained 12,280.)

No batch is in flight while a checkpoint is saved, so a checkpoint contains each batch exactly once. Workers only
compute; the chief updates the variables with the results. If a worker is lost, its batch has therefore changed no
weights, and another task trains it; see `dispatch.py`. (The forward pass may have updated moving statistics.)
TensorFlow's own `ClusterCoordinator` runs the whole step on the worker, and repeats it although the lost worker may
have changed variables. If a parameter server is lost, the attempt fails, and all tasks resume from the last checkpoint.

All data and gradients pass through the chief. If reading is slower than training, more workers do not help. For models
that fit in a worker's memory, prefer all-reduce, without parameter servers.

Usage, in the chief:

    with releasing_workers(task, folder):
        pool = WorkerPool(strategy, task)
        with strategy.scope():
            job = …
        fit(job, …, steps=pool.steps(job))

and in the other tasks:

    serve(task, folder)
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf
from absl import logging

from ...compat.tensorflow import own_executor
from ...distributed.tf_config import CHIEF, PS, WORKER, ClusterTask
from ...engines.strategies import strategy
from ...errors import InputError
from ...fn_args import FnArgs
from ...monitoring import run_record
from ...monitoring.progress import report_details
from ...runtime.files import file_io
from ...runtime.process.preemption import Preempted, deferred_sigterm, is_preempted
from .dispatch import Batch, Dispatch, LostError, Reconnection, Step, is_loss
from .job import Job

_POLL_SECONDS = 1.0
_GRACE_SECONDS = 8.0  # how long a worker serves after SIGTERM while the chief saves; it is killed after 10
# As in ElasticDL, only larger variables are partitioned. The index of an Embedding without input_dim is smaller.
_MIN_PARTITION_BYTES = 2 << 20


def make_server_strategy(fn_args: FnArgs, task: ClusterTask) -> tf.distribute.Strategy:
    """Returns the chief's distribution strategy, after all other tasks have started to serve.

    With several parameter servers, variables larger than 2 MiB are partitioned among them. This needs Keras 2; the
    variables of Keras 3 cannot be partitioned.

    Raises:
      InputError: When the cluster has no chief or no worker, or when a worker has more than one GPU.
    """
    found = {role: len(addresses) for role, addresses in task.jobs.items()}
    if CHIEF not in found or WORKER not in found:
        raise InputError(
            f"The cluster has {', '.join(f'{count} {role}' for role, count in found.items())}: with parameter servers "
            "it needs a chief, which distributes the batches, and at least one worker (with --engine=ray, "
            "--num_workers=2)."
        )
    is_partitioned = found[PS] > 1 and not hasattr(tf.keras, "ops")
    partitioners = tf.distribute.experimental.partitioners
    created = strategy(
        fn_args, partitioners.MinSizePartitioner(_MIN_PARTITION_BYTES, found[PS]) if is_partitioned else None
    )
    if created.num_replicas_in_sync > 1:
        raise InputError(
            f"A worker has {created.num_replicas_in_sync} GPUs: with parameter servers each can use only one. Start "
            "more workers with one GPU each (gpus_per_worker, CUDA_VISIBLE_DEVICES)."
        )
    return created


class WorkerPool:
    """The chief and its workers, as seen by the chief, which dispatches batches to them."""

    def __init__(self, job_strategy: tf.distribute.Strategy, task: ClusterTask) -> None:
        self._strategy = job_strategy
        tasks = [(CHIEF, 0), *((WORKER, index) for index in range(len(task.jobs[WORKER])))]
        self._devices = [f"/job:{role}/replica:0/task:{index}" for role, index in tasks]
        self._reconnection = Reconnection()
        report_details(replaces_workers=True)

    def steps(self, job: Job) -> ServerSteps:
        """Returns the steps of a training; callbacks are called after all batches of a call have been trained."""
        return ServerSteps(job, len(self._devices), self._step(job.gradients, job.update_weights), self._dispatch)

    def evaluate(self, job: Job, dataset: tf.data.Dataset) -> dict[str, tf.Tensor]:
        """Evaluates the job on the batches of a dataset; returns the metrics."""
        job.reset_metrics()
        self._dispatch(self._step(job.predict_batch, job.update_metrics), iter(dataset))
        return job.results()

    def _step(self, compute: Callable[..., Sequence[object]], update: Callable[..., object]) -> Step:
        """Returns the step for a batch: `compute` runs concurrently on all devices, `update` on one at a time.

        Workers only compute. The chief copies the results before it updates variables with them.
        """

        def run(function: Callable[..., object]) -> tf.types.experimental.PolymorphicFunction:
            return tf.function(lambda *given: self._strategy.run(function, args=given), reduce_retracing=True)

        computed, updated = run(compute), run(update)
        update_lock = threading.Lock()
        chief = self._devices[0]

        def step(device: str, batch: Batch) -> None:
            try:
                with own_executor():
                    with tf.device(device):
                        found = computed(batch)
                    with tf.device(chief):
                        found = tf.nest.map_structure(_copied, found, expand_composites=True)
            except tf.errors.OpError as error:
                if device == chief or not is_loss(error):  # the chief itself was not lost, but a parameter server
                    raise
                raise LostError from error
            with update_lock, tf.device(chief):
                updated(*found)

        return step

    def _dispatch(self, step: Step, batches: Iterator[Batch]) -> int:
        """Runs the step for all batches, each on the next idle device; returns the number of batches.

        Raises:
          Exception: The exception of the first failed step.
        """
        try:
            return Dispatch(step, batches, self._reconnection).run(self._devices)
        except tf.errors.UnavailableError:
            atexit.register(_exit_now)
            raise


class ServerSteps:
    """Trains each batch on the next idle device; see `loop.Steps`.

    Args:
      job: The compiled job.
      devices: Number of devices.
      step: Trains a batch on a device.
      dispatch: Runs a step for batches; returns their number.
    """

    def __init__(self, job: Job, devices: int, step: Step, dispatch: Callable[[Step, Iterator[Batch]], int]) -> None:
        self.at_once = devices
        self._job, self._step, self._dispatch = job, step, dispatch
        self._batches: Iterator[Batch] = iter(())

    def begin_epoch(self, dataset: tf.data.Dataset) -> None:
        """Implements `Steps`."""
        self._batches = iter(dataset)

    def run(self, limit: int, announce: Callable[[], None]) -> tuple[int, float]:
        """Implements `Steps`; stops on a preemption request."""

        def announced() -> Iterator[Batch]:
            for batch in itertools.islice(self._batches, limit):
                announce()
                yield batch
                if is_preempted():
                    break  # so that the schedule can save a checkpoint

        count = self._dispatch(self._step, announced())
        return count, float(self._job.results()["loss"])


def _copied(value: tf.Tensor | None) -> tf.Tensor | None:
    return None if value is None else tf.identity(value)


def _exit_now() -> None:
    """Exits immediately; TensorFlow's own shutdown takes a minute after another task was lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def serve(task: ClusterTask, model_run_dir: str) -> None:
    """Runs a worker or a parameter server.

    A worker serves until the chief releases it. A parameter server serves until its process is terminated.

    Raises:
      Preempted: In a worker, 8 seconds after SIGTERM, which gives the chief time to save.
    """
    before = _release_id(task, model_run_dir)
    threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=max(os.cpu_count() or 1, task.num_workers + 1))
    server = tf.distribute.Server(
        {job: list(addresses) for job, addresses in task.jobs.items() if addresses},
        job_name=task.type, task_index=task.index, protocol="grpc", config=threads,
    )  # fmt: skip
    logging.info("%s is listening at %s.", task, server.target)
    remaining_seconds = _GRACE_SECONDS
    with contextlib.nullcontext() if task.type == PS else deferred_sigterm():
        while task.type == PS or _release_id(task, model_run_dir) in ("", before):
            time.sleep(_POLL_SECONDS)
            remaining_seconds -= _POLL_SECONDS * is_preempted()
            if remaining_seconds <= 0:
                raise Preempted


@contextlib.contextmanager
def releasing_workers(task: ClusterTask, model_run_dir: str) -> Iterator[None]:
    """Releases the workers after the block, if it succeeded or was preempted, but not if it failed."""
    try:
        yield
    except Preempted:
        _release(task, model_run_dir)
        raise
    _release(task, model_run_dir)


def _release(task: ClusterTask, model_run_dir: str) -> None:
    file_io.write_text(_release_path(task, model_run_dir), uuid.uuid4().hex, synced=False)


def _release_id(task: ClusterTask, model_run_dir: str) -> str:
    """Returns the content of the chief's release file, which is unique for each release; "" if there is none."""
    path = _release_path(task, model_run_dir)
    return file_io.read_text(path) if file_io.exists(path) else ""


def _release_path(task: ClusterTask, model_run_dir: str) -> str:
    return os.path.join(model_run_dir, run_record.TASKS_DIR, f"releasing_workers-{task.cluster_id}")
