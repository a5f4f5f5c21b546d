"""`FnArgs`: the arguments that a training module's `run_fn` receives.

`FnArgs` has all attributes of TFX's `FnArgs`, with the same names and meanings, so modules written for TFX run
unchanged. Attributes can also be read as items, as in modules for TFX 0.21 to 0.25:

    fn_args.train_files
    fn_args["train_files"]
    fn_args.get("custom_config")
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from .inputs.data_accessor import DataAccessor, ExamplesFormat

# As in TFX, these are None in a bare FnArgs but typed as non-optional: the trainer always sets them.
_UNSET: Any = None


@dataclasses.dataclass
class FnArgs:
    """Arguments for `run_fn`. All attributes can be assigned, including new ones.

    Attributes:
      working_dir: Working folder; None in the Trainer (set by TFX's Tuner).
      train_files: Glob patterns of the training example files.
      eval_files: Glob patterns of the evaluation example files.
      train_steps: Training steps to run; None when not limited.
      eval_steps: Evaluation steps to run; None when not limited.
      schema_path: Path of the examples' `Schema` (text proto), or None.
      schema_file: Deprecated copy of `schema_path`.
      transform_graph_path: Folder with the Transform component's graph, or None.
      transform_output: Deprecated copy of `transform_graph_path`.
      serving_model_dir: Folder to write the SavedModel to. It is published under its final name
        after `run_fn` has returned and the model has passed the check.
      eval_model_dir: Folder for an evaluation SavedModel (Estimators only).
      model_run_dir: Folder for all other outputs, such as TensorBoard logs.
      base_model: Folder of a SavedModel for warm-starting, or None.
      hyperparameters: KerasTuner hyperparameter configuration as a dict, or None.
      custom_config: The `custom_config` dict of the pipeline's Trainer, or None.
      examples_format: Encoding of the example files, used by `data_accessor`.
      checkpoint_dir: Folder for checkpoints. In a pipeline it is the same for every retry of the step with the same
        code, inputs and arguments, and is deleted when the step succeeds. Otherwise it is inside `model_run_dir`.
      seed: Seed for Python, NumPy and TensorFlow; None if no seed is set. Workers that shard one global batch
        (training without parameter servers) always have a seed, because they need the same record order.
      is_chief: Whether this process exports the model. True on one machine.
      worker_index: Index of this worker, from 0.
      num_workers: Number of workers, at least 1.
      num_examples: Number of examples by split, from `statistics`. As in TFX, the attribute is only set if the
        trainer has a `statistics` input; otherwise reading it raises an AttributeError.
    """

    working_dir: str | None = None
    train_files: list[str] = _UNSET
    eval_files: list[str] = _UNSET
    train_steps: int | None = None
    eval_steps: int | None = None
    schema_path: str | None = None
    schema_file: str | None = None
    transform_graph_path: str | None = None
    transform_output: str | None = None
    serving_model_dir: str = _UNSET
    eval_model_dir: str = _UNSET
    model_run_dir: str = _UNSET
    base_model: str | None = None
    hyperparameters: dict[str, Any] | None = None
    custom_config: dict[str, Any] | None = None
    examples_format: ExamplesFormat = dataclasses.field(default_factory=ExamplesFormat)
    checkpoint_dir: str = _UNSET
    seed: int | None = None
    is_chief: bool = True
    worker_index: int = 0
    num_workers: int = 1
    num_examples: dict[str, int] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.schema_file = self.schema_file or self.schema_path
        self.transform_output = self.transform_output or self.transform_graph_path

    @property
    def data_accessor(self) -> DataAccessor:
        """Factories that read the examples as `tf.data` datasets or Arrow record batches; created on first access."""
        accessor = self.__dict__.get("_data_accessor")
        if accessor is None:
            accessor = self.__dict__["_data_accessor"] = DataAccessor.for_format(self.examples_format)
        built: DataAccessor = accessor
        return built

    @data_accessor.setter
    def data_accessor(self, accessor: DataAccessor) -> None:
        self.__dict__["_data_accessor"] = accessor

    def __getattr__(self, name: str) -> Any:
        if name == "num_examples":
            raise AttributeError("fn_args.num_examples is only set if the trainer has a `statistics` input.")
        raise AttributeError(f"fn_args has no attribute {name!r}; it has {', '.join(self.__dict__)}.")

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, name, value)

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    def get(self, name: str, default: object = None) -> Any:
        """Returns the attribute, or the default if the attribute is missing or None."""
        value = getattr(self, name, None)
        return default if value is None else value

    def to_json(self) -> dict[str, Any]:
        """Returns the arguments as JSON values; `from_json` restores them in another process."""
        state = {name: value for name, value in self.__dict__.items() if name != "_data_accessor"}
        state["examples_format"] = dataclasses.asdict(self.examples_format)
        state["custom_config"] = _config_to_json(self.custom_config)
        return state

    @classmethod
    def of(cls, values: Any) -> FnArgs:
        """Returns FnArgs with the attributes of TFX's `FnArgs`, such as a TFX Trainer passes; ours are returned as is.

        `checkpoint_dir` is set to a folder in `model_run_dir`, as in a run outside of a pipeline.
        """
        if isinstance(values, cls):
            return values
        fn_args = cls()
        for name, value in vars(values).items():
            setattr(fn_args, name, value)
        fn_args.checkpoint_dir = fn_args.checkpoint_dir or os.path.join(fn_args.model_run_dir, "checkpoints")
        return fn_args

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> FnArgs:
        """Restores the arguments from the return value of `to_json`."""
        fn_args = cls()
        fn_args.__dict__.update(state)
        fn_args.examples_format = ExamplesFormat(**state["examples_format"])
        fn_args.custom_config = _config_from_json(state["custom_config"])
        return fn_args


_TFX_JSON = "__tfx_json__"


def _config_to_json(config: dict[str, object] | None) -> dict[str, object] | None:
    """Returns the config, encoded with TFX's `json_utils` if it contains protos or other TFX objects."""
    try:
        json.dumps(config)
    except TypeError:
        from tfx.utils import json_utils

        return {_TFX_JSON: json_utils.dumps(config)}
    return config


def _config_from_json(config: dict[str, object] | None) -> dict[str, object] | None:
    if config is None or _TFX_JSON not in config:
        return config
    from tfx.utils import json_utils

    decoded: dict[str, object] = json_utils.loads(config[_TFX_JSON])
    return decoded
