"""Training with an ElasticDL model file: on one machine, on several workers, or with parameter servers."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType

import tensorflow as tf
from absl import logging

from ...checkpoints.trained_marker import TrainedMarker
from ...distributed.tf_config import PS, ClusterTask, task_from_environment
from ...engines.strategies import strategy
from ...evaluation import evaluated_examples
from ...fn_args import FnArgs
from ...saved_models.sample_input import set_sample_input
from .checkpoints import Checkpoints, load_weights
from .data import batched, batches, feed_records, first_batch, open_split
from .evaluation import Evaluation, evaluator
from .evaluation_sample import evaluated_batches
from .export import export_trained, features_of, rehearse_export, sample_inputs
from .job import Job, build, make_job, required_parts
from .loop import fit
from .parameter_servers import WorkerPool, make_server_strategy, releasing_workers, serve
from .parts import EVALUATION, TRAINING, Parts
from .schedule import Schedule

BEST_DIR = "best/model"


def train(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> dict[str, float]:
    """Trains the file's model and exports it to `fn_args.serving_model_dir`.

    The weights with the lowest evaluation loss are exported as well, to `best/model` in the model run directory.

    Args:
      module: The model file.
      model_name: The name of the model definition; None for the standard names.
      fn_args: The run's arguments; ElasticDL's options are in `custom_config`.

    Returns:
      The metrics of the last evaluation, with the prefix `eval_`; {} in tasks that only serve the chief.

    Raises:
      ModuleError: When a definition is missing or returns a wrong type.
      InputError: When there is no data, or no checkpoint to initialize from.
    """
    parts = required_parts(module, model_name, fn_args)
    task = task_from_environment()
    servers = task if task is not None and PS in task.jobs else None
    if servers and not servers.is_chief:
        serve(servers, fn_args.model_run_dir)
        return {}
    if servers and servers.num_workers == 1:
        logging.info("The variables are in the process of the only worker; the parameter servers stay idle.")
        servers = None
    if servers:
        parts.require_functions("Its variables must be created on the parameter servers.")
    workers = _workers(fn_args, servers)
    pool = WorkerPool(workers, servers) if servers else None
    training = _Training(parts, fn_args, workers, pool)
    with (
        training.reraising(),
        releasing_workers(servers, fn_args.model_run_dir) if servers else contextlib.nullcontext(),
    ):
        return training.run()


def _workers(fn_args: FnArgs, servers: ClusterTask | None) -> tf.distribute.Strategy:
    """Returns the distribution strategy; each worker trains on `minibatch_size` records per step."""
    if servers:
        return make_server_strategy(fn_args, servers)
    return strategy(fn_args) if fn_args.num_workers > 1 else tf.distribute.get_strategy()


class _Training:
    """A training of a model file.

    Args:
      parts: The model file.
      fn_args: The run's arguments.
      workers: The distribution strategy.
      pool: The workers of parameter servers, or None.
    """

    def __init__(self, parts: Parts, fn_args: FnArgs, workers: tf.distribute.Strategy, pool: WorkerPool | None) -> None:
        options = parts.options
        self._parts, self._fn_args, self._workers, self._pool = parts, fn_args, workers, pool
        self._records = open_split(parts, options.training_data or fn_args.train_files, "training_data")
        origin = options.validation_data or fn_args.eval_files
        self._validation = open_split(parts, origin, "validation_data") if origin else None
        self._batch_size = options.minibatch_size * workers.num_replicas_in_sync
        self._seed = zlib.crc32(options.checkpoint_dir.encode()) if fn_args.seed is None else fn_args.seed

    @contextlib.contextmanager
    def reraising(self) -> Iterator[None]:
        """Names the file and the record in errors of the data."""
        with self._records.reraising(), self._validation.reraising() if self._validation else contextlib.nullcontext():
            yield

    def run(self) -> dict[str, float]:
        """Trains, evaluates and exports; returns the metrics of the last evaluation, with the prefix `eval_`."""
        job, optimizer = self._compile()
        rehearse_export(job, self._parts, self._records, self._local_model if self._pool else lambda: job.inner)
        # Outside the strategy's scope: their variables are not synchronized.
        checkpoints = Checkpoints(job, optimizer, self._parts.options)
        evaluation = self._train(job, checkpoints)
        evaluation.run(int(job.step.numpy()))
        model = job.inner
        if self._pool:
            model = self._local_model()
            tf.train.Checkpoint(model=model).restore(checkpoints.latest).expect_partial()
        self._export(model)
        if best := evaluation.save_best():
            tf.train.Checkpoint(model=model).restore(best)
            export_trained(model, self._parts, self._records, os.path.join(self._folder, BEST_DIR))
        return {f"eval_{name}": value for name, value in evaluation.results.items()}

    @property
    def _folder(self) -> str:
        """The directory for the best weights and the summaries; a worker that publishes nothing has its own."""
        given = self._fn_args
        return given.model_run_dir if given.is_chief else os.path.join(os.path.dirname(given.serving_model_dir), "run")

    def _compile(self) -> tuple[Job, tf.keras.optimizers.Optimizer]:
        parts = self._parts
        with self._workers.scope():
            # A separate dataset, since iterating changes the order.
            job = make_job(parts, first_batch(batches(parts, self._records, TRAINING), self._records))
            optimizer = parts.optimizer()
            job.compile(optimizer=optimizer)
            if hasattr(optimizer, "build"):
                optimizer.build(job.inner.trainable_variables)  # in this scope, variables are created on the servers
            if parts.options.checkpoint_dir_for_init:
                load_weights(job.inner, parts.options.checkpoint_dir_for_init)
        return job, optimizer

    def _train(self, job: Job, checkpoints: Checkpoints) -> Evaluation:
        """Trains, unless an earlier attempt has finished the training without publishing its model."""
        options = self._parts.options
        marker = TrainedMarker(
            self._fn_args.checkpoint_dir, "elasticdl", {"epochs": options.num_epochs, "steps": options.max_step}
        )
        mark = marker.read()
        is_trained = checkpoints.resume(mark.get("checkpoint"))
        evaluation = Evaluation(job, self._folder, self._evaluate(job))
        if is_trained:
            evaluation.resume(mark["evaluation"])
            return evaluation
        schedule = Schedule(job, checkpoints, options, evaluation, self._batch_size)
        steps = self._pool.steps(job) if self._pool else None
        with checkpoints:
            fit(job, self._epoch, checkpoints, schedule, self._parts.callbacks(), steps)
            schedule.finish()
        if self._fn_args.is_chief and (latest := checkpoints.latest):
            marker.write(checkpoint=os.path.basename(latest), evaluation=evaluation.to_json())
        return evaluation

    def _epoch(self, epoch: int, skip: int) -> tf.data.Dataset:
        """Returns the batches of an epoch after its first records."""
        tf.random.set_seed(self._seed)  # so that a shuffling feed repeats the interrupted run's order
        dataset = feed_records(self._parts, self._records, TRAINING)
        for _ in range(epoch):
            iter(dataset)  # a shuffled dataset has a new order in each iteration
        return batched(dataset.skip(skip) if skip else dataset, self._batch_size)

    def _evaluate(self, job: Job) -> Callable[[], Mapping[str, float]] | None:
        """Returns a function that evaluates the current weights; None without validation data."""
        if not self._validation:
            return None
        data = batches(self._parts, self._validation, EVALUATION, self._batch_size)
        return partial(self._pool.evaluate, job, data) if self._pool else evaluator(job, self._parts.options, data)

    def _local_model(self) -> tf.keras.Model:
        """Returns a new instance of the model with variables in this process.

        With parameter servers, the variables of the trained model are on the servers and may be partitioned.
        """
        model = self._parts.model()
        build(model, features_of(first_batch(batches(self._parts, self._records, TRAINING), self._records)))
        return model

    def _export(self, model: tf.keras.Model) -> None:
        """Exports the model to publish, and passes examples of its inputs and outputs to the run."""
        parts, validation = self._parts, self._validation
        takes_records = export_trained(model, parts, self._records, self._fn_args.serving_model_dir)
        source = validation or self._records
        if inputs := sample_inputs(parts, source, takes_records):
            set_sample_input(f"the first record of {source.origin}", inputs)
        if validation and self._fn_args.is_chief:
            evaluated_examples.collect(lambda: evaluated_batches(model, batches(parts, validation, EVALUATION)))
