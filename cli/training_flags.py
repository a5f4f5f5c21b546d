"""Flags for the fields of `TrainingOptions` and for custom_config, shared by several sub-commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..executors.errors import InputError, StorageError
from ..executors.options import Option, TrainingOptions, declared_options
from ..executors.runtime.files import file_io
from ..executors.runtime.files.json_text import parsed_json

Command = TypeVar("Command", bound=Callable[..., object])


def training_flags(command: Command) -> Command:
    """Adds one flag per field of `TrainingOptions` to a command."""
    for option in reversed(declared_options()):
        command = click.option(*_names(option), **_settings(option))(command)
    return command


def _names(option: Option) -> list[str]:
    flag = option.name.replace("_", "-")
    if option.kind is bool:
        return [f"--{flag}/--no-{flag}"]
    return [f"--{flag.removesuffix('s')}", option.name] if option.kind is tuple else [f"--{flag}"]


def _settings(option: Option) -> dict[str, Any]:
    settings: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    choices = click.Choice(option.choices) if option.choices else None
    if option.kind is tuple:
        return {**settings, "multiple": True, "type": choices or str}
    settings |= {"default": option.default, "show_default": option.default is not None}
    return settings if option.kind is bool else {**settings, "type": choices or option.kind}


def options_from(flags: dict[str, Any]) -> TrainingOptions:
    """Removes the fields of `TrainingOptions` from a command's keyword arguments and returns them as options."""
    return TrainingOptions(**{option.name: flags.pop(option.name) for option in declared_options()})


custom_config_flag = click.option(
    "--custom-config",
    metavar="JSON|@FILE",
    help="JSON object for fn_args.custom_config, or @FILE to read it from a file.",
)


def parse_custom_config(value: str | None) -> dict[str, object] | None:
    """Parses the value of `--custom-config`: a JSON object, or "@" and the path of a file with one; None if empty.

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
