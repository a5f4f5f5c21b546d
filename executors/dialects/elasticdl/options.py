"""What an ElasticDL job is told beside its model file: the flags of ElasticDL's command that still mean something."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...errors import InputError
from ...fn_args import FnArgs


@dataclasses.dataclass(frozen=True)
class ElasticDLOptions:
    """Options of a job, under the names and with the defaults of ElasticDL's flags.

    They come in `custom_config`; entries of other names are the module's own business.

    Attributes:
      training_data: File, folder, pattern or table; fn_args.train_files when empty.
      validation_data: The same for evaluation; fn_args.eval_files when empty.
      minibatch_size: Records in a batch; the last one of an epoch may have fewer.
      num_epochs: Passes over the training data; endless when not above 0, which needs max_step.
      max_step: Steps after which training ends; fn_args.train_steps when 0, no limit when that is None.
      evaluation_steps: Steps between evaluations, beside those at each epoch's end; 0 for none.
      checkpoint_steps: Steps between checkpoints, beside the one at the end; 0 for none.
      checkpoint_dir: Folder of checkpoints; fn_args.checkpoint_dir when empty.
      keep_checkpoint_max: How many checkpoints are kept; 0 for all.
      checkpoint_dir_for_init: Folder of checkpoints, or one of them, whose weights to start from.
      log_loss_steps: Steps between two log lines with the loss.
      data_reader_params: For the reader: "columns=['a', 'b']; sep=','", or a dict.
      model_params: Arguments of the model's function or class, in the same form.
      records_per_task: Given to a custom reader.
      feed: Name of the function that turns records into features and labels.
      loss: Name of the loss function.
      optimizer: Name of the function that returns the optimizer.
      eval_metrics_fn: Name of the metrics' function.
      callbacks: Name of the function that returns Keras callbacks.
      custom_data_reader: Name of the function that returns a reader.
      prediction_outputs_processor: Name of the class that takes predictions.
    """

    training_data: str = ""
    validation_data: str = ""
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
    records_per_task: int = 0
    feed: str = ""
    loss: str = "loss"
    optimizer: str = "optimizer"
    eval_metrics_fn: str = "eval_metrics_fn"
    callbacks: str = "callbacks"
    custom_data_reader: str = "custom_data_reader"
    prediction_outputs_processor: str = "PredictionOutputsProcessor"

    def __post_init__(self) -> None:
        if self.minibatch_size < 1:
            raise InputError(f"minibatch_size={self.minibatch_size!r}: give a number of records, at least 1.")
        if self.num_epochs < 1 and self.max_step < 1:
            raise InputError(f"num_epochs={self.num_epochs!r} trains without end; give max_step or num_epochs=1.")

    @classmethod
    def of(cls, fn_args: FnArgs) -> ElasticDLOptions:
        """Reads the options out of a run's arguments."""
        config: Mapping[str, Any] = fn_args.custom_config or {}
        values = {field.name: config[field.name] for field in dataclasses.fields(cls) if field.name in config}
        for name, value in values.items():
            kind = int if cls.__dataclass_fields__[name].type == "int" else (str, dict)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InputError(f"custom_config: {name}={value!r} is not of the type that ElasticDL's flag has.")
        values["max_step"] = values.get("max_step") or fn_args.train_steps or 0
        values["checkpoint_dir"] = values.get("checkpoint_dir") or fn_args.checkpoint_dir
        return cls(**values)
