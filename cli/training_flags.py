"""Flags for the fields of `TrainingOptions` and for custom_config, shared by several sub-commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..executors.errors import InputError
from ..executors.option import Option
from ..executors.options import TrainingOptions, declared_options
from ..executors.runtime.files.plain_values import parsed_json, require_plain
from ..executors.runtime.files.user_text import read_user_file
from .number_type import NumberType
from .path_type import BY_METAVAR, JSON

Command = TypeVar("Command", bound=Callable[..., object])


def adding(*flags: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Returns a decorator that adds flags to a command, in this order."""

    def add(command: Command) -> Command:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add


def training_flags(command: Command) -> Command:
    """Adds one flag per field of `TrainingOptions` to a command."""
    return adding(*(click.option(*_names(option), **_settings(option)) for option in declared_options()))(command)


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
    if option.numbers:
        return {**settings, "type": NumberType(option.numbers)}
    kind = choices or BY_METAVAR.get(option.metavar or "") or option.kind
    return settings if option.kind is bool else {**settings, "type": kind}


def options_from(flags: dict[str, Any]) -> TrainingOptions:
    """Removes the fields of `TrainingOptions` from a command's keyword arguments and returns them as options."""
    return TrainingOptions(**{option.name: flags.pop(option.name) for option in declared_options()})


custom_config_flag = click.option(
    "--custom-config", type=JSON, help="JSON object for fn_args.custom_config, or @FILE to read it from a file."
)


def parse_custom_config(value: str | None) -> dict[str, object] | None:
    """Parses the value of `--custom-config`: a JSON object, or "@" and the path of a file with one; None if empty.

    Raises:
      InputError: When it is not a JSON object, or the file cannot be read.
    """
    if not value:
        return None
    text = read_user_file(value[1:], "--custom-config") if value.startswith("@") else value
    try:
        config = parsed_json(text, f"--custom-config {value!r}")
    except InputError as error:
        raise InputError(f"{error} Write it as '{{\"epochs\": 3}}', or @file.json.") from error
    require_plain(config, f"--custom-config {value!r}")
    if not isinstance(config, dict):
        raise InputError(f"--custom-config {value!r} must be a JSON object, not a {type(config).__name__}.")
    return config
