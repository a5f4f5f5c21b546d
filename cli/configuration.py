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

import dataclasses
import functools
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import click
import yaml
from click.core import ParameterSource

from ..executors.errors import InputError, did_you_mean
from ..executors.runtime.files.plain_values import require_plain
from ..executors.runtime.files.plain_yaml import PlainLoader, yaml_errors
from ..executors.runtime.files.user_text import read_user_file
from ..executors.runtime.logs.redaction import masked, masked_text
from . import commands
from .path_type import OUTPUT, PathType

Result = TypeVar("Result")

CONFIG, PRINT = "config", "print_config"
_COMPLETED = ("DIR", "FILE", "GLOB", "PLACE")
_PATHS = ("DIR", "FILE", "GLOB", "PLACE", "URL", "JSON|@FILE")
_REMOTE_COMMANDS = ("compile", "submit")  # paths other than --output may be on the file systems of other machines
_STORE_COMMANDS = ("train", "show", "report")  # read and write s3://, see executors/features/object_stores
_MODULES = ("module", "module_file", "transform_module", "tuner_module")  # a file or a dotted module name
_OR_FILE = "|FILE"  # the end of the metavar of other options with either
_ALIASES = {"module": "module_file", "module_file": "module"}
_SOURCES = {
    ParameterSource.COMMANDLINE: "command line",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT_MAP: "",
}


def with_config(command: click.Command) -> click.Command:
    """Adds --config and --print-config to a command, or to the commands of a group, and shell completion of paths."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_config(inner)
        return command
    if any(parameter.name == CONFIG for parameter in command.params):
        return command
    for parameter in command.params:
        if _metavar(parameter) in _COMPLETED and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = PathType(
                _metavar(parameter),
                is_local=command.name not in _REMOTE_COMMANDS or OUTPUT in parameter.opts,
                has_stores=command.name in (*_STORE_COMMANDS, *_REMOTE_COMMANDS),
            )
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
    entries: dict[str, _Entry] = {}
    for entry in _entries(path, context):
        entries[entry.name] = entry
    return {name: entry.value(context) for name, entry in entries.items() if not entry.is_null}


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One key of a file with its YAML node."""

    path: str
    parameter: click.Parameter
    key: yaml.ScalarNode
    node: yaml.Node
    loader: _Loader

    @property
    def name(self) -> str:
        return str(self.parameter.name)

    @property
    def is_null(self) -> bool:
        return bool(self.node.tag == "tag:yaml.org,2002:null")

    @property
    def where(self) -> str:
        return f"{self.path}, line {self.key.start_mark.line + 1}: {self.key.value}"

    def value(self, context: click.Context) -> str | list[str]:
        """Returns the value as it would be given on the command line; raises InputError if the parser rejects it."""
        several = self.parameter.multiple or self.parameter.nargs != 1
        if isinstance(self.node, yaml.MappingNode):
            if _metavar(self.parameter) != "JSON|@FILE":
                raise InputError(f"{self.where}: must be a value{' or a list' * several}, not a mapping.")
            with yaml_errors(self.where):
                value = self.loader.construct_object(self.node, deep=True)
            require_plain(value, self.where)
            return json.dumps(value)
        nodes = self.node.value if isinstance(self.node, yaml.SequenceNode) else [self.node]
        if not all(isinstance(node, yaml.ScalarNode) for node in nodes):
            raise InputError(f"{self.where}: the items of a list must be plain values.")
        if isinstance(self.node, yaml.SequenceNode) and not several:
            raise InputError(f"{self.where}: must be one value, not a list.")
        words = [self._relative_path(node.value) for node in nodes]
        text: str | list[str] = words if several else words[0]
        try:
            self.parameter.type_cast_value(context, text)
        except click.BadParameter as error:
            raise InputError(f"{self.where}: {error.message}") from error
        return text

    def _relative_path(self, word: str) -> str:
        """Returns a path relative to the current folder; other values unchanged."""
        mark = "@" if word.startswith("@") else ""
        plain = word.removeprefix("@") if _metavar(self.parameter) == "JSON|@FILE" else word
        joined = os.path.normpath(os.path.join(os.path.dirname(self.path), plain))
        if "://" in plain or plain in ("", "-"):
            return word
        if self.name in _MODULES or _metavar(self.parameter).endswith(_OR_FILE):
            return joined if os.path.exists(joined.partition("@")[2] or joined) else word
        if _metavar(self.parameter) == "JSON|@FILE":
            return mark + joined if mark else word
        return joined if _metavar(self.parameter) in _PATHS else word


class _Loader(PlainLoader):
    """Resolves plain scalars as in YAML 1.2: 1:4 is not a number in base 60, and "no" is not false."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", "true|false", "tf"),
    ("null", "~|null|", "~n\0"),
    ("int", "[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(f"^(?:{_pattern})$"),
        [*_first.replace("\0", ""), *([""] * ("\0" in _first))],
    )


def _entries(path: str, context: click.Context) -> Iterator[_Entry]:
    """Yields a file's entries for a command: first those for all commands, then those in its own section."""
    where = f"--config {path}"
    content = read_user_file(path, "--config")
    with yaml_errors(where):
        loader = _Loader(content.decode("utf-8"), where)
        node = loader.get_single_node()
    if node is None:
        return
    command = context.command_path.partition(" ")[2]
    sections = []
    for key, value in _pairs(node, path):
        if isinstance(value, yaml.MappingNode) and str(key.value).partition(" ")[0] in commands.names():
            sections += [value] * (key.value == command)
        elif (parameter := _find_option(context.command, key.value)) is not None:
            yield _Entry(path, parameter, key, value, loader)
        elif not any(_find_option(commands.load(name), key.value) for name in commands.names()):
            raise _no_such_option(path, key, context.command)
    for section in sections:
        for key, value in _pairs(section, path):
            parameter = _find_option(context.command, key.value)
            if parameter is None:
                raise _no_such_option(path, key, context.command)
            yield _Entry(path, parameter, key, value, loader)


def _pairs(node: yaml.Node, path: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1
        raise InputError(f"--config {path}, line {line}: must be a mapping of options, such as `label: big_tip`.")
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"--config {path}, line {key.start_mark.line + 1}: an option's name must be one word.")
        name = str(key.value).replace("-", "_")
        if name in lines:
            raise InputError(
                f"--config {path}, line {key.start_mark.line + 1}: {key.value} is in line {lines[name]} already."
            )
        lines[name] = key.start_mark.line + 1
        yield key, value


def _find_option(command: click.Command, key: str) -> click.Parameter | None:
    """Returns the parameter for a key, or None; `module` and `module-file` are aliases in commands with one of them."""
    if isinstance(command, click.Group):
        return next((found for one in command.commands.values() if (found := _find_option(one, key))), None)
    known = _options_by_key(command)
    name = key.replace("-", "_")
    return known.get(name) or known.get(_ALIASES.get(name, ""))


def _options_by_key(command: click.Command) -> dict[str, click.Parameter]:
    known: dict[str, click.Parameter] = {}
    for parameter in command.params:
        if parameter.name not in (CONFIG, PRINT) and not getattr(parameter, "hidden", False):
            known[_key(parameter).replace("-", "_")] = parameter
    return known


def _key(parameter: click.Parameter) -> str:
    """Returns a parameter's key in a file."""
    if isinstance(parameter, click.Argument):
        return str(parameter.name)
    return max(parameter.opts, key=len).lstrip("-")


def _no_such_option(path: str, key: yaml.ScalarNode, command: click.Command) -> InputError:
    names = [_key(parameter) for parameter in _options_by_key(command).values()]
    nearest = did_you_mean(str(key.value).replace("_", "-"), names)
    return InputError(
        f"--config {path}, line {key.start_mark.line + 1}: no such option: {key.value!r}.{nearest} "
        f"`generic-trainer {command.name} --print-config` lists all options."
    )


def _metavar(parameter: click.Parameter) -> str:
    return str(parameter.metavar or "").strip("[]")


def _effective_config(context: click.Context) -> str:
    """Returns all options of a command with their effective values and sources, as YAML."""
    lines = [f"# {context.command_path}"]
    for parameter in _options_by_key(context.command).values():
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        value = _masked(name, context.params.get(name), _metavar(parameter))
        origin = _SOURCES.get(source, "default") if source else "default"
        first, *rest = yaml.safe_dump(
            {_key(parameter): value}, allow_unicode=True, sort_keys=False, width=1000, default_flow_style=False
        ).splitlines()
        lines += [f"{first}  # {origin or context.meta[CONFIG]}", *rest]
    return "\n".join(lines) + "\n"


def _masked(name: str, value: object, metavar: str) -> object:
    if isinstance(value, (list, tuple)):
        return [_masked(name, one, metavar) for one in value]
    if metavar == "JSON|@FILE" and isinstance(value, str) and not value.startswith("@"):
        return _masked_json(value)
    return masked(value, name)


def _masked_json(text: str) -> object:
    try:
        values: object = json.loads(text)
    except (ValueError, RecursionError):
        return masked_text(text)
    return masked(values)
