"""The options of an ElasticDL job: the supported flags of ElasticDL's command."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...errors import InputError
from ...fn_args import FnArgs
from ...monitoring.save_interval import CLUSTER_STEPS, measured_steps
from ...number_range import INT64, POSITIVE, STEPS
from ...spelling import is_misspelling, nearest
from .detection import CUSTOM_READER

_NUMBERS = {
    "minibatch_size": POSITIVE,
    "num_minibatches_per_task": POSITIVE,
    "num_epochs": INT64,
    **dict.fromkeys(("max_step", "evaluation_steps", "checkpoint_steps"), STEPS),
    **dict.fromkeys(("keep_checkpoint_max", "log_loss_steps", "records_per_task"), STEPS),
}

_MAX_CHECKPOINTS = 2


@dataclasses.dataclass(frozen=True)
class ElasticDLOptions:
    """The options of a job, with the names and defaults of ElasticDL's flags.

    They are read from `custom_config`; entries with other names are ignored and left to the module.

    Attributes:
      training_data: File, directory, file pattern or table; default `fn_args.train_files`.
      validation_data: The same for evaluation; default `fn_args.eval_files`.
      prediction_data: The same for prediction; default `fn_args.eval_files`.
      minibatch_size: Records per batch and worker, at least 1; the last batch of an epoch may have fewer.
      num_epochs: Passes over the training data; 0 or less repeats the data without end and requires `max_step`.
      max_step: Total number of training steps; 0 for `fn_args.train_steps`, and no limit if that is None.
      evaluation_steps: Steps between evaluations, in addition to those at epoch ends; 0 for none.
      checkpoint_steps: Steps between checkpoints, in addition to the final one; 0 for none. If it is not given, 500 for
        several workers, and on Ray, after a worker's death, the number that loses the least time; see
        `save_interval.py`.
      checkpoint_dir: Checkpoint directory; default `fn_args.checkpoint_dir`.
      keep_checkpoint_max: Number of checkpoints to keep; 0 for all. The default is 2 if `checkpoint_steps` is not given
        and several workers save checkpoints.
      checkpoint_dir_for_init: Checkpoint, or checkpoint directory, to initialize the weights from.
      log_loss_steps: Steps between log lines with the loss.
      data_reader_params: Parameters of the reader: "columns=['a', 'b']; sep=','", or a dict.
      model_params: Arguments of the model function or class, in the same format.
      num_minibatches_per_task: Batches in a task, which ElasticDL passes to a custom reader as a number of records.
      records_per_task: Records in a task; 0 for `minibatch_size * num_minibatches_per_task`.
      feed: Name of the function that turns records into features and labels; "" for `feed` or `dataset_fn`.
      loss: Name of the loss function.
      optimizer: Name of the function that returns the optimizer.
      eval_metrics_fn: Name of the function that returns the metrics.
      callbacks: Name of the function that returns Keras callbacks.
      custom_data_reader: Name of the function that returns a reader.
      prediction_outputs_processor: Name of the class that processes predictions.
    """

    training_data: str = ""
    validation_data: str = ""
    prediction_data: str = ""
    minibatch_size: int = 64
    num_epochs: int = 1
    max_step: int = 0
    evaluation_steps: int = 0
    checkpoint_steps: int = 0
    checkpoint_dir: str = ""
    keep_checkpoint_max: int = 0
    checkpoint_dir_for_init: str = ""
    log_loss_steps: int = 100
    data_reader_params: str | dict[str, object] = ""
    model_params: str | dict[str, object] = ""
    num_minibatches_per_task: int = 8
    records_per_task: int = 0
    feed: str = ""
    loss: str = "loss"
    optimizer: str = "optimizer"
    eval_metrics_fn: str = "eval_metrics_fn"
    callbacks: str = "callbacks"
    custom_data_reader: str = CUSTOM_READER
    prediction_outputs_processor: str = "PredictionOutputsProcessor"

    def __post_init__(self) -> None:
        for name, numbers in _NUMBERS.items():
            if not numbers.includes(getattr(self, name)):
                raise InputError(f"{name}={getattr(self, name)!r}: give {numbers}.")
        if self.num_epochs < 1 and self.max_step < 1:
            raise InputError(f"num_epochs={self.num_epochs!r} trains indefinitely; set max_step, or num_epochs=1.")

    @classmethod
    def of(cls, fn_args: FnArgs) -> ElasticDLOptions:
        """Returns the options in a run's arguments.

        Raises:
          InputError: When an option in `custom_config` has a wrong type or value.
        """
        config: Mapping[str, Any] = fn_args.custom_config or {}
        values = {field.name: config[field.name] for field in dataclasses.fields(cls) if field.name in config}
        for name in config.keys() - values:
            near = nearest(name, cls.__dataclass_fields__)
            if near is not None and is_misspelling(name, near):
                raise InputError(f"custom_config: ElasticDL has no flag {name!r}. Did you mean {near!r}?")
        for name, value in values.items():
            kind = int if cls.__dataclass_fields__[name].type == "int" else (str, dict)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InputError(f"custom_config: {name}={value!r} does not have the type of ElasticDL's flag.")
        steps = measured_steps() or (CLUSTER_STEPS if fn_args.num_workers > 1 else 0)
        if "checkpoint_steps" not in values and steps:
            values = {"keep_checkpoint_max": _MAX_CHECKPOINTS, **values, "checkpoint_steps": steps}
        values["max_step"] = values.get("max_step") or fn_args.train_steps or 0
        values["checkpoint_dir"] = values.get("checkpoint_dir") or fn_args.checkpoint_dir
        return cls(**values)
