"""The sub-commands: click commands that packages register by entry point, each imported on first use.

    [options.entry_points]
    generic_trainer.commands =
        score = my_package.score:score

A command that `submit` can submit is a `JobCommand` (`submitted_command.py`).
"""

from __future__ import annotations

from typing import cast

import click

from ..executors import plugins
from ..executors.errors import InputError

_GROUP = "generic_trainer.commands"
# The order of the help, in which other commands come between the two.
_FIRST = (
    *("init", "check", "train", "script", "run", "predict"),
    *("watch", "runs", "show", "report", "diff", "lineage", "convert"),
)
_LAST = ("submit", "compile", "completion")


def names() -> list[str]:
    """Returns the names of all commands in the order of the help."""
    registered = [entry.name for entry in plugins.entries(_GROUP)]
    others = [name for name in registered if name not in (*_FIRST, *_LAST)]
    return [name for name in (*_FIRST, *others, *_LAST) if name in registered]


def load(name: str) -> click.Command:
    """Imports a registered command; for one that cannot be imported, returns a command that only raises that error."""
    try:
        return cast("click.Command", plugins.load_one(_GROUP, name))
    except InputError as error:
        return _broken(name, error)


def _broken(name: str, error: InputError) -> click.Command:
    def fail() -> None:
        raise error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(name, settings, fail, help=str(error))
