"""`generic-trainer completion bash|zsh|fish`: prints the shell script that completes commands, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "generic-trainer"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Prints the completion script for SHELL.

    Append the output to the shell's startup file.

    \b
    Example:
      generic-trainer completion bash >> ~/.bashrc
    """  # noqa: D301 (click's mark of lines to keep)
    completer = get_completion_class(shell)
    assert completer is not None
    source = completer(click.get_current_context().find_root().command, {}, _PROGRAM, "_GENERIC_TRAINER_COMPLETE")
    click.echo(source.source())
