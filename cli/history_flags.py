"""Flags of the commands that look back: where the runs are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def store_flags(command: Command) -> Command:
    """Adds --pipeline-root and --metadata."""
    command = click.option(
        "--metadata", default="", metavar="URL", help="SQLite file or mysql://user:password@host:port/database."
    )(command)
    return click.option("--pipeline-root", multiple=True, metavar="DIR", help="A pipeline's root; repeatable.")(command)


def place_flags(command: Command) -> Command:
    """Adds --in, --pipeline-root and --metadata, where the arguments are runs."""
    return click.option(
        "--in",
        "places",
        multiple=True,
        metavar="PLACE",
        help="Where to look (default: the current folder); repeatable.",
    )(store_flags(command))


def where(flags: dict[str, Any]) -> dict[str, Any]:
    """Takes the places out of a command's values, as arguments of `find_runs` and `find_run`."""
    places = (*flags.pop("places"), *flags.pop("pipeline_root"))
    return {"places": places, "metadata": flags.pop("metadata")}
