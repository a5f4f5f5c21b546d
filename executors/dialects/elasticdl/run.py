"""Training, evaluation and prediction with an ElasticDL model file."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import tensorflow as tf
from absl import logging

from ...checkpoints.trained_marker import TrainedMarker
from ...compat.tensorflow import write_graph
from ...distributed.tf_config import PS, ClusterTask, task_from_environment
from ...engines.strategies import strategy
from ...errors import InputError, ModuleError
from ...evaluation import evaluated_examples
from ...fn_args import FnArgs
from ...inputs.parse_errors import track_feed
from ...inputs.readers.custom_reader import open_custom
from ...inputs.readers.open_records import open_records
from ...inputs.readers.reader_params import CSV, parse_reader_params
from ...inputs.readers.record_search import describe_failure, lines_note
from ...inputs.readers.records import Records
from ...runtime.logs.exceptions import add_note
from ...saved_models.export_rehearsal import rehearsal
from ...saved_models.record_reader import write_record_reader
from ...saved_models.sample_input import set_sample_input
from .evaluation_sample import evaluated_batches
from .export import export, features_of, sample_inputs
from .job import Job, build
from .loop import Checkpoints, Evaluation, Schedule, fit, load_weights
from .metrics import EvalMetrics
from .numpy_idioms import allow_numpy_idioms
from .options import ElasticDLOptions
from .parameter_servers import WorkerPool, make_server_strategy, releasing_workers, serve
from .parts import EVALUATION, PREDICTION, TRAINING, Parts
from .predictions import Predictions
from .repeated_evaluation import RepeatedEvaluation
from .shared_batches import share
from .shim.tensor_values import Tensors

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
    parts = _parts(module, model_name, fn_args)
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
    records = _records(parts, parts.options.training_data or fn_args.train_files, "training_data")
    origin = parts.options.validation_data or fn_args.eval_files
    validation = _records(parts, origin, "validation_data") if origin else None
    with records.reraising(), validation.reraising() if validation else contextlib.nullcontext():
        if servers is None:
            return _train(parts, records, validation, fn_args, workers, None)
        with releasing_workers(servers, fn_args.model_run_dir):
            return _train(parts, records, validation, fn_args, workers, WorkerPool(workers, servers))


def _train(
    parts: Parts,
    records: Records,
    validation: Records | None,
    fn_args: FnArgs,
    workers: tf.distribute.Strategy,
    pool: WorkerPool | None,
) -> dict[str, float]:
    options = parts.options
    size = options.minibatch_size * workers.num_replicas_in_sync
    seed = zlib.crc32(options.checkpoint_dir.encode()) if fn_args.seed is None else fn_args.seed

    def training(epoch: int, skip: int) -> tf.data.Dataset:
        tf.random.set_seed(seed)  # so that a shuffling feed repeats the interrupted run's order
        dataset = _feed_records(parts, records, TRAINING)
        for _ in range(epoch):
            iter(dataset)  # a shuffled dataset has a new order in each iteration
        return _batched(dataset.skip(skip) if skip else dataset, size)

    with workers.scope():
        job = _job(
            parts, _batches(parts, records, TRAINING), records
        )  # a separate dataset, since iterating changes the order
        optimizer = parts.optimizer()
        job.compile(optimizer=optimizer)
        if pool and hasattr(optimizer, "build"):
            optimizer.build(job.inner.trainable_variables)  # in this scope, variables are created on the servers
        if options.checkpoint_dir_for_init:
            load_weights(job.inner, options.checkpoint_dir_for_init)
    _rehearse_export(parts, records, job, is_remote=pool is not None)
    checkpoints = Checkpoints(job, optimizer, options)  # outside the scope: its variables are not synchronized
    trained = TrainedMarker(
        fn_args.checkpoint_dir, "elasticdl", {"epochs": options.num_epochs, "steps": options.max_step}
    )
    mark = trained.read()
    is_trained = checkpoints.resume(mark.get("checkpoint"))
    folder = (
        fn_args.model_run_dir if fn_args.is_chief else os.path.join(os.path.dirname(fn_args.serving_model_dir), "run")
    )
    evaluate_job = None
    if validation:
        batches = _batches(parts, validation, EVALUATION, size)
        evaluate_job = partial(pool.evaluate, job, batches) if pool else _evaluator(job, options, batches)
    evaluation = Evaluation(job, folder, evaluate_job)
    if is_trained:
        evaluation.resume(mark["evaluation"])
    else:
        schedule = Schedule(job, checkpoints, options, evaluation, size)
        with checkpoints:
            (pool.fit if pool else fit)(job, training, checkpoints, options, schedule, parts.callbacks())
            schedule.finish()
        if fn_args.is_chief and (latest := checkpoints.latest):
            trained.write(checkpoint=os.path.basename(latest), evaluation=evaluation.to_json())
    evaluation.run(int(job.step.numpy()))
    model = job.inner
    if pool:
        model = _local_model(parts, records)
        tf.train.Checkpoint(model=model).restore(checkpoints.latest).expect_partial()
    takes_records = _export(model, parts, records, fn_args.serving_model_dir)
    source = validation or records
    if inputs := sample_inputs(parts, source, takes_records):
        set_sample_input(f"the first record of {source.origin}", inputs)
    if validation and fn_args.is_chief:
        evaluated_examples.collect(lambda: evaluated_batches(model, _batches(parts, validation, EVALUATION)))
    if best := evaluation.save_best():
        tf.train.Checkpoint(model=model).restore(best)
        _export(model, parts, records, os.path.join(folder, BEST_DIR))
    return {f"eval_{name}": value for name, value in evaluation.results.items()}


def _export(model: tf.keras.Model, parts: Parts, records: Records, folder: str) -> bool:
    """Exports the model; returns whether its `serving_default` takes raw records."""
    takes_records = export(model, parts, records.dataset(), records.metadata, folder)
    if takes_records:
        sep = parse_reader_params(parts.options.data_reader_params).get("sep", ",")
        write_record_reader(folder, records, str(sep))
    return takes_records


def _rehearse_export(parts: Parts, records: Records, job: Job, is_remote: bool) -> None:
    """Runs the export without weights, so that its errors are raised before training instead of after it.

    All workers do this: with a distribution strategy, each must build the same graphs in the same order.
    """
    with rehearsal(job.inner) as folder:
        model = _local_model(parts, records) if is_remote else job.inner
        export(model, parts, records.dataset(), records.metadata, folder, write_graph)


def _local_model(parts: Parts, records: Records) -> tf.keras.Model:
    """Returns a new instance of the model with variables in this process.

    With parameter servers, the variables of the trained model are on the servers and may be partitioned.
    """
    model = parts.model()
    build(model, features_of(_first(_batches(parts, records, TRAINING), records)))
    return model


def _evaluator(job: Job, options: ElasticDLOptions, dataset: tf.data.Dataset) -> Callable[[], dict[str, float]]:
    """Returns a function that evaluates the current weights, in a single process or on all replicas together."""
    replicas = job.distribute_strategy.num_replicas_in_sync
    if replicas == 1:
        return RepeatedEvaluation(job, dataset)
    parts = share(dataset, replicas, options.minibatch_size)

    def evaluate() -> dict[str, float]:
        job.synchronize()
        values: dict[str, float] = job.evaluate(parts, verbose=0, return_dict=True)
        return values

    return evaluate


def _workers(fn_args: FnArgs, servers: ClusterTask | None) -> tf.distribute.Strategy:
    """Returns the distribution strategy; each worker trains on `minibatch_size` records per step."""
    if servers:
        return make_server_strategy(fn_args, servers)
    return strategy(fn_args) if fn_args.num_workers > 1 else tf.distribute.get_strategy()


def evaluate(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> dict[str, float]:
    """Evaluates the weights of `checkpoint_dir_for_init` on the validation data; returns the metrics by name.

    Raises:
      ModuleError: When a definition is missing or returns a wrong type.
      InputError: When there is no data or no checkpoint.
    """
    parts = _parts(module, model_name, fn_args)
    records = _records(parts, parts.options.validation_data or fn_args.eval_files, "validation_data")
    with records.reraising():
        validation = _batches(parts, records, EVALUATION)
        job = _job(parts, validation, records)
        job.compile()
        load_weights(job.inner, parts.options.checkpoint_dir_for_init)
        values = job.evaluate(validation, verbose=0, return_dict=True)
    return {name: float(value) for name, value in values.items()}


def predict(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> dict[str, float]:
    """Runs batch inference on the prediction data with the weights of `checkpoint_dir_for_init`.

    The predictions are passed to the file's processor, if any, and written as JSON lines to `predictions.jsonl` in
    `fn_args.serving_model_dir`.

    Returns:
      {"count": the number of predictions}.

    Raises:
      ModuleError: When a definition is missing or returns a wrong type.
      InputError: When there is no data or no checkpoint.
    """
    options = ElasticDLOptions.of(fn_args)
    parts = Parts(module, model_name, options)
    records = _records(parts, options.prediction_data or fn_args.eval_files, "prediction_data")
    data = _batches(parts, records, PREDICTION)
    model = parts.model()
    with records.reraising():
        build(model, features_of(_first(data, records)))
    load_weights(model, options.checkpoint_dir_for_init)
    with (
        records.reraising(),
        Predictions(model, parts.prediction_outputs_processor(), fn_args.serving_model_dir) as predictions,
    ):
        for batch in data:
            predictions.add(features_of(batch))
    return {"count": float(predictions.count)}


def _parts(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> Parts:
    """Returns a file's parts, after checking those that training and evaluation require."""
    parts = Parts(module, model_name, ElasticDLOptions.of(fn_args))
    parts.require()
    allow_numpy_idioms()
    return parts


def _records(parts: Parts, origin: str | Sequence[str], what: str) -> Records:
    if not origin:
        raise InputError(f"{what} is not set.")
    params = parse_reader_params(parts.options.data_reader_params)
    reader = parts.custom_data_reader()
    if reader is None:
        return open_records(origin, params)
    options = parts.options
    data_origin = origin if isinstance(origin, str) or len(origin) > 1 else origin[0]
    task_size = options.records_per_task or options.minibatch_size * options.num_minibatches_per_task
    made = reader(data_origin, **{"records_per_task": task_size, **params})
    return open_custom(made, str(data_origin))


def _batches(parts: Parts, records: Records, mode: str, size: int = 0) -> tf.data.Dataset:
    """Returns the output of `feed` in batches of `size`, or of `minibatch_size` if `size` is 0."""
    return _batched(_feed_records(parts, records, mode), size or parts.options.minibatch_size)


def _feed_records(parts: Parts, records: Records, mode: str) -> tf.data.Dataset:
    """Returns the unbatched dataset that `feed` returns for the records."""

    def feed(dataset: tf.data.Dataset) -> tf.data.Dataset:
        try:
            return parts.feed(dataset, mode, records.metadata)
        except Exception as error:
            if note := lines_note(records):
                add_note(error, note)
            raise

    track_feed(f"{mode}: {records.origin}", lambda: describe_failure(records, feed))
    dataset = feed(records.dataset())
    if mode != PREDICTION and not (isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) == 2):
        raise ModuleError(
            f"{parts.module.__file__}: feed must return (features, labels) in {mode}; it returned "
            f"{dataset.element_spec}."
        )
    return dataset


def _batched(dataset: tf.data.Dataset, size: int) -> tf.data.Dataset:
    """Returns a dataset in global batches of `size` records; the last one may be shorter."""
    return dataset.batch(size).prefetch(tf.data.AUTOTUNE).with_options(pipeline_options())


def pipeline_options() -> tf.data.Options:
    """Returns tf.data's options for a pipeline of single records."""
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = True  # feeds map single records, sequentially
    options.autotune.enabled = False  # its overhead per record is as large as these maps themselves
    # Shard each batch: with sharding by file, the workers' records would differ from those of a single worker.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options


def _job(parts: Parts, data: tf.data.Dataset, records: Records) -> Job:
    """Builds the model and its metrics with one batch of data, eagerly, for readable errors."""
    features, labels = _first(data, records)
    model = parts.model()
    outputs = build(model, features)
    try:
        parts.loss(labels, outputs)
        metrics = EvalMetrics(parts.eval_metrics_fn(), labels, outputs)
    except Exception as error:
        add_note(error, f"Labels: {_shapes(labels)}; the model's outputs: {_shapes(outputs)}.")
        raise
    return Job(model, parts, metrics)


def _first(data: tf.data.Dataset, records: Records) -> Any:
    batch = next(iter(data.take(1)), None)
    if batch is None:
        raise InputError(f"{records.origin}: there are no records{' below the header' * (records.kind == CSV)}.")
    return batch


def _shapes(values: Tensors) -> object:
    return tf.nest.map_structure(lambda value: f"{value.dtype.name} {value.shape}", values)
