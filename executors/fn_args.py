"""`FnArgs`: the arguments that a training module's `run_fn` receives.

`FnArgs` is an attrs class with all fields of TFX's `FnArgs`, in the same order and with the same meanings, so modules
written for TFX run unchanged; `isinstance` with TFX's class is True. Attributes can also be read as items, as in
modules for TFX 0.21 to 0.25:

    fn_args.train_files
    fn_args["train_files"]
    fn_args.get("custom_config")
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import attr

from . import plugins
from .compat.tfx_instance import TfxInstance, own_class
from .examples_format import ExamplesFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from .distributed.tf_config import ClusterTask
    from .inputs.data_accessor import DataAccessor

# Groups of entry points: the class of `data_accessor`, and functions that return this process's task of a cluster.
_READERS, _TASKS = "generic_trainer.data_accessors", "generic_trainer.cluster_tasks"
# As in TFX, these are None in a bare FnArgs but typed as non-optional: the trainer always sets them.
_UNSET: Any = None


@attr.s
class FnArgs(TfxInstance):
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
      data_accessor: Factories that read the examples as `tf.data` datasets or Arrow record batches.
      serving_model_dir: Folder to write the SavedModel to. It is published under its final name
        after `run_fn` has returned and the model has passed the check.
      eval_model_dir: Folder for an evaluation SavedModel (Estimators only).
      model_run_dir: Folder for all other outputs, such as TensorBoard logs.
      base_model: Folder of a SavedModel for warm-starting, or None.
      hyperparameters: KerasTuner hyperparameter configuration as a dict, or None.
      custom_config: The `custom_config` dict of the pipeline's Trainer, or None.
      examples_format: Encoding of the example files. The default `data_accessor` reads it.
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

    _tfx_name = "FnArgs"

    working_dir: str | None = attr.ib(default=None)
    train_files: list[str] = attr.ib(default=_UNSET)
    eval_files: list[str] = attr.ib(default=_UNSET)
    train_steps: int | None = attr.ib(default=None)
    eval_steps: int | None = attr.ib(default=None)
    schema_path: str | None = attr.ib(default=None)
    schema_file: str | None = attr.ib(default=None)
    transform_graph_path: str | None = attr.ib(default=None)
    transform_output: str | None = attr.ib(default=None)
    data_accessor: DataAccessor = attr.ib(default=_UNSET, eq=False, repr=False)
    serving_model_dir: str = attr.ib(default=_UNSET)
    eval_model_dir: str = attr.ib(default=_UNSET)
    model_run_dir: str = attr.ib(default=_UNSET)
    base_model: str | None = attr.ib(default=None)
    hyperparameters: dict[str, Any] | None = attr.ib(default=None)
    custom_config: dict[str, Any] | None = attr.ib(default=None)
    # TFX's FnArgs ends here.
    examples_format: ExamplesFormat = attr.ib(factory=ExamplesFormat)
    checkpoint_dir: str = attr.ib(default=_UNSET)
    seed: int | None = attr.ib(default=None)
    is_chief: bool = attr.ib(default=True)
    worker_index: int = attr.ib(default=0)
    num_workers: int = attr.ib(default=1)
    num_examples: dict[str, int]  # not a field, as in TFX

    def __attrs_post_init__(self) -> None:
        self.schema_file = self.schema_file or self.schema_path
        self.transform_output = self.transform_output or self.transform_graph_path
        if vars(self)["data_accessor"] is None:
            del self.data_accessor  # made when it is first read, see `__getattr__`

    def __reduce__(self) -> tuple[Any, ...]:
        own = own_class(self)
        names = [field.name for field in attr.fields(own) if field.name != "data_accessor"]
        fields = {name: getattr(self, name) for name in names}  # subclasses may have slots
        return _restored, (own, {**fields, **vars(self)})

    @classmethod
    def of(cls, fn_args: Any) -> FnArgs:
        """Returns the arguments that any Trainer passes to `run_fn` with all attributes of this class.

        TFX's own Trainer passes TFX's `FnArgs`, without a seed, a checkpoint folder and the place in the cluster. There
        `seed` is None, `checkpoint_dir` is inside `model_run_dir`, and TF_CONFIG determines the place in the cluster.

        Usage:

            def run_fn(fn_args):
                fn_args = FnArgs.of(fn_args)

        Args:
          fn_args: This class's or TFX's FnArgs. The returned object shares its attributes.
        """
        if isinstance(fn_args, cls):
            return fn_args
        folder = fn_args.model_run_dir or fn_args.working_dir
        defaults = cls(data_accessor=fn_args.data_accessor, checkpoint_dir=os.path.join(folder or "", "checkpoints"))
        for find_task in cast("Mapping[str, Callable[[], ClusterTask | None]]", plugins.load(_TASKS)).values():
            if task := find_task():
                defaults.is_chief, defaults.worker_index = task.is_chief, task.worker_index
                defaults.num_workers = task.num_workers
        completed = cls.__new__(cls)
        completed.__dict__ = vars(fn_args)
        for name, value in vars(defaults).items():
            vars(completed).setdefault(name, value)
        return completed

    def __getattr__(self, name: str) -> Any:
        if name == "data_accessor" and "examples_format" in vars(self):
            accessor = cast("type[DataAccessor]", plugins.load_one(_READERS, "default"))
            self.data_accessor = accessor.for_format(self.examples_format)
            return self.data_accessor
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
        state = {name: value for name, value in self.__dict__.items() if name != "data_accessor"}
        state["examples_format"] = dataclasses.asdict(self.examples_format)
        state["custom_config"] = _config_to_json(self.custom_config)
        return state

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> FnArgs:
        """Restores the arguments from the return value of `to_json`."""
        fn_args = cls(examples_format=ExamplesFormat(**state["examples_format"]))
        fn_args.__dict__.update(state, examples_format=fn_args.examples_format)
        fn_args.custom_config = _config_from_json(state["custom_config"])
        return fn_args


def _restored(own: type[FnArgs], state: Mapping[str, object]) -> FnArgs:
    """Restores a pickled or copied instance, with attributes that are not fields."""
    fn_args = own.__new__(own)
    for name, value in state.items():
        setattr(fn_args, name, value)
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
