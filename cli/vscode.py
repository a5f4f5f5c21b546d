"""`--vscode`: writes a debug configuration for VS Code instead of running the command.

    generic-trainer elasticdl train --model_zoo=zoo --model_def=iris.custom_model … --vscode

adds it to `.vscode/launch.json` and keeps other entries there.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import click

from ..executors.errors import InputError
from ..executors.runtime.files import file_io
from ..executors.runtime.files.output_file import STDOUT, write_output

Command = TypeVar("Command", bound=Callable[..., object])
LAUNCH_FILE = os.path.join(".vscode", "launch.json")
_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


class DebugConfiguration(TypedDict):
    """An entry of VS Code's launch.json, for its Python debugger."""

    name: str
    type: str
    request: str
    module: str
    args: list[str]
    cwd: str
    console: str
    justMyCode: bool
    subProcess: bool


def vscode_flag(command: Command) -> Command:
    """Adds --vscode [FILE] to a command; if it is given, the command line is parsed but the command does not run."""

    @click.option(
        "--vscode", is_flag=False, flag_value=LAUNCH_FILE, metavar="[FILE]",
        help=f"Write a VS Code debug configuration of this command to FILE and exit (default: {LAUNCH_FILE}).",
    )  # fmt: skip
    @functools.wraps(command)
    def run(*, vscode: str | None, **flags: object) -> object:
        if not vscode:
            return command(**flags)
        context = click.get_current_context()
        name = f"{context.command_path} {flags.get('model_def', '')}".rstrip()
        add_configuration(vscode, configuration(name, without_flag(context.find_object(list) or [], vscode), vscode))
        click.echo(f"Wrote the debug configuration {name!r} to {vscode}.", err=vscode == STDOUT)
        return None

    return run  # type: ignore[return-value]


def configuration(name: str, arguments: Sequence[str], launch_file: str) -> DebugConfiguration:
    """Returns the debug configuration of a command line of generic-trainer, with the current folder as `cwd`."""
    here = os.getcwd()
    workspace = os.path.dirname(os.path.dirname(os.path.abspath(launch_file)))
    return {
        "name": name,
        "type": "debugpy",
        "request": "launch",
        "module": f"{__package__}.main",
        "args": list(arguments),
        "cwd": "${workspaceFolder}" if here == workspace else here,
        "console": "integratedTerminal",
        "justMyCode": False,
        "subProcess": True,  # training runs in a subprocess
    }


def without_flag(arguments: Sequence[str], value: str) -> list[str]:
    """Returns the arguments without `--vscode`, `--vscode VALUE` or `--vscode=VALUE`."""
    kept: list[str] = []
    before = ""
    for argument in arguments:
        of_the_flag = before == "--vscode" and argument == value
        if not of_the_flag and argument != "--vscode" and not argument.startswith("--vscode="):
            kept.append(argument)
        before = argument
    return kept


def add_configuration(path: str, entry: DebugConfiguration) -> None:
    """Adds a configuration to a launch.json file, replacing one with the same name.

    Comments are lost; a file with comments is copied to `launch.json.orig` first.

    Raises:
      InputError: When the file is not a valid launch.json; it is not changed.
    """
    text = file_io.read_text(path) if file_io.exists(path) else ""
    launch: dict[str, Any] = read_launch(text, path) if text.strip() else {"version": "0.2.0", "configurations": []}
    entries = launch.setdefault("configurations", [])
    places = [place for place, other in enumerate(entries) if other.get("name") == entry["name"]]
    if places:
        entries[places[0]] = entry
    else:
        entries.append(entry)
    if _without_comments(text) != text:
        file_io.write_text(f"{path}.orig", text)
        click.echo(f"Comments in {path} are not kept; the original was copied to {path}.orig.", err=True)
    write_output(path, json.dumps(launch, indent=4, ensure_ascii=False) + "\n")


def read_launch(text: str, path: str) -> dict[str, Any]:
    """Parses VS Code's JSON with comments and trailing commas.

    Raises:
      InputError: When the text is not valid, with the line number, or not an object.
    """
    plain = _LAST_COMMA.sub(lambda match: match[1] or " ", _without_comments(text))
    try:
        launch = json.loads(plain)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: invalid JSON in line {error.lineno}: {error.msg}. Fix the file or choose another."
        ) from error
    except RecursionError as error:
        raise InputError(f"{path}: values are nested too deeply. Fix the file or choose another.") from error
    if not isinstance(launch, dict):
        raise InputError(f"{path}: must be a JSON object, {{…}}, not {launch!r}. Fix the file or choose another.")
    entries = launch.get("configurations", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f'{path}: "configurations" must be a list of objects. Fix the file or choose another.')
    return launch


def _without_comments(text: str) -> str:
    """Replaces comments by spaces, except line feeds, which keeps line numbers."""
    return _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)
