"""The declaration of a training option by its owner: the kernel, a feature, an engine, or another package.

Usage, in a module that a package registers by entry point in the group `generic_trainer.options`:

    class WarmUpOptions:
        warm_up: int = option(0, "Steps before the first that counts.", group=TRAINING, numbers=TASKS)

The option is then a field of `TrainingOptions`. Flags, `--config` keys, execution properties, keywords of the
components, parameters of the Kubeflow component and the documentation's tables are derived from the declaration. Each
process that has options imports the module, so it should import little else.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from .errors import InputError, did_you_mean
from .number_range import NumberRange

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
    """One option: the arguments of `option`, and those of its field.

    Attributes:
      offered: The argument `choices`.
      name: The field's name. The flag has "-" instead of "_", and drops the "s" of an option that may be repeated.
      annotation: The field's type annotation as source text, such as "float | None".
      kind: The type without None: bool, int, float, str or tuple (of str).
    """

    default: Any
    help: str
    offered: Sequence[str] | Callable[[], Sequence[str]]
    group: str
    order: int
    numbers: NumberRange | None
    check: Callable[[Any], object] | None
    metavar: str | None
    needs_cluster: bool
    tuner: bool
    kubeflow: bool
    changes_result: bool
    name: str = ""
    annotation: str = ""
    kind: type = str

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

    def require_valid(self, value: Any) -> None:
        """Checks a value against the choices, the range and `check`; None is allowed if it is the default.

        Raises:
          InputError: If the value is not allowed.
        """
        if value is None and self.default is None:
            return
        for choice in value if isinstance(value, tuple) else (value,):
            if self.choices and choice not in self.choices:
                raise InputError(
                    f"{self.name}={choice!r}: choose from {', '.join(self.choices)}."
                    f"{did_you_mean(str(choice), self.choices)}"
                )
        if self.numbers is not None and not self.numbers.includes(value):
            remedy = ", or leave it out" if self.default is None else ""
            raise InputError(f"{self.name}={value!r}: give {self.numbers}{remedy}.")
        if self.check is not None:
            try:
                self.check(value)
            except InputError:
                raise
            except (TypeError, ValueError) as error:
                raise InputError(f"{self.name}={value!r}: {error}") from error


def option(  # noqa: PLR0913 (the facts of a declaration, as of dataclasses.field)
    default: T,
    help_text: str,
    choices: Sequence[str] | Callable[[], Sequence[str]] = (),
    *,
    group: str = TRAINING,
    order: int = 100,
    numbers: NumberRange | None = None,
    check: Callable[[Any], object] | None = None,
    metavar: str | None = None,
    needs_cluster: bool = False,
    tuner: bool = False,
    kubeflow: bool = True,
    changes_result: bool = False,
) -> T:
    """Declares an option of a training run as an attribute of a class.

    Its type is bool, int, float, str or tuple[str, ...]; with the default None, it is a type such as `int | None`.

    Args:
      default: Default value.
      help_text: Description, for flags and documentation.
      choices: Allowed values, or a function that returns them; empty if any value is allowed.
      group: Heading of the documentation's table that lists the option.
      order: Position in the help: options of a lower order come first.
      numbers: Range of a number, a `generic_trainer.executors.number_range.NumberRange`.
      check: Called with a value that is not None; raises an InputError if it is not allowed.
      metavar: Placeholder of the value in the flag's help. With DIR, FILE or URL, shell completion offers paths, and
        a value in a `--config` file is relative to that file.
      needs_cluster: Whether a value other than the default requires an engine of several processes.
      tuner: Whether the Tuner has the option.
      kubeflow: Whether the Kubeflow component has the option.
      changes_result: Whether the value is part of the training's identity, so that a run with another value does not
        resume from the checkpoints.
    """
    where = (needs_cluster, tuner, kubeflow, changes_result)
    return cast(T, Option(default, help_text, choices, group, order, numbers, check, metavar, *where))


def options_of(declaration: type) -> list[Option]:
    """Returns the options that a class declares.

    Raises:
      InputError: If one has a type that flags and execution properties do not support, or a number has no range.
    """
    where, annotations = f"{declaration.__module__}.{declaration.__qualname__}", inspect.get_annotations(declaration)
    kinds = kinds_of(declaration)
    declared = {name: value for name, value in vars(declaration).items() if isinstance(value, Option)}
    if unknown := {name: kinds.get(name) for name in declared if kinds.get(name) not in _PARSERS}:
        raise InputError(f"{where}: {unknown}: an option is bool, int, float, str or tuple[str, ...].")
    if endless := [name for name, value in declared.items() if kinds[name] in (int, float) and value.numbers is None]:
        raise InputError(f"{where}: {endless}: declare the range of a number with numbers=….")
    return [
        dataclasses.replace(value, name=name, annotation=_source_text(annotations[name]), kind=kinds[name])
        for name, value in declared.items()
    ]


def kinds_of(declaration: type) -> dict[str, type]:
    """Returns the plain types of a class's fields, such as tuple for `tuple[str, ...]` and int for `int | None`."""
    hints = typing.get_type_hints(declaration)
    return {name: _plain(hint) for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}


def _plain(hint: Any) -> type:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        [hint] = [part for part in typing.get_args(hint) if part is not type(None)]
    kind: type = typing.get_origin(hint) or hint
    return kind


def _source_text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


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


_PARSERS: dict[type | None, Callable[..., OptionValue]] = {
    bool: _parse_flag,
    int: _parse_integer,
    float: float,
    str: str,
    tuple: _parse_names,
}
