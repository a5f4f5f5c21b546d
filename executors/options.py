"""The options of a training run, in addition to those of TFX's Trainer.

Each option is declared once, as a field of `TrainingOptions`. Flags, `--config` keys, execution properties, keywords of
the components, parameters of the Kubeflow component and the documentation's tables are derived from the field: its
name, type and default, and the arguments of `_option`.

Usage:

    options = TrainingOptions(keras="2", required_signatures=("serving_default",), timeout=3600)
    TrainingOptions.from_exec_properties(options.to_exec_properties()) == options
    [option.name for option in declared_options() if option.tuner]

To add an option, add a field to `TrainingOptions`. Static types cannot be derived from it, so type checkers and
editors also need one line in `TrainerKeywords`, or in `TunerKeywords` for an option with `tuner=True`. If the line is
missing, tests/executors/test_option_declaration.py prints it, together with the command that regenerates
`trainer.component.yaml`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, TypeVar

from . import plugins
from .errors import InputError, did_you_mean
from .goals import Goal
from .number_range import (
    AMOUNTS,
    CPUS,
    GIGABYTES,
    INT64,
    POSITIVE,
    RETRIES_OR_NO_LIMIT,
    SECONDS,
    SECONDS_OR_NONE,
    TASKS,
    WORKERS,
    NumberRange,
)

LOCAL = "local"
ENGINES = "generic_trainer.engines"  # group of entry points
KERAS_CHOICES = ("auto", "2", "3")
MODEL_CHECKS = "generic_trainer.model_checks"  # group of entry points
_PATIENCE = 3  # default of early_stop, in evaluations without improvement
# Headings of the documentation's tables, in this order.
MODULE, CLUSTER, PROCESS, MODEL, TRAINING, DATA = GROUPS = (
    "The module",
    "Workers and clusters",
    "The training process",
    "The model's checks",
    "The training",
    "The data",
)

T = TypeVar("T")
OptionValue: TypeAlias = "bool | int | float | str | tuple[str, ...] | None"


@dataclasses.dataclass(frozen=True)
class Option:
    """One option, as declared by its field in `TrainingOptions`.

    Attributes:
      name: The field's name. The flag has "-" instead of "_", and drops the "s" of an option that may be repeated.
      annotation: The field's type annotation as source text, such as "float | None".
      kind: The type without None: bool, int, float, str or tuple (of str).
      default: Default value.
      help: Description, for flags and documentation.
      offered: Allowed values, or a function that returns them; empty if any value is allowed.
      group: Heading of the documentation's table that lists the option.
      numbers: Range of a number; None for other types.
      metavar: Placeholder of the value in the flag's help. With DIR, FILE or URL, shell completion offers paths, and
        a value in a `--config` file is relative to that file.
      needs_cluster: Whether a value other than the default requires an engine of several processes.
      tuner: Whether the Tuner has the option.
      kubeflow: Whether the Kubeflow component has the option.
      changes_result: Whether the value is part of the training's identity, so that a run with another value does not
        resume from the checkpoints.
    """

    name: str
    annotation: str
    kind: type
    default: Any
    help: str
    offered: Sequence[str] | Callable[[], Sequence[str]]
    group: str
    numbers: NumberRange | None
    metavar: str | None
    needs_cluster: bool
    tuner: bool
    kubeflow: bool
    changes_result: bool

    @property
    def choices(self) -> Sequence[str]:
        """The allowed values; empty if any value is allowed."""
        return self.offered() if callable(self.offered) else self.offered

    @property
    def stored_type(self) -> type[str] | type[int] | type[float]:
        """Type of the option's execution property; ML Metadata has neither booleans nor lists."""
        stored: dict[type, type[str] | type[int] | type[float]] = {bool: int, int: int, float: float}
        return stored.get(self.kind, str)

    def stored(self, value: Any) -> str | int | float:
        """Returns the value as an execution property: a tuple as a JSON list, a boolean as 0 or 1."""
        return json.dumps(value) if isinstance(value, tuple) else self.stored_type(value)

    def parse(self, value: object) -> OptionValue:
        """Parses an execution property or a keyword.

        Raises:
          ValueError, TypeError: If the value cannot be parsed.
        """
        return _PARSERS[self.kind](value)

    def check(self, value: Any) -> None:
        """Checks a value against the choices and the range; None is allowed if it is the default.

        Raises:
          InputError: If the value is not allowed.
        """
        if value is None and self.default is None:
            return
        for one in value if isinstance(value, tuple) else (value,):
            if self.choices and one not in self.choices:
                raise InputError(
                    f"{self.name}={one!r}: choose from {', '.join(self.choices)}.{did_you_mean(str(one), self.choices)}"
                )
        if self.numbers is not None and not self.numbers.includes(value):
            remedy = ", or leave it out" if self.default is None else ""
            raise InputError(f"{self.name}={value!r}: give {self.numbers}{remedy}.")


def _option(
    default: T,
    help_text: str,
    choices: Sequence[str] | Callable[[], Sequence[str]] = (),
    *,
    group: str,
    numbers: NumberRange | None = None,
    metavar: str | None = None,
    needs_cluster: bool = False,
    tuner: bool = False,
    kubeflow: bool = True,
    changes_result: bool = False,
) -> T:
    """Declares an option; see `Option` for the arguments."""
    metadata = {
        "help": help_text,
        "offered": choices if callable(choices) else tuple(choices),
        "group": group,
        "numbers": numbers,
        "metavar": metavar,
        "needs_cluster": needs_cluster,
        "tuner": tuner,
        "kubeflow": kubeflow,
        "changes_result": changes_result,
    }
    return dataclasses.field(default=default, metadata=metadata)


def engine_names() -> Sequence[str]:
    """Returns the values of the option `engine`: the engines that packages have registered."""
    return [entry.name for entry in plugins.entries(ENGINES)]


def check_names() -> Sequence[str]:
    """Returns the values of the option `skip_checks`: the model checks that packages have registered."""
    return [entry.name for entry in plugins.entries(MODEL_CHECKS)]


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Options of one training run. Every field has a default.

    Raises:
      InputError: From the constructor, if a value is not among the choices or is out of range.
    """

    dialect: str = _option(
        "auto",
        "Dialect of the module; 'auto' detects it from the module's definitions.",
        group=MODULE,
        changes_result=True,
    )
    engine: str = _option(
        LOCAL, "Where run_fn runs: on this machine, or on the workers of a Ray cluster.", engine_names, group=CLUSTER
    )
    workers: str = _option(
        "1",
        "Number of workers: N, or MIN:MAX to use as many as the cluster has resources for.",
        group=CLUSTER,
        needs_cluster=True,
    )
    ps: int = _option(
        0, "Number of parameter servers, in addition to the workers.", group=CLUSTER, numbers=TASKS, needs_cluster=True
    )
    cluster_address: str | None = _option(
        None,
        "Address of the Ray cluster (default: RAY_ADDRESS, else a local cluster started for the run).",
        group=CLUSTER,
        needs_cluster=True,
    )
    cpus_per_worker: float = _option(
        1.0,
        "CPUs per worker and parameter server.",
        group=CLUSTER,
        numbers=CPUS,
        needs_cluster=True,
    )
    gpus_per_worker: float = _option(0.0, "GPUs per worker.", group=CLUSTER, numbers=AMOUNTS, needs_cluster=True)
    memory_gb_per_worker: float | None = _option(
        None,
        "Memory per worker, in 10^9 bytes (default: not requested).",
        group=CLUSTER,
        numbers=GIGABYTES,
        needs_cluster=True,
    )
    max_failures: int = _option(
        3,
        "Maximum number of restarts from the last checkpoint after worker failures; -1 for no limit.",
        group=CLUSTER,
        numbers=RETRIES_OR_NO_LIMIT,
        needs_cluster=True,
    )
    # Not for Kubeflow: its step always waits for a training subprocess, to report the outcome.
    isolate: bool = _option(
        True,
        "Train in a subprocess; its memory is freed on exit.",
        group=PROCESS,
        tuner=True,
        kubeflow=False,
    )
    keras: str = _option(
        "auto",
        "Keras version of the module's tf.keras: 2 (tf-keras) or 3; 'auto' detects it.",
        KERAS_CHOICES,
        group=MODULE,
        tuner=True,
    )
    required_signatures: tuple[str, ...] = _option(
        (), "Signature that the model must have; may be repeated.", group=MODEL
    )
    skip_checks: tuple[str, ...] = _option((), "Model check to skip; may be repeated.", check_names, group=MODEL)
    analysis_seconds: float = _option(
        2.0,
        "Time limit in seconds for comparing predictions with the labels of the eval split, and for the importance of "
        "features, in the report; 0 does neither.",
        group=MODEL,
        numbers=SECONDS_OR_NONE,
    )
    timeout: float | None = _option(
        None,
        "Seconds after which training is terminated as failed (default: no timeout).",
        group=PROCESS,
        numbers=SECONDS,
        tuner=True,
    )
    seed: int | None = _option(
        None,
        "Seed of Python, NumPy and TensorFlow; also set as fn_args.seed.",
        group=TRAINING,
        numbers=INT64,
        tuner=True,
        changes_result=True,
    )
    deterministic: bool = _option(
        False,
        "Enable TensorFlow's op determinism, with seed 0 if none is set. Training may be slower.",
        group=TRAINING,
    )
    early_stop: str | None = _option(
        None,
        "Early stopping: METRIC[:PATIENCE][:min|max], such as val_loss:3. PATIENCE counts evaluations (default: 3).",
        group=TRAINING,
    )
    best_model: str | None = _option(
        None,
        "Restore the weights of the best epoch after Keras's fit: METRIC[:min|max], such as val_auc.",
        group=TRAINING,
    )
    stop_on_nan: bool = _option(False, "Fail when the loss becomes NaN or infinite.", group=TRAINING)
    on_bad_records: str = _option(
        "error",
        "Handling of unreadable records: 'error', or skip:N to skip and list at most N of them.",
        group=DATA,
        tuner=True,
    )
    profile: bool = _option(
        False, "Profile a few seconds of training and report the time breakdown of a step.", group=TRAINING
    )
    track: str = _option(
        "auto",
        "Experiment tracker: mlflow, none, or auto: MLflow if MLFLOW_TRACKING_URI is set.",
        choices=("auto", "mlflow", "none"),
        group=TRAINING,
    )

    def __post_init__(self) -> None:
        options = declared_options(type(self))
        for option in options:
            option.check(getattr(self, option.name))
        if self.timeout is not None and not self.isolate:
            raise InputError("timeout needs isolate=True: only a subprocess can be ended in time.")
        if self.engine == LOCAL:
            for option in options:
                if option.needs_cluster and (value := getattr(self, option.name)) != option.default:
                    others = " or ".join(repr(name) for name in engine_names() if name != LOCAL) or "(none)"
                    raise InputError(f"{option.name}={value!r} needs engine={others}: {LOCAL!r} is one process.")
        _ = self.worker_range, self.stop_goal, self.best_goal, self.bad_records_limit

    @property
    def stop_goal(self) -> Goal | None:
        """The early-stopping goal that `early_stop` configures, or None.

        Raises:
          InputError: If `early_stop` is not of the form METRIC[:EVALUATIONS][:min|max].
        """
        return Goal.parse(self.early_stop, "early_stop", _PATIENCE) if self.early_stop else None

    @property
    def best_goal(self) -> Goal | None:
        """The goal of `best_model`, or None; raises an InputError like `stop_goal`."""
        return Goal.parse(self.best_model, "best_model") if self.best_model else None

    @property
    def bad_records_limit(self) -> int | None:
        """Maximum number of bad records to skip; None if every bad record is an error.

        Raises:
          InputError: If `on_bad_records` is neither "error" nor "skip:N".
        """
        if self.on_bad_records == "error":
            return None
        word, _, number = str(self.on_bad_records).partition(":")
        limit = POSITIVE.parse(number) if word == "skip" else None
        if limit is None:
            raise InputError(f"on_bad_records={self.on_bad_records!r}: give 'error', or a number as in skip:10.")
        return int(limit)

    @property
    def worker_range(self) -> tuple[int, int]:
        """Minimum and maximum number of workers.

        Raises:
          InputError: If `workers` is neither N nor MIN:MAX.
        """
        texts = str(self.workers).split(":")
        least, most = WORKERS.parse(texts[0]), WORKERS.parse(texts[-1])
        if least is None or most is None or least > most or len(texts) > 2:
            raise InputError(f"workers={self.workers!r}: give {WORKERS}, or the least and most, as in 1:4.")
        return int(least), int(most)

    def to_exec_properties(self) -> dict[str, str | int | float]:
        """Returns the options that differ from their defaults, as TFX execution properties.

        Tuples are stored as JSON lists and booleans as 0 or 1, because ML Metadata has neither type.
        """
        values = [(option, getattr(self, option.name)) for option in declared_options(type(self))]
        return {option.name: option.stored(value) for option, value in values if value != option.default}

    @classmethod
    def from_exec_properties(cls, properties: Mapping[str, object]) -> TrainingOptions:
        """Parses execution properties; missing, None and empty values mean the default.

        Args:
          properties: Execution properties as passed by an orchestrator. Kubeflow Pipelines passes all values as
            strings, so numbers and lists are parsed here.

        Raises:
          InputError: If a value cannot be parsed; the message names the property.
        """
        values: dict[str, Any] = {}
        for option in declared_options(cls):
            value = properties.get(option.name)
            if value is None or value == "":
                continue
            try:
                values[option.name] = option.parse(value)
            except (ValueError, TypeError) as error:
                raise InputError(f"execution property {option.name}={value!r} is not usable: {error}") from error
        return cls(**values)


def _parse_flag(value: object) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "1.0", "true", "yes"):
        return True
    if text in ("0", "0.0", "false", "no"):
        return False
    raise ValueError("expected true or false")


def _parse_integer(value: str | float) -> int:
    try:
        return int(str(value))
    except ValueError:  # Kubeflow writes integers as "7.0"
        number = float(value)
    if not number.is_integer():
        raise ValueError("expected an integer")
    return int(number)


def _parse_names(value: object) -> tuple[str, ...]:
    try:
        names = json.loads(value) if isinstance(value, str) else value
    except RecursionError:
        names = None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError('expected a JSON list of names such as ["serving_default"]')
    return tuple(names)


_PARSERS: dict[type, Callable[..., OptionValue]] = {
    bool: _parse_flag,
    int: _parse_integer,
    float: float,
    str: str,
    tuple: _parse_names,
}


def declared_options(declaration: type = TrainingOptions) -> tuple[Option, ...]:
    """Returns the options that the fields of a class declare, in field order.

    Raises:
      TypeError: If a field has a type that flags and execution properties do not support, or a number has no range.
    """
    return _declared(declaration)


@functools.cache
def _declared(declaration: type) -> tuple[Option, ...]:
    kinds = kinds_of(declaration)
    if unknown := {name: kind.__name__ for name, kind in kinds.items() if kind not in _PARSERS}:
        raise TypeError(f"{declaration.__name__}: {unknown}: an option is bool, int, float, str or tuple[str, ...].")
    options = tuple(
        Option(field.name, str(field.type), kinds[field.name], field.default, **field.metadata)
        for field in dataclasses.fields(declaration)
    )
    if endless := [option.name for option in options if option.kind in (int, float) and option.numbers is None]:
        raise TypeError(f"{declaration.__name__}: {endless}: declare the range of a number with numbers=….")
    return options


def kinds_of(declaration: type) -> dict[str, type]:
    """Returns the plain types of a dataclass's fields, such as tuple for `tuple[str, ...]` and int for `int | None`."""
    hints = typing.get_type_hints(declaration)
    return {field.name: _plain(hints[field.name]) for field in dataclasses.fields(declaration)}


def _plain(hint: Any) -> type:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        [hint] = [one for one in typing.get_args(hint) if one is not type(None)]
    kind: type = typing.get_origin(hint) or hint
    return kind


class TunerKeywords(TypedDict, total=False):
    """Keyword arguments of `Tuner` that set options, for type checkers and editors."""

    isolate: bool
    keras: str
    timeout: float | None
    seed: int | None
    on_bad_records: str


class TrainerKeywords(TunerKeywords, total=False):
    """Keyword arguments of `Trainer` that set options (all of them), for type checkers and editors."""

    dialect: str
    engine: str
    workers: str
    ps: int
    cluster_address: str | None
    cpus_per_worker: float
    gpus_per_worker: float
    memory_gb_per_worker: float | None
    max_failures: int
    required_signatures: Sequence[str]
    skip_checks: Sequence[str]
    deterministic: bool
    early_stop: str | None
    best_model: str | None
    stop_on_nan: bool
    profile: bool
    analysis_seconds: float
    track: str
