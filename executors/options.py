"""How a training run is to be carried out: the options that exist in addition to TFX's.

`TrainingOptions` is the only place where they are declared. The `Trainer` component's parameters, the
execution properties that travel through TFX, and the flags of the command are all read off its fields.

Usage:

    options = TrainingOptions(keras="2", required_signatures=("serving_default",), timeout=3600)
    TrainingOptions.from_exec_properties(options.to_exec_properties()) == options
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import InputError, did_you_mean
from .goals import Goal

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)
KERAS_CHOICES = ("auto", "2", "3")
TUNINGS = ("off", "exact", "any")
CHECKS = ("parses", "signatures", "loads", "answers", "finite")
# Types of the options in ML Metadata, which knows no booleans; the others are strings.
STORED_AS: dict[str, type[int] | type[float]] = {
    "isolate": int,
    "timeout": float,
    "seed": int,
    "profile": int,
    "deterministic": int,
    "stop_on_nan": int,
    "input_cache_gb": float,
    "ps": int,
    "cpus_per_worker": float,
    "gpus_per_worker": float,
    "memory_gb_per_worker": float,
    "max_failures": int,
}
_PATIENCE = 3  # evaluations without improvement, where early_stop gives no number
_ABOVE_ZERO = ("timeout", "input_cache_gb", "cpus_per_worker", "memory_gb_per_worker")
_OR_NONE = dict.fromkeys(("timeout", "memory_gb_per_worker"), ", or leave it out")
_AT_LEAST = {"ps": 0, "gpus_per_worker": 0, "max_failures": -1}
_ON_A_CLUSTER = (
    "workers",
    "ps",
    "cluster_address",
    "cpus_per_worker",
    "gpus_per_worker",
    "memory_gb_per_worker",
    "max_failures",
)


def _option(default: Any, help_text: str, choices: Sequence[str] = ()) -> Any:
    return dataclasses.field(default=default, metadata={"help": help_text, "choices": tuple(choices)})


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Options of one training run; every field has a default, so `TrainingOptions()` is a plain run.

    Raises:
      InputError: From the constructor, when a value is not among the choices or out of range.
    """

    dialect: str = _option("auto", "How the module is written; 'auto' decides by what it defines.")
    engine: str = _option(LOCAL, "Where run_fn is executed: on this machine, or by workers on a Ray cluster.", ENGINES)
    workers: str = _option("1", "How many train, as N, or as MIN:MAX for as many as there are resources for.")
    ps: int = _option(0, "How many parameter servers there are beside the workers.")
    cluster_address: str | None = _option(
        None, "Address of a Ray cluster (default: RAY_ADDRESS, else one that is started for the run on this machine)."
    )
    cpus_per_worker: float = _option(1.0, "Processors that each worker and parameter server gets on a cluster.")
    gpus_per_worker: float = _option(0.0, "GPUs that each worker gets on a cluster.")
    memory_gb_per_worker: float | None = _option(
        None, "Memory that each worker gets on a cluster, in 10^9 bytes (default: it is not asked for)."
    )
    max_failures: int = _option(
        3, "How often training on a cluster goes on from its last checkpoint after a worker has failed; -1 for always."
    )
    isolate: bool = _option(True, "Train in a process of its own, which takes all its memory with it.")
    keras: str = _option("auto", "What tf.keras is for the module: Keras 2 (tf-keras) or 3.", KERAS_CHOICES)
    required_signatures: tuple[str, ...] = _option((), "A signature that the model must have; may be repeated.")
    skip_checks: tuple[str, ...] = _option((), "A check of the model to leave out; may be repeated.", CHECKS)
    timeout: float | None = _option(None, "Seconds after which training is ended as failed (default: none).")
    seed: int | None = _option(None, "Seed of Python, NumPy and TensorFlow, and fn_args.seed.")
    deterministic: bool = _option(
        False, "Have TensorFlow compute the same in every run with the same seed, where it can; it may be slower."
    )
    early_stop: str | None = _option(
        None, "End the training when a metric has not become better: METRIC[:EVALUATIONS][:min|max], as val_loss:3."
    )
    best_model: str | None = _option(
        None, "Have Keras's fit end with the weights of its best epoch: METRIC[:min|max], as val_auc."
    )
    stop_on_nan: bool = _option(False, "Fail when the loss becomes NaN or infinite, instead of training on.")
    on_bad_records: str = _option(
        "error", "What becomes of records that cannot be read: 'error', or skip:N to leave out N at most and list them."
    )
    profile: bool = _option(False, "Profile some seconds of the training, and tell where a step's time goes.")
    tune_loop: str = _option(
        "off",
        "Try at the start how many Keras steps to run at a time, and which threads an Estimator's take; 'exact' leaves "
        "results as they are, 'any' also tries XLA and mixed precision, which change them.",
        TUNINGS,
    )

    input_cache: str | None = _option(
        None, "Local folder where data_accessor keeps parsed examples for later epochs and runs (default: none)."
    )
    input_cache_gb: float = _option(10.0, "How much may lie in input_cache, in 10^9 bytes; the oldest entries go.")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            choices = field.metadata["choices"]
            for one in value if isinstance(value, tuple) else (value,):
                if choices and one not in choices:
                    raise InputError(
                        f"{field.name}={one!r}: choose from {', '.join(choices)}.{did_you_mean(str(one), choices)}"
                    )
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name}={value!r}: give a number above 0{_OR_NONE.get(name, '')}.")
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise InputError(f"{name}={value!r}: give {least} or more.")
        if self.timeout is not None and not self.isolate:
            raise InputError("timeout needs isolate=True: only a process of its own can be ended in time.")
        if self.engine == LOCAL:
            for field in dataclasses.fields(self):
                value = getattr(self, field.name)
                if field.name in _ON_A_CLUSTER and value != field.default:
                    raise InputError(f"{field.name}={value!r} needs engine={RAY!r}: {LOCAL!r} is one process.")
        _ = self.worker_range, self.stop_goal, self.best_goal, self.bad_records_limit

    @property
    def stop_goal(self) -> Goal | None:
        """What `early_stop` says.

        Raises:
          InputError: When it is not METRIC[:EVALUATIONS][:min|max].
        """
        return Goal.parse(self.early_stop, "early_stop", _PATIENCE) if self.early_stop else None

    @property
    def best_goal(self) -> Goal | None:
        """What `best_model` says; raises as above."""
        return Goal.parse(self.best_model, "best_model") if self.best_model else None

    @property
    def bad_records_limit(self) -> int | None:
        """How many bad records may be left out; None when each is an error.

        Raises:
          InputError: When `on_bad_records` is neither "error" nor "skip:N".
        """
        if self.on_bad_records == "error":
            return None
        word, _, number = str(self.on_bad_records).partition(":")
        if word != "skip" or not (number.isascii() and number.isdigit() and int(number)):
            raise InputError(f"on_bad_records={self.on_bad_records!r}: give 'error', or a number as in skip:10.")
        return int(number)

    @property
    def worker_range(self) -> tuple[int, int]:
        """The least and the most workers.

        Raises:
          InputError: When `workers` is neither N nor MIN:MAX.
        """
        texts = str(self.workers).split(":")
        numbers = [int(text) if text.isdigit() else 0 for text in texts]
        if len(numbers) > 2 or not 1 <= numbers[0] <= numbers[-1]:
            raise InputError(f"workers={self.workers!r}: give a number such as 2, or the least and most, as in 1:4.")
        return numbers[0], numbers[-1]

    def to_exec_properties(self) -> dict[str, str | int | float]:
        """Returns the options that differ from their defaults, as TFX execution properties.

        Tuples become JSON lists and booleans 0 or 1: the types that ML Metadata stores.
        """
        properties: dict[str, str | int | float] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if isinstance(value, tuple):
                properties[field.name] = json.dumps(value)
            else:
                properties[field.name] = STORED_AS.get(field.name, str)(value)
        return properties

    @classmethod
    def from_exec_properties(cls, properties: Mapping[str, Any]) -> TrainingOptions:
        """Reads the options back; absent, None and empty values mean the default.

        Args:
          properties: Execution properties as an orchestrator hands them over. Kubeflow Pipelines
            sends every one of them as a string, so numbers and lists are parsed here.

        Raises:
          InputError: When a value does not parse; it names the property.
        """
        values = {}
        for field in dataclasses.fields(cls):
            value = properties.get(field.name)
            if value is None or value == "":
                continue
            try:
                values[field.name] = _PARSERS.get(field.name, str)(value)
            except (ValueError, TypeError) as error:
                raise InputError(f"execution property {field.name}={value!r} is not usable: {error}") from error
        return cls(**values)


def _parse_flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "1.0", "true", "yes"):
        return True
    if text in ("0", "0.0", "false", "no"):
        return False
    raise ValueError("expected true or false")


def _parse_integer(value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:  # "7.0", as Kubeflow writes numbers
        number = float(value)
    if not number.is_integer():
        raise ValueError("expected an integer")
    return int(number)


def _parse_names(value: Any) -> tuple[str, ...]:
    names = json.loads(value) if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError('expected a JSON list of names such as ["serving_default"]')
    return tuple(names)


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "isolate": _parse_flag,
    "required_signatures": _parse_names,
    "skip_checks": _parse_names,
    "timeout": float,
    "input_cache_gb": float,
    "seed": _parse_integer,
    "profile": _parse_flag,
    "deterministic": _parse_flag,
    "stop_on_nan": _parse_flag,
    "ps": _parse_integer,
    "cpus_per_worker": float,
    "gpus_per_worker": float,
    "memory_gb_per_worker": float,
    "max_failures": _parse_integer,
}
