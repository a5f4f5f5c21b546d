"""What of the logs a person sees: the module's and this project's lines, the pipeline's steps, errors.

TFX, Beam and TensorFlow log thousands of lines about themselves. Those of installed packages are held back
below the level of an error, in child processes as well; `verbose` shows everything.
"""

from __future__ import annotations

import logging
import os

from absl import flags
from absl import logging as absl_logging

_VARIABLE = "GENERIC_TRAINER_LOGS"  # how a child process learns what its parent was told
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STEPS = ("beam_dag_runner.py", "local_dag_runner.py")  # TFX's runners say which step begins and ends


def show_logs(verbose: bool) -> None:
    """Sends logs to standard error, for this process and those that it starts."""
    os.environ[_VARIABLE] = "all" if verbose else "people"
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    show_logs_as_parent_does()


def show_logs_as_parent_does() -> None:
    """Sends logs to standard error as `show_logs` was told in the process that started this one."""
    flags.FLAGS.mark_as_parsed()  # this command line is not absl's; its logging asks whether flags are settled
    absl_logging.use_absl_handler()
    absl_logging.set_verbosity(absl_logging.INFO)
    absl_logging.set_stderrthreshold(absl_logging.INFO)
    if os.environ.get(_VARIABLE) == "people":
        handler = absl_logging.get_absl_handler()
        handler.addFilter(_for_people)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))


def _for_people(record: logging.LogRecord) -> bool:
    path = record.pathname
    installed = f"{os.sep}site-packages{os.sep}" in (path[len(_HERE) :] if path.startswith(_HERE) else path)
    if record.levelno >= logging.ERROR or not installed:
        # Beam logs an exception with its own frames before it raises it; the command shows it in the end.
        return not (record.exc_info and f"{os.sep}apache_beam{os.sep}" in path)
    return record.filename in _STEPS and record.getMessage().endswith(("is running.", "is finished."))
