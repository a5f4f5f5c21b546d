"""Checks the environment variables that set options: misspelled names are errors, unknown names are warnings.

GENERIC_TRAINER_RUN_LABLE=big_tip  # Did you mean GENERIC_TRAINER_RUN_LABEL?
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import click
from absl import logging

from ..executors.errors import InputError
from ..executors.spelling import is_misspelling, nearest
from . import commands

_PREFIX = "GENERIC_TRAINER_"
# Kubernetes sets these in each pod of a namespace with a Service called generic-trainer.
_SERVICE_LINK = re.compile(rf"{_PREFIX}(SERVICE_(HOST|PORT\w*)|PORT(_\d+_[A-Z]+\w*)?)")
# Set for this project's subprocesses, or read by other code than options.
_OTHERS = frozenset(
    _PREFIX + name
    for name in (
        "CHECK", "COMPLETE", "DATA", "FORK_SERVER", "FSYNC", "JOBSET_TASKS", "LOGS", "LOG_FILE", "METADATA_PASSWORD",
        "METADATA_PASSWORD_FILE", "PIPELINE_ROOT", "PROGRESS", "VERBOSE", "WORKER",
    )
)  # fmt: skip


def check_variables(environment: Mapping[str, str], command: str) -> None:
    """Checks the names of environment variables with the prefix GENERIC_TRAINER_; logs a warning for unknown ones.

    Variables of other commands are not checked, because importing their options takes time.

    Args:
      environment: All environment variables.
      command: The command that runs.

    Raises:
      InputError: When a name is a misspelling of a known one.
    """
    names = {name for name in environment if name.startswith(_PREFIX) and not _SERVICE_LINK.fullmatch(name)} - _OTHERS
    unknown = {name for name in names if _owner(name) in (command, None)}
    unknown -= set(_option_variables([command])) if unknown else set()
    if not unknown:
        return
    known = [name.removeprefix(_PREFIX) for name in (*_OTHERS, *_option_variables(commands.names()))]
    for name in sorted(unknown):
        own = name.removeprefix(_PREFIX)
        near = nearest(own, known)
        if near is not None and is_misspelling(own, near):
            raise InputError(
                f"{name}: no option has this environment variable. Did you mean {_PREFIX + near!r}? Rename it, "
                "or unset it."
            )
        logging.warning("%s: no option has this environment variable; it is ignored.", name)


def _owner(name: str) -> str | None:
    """Returns the command in a variable's name after the prefix; None if there is none."""
    return next((command for command in commands.names() if name.startswith(f"{_prefix_of(command)}_")), None)


def _prefix_of(command: str) -> str:
    return _PREFIX + command.upper().replace("-", "_")


def _option_variables(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from _variables_of(commands.load(name), _prefix_of(name))


def _variables_of(command: click.Command, prefix: str) -> Iterator[str]:
    yield f"{prefix}_CONFIG"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield f"{prefix}_{str(parameter.name).upper()}"
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _variables_of(inner, f"{prefix}_{name.upper().replace('-', '_')}")
