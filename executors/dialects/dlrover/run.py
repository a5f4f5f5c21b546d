"""Trains, evaluates and exports the Estimator of a DLRover conf."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence

import tensorflow.compat.v1 as tf
from absl import logging

from ...checkpoints.damage import read_sidecar
from ...checkpoints.fallback import newest_complete
from ...compat.tensorflow_estimator import call_model_fn
from ...distributed import tf_config
from ...errors import InputError
from ...fn_args import FnArgs
from ...runtime.files import file_io
from ..estimators.inputs import ServingInputReceiverFn
from ..estimators.training import EstimatorJob, in_model_run_dir, train_and_export
from .checkpoints import CheckpointHook, DataPositionHook, save_objects
from .columns import Columns
from .conf import (
    HAS_TRAINED,
    LABEL_IN_SIGNATURE,
    RESTART_DATA,
    USE_CONF_MODEL_DIR,
    Conf,
    DataSet,
    read_conf,
    unused_settings,
)
from .estimator import make_estimator, make_run_config
from .serving import serving_input_receiver_fn
from .sharding.shared_ledger import Part, SharingHook, part_of
from .source import Source
from .sources import open_source
from .text.delimited import DECODE_ERRORS

_FINISHED_FILE = "finished_job.json"
_EXPORTER = "best_exporter"  # as in DLRover, for the same export paths


def train(conf: type, fn_args: FnArgs, where: str) -> dict[str, float]:
    """Runs this process's task of training, evaluating and exporting the Estimator of a conf class.

    Args:
      conf: The class.
      fn_args: The run's arguments. `custom_config` may have attributes of the conf to override, and:
        `use_conf_model_dir`: use the conf's `model_dir` instead of the model run directory.
        `train_data_anew`: start at the first row of the data, regardless of the position in the checkpoint.
        `has_trained`: this job had completed training before it was interrupted.
        `label_in_signature`: include the label in the serving signature, as DLRover did.
      where: The file and class, for error messages.

    Returns:
      The exported model's metrics; see `train_and_export`.

    Raises:
      InputError: When a conf value, a column or a row is invalid, or when there is a transform graph.
      ModuleError: When `classifier_class` is not an Estimator class and does not return an Estimator.
    """
    if fn_args.transform_graph_path:
        raise InputError(
            f"{where}: a conf's model takes raw examples in serving, so it must be trained on raw examples; these are "
            "transformed. Remove the preprocessing_fn, and the Trainer's transform_graph."
        )
    settings = read_conf(conf, fn_args, where)
    for warning in unused_settings(conf, where):
        logging.warning("%s", warning)
    task = tf_config.task_from_environment()
    is_chief = task is None or task.is_chief
    job = _Job(settings, fn_args, part_of(task))
    newest_complete(job.model_dir, is_chief)  # before `make` reads which checkpoint is the latest
    with job.explaining_errors():
        metrics = train_and_export(job.make, fn_args, where)
    if is_chief:
        job.mark_finished()
    return metrics


class _Job:
    """Builds the Estimator and the specs of a conf."""

    def __init__(self, conf: Conf, fn_args: FnArgs, part: Part | None) -> None:
        self._conf = conf
        self._config = fn_args.custom_config or {}
        own = self._config.get(USE_CONF_MODEL_DIR)
        if own and not conf.model_dir:
            raise InputError(f"{conf.where} has no model_dir. Set it to the folder for the checkpoints of the job.")
        self._uses_conf_model_dir = bool(own)
        self.model_dir: str = conf.model_dir if own and conf.model_dir else in_model_run_dir(fn_args).serving_model_dir
        self._fn_args = fn_args
        self._part = part
        self._sources: list[Source] = []

    def make(self) -> EstimatorJob:
        """Builds the Estimator and its specs."""
        conf = self._conf
        file_io.makedirs(self.model_dir)
        config = make_run_config(conf, self.model_dir, self._fn_args)
        estimator = make_estimator(conf, config)
        dense = not self._takes_sparse(config)
        training = self._open(conf.train_set, self._fn_args.train_files, dense, self._part)
        evaluation = self._open(conf.eval_set, self._fn_args.eval_files, dense)
        save_objects(estimator)
        hooks = [DataPositionHook(training, self.model_dir, from_beginning=self._starts_from_first_row())]
        if self._part is not None:
            hooks.append(SharingHook(self._part, config.master))
        if config.is_chief or self._part is None:
            workers_paused = self._part.workers_paused if self._part is not None else contextlib.nullcontext
            hooks.append(CheckpointHook(estimator, training, conf.save_steps, conf.save_secs, workers_paused))
        with_label = bool(self._config.get(LABEL_IN_SIGNATURE))
        kinds = {**training.columns.kinds, **evaluation.columns.kinds}
        columns = dataclasses.replace(evaluation.columns, kinds=kinds)
        receiver_fn = serving_input_receiver_fn(columns, training.takes_examples, with_label)
        return EstimatorJob(
            estimator,
            tf.estimator.TrainSpec(training.training_input, conf.max_steps, hooks=hooks),
            tf.estimator.EvalSpec(
                evaluation.evaluation_input,
                conf.eval_steps,
                exporters=_exporter(conf, receiver_fn),
                start_delay_secs=5,
                throttle_secs=10,
            ),
            replaces_workers=False,  # it is unknown whether the weights include the lost worker's last step
        )

    def mark_finished(self) -> None:
        """Marks the job as finished in the conf's `model_dir`.

        A later job that continues from this checkpoint then starts at the data's first row.
        """
        if self._uses_conf_model_dir:
            file_io.write_text(self._finished_path(), json.dumps({"checkpoint": self._latest_checkpoint()}))

    def _starts_from_first_row(self) -> bool:
        """Returns whether to read the data from the first row: true for a new job, false for an interrupted one."""
        if self._config.get(RESTART_DATA):
            return True
        if not self._uses_conf_model_dir or self._config.get(HAS_TRAINED):
            return False
        result = "the job continues at the position in its checkpoint"
        finished = read_sidecar(self._finished_path(), ["checkpoint"], result)
        return finished is not None and bool(finished["checkpoint"] == self._latest_checkpoint())

    def _latest_checkpoint(self) -> str:
        return os.path.basename(tf.train.latest_checkpoint(self.model_dir) or "")

    def _finished_path(self) -> str:
        return os.path.join(self.model_dir, _FINISHED_FILE)

    @contextlib.contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Re-raises TensorFlow's input errors in the block as the reader's exception or an error for the invalid row.

        If neither is found, the original error is raised.
        """
        try:
            yield
        except (tf.errors.OpError, *DECODE_ERRORS):
            for source in self._sources:
                source.explain()
            raise

    def _open(self, data: DataSet, files: Sequence[str], dense: bool, part: Part | None = None) -> Source:
        columns = Columns.of(data, self._conf.where, dense)
        source = open_source(data, columns, files or (), self._conf.where, part)
        self._sources.append(source)
        return source

    def _takes_sparse(self, config: tf.estimator.RunConfig) -> bool:
        """Returns whether the model function accepts sparse columns as SparseTensors; DLRover passed dense tensors."""
        conf = self._conf
        columns = Columns.of(conf.train_set, conf.where)
        if not any(field.is_sparse for field in columns.fields):
            return True
        with tf.Graph().as_default():
            features, labels = columns.decode(tf.placeholder(tf.string, [None]))
            tf.train.get_or_create_global_step()
            try:
                call_model_fn(make_estimator(conf, config), features, labels, "train", config)
            except (TypeError, ValueError, AttributeError) as error:
                if "Sparse" not in str(error):
                    raise
                logging.info(
                    "%s: the model takes dense tensors, so these sparse columns are converted: %s", conf.where, error
                )
                return False
        return True


def _exporter(conf: Conf, receiver_fn: ServingInputReceiverFn) -> tf.estimator.Exporter:
    compare = conf.compare_fn

    def is_better(best_eval_result: dict[str, float], current_eval_result: dict[str, float]) -> bool:
        answer = compare(best_eval_result, current_eval_result)  # type: ignore[misc]
        return bool(answer[0] if isinstance(answer, tuple) else answer)

    own = {"compare_fn": is_better} if compare else {}
    return tf.estimator.BestExporter(_EXPORTER, receiver_fn, **own)
