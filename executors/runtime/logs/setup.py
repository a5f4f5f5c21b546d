"""What of the logs a person sees: the module's and this project's lines, the pipeline's steps, errors.

TFX, Beam and TensorFlow log thousands of lines about themselves. Those of installed packages are held back below the
level of an error, in child processes as well, and kept in a file where one is given; `verbose` shows everything.
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

from .redaction import masked_text
from .sanitize import printable_lines
from .standard_streams import reliable

_VARIABLE = "GENERIC_TRAINER_LOGS"  # how a child process learns what its parent was told
_NATIVE_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
LOG_NAME = "generic-trainer.log"
LOG_FILE = "GENERIC_TRAINER_LOG_FILE"  # where all lines are kept, for child processes too
_HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_STEPS = ("beam_dag_runner.py", "local_dag_runner.py")  # TFX's runners say which step begins and ends
_LAST_LINES = 20
_WARNINGS = "py.warnings"  # the logger of Python's warnings, which begin with the path that they are about
_STEP = re.compile(r"node (\S+) is (running|finished)\.$")


def show_logs(verbose: bool) -> None:
    """Sends logs to standard error, for this process and those that it starts."""
    os.environ[_VARIABLE] = "all" if verbose else "people"
    if not verbose:
        os.environ.setdefault(_NATIVE_LEVEL, "2")
    show_logs_as_parent_does()


def show_logs_as_parent_does() -> None:
    """Sends logs to standard error as `show_logs` was told in the process that started this one."""
    flags.FLAGS.mark_as_parsed()  # this command line is not absl's; its logging asks whether flags are settled
    absl_logging.use_absl_handler()
    absl_logging.set_verbosity(absl_logging.INFO)
    absl_logging.set_stderrthreshold(absl_logging.INFO)
    flags.FLAGS.logtostderr = True  # to what sys.stderr is at that moment: a display may stand in its place
    if is_for_people():
        handler = absl_logging.get_absl_handler()
        handler.addFilter(_for_people)
        handler.setFormatter(_Safe("%(asctime)s %(message)s", "%H:%M:%S"))
    keep_logs_as_parent_does()


def is_for_people() -> bool:
    """Returns whether what packages log about themselves is held back."""
    return os.environ.get(_VARIABLE) == "people"


@contextlib.contextmanager
def shown_in_notebook(folder: str = "") -> Iterator[None]:
    """Has a notebook show of a run in a block what the commands show of one; elsewhere nothing is done.

    What the run's processes log besides goes to a file in its folder, so that it does not bury the cell.

    Args:
      folder: Of the run. Without one on this machine, that is not kept.
    """
    if not _in_notebook() or _VARIABLE in os.environ:
        yield
        return
    handler, root = absl_logging.get_absl_handler(), logging.getLogger()
    before = {name: os.environ.get(name) for name in (_VARIABLE, LOG_FILE, _NATIVE_LEVEL)}
    formatter, level = handler.python_handler.formatter, absl_logging.get_verbosity()
    handlers, root_level = root.handlers[:], root.level
    show_logs(verbose=False)
    root.handlers[:] = [handler, *(one for one in handlers if type(one) is not logging.StreamHandler)]
    if folder and "://" not in folder:
        os.environ |= {LOG_FILE: os.path.join(os.path.abspath(folder), LOG_NAME), _NATIVE_LEVEL: "0"}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})
        root.handlers[:] = handlers
        handler.removeFilter(_for_people)
        handler.setFormatter(formatter)
        absl_logging.set_verbosity(level)
        root.setLevel(root_level)


def _in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def keep_logs(path: str, native: bool = False) -> None:
    """Keeps all lines in a file from now on, of this process and of those that it starts.

    Nothing is done where all of them are shown.

    Args:
      path: A file on this machine, which is appended to. It is made when there is a line.
      native: Whether this process is going to import TensorFlow, whose C++ writes to standard error by itself.
    """
    if not is_for_people():
        return
    os.environ[LOG_FILE] = os.path.abspath(path)
    os.environ[_NATIVE_LEVEL] = "0"
    keep_logs_as_parent_does(native)


def keep_logs_as_parent_does(native: bool = True) -> None:
    """Has this process's lines kept where `keep_logs` was told, in this process or in the one that started it.

    What is written past Python is kept there as well: nothing can tell a line of TensorFlow's C++ from another one.
    """
    path = os.environ.get(LOG_FILE)
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _Kept)]:
        root.removeHandler(handler)
        handler.close()
    if not path:
        return
    root.addHandler(_Kept(path))
    logging.captureWarnings(True)
    if native:
        with contextlib.suppress(OSError):  # on another machine, or a disk that is full
            _keep_native(path)


def kept_since(begin: int) -> str:
    """Returns the last lines of what was kept after the file had so many bytes."""
    with contextlib.suppress(OSError, KeyError), open(os.environ[LOG_FILE], encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        return "".join(collections.deque(file, _LAST_LINES))
    return ""


def size_kept() -> int:
    """Returns how many bytes have been kept."""
    path = os.environ.get(LOG_FILE)
    return os.path.getsize(path) if path and os.path.exists(path) else 0


class _NativeOutput:
    """Descriptor 2 of this process, to which C and C++ libraries write."""

    def __init__(self) -> None:
        self._file: os.stat_result | None = None  # that it was sent to

    def send_to(self, path: str) -> int | None:
        """Sends it to a file; returns a descriptor of where it went before, None if that was such a file, too."""
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
    sys.stderr = reliable(stream)
    faulthandler.enable(sys.stderr)


def step_in(record: logging.LogRecord) -> tuple[str, bool] | None:
    """Returns the step of a pipeline that a runner of TFX says to begin (True) or to have ended (False); else None."""
    if record.filename not in _STEPS or not (found := _STEP.match(record.getMessage())):
        return None
    return found[1], found[2] == "running"


class _Safe(logging.Formatter):
    """Masks what looks like a secret, and keeps what would steer a terminal out of lines that are not the module's."""

    def format(self, record: logging.LogRecord) -> str:
        text = masked_text(super().format(record))
        is_of_the_module = not record.pathname.startswith(_HERE) and _INSTALLED not in record.pathname
        return text if is_of_the_module else printable_lines(text)


class _Kept(logging.FileHandler):
    """Writes each line with its time, its process and where it came from; a disk that is full stops nothing."""

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.setFormatter(_Safe("%(asctime)s %(levelname)s %(process)d %(name)s %(filename)s:%(lineno)d %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.baseFilename), exist_ok=True)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Says nothing."""


def _for_people(record: logging.LogRecord) -> bool:
    if getattr(record, "kept_only", False):  # logged with extra={"kept_only": True}
        return False
    path = record.getMessage() if record.name == _WARNINGS else record.pathname
    installed = _INSTALLED in (path[len(_HERE) :] if path.startswith(_HERE) else path)
    if record.levelno >= logging.ERROR or not installed:
        # Beam logs an exception with its own frames before it raises it; the command shows it in the end.
        return not (record.exc_info and f"{os.sep}apache_beam{os.sep}" in path)
    return step_in(record) is not None
