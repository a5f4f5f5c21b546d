"""Flags with the locations of past runs, shared by the commands that read them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar
from urllib.parse import urlsplit

import click

from ..executors.errors import InputError
from ..executors.runtime.logs.unrepeated import unrepeated_warnings
from .path_type import DIR, PLACE, URL

Result = TypeVar("Result")


class Locations(TypedDict):
    """Arguments of `find_runs` and `find_run`."""

    places: tuple[str, ...]
    metadata: str


def _without_password(context: click.Context, parameter: click.Parameter, url: str) -> str:
    """Raises InputError for a password on the command line, where all users can read it in the process list."""
    source = context.get_parameter_source(parameter.name or "")
    if source == click.core.ParameterSource.COMMANDLINE and "://" in url and urlsplit(url).password:
        raise InputError(
            "--metadata: a password on the command line is visible to all users of this machine. Use "
            "mysql://user@host:port/database and set GENERIC_TRAINER_METADATA_PASSWORD to the password, or "
            "GENERIC_TRAINER_METADATA_PASSWORD_FILE to the path of a file with the password."
        )
    return url


metadata_flag = click.option(
    "--metadata",
    default="",
    type=URL,
    callback=_without_password,
    help="SQLite file or mysql://user@host:port/database; password in GENERIC_TRAINER_METADATA_PASSWORD.",
)


def store_flags(command: Callable[..., Result]) -> Callable[..., Result]:
    """Adds --pipeline-root and --metadata to a command, which gets them with its places as `locations`."""

    @functools.wraps(command)
    def run(*arguments: object, **flags: Any) -> Result:
        return command(*arguments, locations=pop_locations(flags), **flags)

    return click.option("--pipeline-root", multiple=True, type=DIR, help="Pipeline root; repeatable.")(
        metadata_flag(run)
    )


def location_flags(command: Callable[..., Result]) -> Callable[..., Result]:
    """Adds --in, --pipeline-root and --metadata to a command with runs as arguments, which gets `locations`."""
    return click.option(
        "--in",
        "places",
        multiple=True,
        type=PLACE,
        help="Where to search for runs (default: the current directory); repeatable.",
    )(store_flags(unrepeated_warnings()(command)))


def pop_locations(flags: dict[str, Any]) -> Locations:
    """Removes the locations from a command's flags and returns them."""
    places = (*(flags.pop("places", None) or ()), *(flags.pop("pipeline_root", None) or ()))
    return {"places": places, "metadata": flags.pop("metadata", None) or ""}
