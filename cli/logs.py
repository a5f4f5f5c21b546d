"""What of the logs a person sees: this project's lines, the pipeline's steps, and every warning."""

from __future__ import annotations

import logging
import os

from absl import logging as absl_logging

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STEPS = ("beam_dag_runner.py", "local_dag_runner.py")  # TFX's runners say which step begins and ends


def show_logs(verbose: bool) -> None:
    """Sends logs to standard error: all of them when verbose, else those that `_for_people` lets through."""
    absl_logging.use_absl_handler()
    absl_logging.set_verbosity(absl_logging.INFO)
    absl_logging.set_stderrthreshold(absl_logging.INFO)
    if verbose:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # for child processes and TensorFlow's C++ side
    absl_logging.get_absl_handler().addFilter(_for_people)


def _for_people(record: logging.LogRecord) -> bool:
    if record.levelno >= logging.ERROR:
        return True
    ours = record.pathname.startswith(_HERE + os.sep) and "site-packages" not in record.pathname[len(_HERE) :]
    step = record.filename in _STEPS and record.getMessage().endswith(("is running.", "is finished."))
    return ours or step
