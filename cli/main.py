"""The command `generic-trainer`: its sub-commands, and what becomes of an exception.

Exit codes: 0 done, 1 the user's module (or its process) failed, 2 wrong usage or input, 3 the model did
not pass the check, 4 a pipeline did not push its model, 130 Ctrl-C, 128 and a signal's number when that has ended it.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType

import click

from ..executors.errors import TrainerError
from ..executors.monitoring.run_record import stack
from ..executors.runtime.files import storage_errors, temporary_folder
from ..executors.runtime.logs import standard_streams
from ..executors.runtime.logs.exceptions import (
    RemoteTraceback,
    gist_of,
    has_frame_of_user,
    message_of,
    traceback_of,
)
from ..executors.runtime.logs.redaction import masked_text
from ..executors.runtime.logs.sanitize import printable_lines
from ..executors.runtime.logs.setup import show_logs
from ..executors.runtime.process import generated_modules
from ..executors.runtime.process.preemption import Terminated
from .command_names import COMMANDS
from .configuration import with_config
from .variables import check_variables

_NO_THREAD = "can't start new thread"
_NO_MEMORY = "No more memory was to be had, from the machine or within a limit (of the container, or ulimit)."


class _Group(click.Group):
    """Imports a sub-command's module, of the same name, when it is asked for: some bring pyarrow or TFX."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{cmd_name}"), cmd_name)
        return with_config(command)


def _show_stack(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    del parameter
    if wanted and not context.resilient_parsing:
        versions = stack()
        for name in ("generic-trainer", *sorted(versions.keys() - {"generic-trainer"})):
            click.echo(f"{name} {versions[name]}")
        context.exit()


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "GENERIC_TRAINER"}
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_stack, allow_from_autoenv=False,
    help="Show the versions of generic-trainer and its dependencies, and exit.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Show all logs of TensorFlow, TFX and Beam.")
def cli(verbose: bool) -> None:
    """Trains any TensorFlow training module, in a pipeline or standalone.

    \b
    Example:
      generic-trainer run --data taxi/ --module-file taxi_keras.py --label big_tip

    Options can also be set in a YAML file (--config FILE) or in environment variables:
    GENERIC_TRAINER_RUN_LABEL=big_tip sets `run --label big_tip`.
    """  # noqa: D301 (click's mark of lines to keep)
    show_logs(verbose)
    check_variables(os.environ, str(click.get_current_context().invoked_subcommand))


_came: list[BaseException] = []  # what was raised for a signal


def main() -> None:
    """Runs the command and ends the process with its exit code."""
    standard_streams.make_reliable()
    _heed_signals()
    code = _exit_code()
    if error := standard_streams.output_error():
        _say(f"generic-trainer: not all could be printed: standard output: {error.strerror}.")
        code = code or 1
    sys.stderr.flush()
    generated_modules.remove_all()
    # Not sys.exit(): a process that ran Transform's analysis can crash in TensorFlow's destructors after all
    # its work is done, and its exit code would then say that the run had failed.
    os._exit(code)


def _heed_signals() -> None:
    """Has signals unwind the command: child processes are ended, staging directories removed."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a job of a script
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    for again in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, lambda *_: None)  # once is enough, and another one would break off what it does now
    _came.append(KeyboardInterrupt() if number == signal.SIGINT else Terminated(number))
    raise _came[-1]


def _exit_code() -> int:
    try:
        arguments = sys.argv[1:]
        del sys.argv[1:]  # a module that parses its arguments must not find the command's
        return int(cli.main(arguments, prog_name="generic-trainer", standalone_mode=False, obj=arguments) or 0)
    except click.exceptions.Exit as done:
        return done.exit_code
    except BaseException as error:
        return _code_of(_came[0] if _came else error)  # click, or Beam, makes another one of it


def _code_of(error: BaseException) -> int:
    """Says what has ended the command; returns its exit code."""
    if isinstance(error, click.ClickException):
        error.show()
        return 2
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _say(f"generic-trainer: interrupted; {_left_by(error)}")
        return 130
    if isinstance(error, Terminated):
        _say(f"generic-trainer: {error}; {_left_by(error)}")
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    error = temporary_folder.explained(error) or error
    if isinstance(error, TrainerError):
        if isinstance(error.__cause__, RemoteTraceback) and error.exit_code == 1:
            _say(str(error.__cause__).strip())
        _say(f"generic-trainer: {error}")
        return error.exit_code
    if problem := _problem_with_input(error):
        _say(f"generic-trainer: {problem}")
        return 2
    _show(error)
    return 1


def _problem_with_input(error: BaseException) -> str:
    """Returns what is wrong with a path that the user gave; "" for errors of the user's code and for our own faults."""
    if isinstance(error.__cause__, RemoteTraceback) or has_frame_of_user(error):
        return ""
    if isinstance(error, OSError) and isinstance(error.filename, (str, bytes)) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}."
    if type(error).__module__.startswith("tensorflow.") or type(error).__name__ == "NotFoundError":
        return gist_of(error)
    return ""


def _show(error: BaseException) -> None:
    """Prints the user's traceback once, then what failed in one line."""
    remote = error.__cause__
    text = remote.text if isinstance(remote, RemoteTraceback) else traceback_of(error)
    said = storage_errors.hint(error) or _in_short(error)  # what TensorFlow says of a disk stands above
    if isinstance(error, MemoryError) or _NO_THREAD in said:  # neither says it well
        said = f"{said}. {_NO_MEMORY}".removeprefix(". ")
    notes = [note for note in getattr(error, "__notes__", ()) if note not in text]  # added since it was raised
    _say("\n".join([text.rstrip(), *notes, f"generic-trainer: failed: {type(error).__qualname__}: {said}"]))


def _in_short(error: BaseException) -> str:
    """Returns what an error says; of TensorFlow's in a line, and of bad data rather where it is."""
    notes: list[str] = getattr(error, "__notes__", [])
    if type(error).__name__ in ("DataLossError", "InvalidArgumentError", "UnicodeDecodeError") and len(notes) > 1:
        return notes[-1]
    return gist_of(error) if type(error).__module__.startswith("tensorflow.") else message_of(error)


def _left_by(error: BaseException) -> str:
    """Returns what a run says that an interrupt has met when its model was there already."""
    return next(iter(getattr(error, "__notes__", ())), "nothing was published.")


def _say(text: str) -> None:
    """Prints what went wrong, which may hold anything: names, values, the words of a library."""
    click.echo(printable_lines(masked_text(text)), err=True)


if __name__ == "__main__":
    main()
