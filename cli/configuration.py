"""`--config FILE.yaml`, which every command accepts: options in a YAML file.

    # taxi.yaml
    data: taxi/                  # paths are relative to this file
    module-file: taxi_keras.py
    label: big_tip
    slice-by: [trip_start_hour]  # a list for options that may be repeated
    custom-config: {epochs: 5}
    train:                       # for this command only; "group train:" for a command of a group
      train-files: [taxi/train*]
      output: out

Keys are the names of options without `--`, and of arguments; `train_steps` is the same as `train-steps`. Keys of other
commands are ignored, so that one file can be shared by several commands. Order of precedence: the command line,
environment variables (`GENERIC_TRAINER_RUN_LABEL` for `run --label`), the file, defaults. `--print-config` prints the
effective values and their sources in a form that `--config` accepts.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
import yaml
from click.core import ParameterSource

from ..executors.errors import InputError, did_you_mean
from ..executors.runtime.files.plain_values import require_plain
from ..executors.runtime.files.plain_yaml import PlainLoader, yaml_errors
from ..executors.runtime.files.user_text import read_user_file
from ..executors.runtime.logs.redaction import masked, masked_text
from . import commands
from .path_type import JSON, PathType, ReferenceType

Result = TypeVar("Result")

CONFIG, PRINT = "config", "print_config"
_ALIASES = {"module": "module_file", "module_file": "module"}
_SOURCES: dict[ParameterSource | None, str] = {
    ParameterSource.COMMANDLINE: "command line",
    ParameterSource.ENVIRONMENT: "environment",
}


def with_config(command: click.Command) -> click.Command:
    """Adds --config and --print-config to a command, or to the commands of a group."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_config(inner)
        return command
    if any(parameter.name == CONFIG for parameter in command.params):
        return command
    command.params += [
        click.Option(
            ["--config"], type=click.Path(), metavar="FILE", is_eager=True, expose_value=False, callback=_load_config,
            help="YAML file with option values. Command line and environment variables take precedence.",
        ),
        click.Option(["--print-config"], is_flag=True, help="Print all options with values and sources, and exit."),
    ]  # fmt: skip
    assert command.callback is not None
    command.callback = _with_print_config(command.callback)
    return command


def _with_print_config(callback: Callable[..., Result]) -> Callable[..., Result | None]:
    @functools.wraps(callback)
    def run(*arguments: object, print_config: bool, **options: object) -> Result | None:
        if print_config:
            click.echo(_effective_config(click.get_current_context()), nl=False)
            return None
        return callback(*arguments, **options)

    return run


def _load_config(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    del parameter
    if path:
        context.default_map = {**(context.default_map or {}), **read_config(path, context)}
        context.meta[CONFIG] = path


def read_config(path: str, context: click.Context) -> dict[str, str | list[str]]:
    """Reads a configuration file for the command of a context.

    Returns:
      {parameter: value}, with values as strings or lists of strings for the command's parser; paths are relative to
      the current folder.

    Raises:
      InputError: When the file cannot be read, is not a mapping, or has a key or value that the command does not
        accept; the message contains the line number.
    """
    file = _File(path, context)
    with yaml_errors(file.where):
        entries = _Loader(read_user_file(path, "--config").decode("utf-8"), file.where).get_single_data()
    if entries is None or (isinstance(entries, _Text) and entries.value is None):
        return {}
    if not isinstance(entries, dict):
        raise InputError(f"{file.where}: must be a mapping of options, such as `label: big_tip`.")
    names = commands.names()
    sections = {
        key: value for key, value in entries.items() if isinstance(value, dict) and key.partition(" ")[0] in names
    }
    shared = {key: value for key, value in entries.items() if key not in sections}
    own = sections.get(context.command_path.partition(" ")[2], {})
    options = {**file.options(shared, is_shared=True), **file.options(own, is_shared=False)}
    return {name: value for name, value in options.items() if value is not None}


class _Text(str):
    """A scalar as it would be on the command line, with its value in YAML and its line in the file."""

    value: object
    line: int


class _Loader(PlainLoader):
    """Returns scalars as `_Text`; their values are those of YAML 1.2: 1e-3 is a number, 1:4 and "no" are texts."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (of yaml.SafeLoader)
        None: [
            (f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"))
            for tag, pattern in (
                ("bool", "true|false"),
                ("null", "~|null|"),
                ("int", "[-+]?(0[0-7]*|[1-9][0-9]*)"),
                ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|(0|[1-9][0-9]*))([eE][-+]?[0-9]+)?"),
                ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
            )
        ]
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Returns a `_Text`, or a list or mapping of them."""
        value = super().construct_object(node, deep)
        if not isinstance(node, yaml.ScalarNode):
            return value
        text = _Text(node.value)
        text.value, text.line = value, node.start_mark.line + 1
        return text


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value.value


class _File:
    """A file for the command of a context."""

    def __init__(self, path: str, context: click.Context) -> None:
        self.where = f"--config {path}"
        self._folder, self._context = os.path.dirname(path), context

    def options(self, entries: Mapping[_Text, Any], is_shared: bool) -> dict[str, str | list[str] | None]:
        """Returns {parameter: value or None} of the whole file, whose keys other commands may have, or of a section."""
        keys: dict[str, _Text] = {}
        options: dict[str, str | list[str] | None] = {}
        for key, value in entries.items():
            place = f"{self.where}, line {key.line}: {key}"
            if (other := keys.setdefault(key.replace("-", "_"), key)) is not key:
                raise InputError(f"{place} is in line {other.line} already.")
            if parameter := _find_option(self._context.command, key):
                options[str(parameter.name)] = self._value(parameter, value, place)
            elif not is_shared or not any(_find_option(commands.load(name), key) for name in commands.names()):
                raise self._no_such_option(key)
        return options

    def _value(self, parameter: click.Parameter, value: Any, place: str) -> str | list[str] | None:
        """Returns the value as it would be given on the command line; raises InputError if the parser rejects it."""
        if isinstance(value, _Text) and value.value is None:
            return None
        several = parameter.multiple or parameter.nargs != 1
        if isinstance(value, dict):
            if parameter.type is not JSON:
                raise InputError(f"{place}: must be a value{' or a list' * several}, not a mapping.")
            require_plain(_plain(value), place)
            return json.dumps(_plain(value))
        if isinstance(value, list) and not several:
            raise InputError(f"{place}: must be one value, not a list.")
        words = value if isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in words):
            raise InputError(f"{place}: the items of a list must be plain values.")
        if isinstance(parameter.type, PathType | ReferenceType):
            words = [parameter.type.relative_to(self._folder, word) for word in words]
        given = [str(word) for word in words] if several else str(words[0])
        try:
            parameter.type_cast_value(self._context, given)
        except click.BadParameter as error:
            raise InputError(f"{place}: {error.message}") from error
        return given

    def _no_such_option(self, key: _Text) -> InputError:
        command = self._context.command
        nearest = did_you_mean(key.replace("_", "-"), [_key(option) for option in _options_by_key(command).values()])
        return InputError(
            f"{self.where}, line {key.line}: no such option: {str(key)!r}.{nearest} "
            f"`generic-trainer {command.name} --print-config` lists all options."
        )


def _find_option(command: click.Command, key: str) -> click.Parameter | None:
    """Returns the parameter for a key, or None; `module` and `module-file` are aliases in commands with one of them."""
    if isinstance(command, click.Group):
        options = (_find_option(inner, key) for inner in command.commands.values())
        return next((option for option in options if option), None)
    known = _options_by_key(command)
    name = key.replace("-", "_")
    return known.get(name) or known.get(_ALIASES.get(name, ""))


def _options_by_key(command: click.Command) -> dict[str, click.Parameter]:
    return {
        _key(parameter).replace("-", "_"): parameter
        for parameter in command.params
        if parameter.name not in (CONFIG, PRINT) and not getattr(parameter, "hidden", False)
    }


def _key(parameter: click.Parameter) -> str:
    """Returns a parameter's key in a file."""
    return max(parameter.opts, key=len).lstrip("-")


def _effective_config(context: click.Context) -> str:
    """Returns all options of a command with their effective values and sources, as YAML."""
    lines = [f"# {context.command_path}"]
    for parameter in _options_by_key(context.command).values():
        source = context.get_parameter_source(str(parameter.name))
        origin = context.meta[CONFIG] if source is ParameterSource.DEFAULT_MAP else _SOURCES.get(source, "default")
        value = {_key(parameter): _masked(parameter, context.params.get(str(parameter.name)))}
        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=1000, default_flow_style=False)
        first, *rest = text.splitlines()
        lines += [f"{first}  # {origin}", *rest]
    return "\n".join(lines) + "\n"


def _masked(parameter: click.Parameter, value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_masked(parameter, item) for item in value]
    if parameter.type is not JSON or not isinstance(value, str) or value.startswith("@"):
        return masked(value, str(parameter.name))
    try:
        return masked(json.loads(value))
    except (ValueError, RecursionError):
        return masked_text(value)
