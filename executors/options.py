"""The options of a training run, in addition to those of TFX's Trainer.

Those of the steps that every run has are declared here. A feature, an engine or another package declares its own in a
class that it registers by entry point in the group `generic_trainer.options`; see `option.py`. Together they are the
fields of `TrainingOptions`.

Usage:

    options = TrainingOptions(keras="2", required_signatures=("serving_default",), timeout=3600)
    TrainingOptions.from_exec_properties(options.to_exec_properties()) == options
    [option.name for option in declared_options() if option.tuner]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from . import plugins
from .errors import InputError, did_you_mean
from .number_range import INT64, SECONDS
from .option import CLUSTER, MODEL, MODULE, PROCESS, TRAINING, Option, option, options_of

LOCAL = "local"
# Groups of entry points.
ENGINES, OPTIONS, MODEL_CHECKS = "generic_trainer.engines", "generic_trainer.options", "generic_trainer.model_checks"
KERAS_CHOICES = ("auto", "2", "3")
# Execution properties of the Trainer and the Tuner that are no options; TFX documents the last two, and ignores them.
_OTHER_PROPERTIES = (
    *("train_args", "eval_args", "tune_args", "train_steps", "eval_steps", "custom_config"),
    *("module_file", "module_path", "module_fingerprint", "run_fn", "trainer_fn", "tuner_fn"),
    *("warm_starting", "warm_start_from"),
)


def engine_names() -> Sequence[str]:
    """Returns the values of the option `engine`: the engines that packages have registered."""
    return [entry.name for entry in plugins.entries(ENGINES)]


def check_names() -> Sequence[str]:
    """Returns the values of the option `skip_checks`: the model checks that packages have registered."""
    return [entry.name for entry in plugins.entries(MODEL_CHECKS)]


class KernelOptions:
    """The options of the steps that every run has, and the methods of `TrainingOptions`.

    Attributes:
      DECLARED: All options of `TrainingOptions`, those of other owners included.
    """

    DECLARED: ClassVar[tuple[Option, ...]] = ()

    dialect: str = option(
        "auto",
        "Dialect of the module; 'auto' detects it from the module's definitions.",
        group=MODULE,
        order=10,
        changes_result=True,
    )
    engine: str = option(
        LOCAL,
        f"The engine that runs run_fn; {LOCAL!r} is this machine.",
        engine_names,
        group=CLUSTER,
        order=10,
    )
    # Not for Kubeflow: its step always waits for a training subprocess, to report the outcome.
    isolate: bool = option(
        True,
        "Train in a subprocess; its memory is freed on exit.",
        group=PROCESS,
        order=30,
        tuner=True,
        kubeflow=False,
    )
    keras: str = option(
        "auto",
        "Keras version of the module's tf.keras: 2 (tf-keras) or 3; 'auto' detects it.",
        KERAS_CHOICES,
        group=MODULE,
        order=30,
        tuner=True,
    )
    required_signatures: tuple[str, ...] = option(
        (), "Signature that the model must have; may be repeated.", group=MODEL, order=30
    )
    skip_checks: tuple[str, ...] = option(
        (), "Model check to skip; may be repeated.", check_names, group=MODEL, order=30
    )
    timeout: float | None = option(
        None,
        "Seconds after which training is terminated as failed (default: no timeout).",
        group=PROCESS,
        order=50,
        numbers=SECONDS,
        tuner=True,
    )
    seed: int | None = option(
        None,
        "Seed of Python, NumPy and TensorFlow; also set as fn_args.seed.",
        group=TRAINING,
        order=50,
        numbers=INT64,
        tuner=True,
        changes_result=True,
    )
    deterministic: bool = option(
        False,
        "Enable TensorFlow's op determinism, with seed 0 if none is set. Training may be slower.",
        group=TRAINING,
        order=50,
    )

    def __post_init__(self) -> None:
        for declared in self.DECLARED:
            value = getattr(self, declared.name)
            declared.require_valid(value)
            if declared.needs_cluster and self.engine == LOCAL and value != declared.default:
                others = " or ".join(repr(name) for name in engine_names() if name != LOCAL) or "(none)"
                raise InputError(f"{declared.name}={value!r} needs engine={others}: {LOCAL!r} is one process.")
        if self.timeout is not None and not self.isolate:
            raise InputError("timeout needs isolate=True: only a subprocess can be ended in time.")

    def to_exec_properties(self) -> dict[str, str | int | float]:
        """Returns the options that differ from their defaults, as TFX execution properties.

        Tuples are stored as JSON lists and booleans as 0 or 1, because ML Metadata has neither type.
        """
        values = [(declared, getattr(self, declared.name)) for declared in self.DECLARED]
        return {declared.name: declared.stored(value) for declared, value in values if value != declared.default}

    @classmethod
    def from_exec_properties(cls, properties: Mapping[str, object]) -> TrainingOptions:
        """Parses execution properties; missing, None and empty values mean the default.

        Args:
          properties: Execution properties as passed by an orchestrator. Kubeflow Pipelines passes all values as
            strings, so numbers and lists are parsed here.

        Raises:
          InputError: If a value cannot be parsed, or no installed package declares the option; the message names the
            property.
        """
        known = {declared.name: declared for declared in cls.DECLARED}
        values: dict[str, Any] = {}
        for name, value in properties.items():
            if value is None or value == "" or name in _OTHER_PROPERTIES:
                continue
            if name not in known:
                raise InputError(
                    f"execution property {name}={value!r}: no installed package declares this option."
                    f"{did_you_mean(name, known)} Install the package that does, or omit the option."
                )
            try:
                values[name] = known[name].parse(value)
            except (ValueError, TypeError) as error:
                raise InputError(f"execution property {name}={value!r} is not usable: {error}") from error
        return cast("type[TrainingOptions]", cls)(**values)


def options_class(declarations: Iterable[type]) -> type[KernelOptions]:
    """Returns a frozen dataclass with the options that classes declare, in their order.

    Raises:
      InputError: If two classes declare an option of the same name.
    """
    owners: dict[str, type] = {}
    options = []
    for declaration in declarations:
        for declared in options_of(declaration):
            if (owner := owners.setdefault(declared.name, declaration)) is not declaration:
                names = " and ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in (owner, declaration))
                raise InputError(f"{names} both declare the option {declared.name!r}. Remove one of their packages.")
            options.append(declared)
    options.sort(key=lambda declared: declared.order)
    fields = [(declared.name, declared.annotation, dataclasses.field(default=declared.default)) for declared in options]
    members = {"DECLARED": tuple(options), "__doc__": "Options of one training run.", "__module__": __name__}
    return dataclasses.make_dataclass("TrainingOptions", fields, bases=(KernelOptions,), namespace=members, frozen=True)


if TYPE_CHECKING:
    from .option_types import TrainingOptions as TrainingOptions
else:
    TrainingOptions = options_class([KernelOptions, *plugins.load(OPTIONS).values()])


def declared_options() -> tuple[Option, ...]:
    """Returns the options of all installed packages, in the order of the fields of `TrainingOptions`."""
    return TrainingOptions.DECLARED
