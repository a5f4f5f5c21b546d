"""Log setup: shows the lines of the user's module and of this project, pipeline steps and errors.

TFX, Beam and TensorFlow log thousands of lines. Lines of installed packages below the level ERROR are not shown, in
subprocesses as well, but are kept in a file if one is set; `verbose` shows everything.
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import logging
import os
import re
import sys
from collections.abc import Iterator

from absl import flags
from absl import logging as absl_logging

from ..process.run_environment import extended_environment, inherited_environment
from ..process.shared_setting import SharedSetting
from .redaction import masked_text
from .sanitize import printable_lines
from .standard_streams import reliable_stream

DISPLAY = "GENERIC_TRAINER_LOGS"  # "all", "people" (filtered) or "warnings"; inherited by subprocesses
_NATIVE_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
LOG_NAME = "generic-trainer.log"
LOG_FILE = "GENERIC_TRAINER_LOG_FILE"  # path of the file with all lines; inherited by subprocesses
_HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_STEPS = ("beam_dag_runner.py", "local_dag_runner.py")  # TFX's runners log the begin and end of steps
_LAST_LINES = 20
_WARNINGS = "py.warnings"  # the logger of Python's warnings, whose text begins with a path
_STEP = re.compile(r"node (\S+) is (running|finished)\.$")


def show_logs(verbose: bool) -> None:
    """Sends logs to standard error, in this process and its subprocesses.

    Args:
      verbose: Whether to show all lines, including those of installed packages.
    """
    os.environ[DISPLAY] = "all" if verbose else "people"
    if not verbose:
        os.environ.setdefault(_NATIVE_LEVEL, "2")
    inherit_log_display()


def show_only_warnings() -> None:
    """Hides the lines below the level WARNING that `show_logs` shows, in this process and its subprocesses."""
    os.environ[DISPLAY] = "warnings"


def inherit_log_display() -> None:
    """Sends logs to standard error with the settings of `show_logs` inherited from the parent process."""
    _show(is_filtered())
    inherit_log_file()


def _show(filtered: bool) -> None:
    flags.FLAGS.mark_as_parsed()  # absl's flags are not parsed from this command line, but its logging requires it
    absl_logging.use_absl_handler()
    absl_logging.set_verbosity(absl_logging.INFO)
    absl_logging.set_stderrthreshold(absl_logging.INFO)
    flags.FLAGS.logtostderr = True  # to the current sys.stderr, which a display may have replaced
    if filtered:
        handler = absl_logging.get_absl_handler()
        handler.addFilter(_is_relevant)
        handler.setFormatter(_SafeFormatter("%(asctime)s %(message)s", "%H:%M:%S"))


def announce(text: str) -> None:
    """Logs a result, or prints it in a process that does not use `show_logs`: TFX's runners hide INFO lines."""
    if DISPLAY in inherited_environment():
        absl_logging.info("%s", text)
    else:
        print(masked_text(text), flush=True)  # noqa: T201


def is_filtered() -> bool:
    """Whether the log lines of installed packages are hidden."""
    return os.environ.get(DISPLAY) in ("people", "warnings")


def is_verbose() -> bool:
    """Whether all log lines are shown."""
    return os.environ.get(DISPLAY) == "all"


def is_quiet() -> bool:
    """Whether only warnings and errors are shown."""
    return os.environ.get(DISPLAY) == "warnings"


@contextlib.contextmanager
def notebook_log_filter(folder: str = "") -> Iterator[None]:
    """Applies the log filter of the commands to a run in a notebook for the block; a no-op elsewhere.

    The hidden lines of the run's processes go to a file in the run's folder instead of the cell's output.

    Args:
      folder: The run's folder. If empty or remote, hidden lines are dropped.
    """
    environment = inherited_environment()
    if not in_notebook() or DISPLAY in environment:
        yield
        return
    variables = {DISPLAY: "people", _NATIVE_LEVEL: environment.get(_NATIVE_LEVEL, "2")}
    if folder and "://" not in folder:
        variables |= {LOG_FILE: os.path.join(os.path.abspath(folder), LOG_NAME), _NATIVE_LEVEL: "0"}
    with _NOTEBOOK_HANDLER.held(), extended_environment(variables):
        yield


@contextlib.contextmanager
def _notebook_handler() -> Iterator[None]:
    handler, root = absl_logging.get_absl_handler(), logging.getLogger()
    formatter, level = handler.python_handler.formatter, absl_logging.get_verbosity()
    handlers, root_level = root.handlers[:], root.level
    _show(filtered=True)
    root.handlers[:] = [handler, *(one for one in handlers if type(one) is not logging.StreamHandler)]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        handler.removeFilter(_is_relevant)
        handler.setFormatter(formatter)
        absl_logging.set_verbosity(level)
        root.setLevel(root_level)


_NOTEBOOK_HANDLER = SharedSetting(_notebook_handler)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def keep_logs(path: str, native: bool = False) -> None:
    """Appends all log lines of this process and its subprocesses to a file from now on.

    A no-op if all lines are shown.

    Args:
      path: A local file. It is created with the first line.
      native: Whether this process is going to import TensorFlow, whose C++ code writes to standard error directly.
    """
    if not is_filtered():
        return
    os.environ[LOG_FILE] = os.path.abspath(path)
    os.environ[_NATIVE_LEVEL] = "0"
    inherit_log_file(native)


def inherit_log_file(native: bool = True) -> None:
    """Appends this process's log lines to the file set by `keep_logs` here or in the parent process.

    Args:
      native: Whether to redirect file descriptor 2 to the file as well. This includes all direct writes, because lines
        of TensorFlow's C++ code cannot be told from others.
    """
    path = os.environ.get(LOG_FILE)
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _LogFileHandler)]:
        root.removeHandler(handler)
        handler.close()
    if not path:
        return
    root.addHandler(_LogFileHandler(path))
    logging.captureWarnings(True)
    if native:
        with contextlib.suppress(OSError):  # on another machine, or with a full disk
            _keep_native(path)


def log_text_since(begin: int) -> str:
    """Returns the last lines that were added to the log file after it had `begin` bytes."""
    path = inherited_environment().get(LOG_FILE, "")
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        return "".join(collections.deque(file, _LAST_LINES))
    return ""


def log_file_size() -> int:
    """Returns the size of the log file in bytes; 0 without one."""
    path = inherited_environment().get(LOG_FILE)
    return os.path.getsize(path) if path and os.path.exists(path) else 0


class _NativeOutput:
    """File descriptor 2 of this process, which C and C++ libraries write to."""

    def __init__(self) -> None:
        self._file: os.stat_result | None = None  # the file that it was redirected to

    def send_to(self, path: str) -> int | None:
        """Redirects it to a file; returns a duplicate of the previous descriptor, or None if already redirected."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_sent = self._file is not None and os.path.samestat(os.fstat(2), self._file)
        shown = None if is_sent else os.dup(2)
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 2)
            self._file = os.fstat(2)
        return shown


_NATIVE_OUTPUT = _NativeOutput()


def _keep_native(path: str) -> None:
    shown = _NATIVE_OUTPUT.send_to(path)
    if shown is None:
        return
    stream = os.fdopen(shown, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.stderr = reliable_stream(stream)
    faulthandler.enable(sys.stderr)


def parse_step(record: logging.LogRecord) -> tuple[str, bool] | None:
    """Returns the pipeline step that a TFX runner's log line reports as begun (True) or ended (False); else None."""
    if record.filename not in _STEPS or not (found := _STEP.match(record.getMessage())):
        return None
    return found[1], found[2] == "running"


class _SafeFormatter(logging.Formatter):
    """Redacts secrets, and removes control characters from lines other than those of the user's module."""

    def format(self, record: logging.LogRecord) -> str:
        text = masked_text(super().format(record))
        is_of_the_module = not record.pathname.startswith(_HERE) and _INSTALLED not in record.pathname
        return text if is_of_the_module else printable_lines(text)


class _LogFileHandler(logging.FileHandler):
    """Appends lines with time, level, process id and source location to a file; ignores disk errors."""

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.setFormatter(
            _SafeFormatter("%(asctime)s %(levelname)s %(process)d %(name)s %(filename)s:%(lineno)d %(message)s")
        )

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.baseFilename), exist_ok=True)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignores the error."""


def _is_relevant(record: logging.LogRecord) -> bool:
    if getattr(record, "kept_only", False):  # logged with extra={"kept_only": True}
        return False
    if is_quiet() and record.levelno < logging.WARNING:
        return False
    path = record.getMessage() if record.name == _WARNINGS else record.pathname
    installed = _INSTALLED in (path[len(_HERE) :] if path.startswith(_HERE) else path)
    if record.levelno >= logging.ERROR or not installed:
        # Beam logs an exception with its own frames before raising it; the command prints it at the end.
        return not (record.exc_info and f"{os.sep}apache_beam{os.sep}" in path)
    return parse_step(record) is not None
