"""The command `generic-trainer`: loads sub-commands, handles signals, and maps exceptions to exit codes.

Exit codes: 0 success, 1 the user's module (or its process) failed, 2 wrong usage or input, 3 the model did
not pass the check, 4 a pipeline did not push its model, 75 another task of the cluster was lost, 130 Ctrl-C, 128 + N
terminated by signal N.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterable

import click

from ..executors.distributed.jobset import set_tf_config
from ..executors.errors import TrainerError
from ..executors.modules import tensorflow_1
from ..executors.monitoring.run_record import stack
from ..executors.runtime.files import storage_errors
from ..executors.runtime.logs import standard_streams
from ..executors.runtime.logs.error_output import MAX_CHARACTERS, error_lines, one_line, traceback_lines
from ..executors.runtime.logs.exceptions import (
    RemoteTraceback,
    has_user_frame,
    message_of,
    one_line_message,
    summary_of,
    traceback_of,
    user_location,
)
from ..executors.runtime.logs.framework_messages import inner_error
from ..executors.runtime.logs.setup import show_logs
from ..executors.runtime.process import deadline, generated_modules, session, surroundings, termination
from ..executors.runtime.process.preemption import handle_like_sigterm
from ..executors.runtime.process.termination import Terminated
from ..executors.spelling import nearest
from . import commands
from .configuration import with_config
from .help_panels import with_panels
from .variables import check_variables

# Python's default of 700 new objects per garbage collection makes importing TFX and building Transform's graph collect
# thousands of times, for 2.4 s of a run of 33 s.
_OBJECTS_PER_COLLECTION = 10_000


class _Group(click.Group):
    """Imports a sub-command on first use: some import pyarrow or TFX."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return commands.names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return with_panels(with_config(commands.load(cmd_name))) if cmd_name in commands.names() else None


def _print_versions(context: click.Context, parameter: click.Parameter, requested: bool) -> None:
    del parameter
    if requested and not context.resilient_parsing:
        versions = stack()
        for name in ("generic-trainer", *sorted(versions.keys() - {"generic-trainer"})):
            click.echo(f"{name} {versions[name]}")
        context.exit()


@click.group(
    cls=_Group,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "GENERIC_TRAINER",
        "max_content_width": 120,
    },
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_versions, allow_from_autoenv=False,
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


def main() -> None:
    """Runs the command and exits with its exit code."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    standard_streams.make_reliable()
    try:
        _install_signal_handlers()
    except RuntimeError as no_thread:
        code = _code_of(no_thread)
    else:
        code = _exit_code()
    session.end()
    if error := standard_streams.output_error():
        _print_error(f"generic-trainer: the output is incomplete: standard output: {error.strerror}.")
        code = code or 1
    sys.stderr.flush()
    generated_modules.remove_all()
    # Not sys.exit(): after Transform's analysis the process can crash in TensorFlow's destructors, when all its work is
    # done; the exit code would then report a failed run.
    os._exit(code)


def _install_signal_handlers() -> None:
    """Installs signal handlers that raise, so that child processes are ended and staging directories removed."""
    is_ignored = {number: signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGHUP, signal.SIGINT)}
    raising = [signal.SIGTERM, *(number for number, ignored in is_ignored.items() if not ignored)]  # ignored by nohup
    termination.raise_on_signals(raising, _exception_for)
    handle_like_sigterm()
    deadline.enforce()


def _exception_for(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def _exit_code() -> int:
    try:
        surroundings.require_readable_names(sys.argv)
        set_tf_config(os.environ)
        arguments = sys.argv[1:]
        del sys.argv[1:]  # hides the command's arguments from a module that parses sys.argv
        code = int(cli.main(arguments, prog_name="generic-trainer", standalone_mode=False) or 0)
        termination.end()
        termination.raise_if_ended()  # a signal whose exception was lost
        return code
    except click.exceptions.Exit as done:
        return done.exit_code
    except BaseException as error:
        termination.end()
        return _code_of(termination.raised() or error)  # click and Beam replace the exception


def _code_of(error: BaseException) -> int:
    """Prints the error that ended the command; returns the exit code."""
    if isinstance(error, click.ClickException):
        _suggest_nearest(error)
        _print_usage_error(error)
        return 2
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _print_error(f"generic-trainer: interrupted; {_interrupt_note(error)}")
        return 130
    if isinstance(error, Terminated):
        _print_error(f"generic-trainer: {error}; {_interrupt_note(error)}")
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    error = surroundings.explain_limit(error) or error
    if not _is_from_module(error):
        error = surroundings.explain(error) or error
    if isinstance(error, TrainerError):
        text = ""
        if isinstance(error.__cause__, RemoteTraceback) and error.exit_code == 1:
            text = str(error.__cause__).strip()
            _print_lines(traceback_lines(text))
        _print_error(f"generic-trainer: {_located(str(error), text)}")
        return error.exit_code
    if problem := _problem_with_input(error):
        _print_error(f"generic-trainer: {problem}")
        return 2
    _print_failure(error)
    return 1


def _print_usage_error(error: click.ClickException) -> None:
    """Prints the usage and the error as click does, but with the prefix of all errors."""
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", err=True)
    _print_error(f"generic-trainer: {error.format_message()}")


def _suggest_nearest(error: click.ClickException) -> None:
    """Replaces click's suggestions for an unknown option or command, which may be several and far from the name."""
    given = getattr(error, "option_name", None) or getattr(error, "command_name", None)
    context = getattr(error, "ctx", None)
    if not isinstance(given, str) or context is None:
        return
    shown = [parameter for parameter in context.command.params if not getattr(parameter, "hidden", False)]
    options = [option for parameter in shown for option in parameter.opts]
    known = options if given.startswith("-") else context.command.list_commands(context)
    near = nearest(given, known)
    error.possibilities = None if near is None else [near]  # type: ignore[attr-defined]


def _is_from_module(error: BaseException) -> bool:
    return isinstance(error.__cause__, RemoteTraceback) or has_user_frame(error)


def _problem_with_input(error: BaseException) -> str:
    """Returns a message on a path given by the user; "" for errors of the user's code and internal errors."""
    if _is_from_module(error):
        return ""
    if isinstance(error, OSError) and isinstance(error.filename, (str, bytes)) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}."
    if type(error).__module__.startswith("tensorflow.") or type(error).__name__ == "NotFoundError":
        return one_line_message(error)
    return ""


def _print_failure(error: BaseException) -> None:
    """Prints the traceback once, then a one-line summary."""
    remote = error.__cause__
    text = remote.text if isinstance(remote, RemoteTraceback) else traceback_of(error)
    explained = surroundings.explain(error)
    # The message of Python or TensorFlow on a disk, descriptor or folder is printed above.
    message = storage_errors.hint(error) or (str(explained) if explained else _short_message(error))
    if not explained and (hint := surroundings.memory_hint(error)):  # messages that do not name the cause
        message = f"{message}. {hint}".removeprefix(". ")
    # The subprocess of a module has added its hints; here they would first have to import TensorFlow.
    advice = getattr(error, "__notes__", None) or [tensorflow_1.hint(error)]
    notes = [note for note in dict.fromkeys(advice) if note and note not in text]  # not in the traceback
    last = _located(f"failed: {type(error).__qualname__}: {message}", text)
    _print_lines(traceback_lines("\n".join([text.rstrip(), *notes])))
    summary = f"generic-trainer: {last}"
    is_printed = message in text and max(map(len, message.split("\n"))) <= MAX_CHARACTERS
    _print_lines([one_line(summary)] if "\n" in message and is_printed else error_lines(summary))


def _located(message: str, traceback: str) -> str:
    """Adds the location in the user's code to a message that does not contain it."""
    location = user_location(traceback)
    path, _, line = location.rpartition(":")
    is_located = location in message or f"({os.path.basename(path)}, line {line}" in message  # a SyntaxError's
    end = "." if message.endswith(".") else ""
    return message if not location or is_located else f"{message.removesuffix('.')} ({location}){end}"


def _short_message(error: BaseException) -> str:
    """Returns an error's message: in one line for TensorFlow's errors, and the location for errors of bad data."""
    if text := summary_of(error):
        return text
    if inner := inner_error(error):
        return inner[1].strip()
    return one_line_message(error) if type(error).__module__.startswith("tensorflow.") else message_of(error)


def _interrupt_note(error: BaseException) -> str:
    """Returns an interrupt's note on what was already published, or the text that nothing was."""
    return next(iter(getattr(error, "__notes__", ())), "nothing was published.")


def _print_error(message: str) -> None:
    """Prints an error to standard error, so that its last line names the problem."""
    _print_lines(error_lines(message))


def _print_lines(lines: Iterable[str]) -> None:
    click.echo("\n".join(lines), err=True)


if __name__ == "__main__":
    main()
