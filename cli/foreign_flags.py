"""Command lines of other projects: obsolete flags are ignored with a message, others may be abbreviated.

Usage:

    REMOVED = {"image_name": "processes are started by the platform"}

    @click.command(context_settings=abbreviations(["num_ps_pods", "num_workers"]))      # --num_ps=2
    @removed_flags(REMOVED)
    def train(**flags):
        flags = without_removed(flags, REMOVED)     # --image_name is ignored: processes are started by the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
Value = TypeVar("Value")
_SHORTEST = 2  # characters of an abbreviation; click passes the letters of short options such as -h, too


def abbreviations(names: Collection[str]) -> dict[str, Callable[[str], str]]:
    """Returns the context settings of a command that accepts each unique beginning of some of its flags.

    Args:
      names: The flags of the other project, without dashes. The command's own flags cannot be abbreviated.
    """

    def full_name(given: str) -> str:
        if given in names or len(given) < _SHORTEST:
            return given
        matches = [name for name in names if name.startswith(given)]
        return matches[0] if len(matches) == 1 else given

    return {"token_normalize_func": full_name}


def removed_flags(removed: Mapping[str, str]) -> Callable[[Command], Command]:
    """Returns a decorator that adds obsolete flags, with an optional value, hidden from the help.

    Args:
      removed: {flag name: reason or replacement}.
    """

    def add(command: Command) -> Command:
        for name in sorted(removed, reverse=True):
            command = click.option(f"--{name}", hidden=True, is_flag=False, flag_value="true")(command)
        return command

    return add


def without_removed(flags: Mapping[str, Value], removed: Mapping[str, str]) -> dict[str, Value]:
    """Returns a command's flags without the obsolete ones; prints the reason or replacement of each one given."""
    for name in [name for name in flags if name in removed and flags[name] is not None]:
        click.echo(f"--{name} is ignored: {removed[name]}.", err=True)
    return {name: value for name, value in flags.items() if name not in removed}
