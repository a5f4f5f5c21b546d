"""Obsolete flags of other projects: accepted so that existing command lines work, and ignored with a message.

Usage:

    REMOVED = {"image_name": "processes are started by the platform"}

    @click.command()
    @removed_flags(REMOVED)
    def train(**flags):
        flags = without_removed(flags, REMOVED)     # --image_name is ignored: processes are started by the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
Value = TypeVar("Value")


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
