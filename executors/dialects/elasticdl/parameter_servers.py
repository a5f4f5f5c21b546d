"""Training with parameter servers: they hold the variables, and workers take batches as they are free.

The chief reads the data and hands out the batches, one to each worker and one to itself, and the next one to whoever
has done with his; a slow worker does fewer. A worker computes gradients of the variables as it finds them. These are
applied one after the other, as by ElasticDL's own servers: Keras's optimizers and metrics update a variable in several
operations, so that of two at once one would be lost or counted twice. (Tried with SGD without momentum, TensorFlow
2.21 and Keras 2: after 10,000 updates by three workers 12,280 were in the weights.)

Nothing is under way when a checkpoint is made, so that it holds each batch once. A step on a worker that was lost may
have been done or not, so it ends the try: all go on from the last checkpoint. TensorFlow's own `ClusterCoordinator`
would do such a step again.

All data goes through the chief. Where reading it takes longer than training, more workers do not help; take all-reduce,
without parameter servers, for what is no larger than a worker's memory.

Usage, in the chief:

    with released(task, folder):
        crew = Crew(strategy, task)
        with strategy.scope():
            job = …
        crew.fit(job, …)

and in the other tasks:

    serve(task, folder)
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import itertools
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import tensorflow as tf
from absl import logging

from ...distributed.tf_config import CHIEF, PS, WORKER, ClusterTask
from ...engines.strategies import strategy
from ...errors import InputError
from ...fn_args import FnArgs
from ...monitoring import run_record
from ...runtime.files import file_io
from ...runtime.process.preemption import Preempted, asked, heeded
from .batch_watchers import batch_watcher
from .job import Job
from .loop import ENDLESS, Checkpoints, Schedule
from .options import ElasticDLOptions
from .shim.tensor_values import Tensors

Batch: TypeAlias = "tuple[Tensors, Tensors]"  # features and labels

_LOOK_SECONDS = 1.0
_SAVING_SECONDS = 8.0  # for which a worker stays after SIGTERM, which the chief has got as well: it is killed after ten
# What ElasticDL gave its servers was larger than 2 MB. The index of an Embedding without input_dim is not: it is whole.
_PART_BYTES = 2 << 20


def served_strategy(fn_args: FnArgs, task: ClusterTask) -> tf.distribute.Strategy:
    """Returns the chief's strategy, after all the others have begun to serve.

    Several parameter servers divide large variables among themselves, with Keras 2; Keras 3's variables cannot be.

    Raises:
      InputError: When the cluster is none that can be trained on.
    """
    found = {role: len(addresses) for role, addresses in task.jobs.items()}
    if CHIEF not in found or WORKER not in found:
        raise InputError(
            f"The cluster has {', '.join(f'{count} {role}' for role, count in found.items())}: with parameter servers "
            "it needs a chief, who hands out the batches, and a worker besides (with --engine=ray, --num_workers=2)."
        )
    divided = found[PS] > 1 and not hasattr(tf.keras, "ops")
    partitioners = tf.distribute.experimental.partitioners
    made = strategy(fn_args, partitioners.MinSizePartitioner(_PART_BYTES, found[PS]) if divided else None)
    if made.num_replicas_in_sync > 1:
        raise InputError(
            f"A worker has {made.num_replicas_in_sync} GPUs: with parameter servers each can use one. Start more "
            "workers, with one GPU each (gpus_per_worker, CUDA_VISIBLE_DEVICES)."
        )
    return made


class Crew:
    """The chief and its workers."""

    def __init__(self, job_strategy: tf.distribute.Strategy, task: ClusterTask) -> None:
        self._strategy = job_strategy
        places = [(CHIEF, 0), *((WORKER, index) for index in range(len(task.jobs[WORKER])))]
        self._devices = [f"/job:{role}/replica:0/task:{index}" for role, index in places]

    @heeded()
    def fit(
        self,
        job: Job,
        training: Callable[[int, int], tf.data.Dataset],
        checkpoints: Checkpoints,
        options: ElasticDLOptions,
        schedule: Schedule,
        callbacks: list[tf.keras.callbacks.Callback],
    ) -> None:
        """Trains from where the job is; see `loop.fit`.

        Callbacks are called when all batches before something due have been trained. If one looks at each batch, as
        many are trained at a time as there are workers.
        """
        step = self._step(job.gradients, job.learn)
        most = len(self._devices) if batch_watcher(callbacks) else ENDLESS
        heard = tf.keras.callbacks.CallbackList([schedule, *callbacks], model=job)
        first, skip = int(checkpoints.epoch.numpy()), int(checkpoints.records.numpy())
        job.stop_training = 0 < options.max_step <= int(job.step.numpy())
        data = training(first, skip)
        heard.on_train_begin()
        for epoch in range(first, options.num_epochs if options.num_epochs > 0 else ENDLESS):
            if job.stop_training:
                break
            heard.on_epoch_begin(epoch)
            job.reset_metrics()
            batches, logs, done = iter(data), {}, 0
            if skip:
                data, skip = training(epoch + 1, 0), 0
            while not job.stop_training:
                group = itertools.islice(batches, min(most, schedule.room()))
                count = self._share(step, _announced(group, done, heard))
                if not count:
                    break
                logs = {"loss": float(job.results()["loss"])}
                for number in range(done, done + count):
                    heard.on_train_batch_end(number, logs)
                done += count
            heard.on_epoch_end(epoch, logs)
        heard.on_train_end()

    def evaluate(self, job: Job, dataset: tf.data.Dataset) -> dict[str, tf.Tensor]:
        """Returns the metrics of the batches of a dataset."""
        job.reset_metrics()
        self._share(self._step(job.answers, job.compare), iter(dataset))
        return job.results()

    def _step(self, compute: Callable[..., Sequence[object]], update: Callable[..., object]) -> Callable[[Batch], None]:
        """Returns what is done with a batch: computed by many at a time, taken into the variables by one."""

        def run(function: Callable[..., object]) -> tf.types.experimental.PolymorphicFunction:
            return tf.function(lambda *given: self._strategy.run(function, args=given), reduce_retracing=True)

        computed, updated = run(compute), run(update)
        alone = threading.Lock()

        def step(batch: Batch) -> None:
            found = computed(batch)
            with alone:
                updated(*found)

        return step

    def _share(self, step: Callable[[Batch], None], batches: Iterator[Batch]) -> int:
        """Has all batches done, each by who is free; returns how many there were.

        Raises:
          Exception: What the first step that failed raised.
        """
        turn, failed = threading.Lock(), threading.Event()

        def work(device: str) -> int:
            count = 0
            try:
                while not failed.is_set():
                    with turn:
                        batch = next(batches, None)
                    if batch is None:
                        break
                    with tf.device(device):
                        step(batch)
                    count += 1
            except BaseException:
                failed.set()
                raise
            return count

        try:
            with concurrent.futures.ThreadPoolExecutor(len(self._devices)) as pool:
                shares = [pool.submit(work, device) for device in self._devices]
                return sum(share.result() for share in concurrent.futures.as_completed(shares))
        except tf.errors.UnavailableError:
            atexit.register(_leave)
            raise


def _leave() -> None:
    """Ends the process, for which TensorFlow takes a minute when it has lost another one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _announced(batches: Iterator[Batch], number: int, callbacks: tf.keras.callbacks.CallbackList) -> Iterator[Batch]:
    """Yields batches, each when callbacks have heard of it."""
    for batch in batches:
        callbacks.on_train_batch_begin(number)
        yield batch
        number += 1
        if asked():
            break  # so that it can be saved


def serve(task: ClusterTask, model_run_dir: str) -> None:
    """Does what the chief asks for, until it has done: the part of a worker; a parameter server is ended by others.

    Raises:
      Preempted: When SIGTERM has come, and the chief had time to save.
    """
    before = _released(task, model_run_dir)
    threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=max(os.cpu_count() or 1, task.num_workers + 1))
    server = tf.distribute.Server(
        {job: list(addresses) for job, addresses in task.jobs.items() if addresses},
        job_name=task.type, task_index=task.index, protocol="grpc", config=threads,
    )  # fmt: skip
    logging.info("%s serves at %s.", task, server.target)
    patience = _SAVING_SECONDS
    with contextlib.nullcontext() if task.type == PS else heeded():
        while task.type == PS or _released(task, model_run_dir) in ("", before):
            time.sleep(_LOOK_SECONDS)
            patience -= _LOOK_SECONDS * asked()
            if patience <= 0:
                raise Preempted


@contextlib.contextmanager
def released(task: ClusterTask, model_run_dir: str) -> Iterator[None]:
    """Tells the workers after a block that nothing is left to do: it has ended, or SIGTERM has ended it."""
    try:
        yield
    except Preempted:
        _release(task, model_run_dir)
        raise
    _release(task, model_run_dir)


def _release(task: ClusterTask, model_run_dir: str) -> None:
    file_io.write_text(_release_of(task, model_run_dir), uuid.uuid4().hex)


def _released(task: ClusterTask, model_run_dir: str) -> str:
    """Returns what the chief has said, which is another word each time; "" when it has said nothing."""
    path = _release_of(task, model_run_dir)
    return file_io.read_text(path) if file_io.exists(path) else ""


def _release_of(task: ClusterTask, model_run_dir: str) -> str:
    return os.path.join(model_run_dir, run_record.TASKS_DIR, f"released-{task.cluster_id}")
