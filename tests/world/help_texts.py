"""Prints the help of all commands, with one line an option, whatever the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from generic_trainer.cli.main import cli

WIDE = {"terminal_width": 1000, "max_content_width": 1000}


def helps(words: list[str], command: click.Command) -> Iterator[str]:
    text = CliRunner().invoke(cli, [*words, "--help"], prog_name="generic-trainer", **WIDE).output
    text = re.sub(r"\n {25,}", "  ", text)  # long options have their text on the next line
    yield re.sub(r"(?<=\S) {2,}", "  ", text)  # columns are as wide as their longest entry
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from helps([*words, name], command.get_command(context, name))


if __name__ == "__main__":
    sys.stdout.write("\n".join(helps([], cli)))
