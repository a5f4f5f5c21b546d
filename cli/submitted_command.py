"""Parses a command line to submit with the command's own parser, without running it, and changes its values.

    line = read_command_line(["train", "taxi.py", "--train-files", "gs://b/train*", "--output", "gs://b/out", …])
    line.values["train_files"]                                 # ("gs://b/train*",), as the command would get it
    line.words({"module": "taxi@gs://b/code/taxi-3f2a.zip"})   # the same command line with another module

Command lines that the command would reject raise the same errors here. Options are written as `--name=value`, in their
original order. A command that can be submitted declares what `submit` needs:

    @click.command(cls=JobCommand, submittable=Submittable("module"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from ..executors.errors import InputError, did_you_mean
from ..executors.options import TrainingOptions
from . import commands
from .path_type import SUBMITTED
from .training_flags import options_from
from .worker_counts import CountFlags, with_counts


@dataclasses.dataclass(frozen=True)
class Submittable:
    """The parameters of a command that `submit` reads or replaces, by name.

    Attributes:
      module: Name of the parameter with the training module.
      file_in: If that parameter is a folder: returns the module's file in it, given the command's values.
      named_by: Name of the parameter from which the job's name is derived; "" for `module`.
      counts: Its own flags for the number of workers and parameter servers; None for no others than --workers and --ps.
      replaced: Further parameters that a platform without Ray replaces by replicas.
      tables: Parameters with the path of data that it reads, or with the name of a table in a database.
      inputs: Parameters with a path that it reads, besides those of `train` and `run`.
      outputs: Parameters with a path that it writes, besides --output.
      note: A note to show to the user; "" for none.
    """

    module: str
    file_in: Callable[[Mapping[str, Any]], str] | None = None
    named_by: str = ""
    counts: CountFlags | None = None
    replaced: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    note: str = ""


class JobCommand(click.Command):
    """A click command that can be submitted."""

    def __init__(self, *arguments: Any, submittable: Submittable, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.submittable = submittable


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """A parsed command line.

    Attributes:
      name: The command's name, such as "train".
      command: The command.
      values: Parsed values of all parameters by name, including defaults.
      given: The given parameters in order, each with its value as written; None for an option without a value.
    """

    name: str
    command: JobCommand
    values: Mapping[str, Any]
    given: tuple[tuple[click.Parameter, str | bool | None], ...]

    @property
    def kind(self) -> Submittable:
        """The command's parameters that `submit` reads or replaces."""
        return self.command.submittable

    @property
    def options(self) -> TrainingOptions:
        """The training options, with the numbers of workers and parameter servers from the command's own flags.

        Raises:
          InputError: When the options are inconsistent.
        """
        options = options_from(dict(self.values))
        return with_counts(options, self.values, self.kind.counts) if self.kind.counts else options

    def flag(self, name: str) -> str:
        """Returns a parameter's name on the command line."""
        return next(flag_name(parameter) for parameter in self.command.params if parameter.name == name)

    def words(self, changes: Mapping[str, str | None]) -> tuple[str, ...]:
        """Returns the words of the command line, starting with the command's name.

        Args:
          changes: New values by parameter name. None removes the parameter; parameters that were not given are added.
        """
        arguments: list[str] = []
        options: list[str] = []
        for parameter, written in self.given:
            name = str(parameter.name)
            value = changes.get(name, written)
            if name in changes and value is None:
                continue
            if isinstance(parameter, click.Argument):
                arguments.append(str(value))
            elif isinstance(value, bool):
                options.append((parameter.opts if value else parameter.secondary_opts)[0])
            else:
                options.append(flag_name(parameter) if value is None else f"{flag_name(parameter)}={value}")
        given = {parameter.name for parameter, _ in self.given}
        added = [f"{self.flag(name)}={value}" for name, value in changes.items() if value and name not in given]
        rest = next((self.values[str(parameter.name)] for parameter in self.command.params if parameter.nargs < 0), ())
        return (*self.name.split(), *arguments, *options, *added, *(["--", *rest] if rest else ()))


def flag_name(parameter: click.Parameter) -> str:
    """Returns an option's longest name, or an argument's name in upper case."""
    return max(parameter.opts, key=len) if isinstance(parameter, click.Option) else str(parameter.name).upper()


def read_command_line(words: Sequence[str]) -> CommandLine:
    """Parses a command line without running it.

    Raises:
      click.UsageError: When the command's parser rejects it.
      InputError: When the command cannot be submitted.
    """
    name, command, arguments = _command(words)
    context = command.make_context(
        f"generic-trainer {name}",
        list(arguments),
        obj=SUBMITTED,
        help_option_names=["-h", "--help"],
        max_content_width=120,
    )
    parsed, _, order = command.make_parser(context).parse_args(list(arguments))
    values = {key: list(value) if isinstance(value, (list, tuple)) else [value] for key, value in parsed.items()}
    given: list[tuple[click.Parameter, str | bool | None]] = []
    for place, parameter in enumerate(order):
        repeated = isinstance(parameter, click.Option) and parameter.multiple
        if not repeated and parameter in order[place + 1 :]:
            continue  # given again later: the last value takes effect
        if parameter.nargs < 0:
            continue  # the words after "--", which `words` adds
        value = values[str(parameter.name)].pop(0)
        if value is None and isinstance(parameter, click.Argument):
            continue
        given.append((parameter, value if isinstance(value, (str, bool)) else None))
    return CommandLine(name, command, dict(context.params), tuple(given))


def _command(words: Sequence[str]) -> tuple[str, JobCommand, Sequence[str]]:
    """Returns the command's name at the start of some words, the command, and the remaining words."""
    for name, command in _submittable(words[:1]):
        length = len(name.split())
        if tuple(words[:length]) == tuple(name.split()):
            return name, command, words[length:]
    known = [name for name, _ in _submittable(commands.names())]
    if not words:
        raise InputError(f"submit needs a command to submit: {', '.join(known)}, with its arguments.")
    raise InputError(
        f"submit {words[0]}: the commands that can be submitted are {', '.join(known)}.{did_you_mean(words[0], known)}"
    )


def _submittable(names: Sequence[str]) -> Iterator[tuple[str, JobCommand]]:
    """Yields (name, command) of those of the given commands, and of their sub-commands, that can be submitted."""
    for name in (name for name in commands.names() if name in names):
        command = commands.load(name)
        inner = command.commands if isinstance(command, click.Group) else {}
        for path, each in {name: command, **{f"{name} {part}": inner[part] for part in inner}}.items():
            if isinstance(each, JobCommand):
                yield path, each
