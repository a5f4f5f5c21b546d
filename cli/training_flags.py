"""Flags that several sub-commands share: `TrainingOptions`, field by field, and custom_config."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..executors.errors import InputError, StorageError
from ..executors.options import STORED_AS, TrainingOptions
from ..executors.runtime.files import file_io
from ..executors.runtime.files.json_text import parsed_json

Command = TypeVar("Command", bound=Callable[..., Any])


def training_flags(command: Command) -> Command:
    """Adds one flag for each field of `TrainingOptions`, named and explained as it is there."""
    for field in reversed(dataclasses.fields(TrainingOptions)):
        name, default = field.name.replace("_", "-"), field.default
        choices = click.Choice(field.metadata["choices"]) if field.metadata["choices"] else None
        help_text = field.metadata["help"]
        if isinstance(default, bool):
            option = click.option(f"--{name}/--no-{name}", default=default, help=help_text, show_default=True)
        elif isinstance(default, tuple):
            flag = f"--{name.removesuffix('s')}"
            option = click.option(flag, field.name, multiple=True, type=choices or str, help=help_text)
        else:
            kind: Any = choices or STORED_AS.get(field.name) or str
            option = click.option(
                f"--{name}", default=default, type=kind, help=help_text, show_default=default is not None
            )
        command = option(command)
    return command


def options_from(flags: dict[str, Any]) -> TrainingOptions:
    """Takes the fields of `TrainingOptions` out of a command's keyword arguments."""
    return TrainingOptions(**{field.name: flags.pop(field.name) for field in dataclasses.fields(TrainingOptions)})


custom_config_flag = click.option(
    "--custom-config", metavar="JSON|@FILE", help="A JSON object for fn_args.custom_config, or @ and a file with one."
)


def parse_custom_config(value: str | None) -> dict[str, Any] | None:
    """Reads the value of `--custom-config`.

    Raises:
      InputError: When it is not a JSON object, or the file cannot be read.
    """
    if not value:
        return None
    text: str | bytes = value
    if value.startswith("@"):
        try:
            text = file_io.read_bytes(value[1:])
        except StorageError as error:
            raise InputError(f"--custom-config {value}: {error}") from error
        except OSError as error:
            raise InputError(f"--custom-config {value}: cannot read the file ({error.strerror}).") from error
    try:
        config = parsed_json(text, f"--custom-config {value!r}")
    except InputError as error:
        raise InputError(f"{error}. Write it as '{{\"epochs\": 3}}', or @file.json.") from error
    if not isinstance(config, dict):
        raise InputError(f"--custom-config {value!r} must be a JSON object, not a {type(config).__name__}.")
    return config
